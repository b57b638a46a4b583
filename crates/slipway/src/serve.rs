//! `slipway server`: one process of a platform that may have several. They share a database, a bus, a cache, and
//! for now a folder with the Git repositories and the key that seals secrets.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

use anyhow::Context;
use clap::Args;
use serde_json::json;
use slipway_bus::{BusUrl, LiveUrl};
use slipway_model::Secret;
use slipway_server::{Config, Parts, Role, Roles, Seams, Server, Tls};
use slipway_store::DatabaseUrl;
use tokio_util::sync::CancellationToken;

use crate::up::{Output, log_to_stderr, reachable, signalled};

/// Requests under way are answered within this time after SIGTERM; what is left then is cut.
const DRAIN: Duration = Duration::from_secs(8);

#[derive(Args)]
#[command(after_help = roles_help())]
pub(crate) struct ServerArguments {
    /// What this process does, separated by commas; all of it when left out
    #[arg(long, value_delimiter = ',', value_parser = role, hide_possible_values = true, env = "SLIPWAY_ROLES")]
    roles: Vec<Role>,
    /// `postgres://user@host/database`, or `sqlite:FOLDER` for a single process
    #[arg(long, env = "SLIPWAY_DATABASE", hide_env_values = true)]
    database: Option<String>,
    /// RabbitMQ as `amqps://user:password@host/vhost`, or `in-process` for a single process
    #[arg(long, env = "SLIPWAY_BUS", default_value = "in-process", hide_env_values = true)]
    bus: String,
    /// Redis as `rediss://host`, or `in-process` for a single process
    #[arg(long, env = "SLIPWAY_CACHE_URL", default_value = "in-process", hide_env_values = true)]
    cache: String,
    /// Git repositories and the key that seals secrets: a folder that all processes of the platform share
    #[arg(long, default_value = ".slipway", env = "SLIPWAY_DATA")]
    data: PathBuf,
    /// Where it listens; port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:8080", env = "SLIPWAY_LISTEN")]
    listen: SocketAddr,
    /// Where people, agents and `git` reach the platform; the address it listens on when left out
    #[arg(long, env = "SLIPWAY_PUBLIC_URL")]
    public_url: Option<String>,
    /// Serve TLS with this certificate and its chain (PEM); renewed files are taken without a restart
    #[arg(long, env = "SLIPWAY_TLS_CERTIFICATE", requires = "tls_key", value_name = "FILE")]
    tls_certificate: Option<PathBuf>,
    /// The key of that certificate (PEM)
    #[arg(long, env = "SLIPWAY_TLS_KEY", requires = "tls_certificate", value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Who the first administrator is, on an empty database
    #[arg(long, default_value = "admin@slipway.local", env = "SLIPWAY_ADMIN_EMAIL", value_name = "EMAIL")]
    admin_email: String,
    /// File with the first administrator's password; without it one is made, and printed once
    #[arg(long, env = "SLIPWAY_ADMIN_PASSWORD_FILE", value_name = "FILE")]
    admin_password_file: Option<PathBuf>,
    /// How to say that it is ready: text for people, or one line of JSON for programs
    #[arg(long, value_enum, default_value_t = Output::Text)]
    output: Output,
    #[command(flatten)]
    network: crate::up::NetworkArguments,
}

impl ServerArguments {
    fn tls(&self) -> anyhow::Result<Option<Arc<Tls>>> {
        let (Some(certificate), Some(key)) = (&self.tls_certificate, &self.tls_key) else { return Ok(None) };
        Ok(Some(Arc::new(Tls::read(certificate, key)?)))
    }

    /// Without the line's end that editors and `kubectl create secret --from-file` leave.
    fn admin_password(&self) -> anyhow::Result<Option<Secret<String>>> {
        let Some(path) = &self.admin_password_file else { return Ok(None) };
        let text = std::fs::read_to_string(path)
            .with_context(|| format!("cannot read --admin-password-file {}", path.display()))?;
        Ok(Some(text.trim_end_matches(['\r', '\n']).to_owned().into()))
    }
}

fn role(name: &str) -> Result<Role, String> {
    Role::parse(name).ok_or_else(|| {
        let names: Vec<_> = Role::ALL.iter().map(|role| role.name()).collect();
        format!("there is no role `{name}`; the roles are {}", names.join(", "))
    })
}

fn roles_help() -> String {
    let lines: Vec<_> =
        Role::ALL.iter().map(|role| format!("  {:<17} {}", role.name(), role.about())).collect();
    format!("Roles:\n{}", lines.join("\n"))
}

pub(crate) async fn serve(arguments: ServerArguments) -> anyhow::Result<ExitCode> {
    log_to_stderr();
    crate::private::folder(&arguments.data)?;
    let data = arguments.data.canonicalize()?;
    let listener = tokio::net::TcpListener::bind(arguments.listen)
        .await
        .with_context(|| format!("cannot listen on {}: choose another with --listen", arguments.listen))?;
    let (tls, password) = (arguments.tls()?, arguments.admin_password()?);
    let address =
        format!("{}://{}", if tls.is_some() { "https" } else { "http" }, reachable(listener.local_addr()?));
    let public_url =
        arguments.public_url.map_or_else(|| address.clone(), |url| url.trim_end_matches('/').to_owned());
    let roles = Roles::of(arguments.roles).unwrap_or_else(Roles::all);
    let parts = Parts {
        // Read here, because the parser of arguments would repeat a wrong address with its password.
        database: arguments.database.map_or(Ok(DatabaseUrl::Sqlite(data.clone())), |url| url.parse())?,
        bus: arguments.bus.parse::<BusUrl>()?,
        cache: arguments.cache.parse::<LiveUrl>()?,
        roles: roles.clone(),
    };
    let stop = CancellationToken::new();
    let network = arguments.network.read()?;
    let (server, first) = {
        // Processes that start together make the key and the first administrator once.
        let _turn = turn(&data).await?;
        let config = Config { data: data.clone(), public_url: public_url.clone(), network };
        let server = Server::connect(config, parts, Seams::system(), stop.clone()).await?;
        let first = server.first_start_with(&arguments.admin_email, password).await?;
        (server, first)
    };
    let app = slipway_server::router(&server);
    let serving = tokio::spawn(slipway_server::serve_with(listener, tls, app, stop.clone()));
    let background = server.clone();
    let working = tokio::spawn(async move { background.run().await });
    let ended = signalled();
    match arguments.output {
        Output::Json => say!(
            "{}",
            json!({
                "url": address,
                "publicUrl": public_url,
                "roles": roles.to_string(),
                "adminEmail": first.as_ref().map(|first| &first.email),
                "adminPassword": first.as_ref().and_then(|first| first.password.as_ref()).map(|password| password.expose()),
                "apiKey": first.as_ref().map(|first| first.api_key.expose()),
            })
        ),
        Output::Text => {
            say!("Slipway server at {address}");
            say!("Roles       {roles}");
            if let Some(first) = &first {
                say!("Sign in     {}", first.email);
                match &first.password {
                    Some(password) => say!("Password    {}", password.expose()),
                    None => say!("Password    as in --admin-password-file"),
                }
                say!("API key     {}", first.api_key.expose());
                say!("            (shown now and never again)");
            }
        }
    }
    ended.await;
    tracing::info!("Stopping: completing the requests in progress.");
    stop.cancel();
    let drained = async {
        let _ = serving.await;
        let _ = working.await;
    };
    if tokio::time::timeout(DRAIN, drained).await.is_err() {
        tracing::warn!("Some requests were still in progress and are aborted.");
    }
    let _ = tokio::time::timeout(crate::up::LAST_NOTES, server.finish()).await;
    let closing = tokio::task::spawn_blocking(move || server.close());
    let _ = tokio::time::timeout(Duration::from_secs(2), closing).await;
    Ok(ExitCode::SUCCESS)
}

/// Held while a process starts; the folder is shared, so the lock is too.
async fn turn(data: &std::path::Path) -> anyhow::Result<std::fs::File> {
    let file = std::fs::File::create(data.join("starting.lock"))?;
    tokio::task::spawn_blocking(move || {
        file.lock()?;
        Ok(file)
    })
    .await?
}
