//! From a name to addresses that were checked.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use crate::{NetError, Rules};

/// What names mean. `None` of a client's settings: what the system says.
pub trait Names: Send + Sync {
    fn look_up(&self, host: &str) -> std::io::Result<Vec<IpAddr>>;
}

/// Names and the rules that what they mean has to pass.
#[derive(Clone)]
pub(crate) struct Checked {
    pub(crate) rules: Rules,
    pub(crate) names: Option<Arc<dyn Names>>,
}

/// Travels through the client's error to whoever asked.
#[derive(Debug, thiserror::Error)]
#[error("an address that may not be asked: {0}")]
pub(crate) struct Inside(pub(crate) IpAddr);

impl Checked {
    /// Everything that a name means, if all of it may be asked: a name that means one bad address among good ones is up
    /// to something.
    pub(crate) async fn look_up(&self, host: &str, port: u16) -> Result<Vec<SocketAddr>, NetError> {
        let unknown = |error: std::io::Error| NetError::Unreachable {
            host: host.to_owned(),
            detail: format!("it cannot be found: {error}"),
        };
        let found: Vec<SocketAddr> = match &self.names {
            Some(names) => {
                let found = names.look_up(host).map_err(unknown)?;
                found.into_iter().map(|address| SocketAddr::new(address, port)).collect()
            }
            None => tokio::net::lookup_host((host, port)).await.map_err(unknown)?.collect(),
        };
        match found.iter().find(|address| !self.rules.allow(host, address.ip())) {
            Some(bad) => Err(NetError::Forbidden { host: host.to_owned(), address: bad.ip() }),
            None => Ok(found),
        }
    }
}

impl Resolve for Checked {
    fn resolve(&self, name: Name) -> Resolving {
        let checked = self.clone();
        Box::pin(async move {
            match checked.look_up(name.as_str(), 0).await {
                Ok(found) => Ok(Box::new(found.into_iter()) as Addrs),
                Err(NetError::Forbidden { address, .. }) => Err(Inside(address).into()),
                Err(error) => Err(error.into()),
            }
        })
    }
}
