//! Names of images: `[host[:port]/]path[:tag][@digest]`, and nothing that an engine reads as a place on its machine.
//!
//! Engines of the containers family take `dir:/…`, `docker-archive:…`, `oci:…` and more where a name is expected, and
//! open files of their machine with their own rights; one that is not there is told, too. A name of a registry or of an
//! image that was made here is all that a pipeline needs.

use std::fmt;

const NAME_BYTES_MAX: usize = 512;
/// Before a colon they are no name of an image for Podman and Buildah.
const TRANSPORTS: [&str; 12] = [
    "atomic",
    "containers-storage",
    "dir",
    "docker",
    "docker-archive",
    "docker-daemon",
    "http",
    "https",
    "oci",
    "oci-archive",
    "ostree",
    "sif",
];

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ImageError;

impl fmt::Display for ImageError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("is not the name of an image: write [host[:port]/]path[:tag][@digest], without a transport such as dir: or oci:")
    }
}

impl std::error::Error for ImageError {}

/// Whether this is a name that an engine can only look for among images.
pub fn check(name: &str) -> Result<(), ImageError> {
    if is_reference(name) { Ok(()) } else { Err(ImageError) }
}

fn is_reference(name: &str) -> bool {
    if name.len() > NAME_BYTES_MAX {
        return false;
    }
    let (name, digest) = match name.split_once('@') {
        Some((name, digest)) => (name, Some(digest)),
        None => (name, None),
    };
    if !digest.is_none_or(is_digest) {
        return false;
    }
    let (host, rest) = match name.split_once('/') {
        Some((host, rest)) if host.contains(':') => (Some(host), rest),
        _ => (None, name),
    };
    if !host
        .is_none_or(|host| host.split_once(':').is_some_and(|(host, port)| is_name(host) && is_port(port)))
    {
        return false;
    }
    let (path, tag) = match rest.rsplit_once(':') {
        Some((path, tag)) => (path, Some(tag)),
        None => (rest, None),
    };
    let known = |path: &str| TRANSPORTS.contains(&path.to_ascii_lowercase().as_str());
    if tag.is_some() && host.is_none() && known(path) {
        return false;
    }
    path.split('/').all(is_name) && tag.is_none_or(is_tag)
}

fn is_name(part: &str) -> bool {
    part.starts_with(|c: char| c.is_ascii_alphanumeric())
        && part.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
        && !part.contains("..")
}

fn is_port(port: &str) -> bool {
    port.parse::<u16>().is_ok() && port.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_tag(tag: &str) -> bool {
    tag.len() <= 128
        && tag.starts_with(|c: char| c.is_ascii_alphanumeric() || c == '_')
        && tag.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-'))
}

fn is_digest(digest: &str) -> bool {
    digest.split_once(':').is_some_and(|(algorithm, hex)| {
        is_name(algorithm) && hex.len() >= 32 && hex.bytes().all(|byte| byte.is_ascii_hexdigit())
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_registries_and_of_this_machine_are_images() {
        for name in [
            "alpine",
            "alpine:3.20",
            "library/alpine:latest",
            "localhost/slipway/demo-base:1",
            "registry.example:5000/team/app:v1.2_3-rc",
            "quay.io/a/b@sha256:0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef",
            "r.example/a:t@sha256:0123456789abcdef0123456789abcdef",
            "127.0.0.1:5000/app",
            "dir/app:1",
            "oci",
            "registry.example:5000/dir:1",
        ] {
            assert_eq!(check(name), Ok(()), "{name}");
        }
    }

    #[test]
    fn nothing_that_leads_to_a_file_or_to_a_flag_is_an_image() {
        for name in [
            "",
            "-v",
            "--privileged",
            "dir:/etc",
            "dir:x",
            "DIR:x",
            "oci:/var/lib:latest",
            "oci:x",
            "docker-archive:/etc/shadow",
            "docker-archive:shadow",
            "oci-archive:x.tar",
            "containers-storage:x",
            "containers-storage:[overlay@/var/lib/containers/storage]x",
            "docker://alpine",
            "docker-daemon:alpine:latest",
            "docker:alpine",
            "/etc/passwd",
            "./x",
            "../x",
            "a//b",
            "a/../b",
            "a b",
            "a\nb",
            "a:b:c",
            "a:",
            "host:port/x",
            "host:99999/x",
            "a@sha256:xyz",
            "a@",
            "tarball:a,b",
            "a:tag/with",
            "$(id)",
        ] {
            assert_eq!(check(name), Err(ImageError), "{name:?}");
        }
    }
}
