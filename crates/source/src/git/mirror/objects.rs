//! git's object store through one `git cat-file --batch` that stays: commits, trees and files by id.

use std::time::{Duration, Instant};

use slipway_cage::{Child, Limits, Stream, Streams};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::unix::pipe;

use super::GitError;
use super::command::{self, Place};
use crate::process;

/// A commit and who made it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit {
    pub sha: String,
    /// The id of its root folder.
    pub tree: String,
    pub author: String,
    pub author_email: String,
    pub message: String,
    /// RFC 3339.
    pub date: String,
}

pub(super) struct Object {
    /// The full id, also when a shortened one or an expression was asked for.
    pub(super) id: String,
    pub(super) kind: String,
    pub(super) data: Vec<u8>,
}

/// The running helper. Dropping it ends it.
pub(super) struct Batch {
    stdin: pipe::Sender,
    stdout: BufReader<pipe::Receiver>,
    used: Instant,
    _child: Child,
}

impl Batch {
    pub(super) fn start(place: &Place) -> Result<Self, GitError> {
        let mut git = command::local(place);
        git.command.args(["cat-file", "--batch"]);
        // It stays for as long as the mirror is read from.
        let cage = git.cage.limits(Limits { cpu_seconds: None, ..Limits::default() });
        let streams = Streams { stderr: Stream::Null, ..Streams::talking() };
        let failed = |error| GitError::from_process(error, "the mirror", "read");
        let mut child = process::spawn(&git.command, &cage, "git", streams).map_err(failed)?;
        let io = |source| failed(process::ProcessError::Io { program: "git".to_owned(), source });
        let stdin = slipway_cage::writer(child.stdin.take().expect("stdin was piped")).map_err(io)?;
        let stdout = slipway_cage::reader(child.stdout.take().expect("stdout was piped")).map_err(io)?;
        Ok(Self { stdin, stdout: BufReader::new(stdout), used: Instant::now(), _child: child })
    }

    pub(super) fn idle(&self) -> Duration {
        self.used.elapsed()
    }

    /// `None`: no such object here. After an error the helper must not be used again.
    pub(super) async fn read(&mut self, id: &str, limit: usize) -> Result<Option<Object>, GitError> {
        let damaged = |detail: String| GitError::Damaged { detail };
        self.used = Instant::now();
        self.stdin
            .write_all(format!("{id}\n").as_bytes())
            .await
            .map_err(|error| damaged(error.to_string()))?;
        let mut header = String::new();
        self.stdout.read_line(&mut header).await.map_err(|error| damaged(error.to_string()))?;
        let mut words = header.split_whitespace();
        let (full, kind, size) = (words.next().unwrap_or_default(), words.next(), words.next());
        match (kind, size.and_then(|size| size.parse::<usize>().ok())) {
            (Some("missing" | "ambiguous"), _) => Ok(None),
            (Some(kind), Some(size)) => {
                if size > limit {
                    return Err(GitError::TooLarge {
                        what: format!("object {id} with {size} bytes"),
                        limit: format!("{limit} bytes"),
                    });
                }
                // The content is followed by one line break.
                let mut data = vec![0; size + 1];
                self.stdout.read_exact(&mut data).await.map_err(|error| damaged(error.to_string()))?;
                data.pop();
                Ok(Some(Object { id: full.to_owned(), kind: kind.to_owned(), data }))
            }
            _ => Err(damaged(format!("git cat-file said `{}`", header.trim()))),
        }
    }
}

/// Reads the text of a commit object.
pub(super) fn parse_commit(sha: &str, data: &[u8]) -> Option<Commit> {
    let text = String::from_utf8_lossy(data);
    let (head, message) = text.split_once("\n\n").unwrap_or((&text, ""));
    let mut tree = None;
    let mut author = None;
    for line in head.lines() {
        if let Some(id) = line.strip_prefix("tree ") {
            tree = Some(id.to_owned());
        } else if let Some(rest) = line.strip_prefix("author ") {
            author = Some(rest.to_owned());
        }
    }
    let author = author?;
    // `Name <mail> seconds zone`
    let (name, rest) = author.split_once(" <").unwrap_or(("", &author));
    let (email, when) = rest.rsplit_once("> ").unwrap_or((rest, ""));
    let seconds: i64 = when.split(' ').next().and_then(|s| s.parse().ok()).unwrap_or(0);
    let date = jiff::Timestamp::from_second(seconds).map(|t| t.to_string()).unwrap_or_default();
    Some(Commit {
        sha: sha.to_owned(),
        tree: tree?,
        author: name.to_owned(),
        author_email: email.to_owned(),
        message: message.trim_end().to_owned(),
        date,
    })
}

#[cfg(test)]
mod tests {
    use super::parse_commit;

    #[test]
    fn a_commit_says_who_when_and_why() {
        let text = b"tree 1111\nparent 2222\nauthor Ada L <ada@example.org> 1700000000 +0100\ncommitter X <x@y> 1 +0000\n\nFix it\n\nBecause.\n";
        let commit = parse_commit("abc", text).expect("readable");
        assert_eq!(commit.tree, "1111");
        assert_eq!((commit.author.as_str(), commit.author_email.as_str()), ("Ada L", "ada@example.org"));
        assert_eq!(commit.message, "Fix it\n\nBecause.");
        assert_eq!(commit.date, "2023-11-14T22:13:20Z");
    }
}
