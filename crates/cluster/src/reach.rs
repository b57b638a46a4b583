//! Clusters whose address somebody else named are dialled where the operator's rules allow it, and nowhere else.
//!
//! A name is looked up once for each connection, and the connection goes to what was checked: a second answer of the name
//! server changes nothing. What the rules are, the caller knows.

use std::future::Future;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use hyper::body::Incoming;
use hyper_timeout::TimeoutConnector;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::client::legacy::connect::dns::Name;
use hyper_util::rt::TokioExecutor;
use kube::client::retry::RetryPolicy;
use kube::client::{Body, ClientBuilder, ConfigExt as _};
use tower::retry::RetryLayer;
use tower::util::BoxService;
use tower::{BoxError, Service, ServiceBuilder};

type Rule = dyn Fn(&str, IpAddr) -> bool + Send + Sync;
type Stack = BoxService<http::Request<Body>, http::Response<Incoming>, BoxError>;

/// Whether a host, which means an address, may be dialled.
#[derive(Clone)]
pub struct Reach(pub Arc<Rule>);

impl std::fmt::Debug for Reach {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Reach")
    }
}

impl Reach {
    /// Why none of these may be dialled: a name that means one bad address among good ones is up to something.
    fn refusal(&self, host: &str, found: &[SocketAddr]) -> Option<String> {
        let bad = found.iter().find(|address| !(self.0)(host, address.ip()))?;
        Some(format!("{host} means {}, which may not be dialled from here", bad.ip()))
    }

    /// The same for a host that is an address already, which nobody looks up.
    pub(crate) fn refusal_of_literal(&self, host: &str) -> Option<String> {
        let address: IpAddr = host.trim_matches(['[', ']']).parse().ok()?;
        self.refusal(host, &[SocketAddr::new(address, 0)])
    }

    /// What [`ClientBuilder::try_from`] makes, but for the names.
    pub(crate) fn builder(self, config: kube::Config) -> Result<ClientBuilder<Stack>, kube::Error> {
        let mut connector = HttpConnector::new_with_resolver(Checked(self));
        connector.enforce_http(false);
        let mut connector = TimeoutConnector::new(config.rustls_https_connector_with_connector(connector)?);
        connector.set_connect_timeout(config.connect_timeout);
        connector.set_read_timeout(config.read_timeout);
        connector.set_write_timeout(config.write_timeout);
        let client: Client<_, Body> = Client::builder(TokioExecutor::new()).build(connector);
        let service = ServiceBuilder::new()
            .layer(config.base_uri_layer())
            .layer(RetryLayer::new(RetryPolicy::server_retry()))
            .option_layer(config.auth_layer()?)
            .layer(config.extra_headers_layer()?)
            .map_err(BoxError::from)
            .service(client);
        Ok(ClientBuilder::new(BoxService::new(service), config.default_namespace))
    }
}

/// Names, and the rules that what they mean has to pass.
#[derive(Clone)]
struct Checked(Reach);

impl Service<Name> for Checked {
    type Response = std::vec::IntoIter<SocketAddr>;
    type Error = io::Error;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Self::Error>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, name: Name) -> Self::Future {
        let (reach, host) = (self.0.clone(), name.as_str().to_owned());
        Box::pin(async move {
            let found: Vec<_> = tokio::net::lookup_host((host.as_str(), 0)).await?.collect();
            match reach.refusal(&host, &found) {
                Some(why) => Err(io::Error::other(why)),
                None => Ok(found.into_iter()),
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Cluster, ClusterConfig, Given};

    async fn refused(server: &str, reach: Reach) -> String {
        let mut config = ClusterConfig::new(None);
        config.given = Some(Arc::new(Given::parse(server, r#"{"bearerToken": "canary"}"#).unwrap()));
        config.reach = Some(reach);
        let refused = Cluster::connect(config).await.err().expect("nobody answers there").to_string();
        assert!(!refused.contains("canary"), "{refused}");
        refused
    }

    #[tokio::test]
    async fn an_address_that_the_rules_forbid_is_not_dialled_by_name_nor_by_number() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        let outside = || Reach(Arc::new(|_, address: IpAddr| !address.is_loopback()));
        for host in ["127.0.0.1", "localhost", "[::1]"] {
            let why = refused(&format!("https://{host}:{port}"), outside()).await;
            assert!(why.contains("which may not be dialled from here"), "{host}: {why}");
        }
        assert!(listener.accept().is_err(), "nobody came");
        // The rules are asked about the name too: who allows it by name has allowed what it means.
        let named = Reach(Arc::new(|host, _| host == "localhost"));
        let port = {
            let gone = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
            gone.local_addr().unwrap().port()
        };
        let why = refused(&format!("https://localhost:{port}"), named).await;
        assert!(!why.contains("may not be dialled"), "it was dialled: {why}");
    }
}
