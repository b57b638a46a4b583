//! Where messages go: `in-process`, or `amqp://` and `redis://` addresses. TLS (`amqps://`, `rediss://`) unless the
//! server is on this machine or the address says `?tls=off`.

use std::net::IpAddr;

#[derive(Clone)]
pub enum BusUrl {
    InProcess,
    Rabbit(Address),
}

#[derive(Clone)]
pub enum LiveUrl {
    InProcess,
    Redis(Address),
}

/// A checked address; `Debug` and `Display` show no password.
#[derive(Clone)]
pub struct Address {
    pub(crate) url: String,
}

#[derive(Debug, thiserror::Error)]
#[error("`{shown}` is no address of a {what}: {why}")]
pub struct BadBusUrl {
    shown: String,
    what: &'static str,
    why: String,
}

fn parse(text: &str, what: &'static str, plain: &str, secure: &str) -> Result<Address, BadBusUrl> {
    let refuse = |why: String| BadBusUrl {
        shown: text.split_once(':').map_or("…", |(scheme, _)| scheme).to_owned(),
        what,
        why,
    };
    let (scheme, rest) = text
        .split_once("://")
        .ok_or_else(|| refuse(format!("it starts with `{plain}://` or `{secure}://`, or is `in-process`")))?;
    let (rest, off) = match rest.strip_suffix("?tls=off") {
        Some(rest) => (rest, true),
        None => (rest, false),
    };
    if scheme == plain && !off && !is_this_machine(rest) {
        return Err(refuse(format!(
            "the server is on another machine: use `{secure}://`, or end the address with `?tls=off` if the network is yours"
        )));
    }
    if scheme != plain && scheme != secure {
        return Err(refuse(format!("it starts with `{plain}://` or `{secure}://`, or is `in-process`")));
    }
    Ok(Address { url: format!("{scheme}://{rest}") })
}

fn is_this_machine(rest: &str) -> bool {
    let authority = rest.split(['/', '?']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    let name = match host.strip_prefix('[') {
        Some(six) => six.split(']').next().unwrap_or_default(),
        None => host.split(':').next().unwrap_or_default(),
    };
    name == "localhost" || name.parse::<IpAddr>().is_ok_and(|address| address.is_loopback())
}

impl std::str::FromStr for BusUrl {
    type Err = BadBusUrl;

    fn from_str(text: &str) -> Result<Self, BadBusUrl> {
        match text {
            "in-process" => Ok(Self::InProcess),
            _ => parse(text, "message broker", "amqp", "amqps").map(Self::Rabbit),
        }
    }
}

impl std::str::FromStr for LiveUrl {
    type Err = BadBusUrl;

    fn from_str(text: &str) -> Result<Self, BadBusUrl> {
        match text {
            "in-process" => Ok(Self::InProcess),
            _ => parse(text, "cache", "redis", "rediss").map(Self::Redis),
        }
    }
}

impl std::fmt::Display for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let (scheme, rest) = self.url.split_once("://").unwrap_or_default();
        let host = rest.rsplit('@').next().unwrap_or_default();
        write!(f, "{scheme}://{host}")
    }
}

impl std::fmt::Debug for Address {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

impl std::fmt::Debug for BusUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::InProcess => write!(f, "in-process"),
            Self::Rabbit(address) => write!(f, "{address}"),
        }
    }
}

impl std::fmt::Debug for LiveUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::InProcess => write!(f, "in-process"),
            Self::Redis(address) => write!(f, "{address}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn without_tls_only_on_this_machine_or_when_asked_for() {
        for good in [
            "in-process",
            "amqp://guest:guest@127.0.0.1:5672/host",
            "amqp://localhost",
            "amqp://[::1]:5672",
            "amqps://a:b@mq.example.com/x",
            "amqp://a:b@mq.example.com/x?tls=off",
        ] {
            assert!(good.parse::<BusUrl>().is_ok(), "{good}");
        }
        for bad in ["amqp://a:hunter2@mq.example.com/x", "redis://localhost", "hunter2"] {
            let error = bad.parse::<BusUrl>().unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
        let shown = "rediss://:hunter2@cache.example.com:6380".parse::<LiveUrl>().unwrap();
        assert_eq!(format!("{shown:?}"), "rediss://cache.example.com:6380");
    }
}
