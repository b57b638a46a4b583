//! The wire of Redis: commands in, replies out. Nothing here knows a key.

use tokio::io::{AsyncBufRead, AsyncBufReadExt, AsyncReadExt};

/// Commands of the CLI are short; the longest holds a password.
const ARGUMENTS_MAX: usize = 64;
const ARGUMENT_BYTES_MAX: usize = 64 * 1024;
const LINE_BYTES_MAX: u64 = 64;

#[derive(Debug, thiserror::Error)]
pub(super) enum RespError {
    #[error("not a Redis command")]
    Protocol,
    #[error(transparent)]
    Io(#[from] std::io::Error),
}

/// The next command, name first; none when the other side hung up.
pub(super) async fn read_command(
    from: &mut (impl AsyncBufRead + Unpin),
) -> Result<Option<Vec<Vec<u8>>>, RespError> {
    let Some(count) = header(from, b'*').await? else { return Ok(None) };
    if count > ARGUMENTS_MAX {
        return Err(RespError::Protocol);
    }
    let mut arguments = Vec::with_capacity(count);
    for _ in 0..count {
        let length = header(from, b'$').await?.filter(|length| *length <= ARGUMENT_BYTES_MAX);
        let mut argument = vec![0; length.ok_or(RespError::Protocol)? + 2];
        from.read_exact(&mut argument).await?;
        if !argument.ends_with(b"\r\n") {
            return Err(RespError::Protocol);
        }
        argument.truncate(argument.len() - 2);
        arguments.push(argument);
    }
    Ok(Some(arguments))
}

async fn header(from: &mut (impl AsyncBufRead + Unpin), mark: u8) -> Result<Option<usize>, RespError> {
    let mut line = Vec::new();
    if from.take(LINE_BYTES_MAX).read_until(b'\n', &mut line).await? == 0 {
        return Ok(None);
    }
    let number = line.strip_suffix(b"\r\n").and_then(|line| line.strip_prefix(&[mark]));
    let number = number.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
    number.map(Some).ok_or(RespError::Protocol)
}

/// What a command is answered with.
pub(super) enum Reply {
    Status(&'static str),
    Error(String),
    Bulk(Option<Vec<u8>>),
    /// `subscribe`, `unsubscribe` or `message`, the channel, and a text or a count.
    Push(&'static str, Vec<u8>, Pushed),
}

pub(super) enum Pushed {
    Count(usize),
    Text(&'static str),
}

impl Reply {
    pub(super) fn write(&self, to: &mut Vec<u8>) {
        let bulk = |to: &mut Vec<u8>, bytes: &[u8]| {
            to.extend(format!("${}\r\n", bytes.len()).bytes());
            to.extend(bytes);
            to.extend(b"\r\n");
        };
        match self {
            Self::Status(text) => to.extend(format!("+{text}\r\n").bytes()),
            Self::Error(text) => to.extend(format!("-{}\r\n", text.replace(['\r', '\n'], " ")).bytes()),
            Self::Bulk(Some(bytes)) => bulk(to, bytes),
            Self::Bulk(None) => to.extend(b"$-1\r\n"),
            Self::Push(kind, channel, what) => {
                to.extend(b"*3\r\n");
                bulk(to, kind.as_bytes());
                bulk(to, channel);
                match what {
                    Pushed::Count(count) => to.extend(format!(":{count}\r\n").bytes()),
                    Pushed::Text(text) => bulk(to, text.as_bytes()),
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn read(bytes: &[u8]) -> Result<Option<Vec<Vec<u8>>>, RespError> {
        read_command(&mut tokio::io::BufReader::new(bytes)).await
    }

    #[tokio::test]
    async fn a_command_is_its_words_and_an_end_is_no_error() {
        let words = read(b"*2\r\n$3\r\nGET\r\n$4\r\na\r\nb\r\n").await.unwrap().unwrap();
        assert_eq!(words, [b"GET".to_vec(), b"a\r\nb".to_vec()]);
        assert!(read(b"").await.unwrap().is_none());
    }

    #[tokio::test]
    async fn what_is_no_command_or_too_large_is_refused_before_memory_is_taken() {
        for wrong in [
            "GET a\r\n",
            "*1\r\n:3\r\n",
            "*-1\r\n",
            "*999999999\r\n",
            "*1\r\n$999999999\r\n",
            "*1\r\n$3\r\nGETxx",
            "*1\r\n$3\r\nGET",
            "*11111111111111111111111111111111111111111111111111111111111111111111111111111111\r\n",
        ] {
            assert!(read(wrong.as_bytes()).await.is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_line_break_in_an_error_cannot_make_a_second_reply() {
        let mut out = Vec::new();
        Reply::Error("ERR a\r\n+OK".into()).write(&mut out);
        assert_eq!(out, b"-ERR a  +OK\r\n");
    }
}
