//! How git is run: hardened by `slipway_cage::git`, with a deadline, in a cage or in the caller's own sandbox.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use slipway_cage::{Cage, Network, User, git::Git as Hardened};

use super::error::GitError;
use super::remote::Remote;
use crate::process::{self, Output};

/// Far above any listing of branches or pipeline file; a guard against a server that never ends.
const OUTPUT_BYTES_MAX: usize = 64 << 20;

/// The git program with the limits it runs under. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Git {
    deadline: Duration,
    allow_file: bool,
    cage: Option<PathBuf>,
}

impl Default for Git {
    fn default() -> Self {
        Self::new()
    }
}

impl Git {
    pub fn new() -> Self {
        Self { deadline: Duration::from_secs(600), allow_file: false, cage: None }
    }

    /// No single call of git takes longer.
    pub fn deadline(mut self, deadline: Duration) -> Self {
        self.deadline = deadline;
        self
    }

    /// Allows `file://` remotes: for repositories of this machine that nobody else names.
    pub fn allow_file(mut self) -> Self {
        self.allow_file = true;
        self
    }

    /// git sees this folder, which all others that it works in lie below, and nothing else of this machine; it has the
    /// network only where it talks to a remote.
    pub fn caged(mut self, folder: impl Into<PathBuf>) -> Self {
        self.cage = Some(folder.into());
        self
    }

    /// A call that touches only the repository in `dir`.
    pub(super) fn at(&self, dir: &Path, repo: &str) -> Invocation {
        let cage = self.cage.as_ref().map(|folder| Cage::new().user(User::Ours).write(folder));
        self.invocation(dir, repo, &[], cage)
    }

    /// A call from the repository in `dir` to `remote`.
    pub(super) fn to(&self, remote: &Remote, dir: &Path) -> Invocation {
        let cage = self.cage.as_ref().map(|folder| Cage::new().user(User::Ours).write(folder));
        let cage = cage.map(|cage| reaching(cage, remote));
        let transport = Some(remote.transport()).filter(|_| self.allow_file || !remote.is_file());
        let mut invocation = self.invocation(dir, remote.name(), transport.as_slice(), cage);
        if remote.is_file() {
            return invocation;
        }
        if let Some(file) = remote.authorities() {
            invocation = invocation.env("GIT_SSL_CAINFO", file);
        }
        let Some(authorization) = remote.authorization() else {
            return invocation.config("http.followRedirects", "initial");
        };
        let name = format!("http.{}.extraHeader", remote.origin());
        let header = format!("Authorization: {authorization}");
        if invocation.cage.is_some() {
            invocation.secret = Some((name, header));
        } else {
            invocation = invocation.config(&name, &header);
        }
        // A redirect could carry the header to a host that it was not made for.
        invocation.config("http.followRedirects", "false")
    }

    fn invocation(&self, dir: &Path, repo: &str, transports: &[&str], cage: Option<Cage>) -> Invocation {
        let git = Hardened::new(transports)
            .set("advice.detachedHead", "false")
            // A working folder lives as long as a build; a private one as long as a push.
            .set("gc.auto", "0")
            .set("maintenance.auto", "false");
        Invocation {
            git,
            repo: repo.to_owned(),
            dir: dir.to_owned(),
            deadline: self.deadline,
            args: Vec::new(),
            env: Vec::new(),
            stdin: None,
            cage,
            secret: None,
        }
    }
}

/// The remote can be reached from the cage: by the network, or by its path.
fn reaching(cage: Cage, remote: &Remote) -> Cage {
    let cage = remote.authorities().into_iter().fold(cage, |cage, file| cage.read(file));
    match crate::repo_url::local_path(remote.url()).filter(|_| remote.is_file()) {
        Some(path) => cage.write(path),
        None => cage.network(Network::Host),
    }
}

pub(super) struct Invocation {
    git: Hardened,
    repo: String,
    dir: PathBuf,
    deadline: Duration,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    stdin: Option<Vec<u8>>,
    cage: Option<Cage>,
    /// What stands in a file instead of the environment, where there is a cage to put the file into.
    secret: Option<(String, String)>,
}

impl Invocation {
    pub(super) fn args<S: AsRef<OsStr>>(mut self, args: impl IntoIterator<Item = S>) -> Self {
        self.args.extend(args.into_iter().map(|arg| arg.as_ref().to_owned()));
        self
    }

    pub(super) fn env(mut self, key: &str, value: impl AsRef<OsStr>) -> Self {
        self.env.push((key.into(), value.as_ref().to_owned()));
        self
    }

    fn config(mut self, key: &str, value: &str) -> Self {
        self.git = self.git.set(key, value);
        self
    }

    pub(super) fn stdin(mut self, bytes: impl Into<Vec<u8>>) -> Self {
        self.stdin = Some(bytes.into());
        self
    }

    pub(super) async fn run(self, what: &'static str) -> Result<(), GitError> {
        self.bytes(what).await.map(drop)
    }

    pub(super) async fn text(self, what: &'static str) -> Result<String, GitError> {
        let bytes = self.bytes(what).await?;
        Ok(String::from_utf8_lossy(&bytes).trim_end_matches('\n').to_owned())
    }

    pub(super) async fn bytes(self, what: &'static str) -> Result<Vec<u8>, GitError> {
        let repo = self.repo.clone();
        let output = self.output(what).await?;
        if output.success {
            return Ok(output.stdout);
        }
        Err(GitError::from_stderr(&repo, what, &output.stderr))
    }

    /// Runs git and gives back what it said, whatever its exit code.
    pub(super) async fn output(self, what: &'static str) -> Result<Output, GitError> {
        // A missing working folder gives the same kind of error as a missing program.
        std::fs::metadata(&self.dir).map_err(|source| GitError::io(&self.dir, source))?;
        let mut command = self.git.command();
        command
            .args(&self.args)
            .current_dir(&self.dir)
            .envs(inherited())
            .envs(self.env.iter().map(|(key, value)| (key, value)));
        let limits = process::Limits { deadline: self.deadline, stdout_bytes: OUTPUT_BYTES_MAX };
        let output = match self.cage.clone() {
            None => process::run_free(command, "git", self.stdin, &limits).await,
            Some(cage) => {
                // It is gone with the command.
                let keys = crate::private::throw_away("slipway-git-");
                let keys = keys.map_err(|source| GitError::io(&self.dir, source))?;
                let cage = self.furnish(&mut command, cage, keys.path())?;
                process::run(&command, &cage, "git", self.stdin, &limits, || true).await
            }
        };
        output.map_err(|error| GitError::from_process(error, &self.repo, what))
    }

    /// What a caged git needs besides its folders: authorities, a place for its own files, and the secret.
    fn furnish(&self, command: &mut Command, mut cage: Cage, keys: &Path) -> Result<Cage, GitError> {
        command.env("TMPDIR", "/tmp");
        for name in AUTHORITIES {
            let named = command.get_envs().find(|(key, _)| *key == name).and_then(|(_, value)| value);
            cage = named.map(PathBuf::from).filter(|path| path.exists()).into_iter().fold(cage, Cage::read);
        }
        let Some(secret) = &self.secret else { return Ok(cage) };
        let file = keys.join("config");
        let text = config_text(std::slice::from_ref(secret));
        crate::private::write_file(&file, text.as_bytes()).map_err(|source| GitError::io(keys, source))?;
        command.env("GIT_CONFIG_GLOBAL", &file);
        Ok(cage.read(keys))
    }
}

/// Variables that name files with authorities.
const AUTHORITIES: [&str; 4] = ["SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "CURL_CA_BUNDLE"];
/// Variables that say how the network is reached, and where git keeps what it throws away.
const REACH: [&str; 7] =
    ["TMPDIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy"];

/// What a working clone takes from our environment. A mirror takes nothing: its proxy and its authorities are settings.
fn inherited() -> impl Iterator<Item = (&'static str, OsString)> {
    AUTHORITIES.into_iter().chain(REACH).filter_map(|name| Some((name, std::env::var_os(name)?)))
}

/// git's own form: `[section "subsection"]` and quoted values.
pub(super) fn config_text(config: &[(String, String)]) -> String {
    let quoted = |text: &str| {
        let text = text.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n");
        format!("\"{text}\"")
    };
    let mut out = String::new();
    for (name, value) in config {
        let (section, rest) = name.split_once('.').unwrap_or((name, ""));
        let head = match rest.rsplit_once('.') {
            Some((middle, _)) => format!("[{section} {}]", quoted(middle)),
            None => format!("[{section}]"),
        };
        let key = rest.rsplit('.').next().unwrap_or_default();
        out.push_str(&format!("{head}\n\t{key} = {}\n", quoted(value)));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::config_text;

    #[test]
    fn configuration_is_quoted_as_git_reads_it() {
        let config = [
            ("http.https://a.b:1/.extraHeader".to_owned(), "Authorization: Basic x==".to_owned()),
            ("http.proxy".to_owned(), "http://x\"\n[core]\nsshCommand=y\\".to_owned()),
        ];
        assert_eq!(
            config_text(&config),
            "[http \"https://a.b:1/\"]\n\textraHeader = \"Authorization: Basic x==\"\n\
             [http]\n\tproxy = \"http://x\\\"\\n[core]\\nsshCommand=y\\\\\"\n"
        );
    }
}
