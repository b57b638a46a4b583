//! git commands with nothing inherited: no hooks, no system or user configuration, no prompt, no helper.

use std::io::Write;
use std::path::Path;

use tempfile::NamedTempFile;
use tokio::process::Command;

use super::{GitError, GitOptions, Repository};
use crate::process;

/// A git command in a bare repository, and the private files that must outlive it.
pub(super) struct GitCommand {
    pub(super) command: Command,
    _files: Vec<NamedTempFile>,
}

/// For reading the local object store: it cannot reach anything.
pub(super) fn local(git_dir: &Path) -> Command {
    let mut command = process::clean("git", git_dir);
    common(&mut command, git_dir);
    command.env("GIT_ALLOW_PROTOCOL", "none");
    command
}

/// For talking to the repository, with its credentials bound to its own host.
pub(super) fn remote(
    git_dir: &Path,
    repo: &Repository,
    options: &GitOptions,
) -> Result<GitCommand, GitError> {
    let mut command = process::clean("git", git_dir);
    common(&mut command, git_dir);
    let protocols = if options.allow_local { "https:http:ssh:git:file" } else { "https:http:ssh:git" };
    command.env("GIT_ALLOW_PROTOCOL", protocols);
    let credentials = &repo.credentials;
    let mut files = Vec::new();
    let mut config: Vec<(String, String)> = vec![
        // A redirect would carry the credentials to a host that they were not given for.
        ("http.followRedirects".into(), "false".into()),
        ("http.lowSpeedLimit".into(), "500".into()),
        ("http.lowSpeedTime".into(), "30".into()),
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
    let mut private = |content: &str| -> Result<String, GitError> {
        let file = private_file(git_dir, content)
            .map_err(|source| GitError::Folder { folder: git_dir.display().to_string(), source })?;
        let path = file.path().display().to_string();
        files.push(file);
        Ok(path)
    };
    if let Some(certificate) = &credentials.tls_client_cert {
        config.push(("http.sslCert".into(), private(certificate.expose())?));
    }
    if let Some(key) = &credentials.tls_client_key {
        config.push(("http.sslKey".into(), private(key.expose())?));
    }
    if let Some(authority) = &credentials.tls_ca {
        config.push(("http.sslCAInfo".into(), private(authority)?));
    }
    let mut ssh = "ssh -F /dev/null -o BatchMode=yes -o ConnectTimeout=15".to_owned();
    if let Some(key) = &credentials.ssh_private_key {
        // ssh refuses a key without its last line break, which copy and paste often loses.
        let path = private(&format!("{}\n", key.expose().trim_end()))?;
        ssh.push_str(&format!(" -o IdentitiesOnly=yes -i {path}"));
    }
    match (credentials.known_hosts.as_ref().or(options.known_hosts.as_ref()), credentials.insecure) {
        (_, true) => ssh.push_str(" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null"),
        (Some(hosts), false) => {
            let path = private(hosts)?;
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
    command.env("GIT_CONFIG_COUNT", config.len().to_string());
    for (index, (key, value)) in config.iter().enumerate() {
        command.env(format!("GIT_CONFIG_KEY_{index}"), key).env(format!("GIT_CONFIG_VALUE_{index}"), value);
    }
    Ok(GitCommand { command, _files: files })
}

fn common(command: &mut Command, git_dir: &Path) {
    command
        .env("GIT_DIR", git_dir)
        .env("GIT_CONFIG_NOSYSTEM", "1")
        .env("GIT_CONFIG_GLOBAL", "/dev/null")
        .env("GIT_TERMINAL_PROMPT", "0")
        .env("GIT_ASKPASS", "true")
        .env("GIT_LFS_SKIP_SMUDGE", "1")
        .args(["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "credential.helper="])
        .args(["-c", "protocol.version=2", "-c", "gc.autoDetach=false", "-c", "safe.directory=*"]);
}

fn private_file(folder: &Path, content: &str) -> std::io::Result<NamedTempFile> {
    // tempfile makes it readable for this user alone.
    let mut file = tempfile::Builder::new().prefix(".key-").tempfile_in(folder)?;
    file.write_all(content.as_bytes())?;
    file.flush()?;
    Ok(file)
}

/// `https://host:port/` of an address: what a credential is for.
fn origin(url: &str) -> String {
    let Some((scheme, rest)) = url.split_once("://") else { return url.to_owned() };
    let authority = rest.split('/').next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    format!("{scheme}://{host}/")
}
