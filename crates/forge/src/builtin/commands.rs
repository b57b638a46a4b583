//! What a push asks for: the list of commands with which `git-receive-pack` begins, before any object.
//!
//! In: the first bytes of the request's body. Out: each reference with what it was and shall be. Whatever Git might read
//! differently is refused, so that nothing is judged here as one thing and done there as another.

/// A reference that somebody wants to move. All zeros before: it is new; after: it goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RefCommand {
    pub before: String,
    pub after: String,
    pub reference: String,
}

#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct PushCommands {
    pub commands: Vec<RefCommand>,
    /// What the client understands: `report-status`, `side-band-64k`, …
    pub capabilities: Vec<String>,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("this push cannot be understood: {0}")]
pub struct NoCommands(pub String);

/// A mirror of a very large repository fits.
pub const COMMANDS_BYTES_MAX: usize = 4 << 20;

/// `Ok(None)`: more bytes are needed. With the list comes how many bytes it took, its end included.
pub fn read_commands(bytes: &[u8]) -> Result<Option<(PushCommands, usize)>, NoCommands> {
    let wrong = |text: &str| NoCommands(text.to_owned());
    let (mut read, mut at) = (PushCommands::default(), 0);
    loop {
        let Some(head) = bytes.get(at..at + 4) else { return more(bytes) };
        let length = length(head).ok_or_else(|| wrong("a line has no length"))?;
        if length == 0 {
            return Ok(Some((read, at + 4)));
        }
        if length <= 4 {
            return Err(wrong("a line is empty"));
        }
        let Some(line) = bytes.get(at + 4..at + length) else { return more(bytes) };
        at += length;
        let (text, capabilities) = match line.iter().position(|byte| *byte == 0) {
            Some(end) => (&line[..end], Some(&line[end + 1..])),
            None => (line.strip_suffix(b"\n").unwrap_or(line), None),
        };
        let text = std::str::from_utf8(text).map_err(|_| wrong("a reference is no UTF-8"))?;
        if let Some(capabilities) = capabilities.filter(|_| read.commands.is_empty()) {
            let words = String::from_utf8_lossy(capabilities);
            read.capabilities = words.split_whitespace().map(str::to_owned).collect();
        }
        // A clone without its history says where it is cut.
        if text.strip_prefix("shallow ").is_some_and(is_object) {
            continue;
        }
        read.commands.push(command(text)?);
    }
}

fn more(bytes: &[u8]) -> Result<Option<(PushCommands, usize)>, NoCommands> {
    match bytes.len() <= COMMANDS_BYTES_MAX {
        true => Ok(None),
        false => Err(NoCommands("it moves too many references at once: push fewer".into())),
    }
}

fn length(head: &[u8]) -> Option<usize> {
    let hex = head.iter().all(u8::is_ascii_hexdigit);
    usize::from_str_radix(std::str::from_utf8(head).ok().filter(|_| hex)?, 16).ok()
}

fn is_object(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn command(text: &str) -> Result<RefCommand, NoCommands> {
    let mut words = text.splitn(3, ' ');
    let (Some(before), Some(after), Some(reference)) = (words.next(), words.next(), words.next()) else {
        return Err(NoCommands("a line names no reference (signed pushes are not taken)".into()));
    };
    let plain = reference.starts_with("refs/") && !reference.chars().any(|c| c.is_control() || c == ' ');
    if !is_object(before) || !is_object(after) || !plain {
        return Err(NoCommands(format!("`{}` is no reference", reference.escape_debug())));
    }
    Ok(RefCommand { before: before.into(), after: after.into(), reference: reference.into() })
}

/// An answer that refuses every reference with a reason, in the words that `git push` prints; `None` for a client that
/// does not listen for one.
pub fn refusal(push: &PushCommands, reasons: &[(String, String)]) -> Option<Vec<u8>> {
    let can = |name: &str| push.capabilities.iter().any(|word| word == name);
    if !can("report-status") && !can("report-status-v2") {
        return None;
    }
    let mut report = line("unpack ok\n");
    for (reference, reason) in reasons {
        let reason: String = reason.chars().filter(|c| !c.is_control()).take(800).collect();
        report += &line(&format!("ng {reference} {reason}\n"));
    }
    report += "0000";
    if !can("side-band-64k") {
        return Some(report.into_bytes());
    }
    let mut wrapped = Vec::new();
    for part in report.as_bytes().chunks(60_000) {
        wrapped.extend(format!("{:04x}", part.len() + 5).into_bytes());
        wrapped.push(1);
        wrapped.extend(part);
    }
    wrapped.extend(b"0000");
    Some(wrapped)
}

/// What Git itself refused of a push, in its words: `refs/heads/main non-fast-forward`.
pub fn failures(answer: &[u8]) -> Vec<String> {
    let inner: Vec<u8> = match lines(answer).iter().any(|line| line.first() == Some(&1)) {
        true => {
            lines(answer).into_iter().filter_map(|line| line.strip_prefix(&[1])).flatten().copied().collect()
        }
        false => answer.to_vec(),
    };
    let said = lines(&inner).into_iter().map(|line| String::from_utf8_lossy(line).trim_end().to_owned());
    let failed = said.filter_map(|line| match (line.strip_prefix("ng "), line.strip_prefix("unpack ")) {
        (Some(failed), _) => Some(failed.to_owned()),
        (None, Some(why)) if why != "ok" => Some(format!("nothing was unpacked: {why}")),
        _ => None,
    });
    failed.take(100).collect()
}

/// The lines of an answer, as far as they are whole.
fn lines(mut bytes: &[u8]) -> Vec<&[u8]> {
    let mut found = Vec::new();
    while let Some(size) = bytes.get(..4).and_then(length) {
        let Some(line) = bytes.get(4..size.max(4)) else { break };
        found.extend(Some(line).filter(|line| !line.is_empty()));
        bytes = &bytes[size.max(4)..];
    }
    found
}

fn line(text: &str) -> String {
    format!("{:04x}{text}", text.len() + 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    const OLD: &str = "1111111111111111111111111111111111111111";
    const NEW: &str = "2222222222222222222222222222222222222222";

    fn said(text: &str) -> Vec<u8> {
        format!("{:04x}{text}", text.len() + 4).into_bytes()
    }

    #[test]
    fn the_commands_of_a_push_are_read_up_to_their_end_and_no_further() {
        let first = said(&format!("{OLD} {NEW} refs/heads/main\0 report-status side-band-64k agent=git/2\n"));
        let second = said(&format!("{OLD} {NEW} refs/tags/v1\n"));
        let shallow = said(&format!("shallow {OLD}\n"));
        let body = [shallow, first, second, b"0000PACK-and-more".to_vec()].concat();
        let (read, used) = read_commands(&body).unwrap().unwrap();
        assert_eq!(&body[used..], b"PACK-and-more");
        let names: Vec<_> = read.commands.iter().map(|command| command.reference.as_str()).collect();
        assert_eq!(names, ["refs/heads/main", "refs/tags/v1"]);
        assert_eq!(read.capabilities, ["report-status", "side-band-64k", "agent=git/2"]);
        for cut in 0..used {
            assert_eq!(read_commands(&body[..cut]), Ok(None), "{cut}");
        }
        // The question with which a client sees whether it may talk at all.
        assert_eq!(read_commands(b"0000"), Ok(Some((PushCommands::default(), 4))));
    }

    #[test]
    fn a_refusal_is_read_back_as_what_failed() {
        for capabilities in [&["report-status"][..], &["report-status", "side-band-64k"]] {
            let capabilities = capabilities.iter().map(|&word| word.to_owned()).collect();
            let push = PushCommands { capabilities, ..PushCommands::default() };
            let answer = refusal(&push, &[("refs/heads/main".into(), "you may not".into())]).unwrap();
            assert_eq!(failures(&answer), ["refs/heads/main you may not"]);
        }
        assert_eq!(refusal(&PushCommands::default(), &[]), None);
    }

    #[test]
    fn what_git_might_read_otherwise_is_refused() {
        let zero = "0".repeat(40);
        for text in [
            "push-cert\0 report-status\n".to_owned(),
            format!("{OLD} {NEW} HEAD"),
            format!("{OLD} {NEW} refs/heads/a\nb"),
            format!("{OLD} {NEW} refs/heads/a b"),
            format!("{OLD}  refs/heads/a"),
            format!("{OLD} {NEW}"),
            format!("{zero}x {NEW} refs/heads/a"),
            "shallow nothing".to_owned(),
        ] {
            assert!(read_commands(&[said(&text), b"0000".to_vec()].concat()).is_err(), "{text:?}");
        }
        for raw in [&b"zzzz"[..], b"0001", b"0003", b"0004", b"+010xxxx", b" 010"] {
            assert!(read_commands(raw).is_err(), "{raw:?}");
        }
        let mut name = said(&format!("{OLD} {NEW} refs/heads/"));
        name.extend(b"0000");
        name[60] = 0xff;
        assert!(read_commands(&name).is_err());
        let endless = said(&format!("{OLD} {NEW} refs/heads/{}", "x".repeat(60_000))).repeat(80);
        assert!(read_commands(&endless).is_err(), "bounded");
    }
}
