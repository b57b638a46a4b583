//! A git command with one hardening, for every room that starts git.
//!
//! In: the transports that it may use, and settings of its caller. Out: a [`Command`] that inherits nothing: no system
//! or user configuration, no hooks, no helpers, no prompts. Its arguments, its folder and the cage that it runs in are
//! the caller's; so is everything about repositories and credentials.

use std::process::Command;

/// What holds for every call, whatever a repository's own configuration says.
const SETTINGS: [(&str, &str); 16] = [
    // Programs that a repository could name.
    ("core.hooksPath", "/dev/null"),
    ("core.fsmonitor", "false"),
    ("core.askPass", "true"),
    ("core.pager", "cat"),
    ("credential.helper", ""),
    ("commit.gpgSign", "false"),
    ("submodule.recurse", "false"),
    ("fetch.recurseSubmodules", "false"),
    // Objects are checked before they are kept. What is let through are slips of old tools that stand in the history
    // of well-known repositories and harm nobody.
    ("transfer.fsckObjects", "true"),
    ("fetch.fsck.badTimezone", "ignore"),
    ("fetch.fsck.missingSpaceBeforeDate", "ignore"),
    ("fetch.fsck.zeroPaddedFilemode", "ignore"),
    // A server that says nothing is given up. One that is still counting objects sends five bytes every five seconds,
    // so that more than one byte a second would end every clone of a large repository; deadlines do the rest.
    ("http.lowSpeedLimit", "1"),
    ("http.lowSpeedTime", "60"),
    // Folders belong to the users of cages; that is not for git to judge.
    ("safe.directory", "*"),
    ("init.defaultBranch", "main"),
];

/// A command of git that is being put together.
#[derive(Debug, Clone)]
pub struct Git {
    transports: String,
    settings: Vec<(String, String)>,
}

impl Git {
    /// It may use these transports (`https`, `ssh`, `file`, …) and no other; none for work inside of one repository.
    pub fn new(transports: &[&str]) -> Self {
        // An empty list would be read as none being given, which allows all.
        let transports = if transports.is_empty() { "none".to_owned() } else { transports.join(":") };
        let settings = SETTINGS.map(|(key, value)| (key.to_owned(), value.to_owned())).to_vec();
        Self { transports, settings }
    }

    /// One more setting; the last one of a key wins.
    #[must_use]
    pub fn set(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.settings.push((key.into(), value.into()));
        self
    }

    /// The program with its environment, and without arguments.
    pub fn command(&self) -> Command {
        let mut command = Command::new("git");
        command
            .env_clear()
            .env("PATH", std::env::var_os("PATH").unwrap_or_else(|| "/usr/local/bin:/usr/bin:/bin".into()))
            // git's words are read, so they have to be the same everywhere.
            .env("LC_ALL", "C.UTF-8")
            .env("HOME", "/nonexistent")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_ASKPASS", "true")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_LFS_SKIP_SMUDGE", "1")
            .env("GIT_ALLOW_PROTOCOL", &self.transports)
            .env("GIT_CONFIG_COUNT", self.settings.len().to_string());
        for (index, (key, value)) in self.settings.iter().enumerate() {
            command
                .env(format!("GIT_CONFIG_KEY_{index}"), key)
                .env(format!("GIT_CONFIG_VALUE_{index}"), value);
        }
        command
    }
}
