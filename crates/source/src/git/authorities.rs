//! Whom git believes: the system's authorities, and one more. Git takes one file, so both have to be in it.

use std::path::Path;

/// Where systems keep the authorities that they trust, as PEM; the first that is there.
const SYSTEM: [&str; 4] = [
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
];

/// What the system trusts (or `SSL_CERT_FILE` names), and these certificates besides: what a file for
/// [`Remote::trusting`](super::Remote::trusting) holds.
pub fn authorities(besides: &str) -> String {
    let named = std::env::var_os("SSL_CERT_FILE");
    let places = named.iter().map(Path::new).chain(SYSTEM.map(Path::new));
    // A machine without any has to do with what it is given.
    let mut all = places.into_iter().find_map(|path| std::fs::read_to_string(path).ok()).unwrap_or_default();
    if !all.is_empty() && !all.ends_with('\n') {
        all.push('\n');
    }
    all + besides
}
