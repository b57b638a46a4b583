//! Printing that ends quietly when the reader has gone, as in `slipway schema | head`.

use std::io::{ErrorKind, Write};

pub(crate) fn part(text: std::fmt::Arguments<'_>) {
    let mut out = std::io::stdout().lock();
    if let Err(error) = out.write_fmt(text).and_then(|()| out.flush()) {
        // The reader has what it wanted; anything else is worth a failure.
        std::process::exit(if error.kind() == ErrorKind::BrokenPipe { 0 } else { 1 });
    }
}

macro_rules! say {
    ($($text:tt)*) => { $crate::say::part(format_args!("{}\n", format_args!($($text)*))) };
}

macro_rules! say_part {
    ($($text:tt)*) => { $crate::say::part(format_args!($($text)*)) };
}
