//! TLS by the process itself: a certificate and its key in files, which others renew.
//!
//! In: two paths. Out: what a connection is accepted with. The files are looked at when somebody connects, at most every few
//! seconds: nothing runs while nobody comes. A pair that does not fit is refused with the reason and the last good one goes on,
//! because whoever renews two files writes one after the other.

use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio_rustls::TlsAcceptor;

const LOOK_EVERY: Duration = Duration::from_secs(2);

/// Why a certificate and its key cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    #[error("cannot read {path}: {why}")]
    Unreadable { path: PathBuf, why: io::Error },
    #[error("{path} holds no {what} in PEM form: {why}")]
    Malformed { path: PathBuf, what: &'static str, why: String },
    #[error("the certificate of {certificate} and the key of {key} cannot be used together: {why}")]
    Unusable { certificate: PathBuf, key: PathBuf, why: rustls::Error },
}

/// A certificate and its key, as they are now.
#[derive(Debug)]
pub struct Tls {
    certificate: PathBuf,
    key: PathBuf,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    config: Arc<ServerConfig>,
    texts: [Vec<u8>; 2],
    looked: Instant,
}

impl Tls {
    /// Reads both files.
    pub fn read(certificate: &Path, key: &Path) -> Result<Self, TlsError> {
        let texts = [read(certificate)?, read(key)?];
        let config = config(certificate, key, &texts)?;
        let current = Mutex::new(Current { config, texts, looked: Instant::now() });
        Ok(Self { certificate: certificate.to_owned(), key: key.to_owned(), current })
    }

    /// For the next connection. Reads two small files now and then; they are on the machine's own disk.
    pub(crate) fn acceptor(&self) -> TlsAcceptor {
        let mut current = self.current.lock().unwrap_or_else(PoisonError::into_inner);
        if current.looked.elapsed() >= LOOK_EVERY {
            current.looked = Instant::now();
            if let Err(error) = self.renew(&mut current) {
                tracing::warn!(%error, "A renewed certificate is not used; the one before is.");
            }
        }
        TlsAcceptor::from(current.config.clone())
    }

    fn renew(&self, current: &mut Current) -> Result<(), TlsError> {
        let texts = [read(&self.certificate)?, read(&self.key)?];
        if texts != current.texts {
            current.config = config(&self.certificate, &self.key, &texts)?;
            current.texts = texts;
            tracing::info!(certificate = %self.certificate.display(), "The certificate was renewed.");
        }
        Ok(())
    }
}

fn read(path: &Path) -> Result<Vec<u8>, TlsError> {
    std::fs::read(path).map_err(|why| TlsError::Unreadable { path: path.to_owned(), why })
}

fn config(certificate: &Path, key: &Path, texts: &[Vec<u8>; 2]) -> Result<Arc<ServerConfig>, TlsError> {
    let malformed = |path: &Path, what, why: String| TlsError::Malformed { path: path.to_owned(), what, why };
    let chain = CertificateDer::pem_slice_iter(&texts[0])
        .collect::<Result<Vec<_>, _>>()
        .map_err(|error| malformed(certificate, "certificate", error.to_string()))?;
    if chain.is_empty() {
        return Err(malformed(certificate, "certificate", "no BEGIN CERTIFICATE".into()));
    }
    let private = PrivateKeyDer::from_pem_slice(&texts[1])
        .map_err(|error| malformed(key, "private key", error.to_string()))?;
    let unusable = |why| TlsError::Unusable { certificate: certificate.into(), key: key.into(), why };
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .map_err(unusable)?
        .with_no_client_auth()
        .with_single_cert(chain, private)
        .map_err(unusable)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}
