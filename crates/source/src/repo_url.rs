//! Repository addresses: which are allowed at all, and when two texts name the same repository.

/// Why an address is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum RepoUrlError {
    #[error("the repository address is empty; set `repoURL`")]
    Empty,
    #[error("the repository address starts with `-` or has control characters or blanks; correct `repoURL`")]
    Hostile,
    #[error("repository addresses with `{0}` are not allowed here; use https:// or ssh://")]
    Scheme(String),
    #[error("the repository address carries a password; put it into a repository Secret instead")]
    Password,
}

/// Accepts https, http, ssh, git and scp-like addresses; local ones only where `allow_local` says so.
///
/// Everything else (`ext::`, `-oProxyCommand`, helper transports) could run programs on this machine.
pub fn check_repo_url(url: &str, allow_local: bool) -> Result<(), RepoUrlError> {
    if url.is_empty() {
        return Err(RepoUrlError::Empty);
    }
    if url.starts_with('-') || url.chars().any(|c| c.is_control() || c == ' ') {
        return Err(RepoUrlError::Hostile);
    }
    if let Some((scheme, rest)) = url.split_once("://") {
        let authority = rest.split('/').next().unwrap_or_default();
        return match scheme.to_ascii_lowercase().as_str() {
            "https" | "http" if userinfo(authority).is_some_and(|u| u.contains(':')) => {
                Err(RepoUrlError::Password)
            }
            "https" | "http" | "ssh" | "git" => {
                let host = authority.rsplit('@').next().unwrap_or_default();
                if host.is_empty() || host.starts_with('-') || authority.starts_with('-') {
                    return Err(RepoUrlError::Hostile);
                }
                Ok(())
            }
            "file" if allow_local => Ok(()),
            other => Err(RepoUrlError::Scheme(format!("{other}://"))),
        };
    }
    if let Some(end) = url.find("::") {
        return Err(RepoUrlError::Scheme(url[..end + 2].to_owned()));
    }
    match url.split_once(':') {
        // scp-like: git@host:path. A slash before the colon makes it a local path.
        Some((host, path)) if !host.contains('/') => {
            let host = host.rsplit('@').next().unwrap_or_default();
            if host.is_empty() || host.starts_with('-') || path.starts_with('-') {
                return Err(RepoUrlError::Hostile);
            }
            Ok(())
        }
        _ if allow_local && url.starts_with('/') => Ok(()),
        _ => Err(RepoUrlError::Scheme("a local path".to_owned())),
    }
}

/// The folder that an address of this machine names.
pub(crate) fn local_path(url: &str) -> Option<std::path::PathBuf> {
    let path = url.strip_prefix("file://").unwrap_or(url);
    path.starts_with('/').then(|| path.into())
}

/// One spelling for all spellings of a repository: no scheme, user, port or `.git`, in lower case.
///
/// A push event and an Application name the same repository when these are equal. Compared literally: an
/// address with pattern characters matches nothing but itself.
pub fn normalise_repo_url(url: &str) -> String {
    let lower = url.trim().to_lowercase();
    let (local, rest) = match lower.split_once("://") {
        Some(("file", rest)) => (true, rest.to_owned()),
        Some((_, rest)) => (false, rest.to_owned()),
        None if lower.starts_with('/') => (true, lower.clone()),
        None => (false, lower.replacen(':', "/", 1)),
    };
    let rest = rest.trim_end_matches('/');
    let rest = rest.strip_suffix(".git").unwrap_or(rest);
    if local {
        return rest.to_owned();
    }
    let (authority, path) = rest.split_once('/').unwrap_or((rest, ""));
    let host = authority.rsplit('@').next().unwrap_or_default();
    // A loopback port tells two servers apart; a public one is only a detour to the same one.
    let bare = host.split(':').next().unwrap_or_default();
    let host = if matches!(bare, "localhost" | "127.0.0.1") { host } else { bare };
    format!("{host}/{}", path.trim_matches('/'))
}

/// Takes user names and passwords out of addresses inside a text: for messages, and for everything that leaves a cluster. Who is
/// named in an address for `ssh` has no secret there.
pub fn without_userinfo(text: &str) -> String {
    let outside = |c: char| c.is_whitespace() || matches!(c, '\'' | '"' | '`');
    let mut out = String::with_capacity(text.len());
    let mut rest = text;
    // The end of the word that was looked at last and its last `@`, as places of the text: looked for once in each word, because
    // whoever writes the text may have put thousands of addresses into one.
    let (mut word_end, mut last_at) = (0, None);
    while let Some(found) = rest.find("://") {
        let (before, after) = rest.split_at(found + 3);
        out.push_str(before);
        let start = text.len() - after.len();
        let end = after.find(|c| c == '/' || outside(c)).unwrap_or(after.len());
        let mut end_of_userinfo = after[..end].rfind('@');
        if end_of_userinfo.is_none() && !is_host_and_port(&after[..end]) {
            // A password with a slash in it: nobody can ask such an address, and it is written down all the same.
            if start > word_end {
                let word = &after[..after.find(outside).unwrap_or(after.len())];
                (word_end, last_at) = (start + word.len(), word.rfind('@').map(|at| start + at));
            }
            end_of_userinfo = last_at.and_then(|at| at.checked_sub(start));
        }
        match end_of_userinfo {
            Some(at) if before.ends_with("ssh://") && !after[..at].contains(':') => {
                out.push_str(&after[..=at]);
                rest = &after[at + 1..];
            }
            Some(at) => {
                out.push_str("***@");
                rest = &after[at + 1..];
            }
            None => rest = after,
        }
    }
    out.push_str(rest);
    out
}

fn is_host_and_port(authority: &str) -> bool {
    // The colons of an address of IPv6 are not the one before a port.
    let after = authority.rsplit_once(']').map_or(authority, |(_, after)| after);
    after.split_once(':').is_none_or(|(_, port)| port.chars().all(|c| c.is_ascii_digit()))
}

fn userinfo(authority: &str) -> Option<&str> {
    authority.rsplit_once('@').map(|(user, _)| user)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_that_could_run_programs_are_refused() {
        for url in [
            "",
            "--upload-pack=/bin/sh",
            "ext::sh -c id",
            "ext::sh%20-c%20id",
            "fd::17/foo",
            "ssh://-oProxyCommand=id/x",
            "ssh://git@-oProxyCommand=id/x",
            "-oProxyCommand=id:x",
            "git@host:-x",
            "https://host/x\n--upload-pack=y",
            "file:///etc",
            "/srv/git/x",
            "../x",
            "https://user:password@host/x",
            "ftp://host/x",
        ] {
            assert!(check_repo_url(url, false).is_err(), "{url}");
        }
        for url in
            ["https://host/x.git", "http://127.0.0.1:3000/a/b", "ssh://git@host:22/x", "git@host:team/x.git"]
        {
            assert_eq!(check_repo_url(url, false), Ok(()), "{url}");
        }
        assert_eq!(check_repo_url("file:///srv/x", true), Ok(()));
        assert_eq!(check_repo_url("/srv/x", true), Ok(()));
    }

    #[test]
    fn spellings_of_one_repository_are_one() {
        let one = normalise_repo_url("https://github.com/Team/App.git");
        for url in [
            "https://github.com/team/app",
            "https://user@github.com/team/app/",
            "git@github.com:team/app.git",
            "ssh://git@github.com:22/team/app.git",
        ] {
            assert_eq!(normalise_repo_url(url), one, "{url}");
        }
        assert_ne!(normalise_repo_url("https://github.com/team/app2"), one);
        assert_ne!(normalise_repo_url("http://127.0.0.1:1/a"), normalise_repo_url("http://127.0.0.1:2/a"));
        assert_eq!(normalise_repo_url("file:///srv/x.git"), "/srv/x");
        assert_eq!(normalise_repo_url("/srv/x"), "/srv/x");
    }

    #[test]
    fn messages_lose_user_and_password() {
        let text = "fatal: unable to access 'https://me:hunter2@host/x.git/': 403";
        assert_eq!(without_userinfo(text), "fatal: unable to access 'https://***@host/x.git/': 403");
        for (text, without) in [
            ("https://token@host/x", "https://***@host/x"),
            ("https://me:se@cret@host", "https://***@host"),
            ("https://me:se/cret@host/x", "https://***@host/x"),
            ("oci://me:secret@host/a and \"http://b:c@d/e\"", "oci://***@host/a and \"http://***@d/e\""),
            ("ssh://git@host/x", "ssh://git@host/x"),
            ("ssh://git:secret@host/x", "ssh://***@host/x"),
            ("https://host:8443/a@v1, https://[::1]:80/b@2", "https://host:8443/a@v1, https://[::1]:80/b@2"),
            ("git@host:x and ://", "git@host:x and ://"),
            ("https://a:b/c@d and https://a:b/c://e:f/g@h", "https://***@d and https://***@h"),
            ("://a:b/://c:d", "://a:b/://c:d"),
        ] {
            assert_eq!(without_userinfo(text), without, "{text}");
        }
    }

    #[test]
    fn a_text_that_was_made_to_take_long_does_not() {
        let text = format!("x@{}", "://a:b".repeat(200_000));
        let started = std::time::Instant::now();
        assert_eq!(without_userinfo(&text), text);
        assert!(started.elapsed() < std::time::Duration::from_secs(5), "{:?}", started.elapsed());
    }
}
