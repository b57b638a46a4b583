//! One process that is a runtime: engines and reporters, the request router on its listener, and the tunnel that ends there.
//!
//! Who it is, the platform says, by its token; when that changes (it was renamed, or is reached otherwise), it starts over as that
//! one. A platform that is away stops nothing: engines go on, and what happened is reported afterwards.

use std::net::SocketAddr;
use std::time::Duration;

use slipway_api::runtime::RuntimeIdentity;
use slipway_api::{Client, ClientError};
use slipway_model::Backoff;
use slipway_runtime::{
    Front, Runtime, TunnelDial, TunnelState, front_router, keep_tunnel_inside, serve_front,
};
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

/// How callers come in.
pub(crate) struct Door {
    pub(crate) listener: TcpListener,
    pub(crate) external_host: Option<String>,
    /// What the operator says that it is; the platform has the last word.
    pub(crate) ingress_url: Option<String>,
    pub(crate) ca: Option<Vec<u8>>,
    pub(crate) raw_tunnel: bool,
    pub(crate) services: slipway_runtime::Services,
}

/// How often the platform is asked who this is, when nothing happens that gives reason to.
const ASK_EVERY: Duration = Duration::from_secs(20);
const PAUSE_LONGEST: Duration = Duration::from_secs(10);

/// Until it is stopped.
pub(crate) async fn connected(
    config: slipway_runtime::Config,
    client: Client,
    door: Door,
    stop: CancellationToken,
) -> anyhow::Result<()> {
    let address = crate::up::reachable(door.listener.local_addr()?);
    let last = Remembered::of(&config.data, &client);
    let Some(mut identity) = introduced(&client, &last, &stop).await? else { return Ok(()) };
    let mut listener = Some(door.listener);
    while !stop.is_cancelled() {
        if let Some(wanted) = &door.ingress_url {
            let wanted = wanted.trim_end_matches('/');
            anyhow::ensure!(
                wanted == identity.ingress_url,
                "the platform reaches this runtime {}, not at {wanted}: `slipway runtime set {} --ingress-url {wanted}` changes that",
                if identity.ingress_url.is_empty() {
                    "through a tunnel".to_owned()
                } else {
                    format!("at {}", identity.ingress_url)
                },
                identity.name
            );
        }
        let own = match listener.take() {
            Some(listener) => listener,
            None => TcpListener::bind(address).await?,
        };
        last.keep(&identity);
        let mut now = config.clone();
        now.name.clone_from(&identity.name);
        now.ingress_url.clone_from(&identity.ingress_url);
        let tunnel = match identity.ingress_url.is_empty() {
            true => Some(
                TunnelDial::new(&client, door.ca.as_deref(), door.raw_tunnel).map_err(anyhow::Error::msg)?,
            ),
            false => None,
        };
        tracing::info!(runtime = %identity.name, %address, tunnel = tunnel.is_some(), "This runtime serves requests.");
        let life = Life { stop: stop.child_token(), identity: identity.clone(), address };
        let inside = (door.external_host.clone(), door.services.clone());
        match life.run(now, &client, own, tunnel, inside).await? {
            Some(other) => identity = other,
            None => break,
        }
    }
    Ok(())
}

/// Who this was when the platform last said so, with this token: engines need not wait for a platform that is away.
struct Remembered {
    path: std::path::PathBuf,
    /// Of the token: with another one this is somebody else.
    digest: String,
}

#[derive(serde::Serialize, serde::Deserialize)]
struct Last {
    token: String,
    identity: RuntimeIdentity,
}

impl Remembered {
    fn of(folder: &std::path::Path, client: &Client) -> Self {
        use sha2::Digest as _;
        let digest = sha2::Sha256::digest(client.key().expose().as_bytes());
        let digest = digest.iter().map(|byte| format!("{byte:02x}")).collect();
        Self { path: folder.join("identity.json"), digest }
    }

    fn read(&self) -> Option<RuntimeIdentity> {
        let last: Last = serde_json::from_slice(&std::fs::read(&self.path).ok()?).ok()?;
        (last.token == self.digest).then_some(last.identity)
    }

    /// Without it the next start waits for the platform, and nothing else is lost.
    fn keep(&self, identity: &RuntimeIdentity) {
        if self.read().as_ref() == Some(identity) {
            return;
        }
        let last = Last { token: self.digest.clone(), identity: identity.clone() };
        let beside = self.path.with_extension("new");
        let kept = self.path.parent().map_or(Ok(()), std::fs::create_dir_all);
        let kept = kept
            .and_then(|()| std::fs::write(&beside, serde_json::to_vec(&last)?))
            .and_then(|()| std::fs::rename(&beside, &self.path));
        if let Err(error) = kept {
            tracing::debug!(%error, "Cannot write down who this runtime is.");
        }
    }
}

/// So often a platform that is away is asked before the runtime goes on as who it was.
const ASKED_IN_VAIN: u32 = 3;

/// Who the token says that this is. A platform that is away is waited for when it never said; one that refuses the token is an error.
async fn introduced(
    client: &Client,
    last: &Remembered,
    stop: &CancellationToken,
) -> anyhow::Result<Option<RuntimeIdentity>> {
    let mut backoff = Backoff::new(Duration::from_millis(200), PAUSE_LONGEST);
    loop {
        if backoff.failures() >= ASKED_IN_VAIN
            && let Some(identity) = last.read()
        {
            tracing::warn!(
                runtime = identity.name,
                "The platform is away; this runtime goes on as who it was."
            );
            return Ok(Some(identity));
        }
        let asking = client.get::<RuntimeIdentity>("/api/agent/runtime/self");
        let error = tokio::select! {
            answer = asking => match answer {
                Ok(identity) => return Ok(Some(identity)),
                Err(error) => error,
            },
            () = stop.cancelled() => return Ok(None),
        };
        match error {
            ClientError::Refused(body) if matches!(body.status, 401 | 403) => anyhow::bail!(
                "the platform refuses this token: it was revoked or replaced, its runtime was deleted, or it is no runtime's; `slipway runtime token NAME` makes a new one ({})",
                body.message
            ),
            other => {
                tracing::warn!(error = %other, "The platform cannot say who this runtime is; asking again.")
            }
        }
        tokio::select! {
            () = tokio::time::sleep(backoff.failed()) => {}
            () = stop.cancelled() => return Ok(None),
        }
    }
}

/// The runtime under one name.
struct Life {
    stop: CancellationToken,
    identity: RuntimeIdentity,
    address: SocketAddr,
}

impl Life {
    /// `Some`: it is another one from now on.
    async fn run(
        self,
        config: slipway_runtime::Config,
        client: &Client,
        listener: TcpListener,
        tunnel: Option<TunnelDial>,
        (external_host, services): (Option<String>, slipway_runtime::Services),
    ) -> anyhow::Result<Option<RuntimeIdentity>> {
        let (state, heard) = watch::channel(TunnelState::Connecting);
        let counts = config.tunnel.clone();
        let runtime = Runtime::new(config);
        let front = Front {
            handle: runtime.handle(),
            platform_url: self.identity.platform_url.clone(),
            external_host,
            tunnel: tunnel.is_some().then(|| heard.clone()),
            services,
        };
        let router = front_router(front);
        let serving = tokio::spawn(serve_front(listener, router.clone(), self.stop.clone()));
        let (address, stop) = (self.address, self.stop.clone());
        let digging = tokio::spawn(async move {
            match tunnel {
                Some(dial) => keep_tunnel_inside(dial, (router, address), state, counts, stop).await,
                None => stop.cancelled().await,
            }
        });
        let mut engines = tokio::spawn(runtime.run(self.stop.clone()));
        let outcome = tokio::select! {
            ended = &mut engines => {
                self.stop.cancel();
                ended??;
                return Ok(None);
            }
            other = changed(client, &self.identity, heard) => Some(other),
            () = self.stop.cancelled() => None,
        };
        self.stop.cancel();
        engines.await??;
        let _ = digging.await;
        let _ = serving.await;
        Ok(outcome)
    }
}

/// Waits until the platform says that this runtime is another one. Whenever the tunnel breaks there is reason to ask.
async fn changed(
    client: &Client,
    known: &RuntimeIdentity,
    mut tunnel: watch::Receiver<TunnelState>,
) -> RuntimeIdentity {
    let mut refused = false;
    loop {
        tokio::select! {
            () = tokio::time::sleep(ASK_EVERY) => {}
            heard = tunnel.changed() => match heard {
                Ok(()) if *tunnel.borrow_and_update() == TunnelState::Open => {}
                Ok(()) => continue,
                // There is none.
                Err(_) => tokio::time::sleep(ASK_EVERY).await,
            }
        }
        match client.get::<RuntimeIdentity>("/api/agent/runtime/self").await {
            Ok(now) if now != *known => {
                tracing::info!(name = %now.name, "The platform knows this runtime otherwise; starting over.");
                return now;
            }
            Ok(_) => refused = false,
            Err(ClientError::Refused(body)) if matches!(body.status, 401 | 403) && !refused => {
                refused = true;
                tracing::error!(
                    said = body.message,
                    "The platform refuses this runtime's token; engines go on, and nothing is reported. `slipway runtime token NAME` makes a new one."
                );
            }
            Err(error) => tracing::debug!(%error, "The platform does not say who this runtime is."),
        }
    }
}
