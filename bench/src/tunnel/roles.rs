//! The two ends of our own tunnel as processes of their own: this program, started again with another word.

use std::io::{BufRead as _, BufReader, Write as _};
use std::net::SocketAddr;
use std::ops::Range;
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use serde_json::{Value, json};
use slipway_model::Secret;
use slipway_server::{Config, Seams, Server, Tls};
use slipway_store::identity::Subject;
use slipway_store::{Scope, Store, runtimes};
use slipway_tunnel::{Agent, Carrier, Connection, Dial};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

pub(crate) const PLATFORM: &str = "tunnel-platform";
pub(crate) const AGENT: &str = "tunnel-agent";

/// A process that ends with whoever started it: its input ends then.
struct Part {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<std::process::ChildStdout>,
}

impl Part {
    fn start(role: &str, words: &[&str]) -> anyhow::Result<Self> {
        let mut command = Command::new(std::env::current_exe()?);
        command.arg(role).args(words).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn()?;
        let output = BufReader::new(child.stdout.take().context("it is piped")?);
        Ok(Self { input: child.stdin.take(), child, output })
    }

    fn line(&mut self) -> anyhow::Result<String> {
        let mut line = String::new();
        self.output.read_line(&mut line)?;
        anyhow::ensure!(!line.is_empty(), "a part of the bench ended");
        Ok(line)
    }

    /// Bytes in memory.
    fn resident(&self) -> anyhow::Result<f64> {
        crate::resident(&self.child.id().to_string())
    }
}

impl Drop for Part {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.wait();
    }
}

pub(super) struct Platform {
    part: Part,
    /// Where callers come, without TLS.
    pub(super) plain: String,
    told: Value,
}

impl Platform {
    /// With so many runtimes, which have not connected yet.
    pub(super) fn start(runtimes: usize) -> anyhow::Result<Self> {
        let mut part = Part::start(PLATFORM, &[&runtimes.to_string()])?;
        let told: Value = serde_json::from_str(&part.line()?)?;
        let plain = told["plain"].as_str().context("an address")?.to_owned();
        Ok(Self { part, plain, told })
    }

    /// Where callers reach a runtime.
    pub(super) fn path(&self, number: usize) -> String {
        format!("/tunnels/{}-bench-{number}/webhooks", self.told["account"].as_str().unwrap_or_default())
    }

    /// One process with the tunnels of these runtimes, which are open.
    pub(super) async fn agent(
        &self,
        which: Range<usize>,
        carrier: &str,
        local: &str,
    ) -> anyhow::Result<AgentPart> {
        let tls = self.told["tls"].as_str().context("an address")?;
        let ca = self.told["ca"].as_str().context("a path")?;
        let mut part = Part::start(AGENT, &[tls, ca, carrier, local])?;
        let keys = self.told["keys"].as_array().context("keys")?;
        let input = part.input.as_mut().context("it is piped")?;
        writeln!(input, "{}", Value::from(keys[which].to_vec()))?;
        tokio::task::spawn_blocking(move || {
            part.line()?;
            Ok(AgentPart(part))
        })
        .await?
    }

    pub(super) fn resident(&self) -> anyhow::Result<f64> {
        self.part.resident()
    }
}

pub(super) struct AgentPart(Part);

impl AgentPart {
    pub(super) fn resident(&self) -> anyhow::Result<f64> {
        self.0.resident()
    }
}

/// Until its input ends.
async fn until_left() {
    let _ = tokio::task::spawn_blocking(|| std::io::stdin().lines().for_each(drop)).await;
}

/// The platform: one listener with TLS, for tunnels, and one without, for callers.
pub(crate) async fn platform() -> anyhow::Result<()> {
    let count: usize = std::env::args().nth(2).context("how many runtimes?")?.parse()?;
    let folder = tempfile::tempdir()?;
    let config = Config {
        data: folder.path().to_owned(),
        public_url: "https://localhost".into(),
        network: Default::default(),
    };
    let store = Store::open(folder.path())?;
    let server = Server::beside(config, store.clone(), Seams::system(), CancellationToken::new())?;
    server.first_start("admin@slipway.local").await?.context("an empty folder")?;
    let account = server.first_account().await?.context("it was just made")?;
    let mut keys = Vec::new();
    for number in 0..count {
        let (scope, name) = (Scope::of(account), format!("bench-{number}"));
        let registered = name.clone();
        store.write(move |tx| runtimes::register(tx, scope, &registered, "", 1)).await?;
        keys.push(server.agent_key(account, Subject::Runtime, &name).await?.expose().clone());
    }
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let (certificate, key) = (folder.path().join("tls.crt"), folder.path().join("tls.key"));
    std::fs::write(&certificate, made.cert.pem())?;
    std::fs::write(&key, made.signing_key.serialize_pem())?;
    let tls = Arc::new(Tls::read(&certificate, &key)?);
    let router = slipway_server::router(&server);
    let mut addresses = Vec::new();
    for tls in [None, Some(tls)] {
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await?;
        addresses.push(listener.local_addr()?);
        tokio::spawn(slipway_server::serve_with(listener, tls, router.clone(), CancellationToken::new()));
    }
    let [plain, secured] = addresses[..] else { anyhow::bail!("two listeners") };
    let told = json!({"plain": plain.to_string(), "tls": format!("https://localhost:{}", secured.port()), "ca": certificate, "account": account.to_string(), "keys": keys});
    println!("{told}");
    until_left().await;
    Ok(())
}

/// The runtime's end: tunnels whose keys come on standard input.
pub(crate) async fn agent() -> anyhow::Result<()> {
    let word = |number: usize| std::env::args().nth(number).context("SERVER CA CARRIER LOCAL");
    let (server, ca, carrier, local) = (word(2)?, word(3)?, word(4)?, word(5)?);
    let local: SocketAddr = local.parse()?;
    let carrier = if carrier == "raw" { Carrier::Raw } else { Carrier::WebSocket };
    let mut roots = rustls::RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(ca)? {
        roots.add(certificate?)?;
    }
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder =
        rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions()?;
    let mut tls = builder.with_root_certificates(roots).with_no_client_auth();
    tls.alpn_protocols = vec![b"http/1.1".to_vec()];
    let tls = Arc::new(tls);
    let mut line = String::new();
    std::io::stdin().read_line(&mut line)?;
    let keys: Vec<String> = serde_json::from_str(&line)?;
    let mut states = Vec::new();
    for key in keys {
        let dial = Dial {
            server: slipway_tunnel::Server::parse(&server)?,
            path: slipway_tunnel::PATH,
            carrier,
            credential: Arc::new(Secret::new(key)),
            tls: tls.clone(),
            proxy: None,
        };
        let (state, heard) = watch::channel(Connection::Connecting);
        tokio::spawn(
            Agent { dial, local, state, traffic: std::sync::Arc::default() }.run(CancellationToken::new()),
        );
        states.push(heard);
    }
    for mut state in states {
        let opened = state.wait_for(|state| *state == Connection::Open);
        tokio::time::timeout(Duration::from_secs(60), opened).await.context("no tunnel")??;
    }
    println!("open");
    until_left().await;
    Ok(())
}
