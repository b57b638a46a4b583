//! Printing: the one way to stdout and stderr, so that what strangers wrote cannot steer a person's terminal, and that ends
//! quietly when the reader has gone, as in `slipway schema | head`.
//!
//! In: text that may hold anybody's words (commit messages, logs, names, errors of a server). Out: on a terminal, that text
//! without what moves the cursor, sets the title, writes the clipboard or hides letters; colours stay. Elsewhere it is as it was.

use std::borrow::Cow;
use std::fmt::Arguments;
use std::io::{ErrorKind, IsTerminal, Write};

pub(crate) fn part(text: Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    let text = text.to_string();
    let shown = if out.is_terminal() { clean(&text) } else { Cow::Borrowed(text.as_str()) };
    if let Err(error) = out.write_all(shown.as_bytes()).and_then(|()| out.flush()) {
        // The reader has what it wanted; anything else is worth a failure.
        std::process::exit(if error.kind() == ErrorKind::BrokenPipe { 0 } else { 1 });
    }
}

/// To stderr. Nobody is left to tell when it cannot be written.
pub(crate) fn note(text: Arguments<'_>) {
    let mut out = std::io::stderr().lock();
    let text = text.to_string();
    let shown = if out.is_terminal() { clean(&text) } else { Cow::Borrowed(text.as_str()) };
    let _ = out.write_all(shown.as_bytes());
}

/// What a terminal may be given: letters, ends of lines, tabs and colours.
pub(crate) fn clean(text: &str) -> Cow<'_, str> {
    let harmless = |c: char| !c.is_control() || c == '\n' || c == '\t';
    if text.chars().all(harmless) {
        return Cow::Borrowed(text);
    }
    let mut shown = String::with_capacity(text.len());
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        if let Some(length) = colour(rest) {
            shown.push_str(&rest[..length]);
            rest = &rest[length..];
            continue;
        }
        rest = &rest[c.len_utf8()..];
        match c {
            // A line that is written again over itself would hide what stood there first.
            '\r' if rest.starts_with('\n') => {}
            '\r' => shown.push('\n'),
            c if harmless(c) => shown.push(c),
            c => shown.push_str(&visible(c)),
        }
    }
    Cow::Owned(shown)
}

/// The length of a sequence that changes how letters look, if the text begins with one; not of one that hides them.
fn colour(text: &str) -> Option<usize> {
    const PARAMETERS_MAX: usize = 32;
    let inner = text.strip_prefix("\x1b[")?;
    let end = inner.bytes().take(PARAMETERS_MAX).position(|byte| !(byte.is_ascii_digit() || byte == b';'))?;
    let hides = inner[..end].split(';').any(|parameter| parameter.trim_start_matches('0') == "8");
    (inner.as_bytes()[end] == b'm' && !hides).then_some(2 + end + 1)
}

/// For a cell of a table: nothing in it ends the line, or the table.
pub(crate) fn cell(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { visible(c) } else { c.to_string() }).collect()
}

fn visible(c: char) -> String {
    format!("\\x{:02x}", u32::from(c))
}

macro_rules! say {
    ($($text:tt)*) => { $crate::say::part(format_args!("{}\n", format_args!($($text)*))) };
}

macro_rules! say_part {
    ($($text:tt)*) => { $crate::say::part(format_args!($($text)*)) };
}

/// For stderr: progress, hints, errors.
macro_rules! note {
    ($($text:tt)*) => { $crate::say::note(format_args!("{}\n", format_args!($($text)*))) };
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l3_what_strangers_wrote_does_not_steer_a_terminal() {
        for (text, shown) in [
            ("plain \tü 漢\n", "plain \tü 漢\n"),
            ("\x1b[1;31mred\x1b[0m", "\x1b[1;31mred\x1b[0m"),
            ("\x1b]0;COMMIT\x07", "\\x1b]0;COMMIT\\x07"),
            ("\x1b]52;c;ZXZpbA==\x07", "\\x1b]52;c;ZXZpbA==\\x07"),
            ("\x1b[8mhidden", "\\x1b[8mhidden"),
            ("\x1b[0;08mhidden", "\\x1b[0;08mhidden"),
            ("\x1b[2J\x1b[H", "\\x1b[2J\\x1b[H"),
            ("\u{9b}31m\u{9d}0;x\u{9c}", "\\x9b31m\\x9d0;x\\x9c"),
            ("safe\rrm -rf", "safe\nrm -rf"),
            ("a\r\nb", "a\nb"),
            ("a\x08b\x7f\0", "a\\x08b\\x7f\\x00"),
            ("\x1bP+q\x1b\\", "\\x1bP+q\\x1b\\"),
            ("\x1b[38:2::255:0:0mx", "\\x1b[38:2::255:0:0mx"),
            ("\x1b[", "\\x1b["),
        ] {
            assert_eq!(clean(text), shown, "{text:?}");
        }
        assert_eq!(cell("msg\x1b]0;T\x07\nnext\t"), "msg\\x1b]0;T\\x07\\x0anext\\x09");
        let long = format!("\x1b[{}m", "1;".repeat(100_000));
        assert!(clean(&long).starts_with("\\x1b["));
    }
}
