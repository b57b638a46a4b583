//! git commands of a mirror: hardened by `slipway_cage::git`, each in a cage with its mirror, and with a network only
//! where it talks to a repository.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;

use slipway_cage::{Cage, Network, User, git::Git as Hardened};
use tempfile::TempDir;

use super::{GitOptions, Repository};
use crate::git::GitError;
use crate::git::command::config_text;

/// Beside the mirrors: folders with keys, each for one command. What a killed process left is removed when the cache is
/// opened.
pub(super) const KEYS: &str = ".keys";

/// A git command in a bare repository, the cage that it runs in, and the private files that must outlive it.
pub(super) struct GitCommand {
    pub(super) command: Command,
    pub(super) cage: Cage,
    _keys: Option<TempDir>,
}

/// Where a mirror lies and who git is in it.
pub(super) struct Place {
    pub(super) folder: PathBuf,
    user: User,
    /// A repository of this machine that is mirrored.
    original: Option<PathBuf>,
}

impl Place {
    /// Each mirror has a user of its own. A repository of this machine is read as who we are, whose it mostly is.
    pub(super) fn new(folder: PathBuf, url: &str) -> Self {
        let original = crate::repo_url::local_path(url);
        let user = match &original {
            Some(_) => User::Ours,
            None => User::Number(slipway_cage::user_for(folder.as_os_str().as_encoded_bytes())),
        };
        Self { folder, user, original }
    }

    pub(super) fn cage(&self) -> Cage {
        Cage::new().user(self.user)
    }
}

/// For reading the local object store: it cannot reach or change anything.
pub(super) fn local(place: &Place) -> GitCommand {
    let command = hardened(place, &[]);
    GitCommand { command, cage: place.cage().read(&place.folder), _keys: None }
}

/// What git itself collects in a mirror it collects before it ends: nothing of it may outlive its cage.
fn hardened(place: &Place, transports: &[&str]) -> Command {
    let mut command = Hardened::new(transports).set("gc.autoDetach", "false").command();
    // The folder too: programs that git starts (ssh) are not told about the repository.
    command.env("GIT_DIR", &place.folder).current_dir(&place.folder);
    command
}

/// The one transport that leads to an address that [`check_repo_url`](crate::check_repo_url) let through.
fn transport(url: &str) -> &'static str {
    match url.split_once("://").map(|(scheme, _)| scheme.to_ascii_lowercase()).as_deref() {
        Some("https") => "https",
        Some("http") => "http",
        Some("git") => "git",
        Some("file") => "file",
        None if url.starts_with('/') => "file",
        _ => "ssh",
    }
}

/// For talking to the repository, with its credentials bound to its own host.
pub(super) fn remote(place: &Place, repo: &Repository, options: &GitOptions) -> Result<GitCommand, GitError> {
    let git_dir = &place.folder;
    let transport = Some(transport(&repo.url)).filter(|name| options.allow_local || *name != "file");
    let mut command = hardened(place, transport.as_slice());
    let credentials = &repo.credentials;
    let mut config: Vec<(String, String)> = vec![
        // A redirect would carry the credentials to a host that they were not given for.
        ("http.followRedirects".into(), "false".into()),
        // Besides the setting of the command: git that serves a repository of this machine reads files alone.
        ("safe.directory".into(), "*".into()),
    ];
    if let Some(header) = credentials.authorization() {
        config.push((format!("http.{}.extraHeader", origin(&repo.url)), header.expose().clone()));
    }
    if credentials.insecure {
        config.push(("http.sslVerify".into(), "false".into()));
    }
    if !credentials.proxy.is_empty() {
        config.push(("http.proxy".into(), credentials.proxy.clone()));
    }
    let unwritten = |source| GitError::io(Path::new(KEYS), source);
    // Outside of the mirror, which git itself may write to, and only there for this one command.
    let all = git_dir.with_file_name(KEYS);
    crate::private::make_folder(&all).map_err(unwritten)?;
    let keys = crate::private::throw_away_in(&all, "git-").map_err(unwritten)?;
    let private = |name: &str, content: &str| private_file(&keys, name, content).map_err(unwritten);
    if let Some(certificate) = &credentials.tls_client_cert {
        config.push(("http.sslCert".into(), private("certificate", certificate.expose())?));
    }
    if let Some(key) = &credentials.tls_client_key {
        config.push(("http.sslKey".into(), private("key", key.expose())?));
    }
    if let Some(authority) = &credentials.tls_ca {
        config.push(("http.sslCAInfo".into(), private("authority", authority)?));
    }
    let mut ssh = "ssh -F /dev/null -o BatchMode=yes -o ConnectTimeout=15".to_owned();
    if let Some(key) = &credentials.ssh_private_key {
        // ssh refuses a key without its last line break, which copy and paste often loses.
        let path = private("ssh", &format!("{}\n", key.expose().trim_end()))?;
        ssh.push_str(&format!(" -o IdentitiesOnly=yes -i {path}"));
    }
    match (credentials.known_hosts.as_ref().or(options.known_hosts.as_ref()), credentials.insecure) {
        (_, true) => ssh.push_str(" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"),
        (Some(hosts), false) => {
            let path = private("known_hosts", hosts)?;
            ssh.push_str(&format!(" -o StrictHostKeyChecking=yes -o UserKnownHostsFile={path}"));
        }
        (None, false) => {
            let path = git_dir.join("known_hosts");
            ssh.push_str(&format!(
                " -o StrictHostKeyChecking=accept-new -o UserKnownHostsFile={}",
                path.display()
            ));
        }
    }
    command.env("GIT_SSH_COMMAND", ssh);
    // In a file and not in the environment, which every program that git starts would inherit.
    command.env("GIT_CONFIG_GLOBAL", private("config", &config_text(&config))?);
    let mut cage = place.cage().write(git_dir).read(keys.path()).network(Network::Host);
    if let Some(original) = place.original.as_ref().filter(|path| path.exists()) {
        cage = cage.read(original);
    }
    cage.give(keys.path()).map_err(unwritten)?;
    Ok(GitCommand { command, cage, _keys: Some(keys) })
}

fn private_file(folder: &TempDir, name: &str, content: &str) -> std::io::Result<String> {
    use std::os::unix::fs::OpenOptionsExt;
    let path = folder.path().join(name);
    let mut file = std::fs::File::options().write(true).create_new(true).mode(0o600).open(&path)?;
    file.write_all(content.as_bytes())?;
    Ok(path.display().to_string())
}

/// `https://host:port/` of an address: what a credential is for.
fn origin(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let authority = rest.split('/').next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}/")
}
