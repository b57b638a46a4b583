//! K64: a runner says nothing to a server that cannot show who it is.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{BasicConstraints, CertificateParams, IsCa, Issuer, KeyPair};
use rustls::pki_types::{CertificateDer, PrivateKeyDer, pem::PemObject as _};
use slipway_model::Secret;
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

use crate::contract::next_id;
use crate::runner::Process;
use crate::server::Server;

/// An authority of our own, in a file as the system keeps them.
struct Authority {
    issuer: Issuer<'static, KeyPair>,
    file: tempfile::NamedTempFile,
}

fn authority() -> Authority {
    let key = KeyPair::generate().unwrap();
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), params.self_signed(&key).unwrap().pem()).unwrap();
    Authority { issuer: Issuer::new(params, key), file }
}

/// TLS before a server of ours, with a certificate for this name. Counts who got through, and so could say something.
async fn before(server: &Server, authority: &Authority, name: &str) -> (String, Arc<AtomicUsize>) {
    let key = KeyPair::generate().unwrap();
    let params = CertificateParams::new(vec![name.to_owned()]).unwrap();
    let certificate = params.signed_by(&key, &authority.issuer).unwrap().pem();
    let config =
        rustls::ServerConfig::builder_with_provider(Arc::new(rustls::crypto::aws_lc_rs::default_provider()))
            .with_safe_default_protocol_versions()
            .unwrap()
            .with_no_client_auth()
            .with_single_cert(
                vec![CertificateDer::from_pem_slice(certificate.as_bytes()).unwrap()],
                PrivateKeyDer::from_pem_slice(key.serialize_pem().as_bytes()).unwrap(),
            )
            .unwrap();
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    let behind = server.url.strip_prefix("http://").unwrap().to_owned();
    let through = Arc::new(AtomicUsize::new(0));
    let counted = through.clone();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            let (acceptor, behind, counted) = (acceptor.clone(), behind.clone(), counted.clone());
            tokio::spawn(async move {
                let Ok(mut outer) = acceptor.accept(stream).await else { return };
                counted.fetch_add(1, Ordering::SeqCst);
                let Ok(mut inner) = TcpStream::connect(behind).await else { return };
                let _ = tokio::io::copy_bidirectional(&mut outer, &mut inner).await;
            });
        }
    });
    (url, through)
}

const YAML: &str = "version: '1.0'\nsteps:\n  s: {image: x, commands: ['echo ran']}\n";

#[tokio::test]
async fn k64_a_runner_refuses_a_server_whose_certificate_is_not_trusted() {
    let server = Server::start().await;
    let (ours, foreign) = (authority(), authority());
    let folder = tempfile::tempdir().unwrap();
    let id = next_id("k64");
    server.add(server.build(&id, YAML));
    // Signed by somebody that this runner does not know; by the right one, for another host.
    for (case, authority, name) in [("foreign", &foreign, "localhost"), ("name", &ours, "other.example")] {
        let (url, through) = before(&server, authority, name).await;
        let data = folder.path().join(case);
        let runner = Process::start_at(&url, &data, &[("SSL_CERT_FILE", ours.file.path())]);
        let log = data.with_extension("log");
        let said = || std::fs::read_to_string(&log).unwrap_or_default();
        let until = std::time::Instant::now() + slipway_testkit::PATIENCE;
        while said().matches("does not trust").count() < 2 {
            assert!(std::time::Instant::now() < until, "{case}: {}", said());
            tokio::time::sleep(std::time::Duration::from_millis(50)).await;
        }
        runner.kill();
        assert_eq!(through.load(Ordering::SeqCst), 0, "{case}: nothing was said, no key and no question");
        assert!(said().contains("SSL_CERT_FILE"), "{case}: it says what to do: {}", said());
        assert!(server.get(&id).report.is_none(), "{case}: the build was not taken");
    }
    // The same runner with a certificate that it can check.
    let (url, through) = before(&server, &ours, "localhost").await;
    let data = folder.path().join("good");
    let runner = Process::start_at(&url, &data, &[("SSL_CERT_FILE", ours.file.path())]);
    assert_eq!(server.finish(&id).await.status(), "success");
    assert!(through.load(Ordering::SeqCst) > 0);
    runner.kill();
}

#[tokio::test]
async fn k64_a_registration_token_is_not_shown_to_a_foreign_certificate() {
    let server = Server::start().await;
    let (url, through) = before(&server, &authority(), "localhost").await;
    let data = tempfile::tempdir().unwrap();
    let token = Secret::new("a-token".to_owned());
    let error = slipway_runner::registered(&url, Some(&token), data.path(), None).await.err().unwrap();
    assert!(error.to_string().contains("does not trust"), "{error:#}");
    assert_eq!(through.load(Ordering::SeqCst), 0);
}

/// With the authority of the server alone, which the system does not know: the runner's own calls, the pipeline from Git,
/// a clone and a push go to the server, and nobody else is believed for it.
#[tokio::test]
async fn a_private_authority_of_the_server_counts_for_clones_from_its_git_host() {
    let server = Server::start().await;
    let (ours, foreign) = (authority(), authority());
    let (url, _) = before(&server, &ours, "localhost").await;
    let app = next_id("team/app");
    let yaml = "version: '1.0'\nsteps:\n  main_clone: {type: git-clone, repo: APP}\n  \
                edit: {image: x, working_directory: '${{main_clone}}', commands: ['echo 8 > version.txt']}\n  \
                commit: {type: git-commit, arguments: {repo: APP, git: builtin, working_directory: '${{main_clone}}', \
                commit_message: Raise, add: version.txt}}\n"
        .replace("APP", &app);
    let bare = server.repository(&app, &[("version.txt", "7\n"), ("codefresh.yml", &yaml)]);
    let folder = tempfile::tempdir().unwrap();
    let run = |name: &str, ca: &Authority, server: &str| {
        let pem = std::fs::read_to_string(ca.file.path()).unwrap();
        let client =
            slipway_api::Client::trusting(server, Secret::new("key".to_owned()), Some(pem.as_bytes()))
                .unwrap();
        let mut config = slipway_runner::Config::new("test", client, folder.path().join(name));
        config.executor = slipway_runner::ExecutorChoice::Host;
        config.shim = Some(crate::runner::SHIM.into());
        config.ca = Some(pem);
        let stop = tokio_util::sync::CancellationToken::new();
        (tokio::spawn(slipway_runner::run(config, stop.clone())), stop)
    };
    let order = |id: &str| {
        let mut taken = server.build(id, "");
        taken.git.base_url = taken.git.base_url.replace(&server.url, &url);
        let source = slipway_api::agent::PipelineSource::Git {
            repo: app.clone(),
            path: "codefresh.yml".into(),
            revision: None,
        };
        taken.source = source;
        server.add(taken);
    };
    let id = next_id("authority");
    order(&id);
    let (running, stop) = run("ours", &ours, &url);
    let record = server.finish(&id).await;
    assert_eq!(record.status(), "success", "{:#?}", record.logs);
    assert!(record.log("main_clone").contains("of https://localhost"), "{}", record.log("main_clone"));
    assert_eq!(crate::server::sh(&bare, "git show main:version.txt"), "8");
    stop.cancel();
    running.await.unwrap().unwrap();
    // One that is given for another address is not believed here.
    let id = next_id("authority");
    order(&id);
    let (running, stop) = run("foreign", &foreign, &server.url);
    let record = server.finish(&id).await;
    assert_eq!(record.status(), "error", "{:#?}", record.logs);
    assert!(record.log("Initializing Process").contains("certificate"), "{:#?}", record.logs);
    stop.cancel();
    running.await.unwrap().unwrap();
}
