//! A `postgres://` address, and connecting to it. Without TLS only on this machine, or when asked for.

use std::net::IpAddr;
use std::path::PathBuf;
use std::str::FromStr;
use std::sync::Arc;
use std::time::Duration;

use postgres::config::{Host, SslMode};
use postgres::{Client, NoTls};
use tokio_postgres::Config;

use super::wire::{Traffic, Wire};
use super::{failure, schemas, tls};
use crate::StoreError;
use crate::database::BadDatabaseUrl;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(5);

#[derive(Clone)]
pub struct Address {
    config: Config,
    tls: Tls,
    patience: Patience,
    /// Of all sessions of this address.
    traffic: Arc<Traffic>,
}

/// How long the server lets a session take.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Patience {
    /// A paused process must not keep the writers' lock, and nobody waits for ever.
    Serving,
    /// A backup reads whole tables; nobody waits for it.
    Reading,
}

#[derive(Clone, PartialEq, Eq, Debug)]
enum Tls {
    Off,
    /// The server proves its name; with `sslrootcert` by that authority, else by those the system trusts.
    On {
        root: Option<PathBuf>,
    },
}

impl FromStr for Address {
    type Err = BadDatabaseUrl;

    fn from_str(text: &str) -> Result<Self, BadDatabaseUrl> {
        let refuse = |why: String| BadDatabaseUrl { shown: "postgres://…".into(), why };
        let (start, query) = text.split_once('?').unwrap_or((text, ""));
        let (mut mode, mut root, mut kept) = (None, None, Vec::new());
        for pair in query.split('&').filter(|pair| !pair.is_empty()) {
            match pair.split_once('=') {
                Some(("sslmode", value)) => mode = Some(value),
                Some(("sslrootcert", value)) => root = Some(PathBuf::from(value.replace("%2F", "/"))),
                _ => kept.push(pair),
            }
        }
        let rest = if kept.is_empty() { start.to_owned() } else { format!("{start}?{}", kept.join("&")) };
        let mut config = Config::from_str(&rest).map_err(|error| {
            refuse(std::error::Error::source(&error).map_or_else(|| error.to_string(), ToString::to_string))
        })?;
        if config.get_hosts().is_empty() {
            return Err(refuse("name a host, as in postgres://user@host/database".into()));
        }
        let here = config.get_hosts().iter().all(is_this_machine);
        let tls = match mode {
            Some("disable") => Tls::Off,
            Some("require" | "verify-ca" | "verify-full") => Tls::On { root },
            None if here => Tls::Off,
            None => Tls::On { root },
            Some(other) => {
                return Err(refuse(format!("sslmode is `require` or `disable`, not `{other}`")));
            }
        };
        config.ssl_mode(if tls == Tls::Off { SslMode::Disable } else { SslMode::Require });
        config.connect_timeout(CONNECT_TIMEOUT).application_name(SERVING);
        config.keepalives_idle(Duration::from_secs(15)).tcp_user_timeout(Duration::from_secs(20));
        Ok(Self { config, tls, patience: Patience::Serving, traffic: Arc::default() })
    }
}

fn is_this_machine(host: &Host) -> bool {
    match host {
        Host::Unix(_) => true,
        Host::Tcp(name) => {
            name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
        }
    }
}

/// What processes that serve call themselves at the server.
pub(super) const SERVING: &str = "slipway";

impl Address {
    /// For somebody beside the platform, who may take long and is not taken for a part of it.
    pub(super) fn beside(&self, reads_only: bool) -> Self {
        let mut beside = self.clone();
        beside.config.application_name("slipway-admin");
        if reads_only {
            beside.patience = Patience::Reading;
        }
        beside
    }

    /// For the schema, and for listening: one statement after the other.
    pub(super) fn connect(&self) -> Result<Client, StoreError> {
        let config = postgres::Config::from(self.config.clone());
        let mut client = match &self.tls {
            Tls::Off => config.connect(NoTls),
            Tls::On { root } => config.connect(tls::connector(root.as_deref())?),
        }
        .map_err(|error| failure(&error))?;
        client.batch_execute(&self.settings()).map_err(|error| failure(&error))?;
        Ok(client)
    }

    /// For sessions.
    pub(super) fn wire(&self) -> Result<Wire, StoreError> {
        let tls = match &self.tls {
            Tls::Off => None,
            Tls::On { root } => Some(tls::connector(root.as_deref())?),
        };
        let mut wire = Wire::connect(&self.config, tls, self.traffic.clone())?;
        wire.send_batch(self.settings());
        wire.flush()?;
        Ok(wire)
    }

    /// The same address with a count of its own.
    pub(crate) fn counted(&self) -> (Self, Arc<Traffic>) {
        let traffic: Arc<Traffic> = Arc::default();
        (Self { traffic: traffic.clone(), ..self.clone() }, traffic)
    }

    fn settings(&self) -> String {
        let (idle, statement) = match self.patience {
            Patience::Serving => ("10s", "60s"),
            Patience::Reading => ("10min", "0"),
        };
        format!(
            "SET search_path = {}; SET idle_in_transaction_session_timeout = '{idle}'; \
             SET statement_timeout = '{statement}'; SET lock_timeout = '30s'; SET client_min_messages = warning",
            schemas().join(", ")
        )
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "postgres://")?;
        if let Some(user) = self.config.get_user() {
            write!(f, "{user}@")?;
        }
        match self.config.get_hosts().first() {
            Some(Host::Tcp(name)) => write!(f, "{name}")?,
            Some(Host::Unix(path)) => write!(f, "{}", path.display())?,
            None => {}
        }
        if let Some(port) = self.config.get_ports().first() {
            write!(f, ":{port}")?;
        }
        write!(f, "/{}", self.config.get_dbname().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_tls_only_on_this_machine_or_when_asked_for() {
        let tls = |text: &str| text.parse::<Address>().unwrap().tls;
        assert_eq!(tls("postgres://a@127.0.0.1/d"), Tls::Off);
        assert_eq!(tls("postgres://a@localhost/d"), Tls::Off);
        assert_eq!(tls("postgres://a@%2Frun%2Fpostgresql/d"), Tls::Off);
        assert_eq!(tls("postgres://a@10.0.0.1/d"), Tls::On { root: None });
        assert_eq!(tls("postgres://a@10.0.0.1/d?sslmode=disable"), Tls::Off);
        let root = Some(PathBuf::from("/etc/ca.pem"));
        assert_eq!(tls("postgres://a@db/d?sslrootcert=/etc/ca.pem&application_name=x"), Tls::On { root });
        assert!("postgres://a@db/d?sslmode=prefer".parse::<Address>().is_err());
    }
}
