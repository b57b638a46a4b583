//! The cluster's own CA, its certificates and the kubeconfig. Made on the first start and kept.

use std::io;
use std::net::{IpAddr, Ipv4Addr};
use std::path::Path;
use std::sync::Arc;

use rcgen::{
    BasicConstraints, CertificateParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer,
    KeyPair, KeyUsagePurpose, SanType,
};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};

use crate::value::base64_encode;

#[derive(Debug, thiserror::Error)]
pub(crate) enum TlsError {
    #[error("the cluster's keys cannot be read or written")]
    Files(#[from] io::Error),
    #[error("a certificate could not be made; remove the pki folder to have new ones made")]
    Certificate(#[from] rcgen::Error),
    #[error("the TLS set-up was refused; remove the pki folder to have new certificates made")]
    Rustls(#[from] rustls::Error),
    #[error("the TLS set-up was refused: {0}; remove the pki folder to have new certificates made")]
    Other(String),
}

pub(crate) struct Pki {
    pub(crate) ca_pem: String,
    pub(crate) server: Arc<rustls::ServerConfig>,
    pub(crate) client_cert_pem: String,
    pub(crate) client_key_pem: String,
}

/// Reads a file, or writes it (readable by the owner only) with what `make` gives.
pub(crate) fn keep(path: &Path, make: impl FnOnce() -> String) -> io::Result<String> {
    match std::fs::read_to_string(path) {
        Ok(text) if !text.is_empty() => Ok(text),
        Ok(_) => write_private(path, make()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => write_private(path, make()),
        Err(error) => Err(error),
    }
}

/// Nobody else looks into it, whoever made it and when.
pub(crate) fn private_folder(path: &Path) -> io::Result<()> {
    use std::os::unix::fs::{DirBuilderExt as _, PermissionsExt as _};
    std::fs::DirBuilder::new().recursive(true).mode(0o700).create(path)?;
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o700))
}

/// Writes beside and renames, so that a crash leaves the old file or the new one, never half of it.
pub(crate) fn write_private(path: &Path, text: String) -> io::Result<String> {
    use std::io::Write as _;
    use std::os::unix::fs::OpenOptionsExt as _;
    let beside = path.with_extension("new");
    let mut file =
        std::fs::OpenOptions::new().create(true).truncate(true).write(true).mode(0o600).open(&beside)?;
    file.write_all(text.as_bytes())?;
    file.sync_all()?;
    std::fs::rename(&beside, path)?;
    Ok(text)
}

impl Pki {
    pub(crate) fn load(dir: &Path, service_ip: Ipv4Addr, listen: IpAddr) -> Result<Pki, TlsError> {
        private_folder(dir)?;
        let ca_key = KeyPair::from_pem(&keep(&dir.join("ca.key"), new_key)?)?;
        let ca_params = ca_params()?;
        let ca_pem = match std::fs::read_to_string(dir.join("ca.crt")) {
            Ok(pem) if !pem.is_empty() => pem,
            _ => write_private(&dir.join("ca.crt"), ca_params.self_signed(&ca_key)?.pem())?,
        };
        let issuer = Issuer::new(ca_params, ca_key);

        let client_key = KeyPair::from_pem(&keep(&dir.join("admin.key"), new_key)?)?;
        let client_cert_pem = match std::fs::read_to_string(dir.join("admin.crt")) {
            Ok(pem) if !pem.is_empty() => pem,
            _ => {
                let mut params = named("kubernetes-admin", Some("system:masters"));
                params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
                write_private(&dir.join("admin.crt"), params.signed_by(&client_key, &issuer)?.pem())?
            }
        };
        // The server's own certificate is made anew each time, because its addresses may have changed.
        let server_key = KeyPair::generate()?;
        let mut params = named("kube-apiserver", None);
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
        for name in [
            "localhost",
            "kubernetes",
            "kubernetes.default",
            "kubernetes.default.svc",
            "kubernetes.default.svc.cluster.local",
            "host.containers.internal",
        ] {
            params.subject_alt_names.push(SanType::DnsName(name.try_into()?));
        }
        for address in [
            IpAddr::V4(Ipv4Addr::LOCALHOST),
            IpAddr::V6(std::net::Ipv6Addr::LOCALHOST),
            IpAddr::V4(service_ip),
            listen,
        ] {
            params.subject_alt_names.push(SanType::IpAddress(address));
        }
        let server_cert = params.signed_by(&server_key, &issuer)?;
        let server = server_config(&ca_pem, server_cert.der().clone(), &server_key)?;
        Ok(Pki { ca_pem, server, client_cert_pem, client_key_pem: client_key.serialize_pem() })
    }
}

fn new_key() -> String {
    KeyPair::generate().map(|key| key.serialize_pem()).unwrap_or_default()
}

fn named(common: &str, organization: Option<&str>) -> CertificateParams {
    let mut params = CertificateParams::default();
    params.distinguished_name = DistinguishedName::new();
    params.distinguished_name.push(DnType::CommonName, common);
    if let Some(organization) = organization {
        params.distinguished_name.push(DnType::OrganizationName, organization);
    }
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature, KeyUsagePurpose::KeyEncipherment];
    params
}

fn ca_params() -> Result<CertificateParams, TlsError> {
    let mut params = named("slipway-devcluster-ca", None);
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages =
        vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign, KeyUsagePurpose::DigitalSignature];
    Ok(params)
}

fn server_config(
    ca_pem: &str,
    cert: CertificateDer<'static>,
    key: &KeyPair,
) -> Result<Arc<rustls::ServerConfig>, TlsError> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut roots = rustls::RootCertStore::empty();
    let ca = CertificateDer::from_pem_slice(ca_pem.as_bytes()).map_err(|e| TlsError::Other(e.to_string()))?;
    roots.add(ca)?;
    let verifier =
        rustls::server::WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider.clone())
            .allow_unauthenticated()
            .build()
            .map_err(|e| TlsError::Other(e.to_string()))?;
    let key = PrivateKeyDer::try_from(key.serialize_der()).map_err(|e| TlsError::Other(e.to_owned()))?;
    let mut config = rustls::ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_client_cert_verifier(verifier)
        .with_single_cert(vec![cert], key)?;
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    Ok(Arc::new(config))
}

/// The file that `kubectl` and everything else reads.
pub(crate) fn kubeconfig(url: &str, pki: &Pki, token: &str) -> String {
    let data = |pem: &str| base64_encode(pem.as_bytes());
    format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: slipway\n\
         clusters:\n- name: slipway\n  cluster:\n    server: {url}\n    certificate-authority-data: {}\n\
         users:\n- name: slipway-admin\n  user:\n    client-certificate-data: {}\n    client-key-data: {}\n\
         - name: slipway-token\n  user:\n    token: {token}\n\
         contexts:\n- name: slipway\n  context:\n    cluster: slipway\n    user: slipway-admin\n    namespace: default\n\
         - name: slipway-token\n  context:\n    cluster: slipway\n    user: slipway-token\n    namespace: default\n",
        data(&pki.ca_pem),
        data(&pki.client_cert_pem),
        data(&pki.client_key_pem),
    )
}
