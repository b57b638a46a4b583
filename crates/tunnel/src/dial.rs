//! Dialling the platform: through a proxy if there is one, TLS, then a request to become a tunnel.

use std::net::Ipv6Addr;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use bytes::Bytes;
use http::header::{AUTHORIZATION, CONNECTION, HOST, UPGRADE};
use http::{Method, Request, Response, StatusCode};
use http_body_util::{BodyExt as _, Empty, Limited};
use hyper::body::Incoming;
use hyper::client::conn::http1;
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use rustls::pki_types::ServerName;
use slipway_model::Secret;
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio_rustls::TlsConnector;

use crate::ahead::ReadAhead;
use crate::carrier::{Carried, Carrier, accept_key};

/// All of it together, from looking the name up to the platform's yes.
const WITHIN: Duration = Duration::from_secs(15);

#[derive(Debug, thiserror::Error)]
pub enum DialError {
    #[error("`{0}` is not an address of a platform: use https://HOST[:PORT]")]
    Address(String),
    #[error("no connection to {address}: {error}")]
    Connect { address: String, error: std::io::Error },
    #[error("the proxy {proxy} opened no connection to {address}: {said}")]
    Proxy { proxy: String, address: String, said: String },
    #[error(
        "no TLS with {address}: {error}; if its certificate is from an authority of your own, that has to be trusted here"
    )]
    Tls { address: String, error: std::io::Error },
    #[error("no answer from {address} within {} seconds", WITHIN.as_secs())]
    Late { address: String },
    #[error("{address} does not speak HTTP: {error}")]
    Http { address: String, error: hyper::Error },
    #[error("the platform refused the tunnel ({status}): {said}")]
    Refused { status: StatusCode, said: String },
    #[error("{address} answered, but it is not a tunnel server: {what}")]
    NotATunnel { address: String, what: &'static str },
}

/// Where the platform is, read from its address.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    pub tls: bool,
    pub host: String,
    pub port: u16,
}

impl Server {
    pub fn parse(url: &str) -> Result<Self, DialError> {
        let wrong = || DialError::Address(url.to_owned());
        let uri: http::Uri = url.parse().map_err(|_| wrong())?;
        let tls = match uri.scheme_str() {
            Some("https" | "wss") => true,
            Some("http" | "ws") => false,
            _ => return Err(wrong()),
        };
        let authority =
            uri.authority().filter(|authority| !authority.as_str().contains('@')).ok_or_else(wrong)?;
        if !matches!(uri.path(), "" | "/") || uri.query().is_some() || authority.host().is_empty() {
            return Err(wrong());
        }
        let host = authority.host().trim_start_matches('[').trim_end_matches(']').to_owned();
        Ok(Self { tls, host, port: authority.port_u16().unwrap_or(if tls { 443 } else { 80 }) })
    }

    /// As it stands in a `Host` header.
    pub fn authority(&self) -> String {
        match self.host.parse::<Ipv6Addr>() {
            Ok(address) => format!("[{address}]:{}", self.port),
            Err(_) => format!("{}:{}", self.host, self.port),
        }
    }
}

/// A proxy that is asked to CONNECT.
#[derive(Clone)]
pub struct Proxy {
    pub host: String,
    pub port: u16,
    /// User and password, as `user:password`.
    pub credential: Option<Arc<Secret<String>>>,
}

#[derive(Clone)]
pub struct Dial {
    pub server: Server,
    /// What is asked to become a tunnel: [`crate::PATH`] of a platform.
    pub path: &'static str,
    pub carrier: Carrier,
    pub credential: Arc<Secret<String>>,
    pub tls: Arc<rustls::ClientConfig>,
    pub proxy: Option<Proxy>,
}

impl Dial {
    /// Without TLS and without a proxy, for a network that is one's own.
    pub fn plain(server: Server, path: &'static str, credential: Secret<String>) -> Self {
        let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
        let tls = rustls::ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .expect("the provider has them")
            .with_root_certificates(rustls::RootCertStore::empty())
            .with_no_client_auth();
        let credential = Arc::new(credential);
        Self { server, path, carrier: Carrier::Raw, credential, tls: Arc::new(tls), proxy: None }
    }

    pub async fn connect(&self) -> Result<Carried<TokioIo<Upgraded>>, DialError> {
        let address = self.server.authority();
        let late = DialError::Late { address };
        tokio::time::timeout(WITHIN, self.connect_at_leisure()).await.unwrap_or(Err(late))
    }

    async fn connect_at_leisure(&self) -> Result<Carried<TokioIo<Upgraded>>, DialError> {
        let address = self.server.authority();
        let stream = self.reach().await?;
        if !self.server.tls {
            return self.ask(stream).await;
        }
        let name = ServerName::try_from(self.server.host.clone())
            .map_err(|_| DialError::Address(self.server.host.clone()))?;
        let connector = TlsConnector::from(self.tls.clone());
        let secured = connector.connect(name, ReadAhead::new(stream)).await;
        self.ask(secured.map_err(|error| DialError::Tls { address, error })?).await
    }

    async fn reach(&self) -> Result<TcpStream, DialError> {
        let (host, port) = match &self.proxy {
            Some(proxy) => (proxy.host.as_str(), proxy.port),
            None => (self.server.host.as_str(), self.server.port),
        };
        let failed = |error| DialError::Connect { address: format!("{host}:{port}"), error };
        let mut stream = TcpStream::connect((host, port)).await.map_err(failed)?;
        // Frames are small and somebody waits for each.
        stream.set_nodelay(true).map_err(failed)?;
        if let Some(proxy) = &self.proxy {
            self.through(proxy, &mut stream).await?;
        }
        Ok(stream)
    }

    async fn through(&self, proxy: &Proxy, stream: &mut TcpStream) -> Result<(), DialError> {
        let address = self.server.authority();
        let failed = |said: String| DialError::Proxy {
            proxy: format!("{}:{}", proxy.host, proxy.port),
            address: self.server.authority(),
            said,
        };
        let credential = proxy.credential.as_ref().map(|credential| {
            let encoded = base64::engine::general_purpose::STANDARD.encode(credential.expose());
            format!("Proxy-Authorization: Basic {encoded}\r\n")
        });
        let request = format!(
            "CONNECT {address} HTTP/1.1\r\nHost: {address}\r\n{}\r\n",
            credential.unwrap_or_default()
        );
        stream.write_all(request.as_bytes()).await.map_err(|error| failed(error.to_string()))?;
        let head = read_head(stream).await.map_err(|error| failed(error.to_string()))?;
        let status = head.split(' ').nth(1).unwrap_or_default();
        if status == "200" { Ok(()) } else { Err(failed(head.lines().next().unwrap_or_default().to_owned())) }
    }

    async fn ask<IO>(&self, io: IO) -> Result<Carried<TokioIo<Upgraded>>, DialError>
    where
        IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let http = |error| DialError::Http { address: self.server.authority(), error };
        let (mut sender, connection) = http1::handshake(TokioIo::new(io)).await.map_err(http)?;
        tokio::spawn(connection.with_upgrades());
        let key = websocket_key();
        let response = sender.send_request(self.request(&key)).await.map_err(http)?;
        let upgraded = self.agreed(response, &key).await?;
        Ok(Carried::new(self.carrier, TokioIo::new(upgraded), false))
    }

    fn request(&self, key: &str) -> Request<Empty<Bytes>> {
        let mut request = Request::builder()
            .method(Method::GET)
            .uri(self.path)
            .header(HOST, self.server.authority())
            .header(AUTHORIZATION, self.credential.expose())
            .header(CONNECTION, "upgrade")
            .header(UPGRADE, self.carrier.protocol());
        if self.carrier == Carrier::WebSocket {
            request = request.header("sec-websocket-version", "13").header("sec-websocket-key", key);
            request = request.header("sec-websocket-protocol", crate::PROTOCOL);
        }
        request.body(Empty::new()).unwrap_or_default()
    }

    async fn agreed(&self, response: Response<Incoming>, key: &str) -> Result<Upgraded, DialError> {
        let address = self.server.authority();
        if response.status() != StatusCode::SWITCHING_PROTOCOLS {
            let status = response.status();
            let body = Limited::new(response.into_body(), 4096).collect().await;
            let said = body.map(|body| String::from_utf8_lossy(&body.to_bytes()).into_owned());
            return Err(DialError::Refused { status, said: said.unwrap_or_default() });
        }
        let has = |name: &str, value: &str| {
            response
                .headers()
                .get(name)
                .is_some_and(|is| is.as_bytes().eq_ignore_ascii_case(value.as_bytes()))
        };
        if !has("upgrade", self.carrier.protocol()) {
            return Err(DialError::NotATunnel { address, what: "it upgraded to another protocol" });
        }
        let framed = self.carrier == Carrier::WebSocket;
        let key_fits =
            response.headers().get("sec-websocket-accept").is_some_and(|is| *is == accept_key(key));
        if framed && !(key_fits && has("sec-websocket-protocol", crate::PROTOCOL)) {
            return Err(DialError::NotATunnel { address, what: "its WebSocket is for something else" });
        }
        hyper::upgrade::on(response).await.map_err(|error| DialError::Http { address, error })
    }
}

fn websocket_key() -> String {
    let mut random = [0; 16];
    // Only a check that nobody in between answers from a cache; it guards nothing.
    let _ = getrandom::fill(&mut random);
    base64::engine::general_purpose::STANDARD.encode(random)
}

/// Up to the empty line, byte by byte: what comes after it belongs to the connection.
async fn read_head(stream: &mut TcpStream) -> std::io::Result<String> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() > 8192 {
            return Err(std::io::Error::other("its answer is too long"));
        }
        head.push(stream.read_u8().await?);
    }
    Ok(String::from_utf8_lossy(&head).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_platforms() {
        let parsed = |url: &str| Server::parse(url).map(|server| (server.tls, server.authority()));
        assert_eq!(parsed("https://slipway.test").unwrap(), (true, "slipway.test:443".into()));
        assert_eq!(parsed("http://127.0.0.1:8080/").unwrap(), (false, "127.0.0.1:8080".into()));
        assert_eq!(parsed("wss://[::1]:7000").unwrap(), (true, "[::1]:7000".into()));
        for wrong in ["slipway.test", "ftp://a", "https://", "https://me:x@a", "https://a/b", "https://a?b"] {
            assert!(
                Server::parse(wrong).is_err_and(|error| error.to_string().contains("https://HOST")),
                "{wrong}"
            );
        }
    }
}
