//! Where a repository is, and who we are there.

use slipway_dialect::percent;
use std::path::{Path, PathBuf};

use slipway_model::Secret;

use super::credentials::Credentials;
use super::error::GitError;

/// An address that was looked at before git sees it, and the credential that belongs to its host.
#[derive(Clone)]
pub struct Remote {
    url: String,
    name: String,
    credentials: Option<Credentials>,
    authorities: Option<PathBuf>,
}

impl std::fmt::Debug for Remote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Remote").field("url", &self.url).finish_non_exhaustive()
    }
}

impl Remote {
    /// Takes `https://…`, `http://…` and `file:///…`. A user and password inside the address are taken
    /// out of it: they become the credential, unless one is given.
    pub fn parse(url: &str, credentials: Option<Credentials>) -> Result<Self, GitError> {
        let bad = |why: &str| GitError::BadUrl { url: hide_userinfo(url), why: why.to_owned() };
        if url.chars().any(|c| c.is_control() || c.is_whitespace() || c == '\\') {
            return Err(bad("it has a space or a control character in it"));
        }
        if let Some(path) = url.strip_prefix("file://") {
            if !path.starts_with('/') || path.split('/').any(|part| part == "..") {
                return Err(bad("a file address is an absolute path without `..`"));
            }
            return Ok(Self {
                url: url.into(),
                name: display_name(path),
                credentials: None,
                authorities: None,
            });
        }
        let (scheme, rest) = url
            .split_once("://")
            .filter(|(scheme, _)| matches!(*scheme, "http" | "https"))
            .ok_or_else(|| bad("it has to start with https:// or http://"))?;
        let (authority, path) = rest.split_once('/').ok_or_else(|| bad("it has no path"))?;
        let (userinfo, host) = match authority.rsplit_once('@') {
            Some((userinfo, host)) => (Some(userinfo), host),
            None => (None, authority),
        };
        if host.is_empty() || host.starts_with('-') || host.starts_with(':') {
            return Err(bad("it has no host"));
        }
        if path.trim_matches('/').is_empty() || path.contains(['?', '#']) {
            return Err(bad("it has no path of a repository"));
        }
        if path.split('/').any(|part| part == ".." || part == ".") {
            return Err(bad("its path has `..` in it"));
        }
        let inside = userinfo.map(|userinfo| {
            let (username, password) = userinfo.split_once(':').unwrap_or((userinfo, ""));
            Credentials::basic(percent::decode(username), Secret::new(percent::decode(password)))
        });
        Ok(Self {
            url: format!("{scheme}://{host}/{path}"),
            name: display_name(path),
            credentials: credentials.or(inside),
            authorities: None,
        })
    }

    /// Believes the certificates of this file (see [`authorities`](super::authorities)), for this host alone.
    #[must_use]
    pub fn trusting(self, authorities: PathBuf) -> Self {
        Self { authorities: Some(authorities), ..self }
    }

    pub(super) fn authorities(&self) -> Option<&Path> {
        self.authorities.as_deref()
    }

    /// Without any credential: safe to print and to give to git as an argument.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// `owner/name`, for messages.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The last part of the name: the folder that a clone makes.
    pub fn folder(&self) -> &str {
        self.name.rsplit('/').next().unwrap_or(&self.name)
    }

    /// What stands behind `Authorization:` for this remote.
    pub(super) fn authorization(&self) -> Option<String> {
        self.credentials.as_ref()?.authorization_value()
    }

    /// The one transport that leads there.
    pub(super) fn transport(&self) -> &str {
        self.url.split_once("://").map_or("https", |(scheme, _)| scheme)
    }

    pub(super) fn is_file(&self) -> bool {
        self.url.starts_with("file://")
    }

    /// `https://host/`: what a credential is bound to.
    pub(super) fn origin(&self) -> String {
        let mut parts = self.url.splitn(4, '/');
        let (scheme, _, host) = (parts.next(), parts.next(), parts.next());
        format!("{}//{}/", scheme.unwrap_or_default(), host.unwrap_or_default())
    }
}

fn display_name(path: &str) -> String {
    let path = path.trim_matches('/');
    let path = path.strip_suffix(".git").unwrap_or(path).trim_end_matches('/');
    let mut parts: Vec<&str> = path.rsplit('/').take(2).collect();
    parts.reverse();
    parts.join("/")
}

fn hide_userinfo(url: &str) -> String {
    let shown: String = url.chars().filter(|c| !c.is_control()).take(200).collect();
    match (shown.find("://"), shown.rfind('@')) {
        (Some(scheme), Some(at)) if at > scheme => format!("{}***{}", &shown[..scheme + 3], &shown[at..]),
        _ => shown,
    }
}

/// Refuses what git could take for an option, a range, a path or an expression.
pub fn check_revision(revision: &str) -> Result<(), GitError> {
    let bad_part = |part: &str| part.is_empty() || part.starts_with('.') || part.ends_with(".lock");
    let ok = !revision.is_empty()
        && revision.len() <= 255
        && !revision.starts_with(['-', '/', '@', '+'])
        && !revision.ends_with(['/', '.'])
        && !revision.contains("..")
        && !revision.contains("@{")
        && !revision.chars().any(|c| c.is_control() || c.is_whitespace() || "~^:?*[\\".contains(c))
        && !revision.split('/').any(bad_part);
    if ok {
        Ok(())
    } else {
        Err(GitError::BadRevision(revision.chars().filter(|c| !c.is_control()).collect()))
    }
}

pub fn check_path(path: &str) -> Result<(), GitError> {
    let ok = !path.is_empty()
        && path.len() <= 4096
        && !path.chars().any(char::is_control)
        && !path
            .split('/')
            .any(|part| part.is_empty() || part == "." || part == ".." || part.eq_ignore_ascii_case(".git"));
    if ok { Ok(()) } else { Err(GitError::BadPath(path.chars().filter(|c| !c.is_control()).collect())) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_in_an_address_never_stays_in_it() {
        let remote = Remote::parse("https://me:s%40cret@git.example:8443/team/app.git", None).unwrap();
        assert_eq!(remote.url(), "https://git.example:8443/team/app.git");
        assert_eq!((remote.name(), remote.folder()), ("team/app", "app"));
        assert_eq!(remote.origin(), "https://git.example:8443/");
        // me:s@cret
        assert_eq!(remote.authorization().as_deref(), Some("Basic bWU6c0BjcmV0"));
        let error = Remote::parse("ftp://me:secret@host/x", None).unwrap_err().to_string();
        assert!(!error.contains("secret"), "{error}");
    }

    #[test]
    fn addresses_that_start_programs_or_leave_their_place_are_refused() {
        for url in [
            "--upload-pack=touch /tmp/x",
            "ext::sh -c id",
            "ssh://-oProxyCommand=id/x",
            "git@host:owner/name",
            "https://-host/owner/name",
            "https://host",
            "https://host/",
            "https://host/a/../../b",
            "https://host/a\nb",
            "file://relative",
            "file:///a/../etc",
            "/etc",
        ] {
            assert!(Remote::parse(url, None).is_err(), "{url}");
        }
    }

    #[test]
    fn revisions_and_paths_that_git_would_read_otherwise_are_refused() {
        for revision in [
            "",
            "-x",
            "--upload-pack=x",
            "a..b",
            "a:b",
            "a b",
            "a~1",
            "x@{1}",
            "a^",
            "a\n",
            "/a",
            "a//b",
            "x.lock",
        ] {
            assert!(check_revision(revision).is_err(), "{revision:?}");
        }
        for revision in ["main", "feature/a-b_c", "v1.2.3", "HEAD", "refs/heads/main", "0123abc"] {
            assert!(check_revision(revision).is_ok(), "{revision:?}");
        }
        for path in ["", "/etc/passwd", "../x", "a/../b", "a//b", ".git/config", "a\0"] {
            assert!(check_path(path).is_err(), "{path:?}");
        }
        assert!(check_path("ci/codefresh.yml").is_ok());
    }
}
