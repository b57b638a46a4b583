//! How git is started: with nothing of ours or the machine's but what is written here.

use std::ffi::{OsStr, OsString};
use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use base64::Engine as _;
use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWriteExt};

use slipway_cage::{Cage, Network, User};

use super::error::GitError;
use super::remote::Remote;
use crate::process::{self, ProcessError};

/// Far above any listing of branches or pipeline file; a guard against a server that never ends.
const OUTPUT_BYTES_MAX: u64 = 64 << 20;
const ERROR_BYTES_MAX: u64 = 64 << 10;

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
        Invocation {
            repo: repo.to_owned(),
            dir: dir.to_owned(),
            deadline: self.deadline,
            args: Vec::new(),
            env: Vec::new(),
            config: base_config(),
            stdin: None,
            cage: self.cage.as_ref().map(|folder| Cage::new().user(User::Ours).write(folder)),
            secret: None,
        }
    }

    /// A call from the repository in `dir` to `remote`.
    pub(super) fn to(&self, remote: &Remote, dir: &Path) -> Invocation {
        let mut invocation = self.at(dir, remote.name());
        invocation.cage = invocation.cage.map(|cage| reaching(cage, remote));
        if remote.is_file() {
            if self.allow_file {
                invocation = invocation.config("protocol.file.allow", "always");
            }
            return invocation;
        }
        let scheme = if remote.url().starts_with("https:") { "https" } else { "http" };
        invocation = invocation.config(&format!("protocol.{scheme}.allow"), "always");
        if let Some(file) = remote.authorities() {
            invocation = invocation.env("GIT_SSL_CAINFO", file);
        }
        match remote.credential() {
            Some(credential) => {
                let pair = format!("{}:{}", credential.username, credential.password.expose());
                let header = format!(
                    "Authorization: Basic {}",
                    base64::engine::general_purpose::STANDARD.encode(pair)
                );
                let name = format!("http.{}.extraHeader", remote.origin());
                if invocation.cage.is_some() {
                    invocation.secret = Some((name, header));
                } else {
                    invocation = invocation.config(&name, &header);
                }
                invocation
                    // A redirect could carry the header to a host that it was not made for.
                    .config("http.followRedirects", "false")
            }
            None => invocation.config("http.followRedirects", "initial"),
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

fn base_config() -> Vec<(String, String)> {
    [
        ("protocol.allow", "never"),
        ("core.hooksPath", "/dev/null"),
        ("core.fsmonitor", "false"),
        ("core.askPass", "true"),
        ("core.pager", "cat"),
        ("credential.helper", ""),
        ("init.defaultBranch", "main"),
        ("advice.detachedHead", "false"),
        ("gc.auto", "0"),
        ("maintenance.auto", "false"),
        ("commit.gpgSign", "false"),
        ("submodule.recurse", "false"),
        ("fetch.recurseSubmodules", "false"),
        ("transfer.fsckObjects", "false"),
        ("http.lowSpeedLimit", "1"),
        ("http.lowSpeedTime", "60"),
        ("safe.directory", "*"),
    ]
    .map(|(key, value)| (key.to_owned(), value.to_owned()))
    .to_vec()
}

pub(super) struct Invocation {
    repo: String,
    dir: PathBuf,
    deadline: Duration,
    args: Vec<OsString>,
    env: Vec<(OsString, OsString)>,
    config: Vec<(String, String)>,
    stdin: Option<Vec<u8>>,
    cage: Option<Cage>,
    /// What stands in a file instead of the environment, where there is a cage to put the file into.
    secret: Option<(String, String)>,
}

pub(super) struct Output {
    pub(super) code: i32,
    pub(super) stdout: Vec<u8>,
    pub(super) stderr: String,
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

    pub(super) fn config(mut self, key: &str, value: &str) -> Self {
        self.config.push((key.to_owned(), value.to_owned()));
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
        if output.code == 0 {
            return Ok(output.stdout);
        }
        Err(GitError::from_stderr(&repo, what, &output.stderr))
    }

    /// Runs git and gives back what it said, whatever its exit code.
    pub(super) async fn output(self, what: &'static str) -> Result<Output, GitError> {
        let failed = |detail: String| GitError::Failed { repo: self.repo.clone(), what, detail };
        let mut command = std::process::Command::new("git");
        command
            .args(&self.args)
            .current_dir(&self.dir)
            .env_clear()
            .envs(inherited())
            .env("LC_ALL", "C.UTF-8")
            .env("HOME", "/nonexistent")
            .env("GIT_CONFIG_NOSYSTEM", "1")
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .env("GIT_ATTR_NOSYSTEM", "1")
            .env("GIT_TERMINAL_PROMPT", "0")
            .env("GIT_OPTIONAL_LOCKS", "0")
            .env("GIT_CONFIG_COUNT", self.config.len().to_string());
        for (index, (key, value)) in self.config.iter().enumerate() {
            command
                .env(format!("GIT_CONFIG_KEY_{index}"), key)
                .env(format!("GIT_CONFIG_VALUE_{index}"), value);
        }
        command.envs(self.env.iter().map(|(key, value)| (key, value)));
        if let Some(cage) = self.cage.clone() {
            return self.output_caged(command, cage).await;
        }
        let mut command = tokio::process::Command::from(command);
        command
            .stdin(if self.stdin.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .process_group(0)
            .kill_on_drop(true);
        let mut child = command.spawn().map_err(|source| match source.kind() {
            // A missing working folder gives the same kind of error as a missing program.
            std::io::ErrorKind::NotFound if self.dir.is_dir() => GitError::NotInstalled,
            _ => GitError::io(&self.dir, source),
        })?;
        let group = Group(child.id());
        let stdin = child.stdin.take();
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let work = async {
            let feed = async {
                if let (Some(mut pipe), Some(bytes)) = (stdin, &self.stdin) {
                    // A broken pipe shows in git's own error.
                    let _ = pipe.write_all(bytes).await;
                }
            };
            let (stdout, stderr, ()) =
                tokio::join!(read(stdout, OUTPUT_BYTES_MAX), read(stderr, ERROR_BYTES_MAX), feed);
            (child.wait().await, stdout, stderr)
        };
        let (status, stdout, stderr) = tokio::time::timeout(self.deadline, work).await.map_err(|_| {
            GitError::Deadline { repo: self.repo.clone(), what, seconds: self.deadline.as_secs() }
        })?;
        group.ended();
        let status = status.map_err(|error| failed(error.to_string()))?;
        let stdout = stdout.map_err(|error| failed(error.to_string()))?;
        if stdout.len() as u64 > OUTPUT_BYTES_MAX {
            return Err(failed(format!("its answer is longer than {OUTPUT_BYTES_MAX} bytes")));
        }
        let stderr = String::from_utf8_lossy(&stderr.unwrap_or_default()).into_owned();
        Ok(Output { code: status.code().unwrap_or(-1), stdout, stderr })
    }
}

/// Variables that name files with authorities.
const AUTHORITIES: [&str; 4] = ["SSL_CERT_FILE", "SSL_CERT_DIR", "GIT_SSL_CAINFO", "CURL_CA_BUNDLE"];

impl Invocation {
    async fn output_caged(self, mut command: std::process::Command, cage: Cage) -> Result<Output, GitError> {
        let unwritten = |source| GitError::io(&self.dir, source);
        // It is gone with the command.
        let keys = crate::private::throw_away("slipway-git-").map_err(unwritten)?;
        let mut cage = cage;
        command.env("TMPDIR", "/tmp");
        for name in AUTHORITIES {
            let named = command.get_envs().find(|(key, _)| *key == name).and_then(|(_, value)| value);
            cage = named.map(PathBuf::from).filter(|path| path.exists()).into_iter().fold(cage, Cage::read);
        }
        if let Some(secret) = &self.secret {
            let file = keys.path().join("config");
            let text = crate::git_cache::config_text(std::slice::from_ref(secret));
            crate::private::write_file(&file, text.as_bytes()).map_err(unwritten)?;
            command.env("GIT_CONFIG_GLOBAL", &file);
            cage = cage.read(keys.path());
        }
        let limits = process::Limits { deadline: self.deadline, stdout_bytes: OUTPUT_BYTES_MAX as usize };
        match process::run(&command, &cage, "git", self.stdin.clone(), &limits, || true).await {
            Ok(output) => Ok(Output { code: output.code, stdout: output.stdout, stderr: output.stderr }),
            Err(ProcessError::Missing { .. }) => Err(GitError::NotInstalled),
            Err(ProcessError::Deadline { seconds, .. }) => {
                Err(GitError::Deadline { repo: self.repo.clone(), what: "be run", seconds })
            }
            Err(error) => Err(GitError::io(&self.dir, std::io::Error::other(error.to_string()))),
        }
    }
}

/// Kills git and its transport helpers when a call is given up, for whatever reason.
struct Group(Option<u32>);

impl Group {
    fn ended(mut self) {
        self.0 = None;
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        if let Some(pid) = self.0.and_then(|pid| i32::try_from(pid).ok()) {
            let _ = killpg(Pid::from_raw(pid), Signal::SIGKILL);
        }
    }
}

/// What git needs of our environment: programs, proxies and certificates.
fn inherited() -> impl Iterator<Item = (String, OsString)> {
    const NAMES: [&str; 12] = [
        "PATH",
        "TMPDIR",
        "HTTP_PROXY",
        "HTTPS_PROXY",
        "NO_PROXY",
        "http_proxy",
        "https_proxy",
        "no_proxy",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "GIT_SSL_CAINFO",
        "CURL_CA_BUNDLE",
    ];
    NAMES.into_iter().filter_map(|name| Some((name.to_owned(), std::env::var_os(name)?)))
}

/// One byte more than allowed is read, so that the caller can tell "full" from "too much"; the rest is drained.
async fn read(pipe: Option<impl AsyncRead + Unpin>, bytes_max: u64) -> std::io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    if let Some(mut pipe) = pipe {
        (&mut pipe).take(bytes_max + 1).read_to_end(&mut bytes).await?;
        if bytes.len() as u64 <= bytes_max {
            return Ok(bytes);
        }
        tokio::io::copy(&mut pipe, &mut tokio::io::sink()).await?;
    }
    Ok(bytes)
}
