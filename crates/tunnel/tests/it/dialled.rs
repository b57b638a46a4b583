//! The ways to the platform: TLS that is trusted or not, and a proxy that lets through or does not.

use std::net::SocketAddr;
use std::sync::Arc;

use futures::{SinkExt as _, StreamExt as _};
use http::StatusCode;
use rustls::RootCertStore;
use rustls::pki_types::PrivateKeyDer;
use slipway_tunnel::{Carrier, Connection, Dial, Proxy, Server};
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_tungstenite::tungstenite::Message;

use crate::carried::backend;
use crate::support::{Caller, DOMAIN, KEY, Platform, Runtime, listen, name, text, trusting};

/// TLS in front of the platform, for `localhost`, and the roots that trust it.
async fn secured(platform: &Platform) -> (SocketAddr, RootCertStore) {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let builder = rustls::ServerConfig::builder_with_provider(provider);
    let builder = builder.with_safe_default_protocol_versions().expect("versions").with_no_client_auth();
    let config = builder.with_single_cert(vec![certificate.clone()], key).expect("a pair");
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let (address, platform) = (listener.local_addr().expect("an address"), platform.address);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a caller");
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let Ok(mut near) = acceptor.accept(stream).await else { return };
                let mut far = TcpStream::connect(platform).await.expect("connected");
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    let mut roots = RootCertStore::empty();
    roots.add(certificate).expect("a root");
    (address, roots)
}

/// A proxy that wants `user:pass` and knows CONNECT.
async fn proxy() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.expect("a caller");
            tokio::spawn(async move {
                let mut near = BufReader::new(stream);
                let mut head = String::new();
                while !head.ends_with("\r\n\r\n")
                    && near.read_line(&mut head).await.is_ok_and(|read| read > 0)
                {}
                let target = head.split(' ').nth(1).expect("a target").to_owned();
                if !head.contains("Proxy-Authorization: Basic dXNlcjpwYXNz\r\n") {
                    near.write_all(b"HTTP/1.1 407 Who are you\r\n\r\n").await.expect("written");
                    return;
                }
                let mut far = TcpStream::connect(target).await.expect("connected");
                near.write_all(b"HTTP/1.1 200 Go on\r\n\r\n").await.expect("written");
                let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
            });
        }
    });
    address
}

fn dial(server: &str, roots: RootCertStore, proxy: Option<Proxy>) -> Dial {
    Dial {
        server: Server::parse(server).expect("an address"),
        path: slipway_tunnel::PATH,
        carrier: Carrier::WebSocket,
        credential: Arc::new(format!("{KEY} prod").into()),
        tls: trusting(roots),
        proxy,
    }
}

async fn why_not(runtime: &mut Runtime) -> String {
    let waiting = |state: &Connection| matches!(state, Connection::Waiting { .. });
    match runtime.states.wait_for(waiting).await.expect("a state").clone() {
        Connection::Waiting { error, .. } => error,
        other => panic!("{other:?}"),
    }
}

#[tokio::test]
async fn a_certificate_that_is_trusted_opens_and_another_says_why_not() {
    let platform = Platform::start().await;
    let local = listen(|_| async { text(StatusCode::OK, "here") }).await;
    let (address, roots) = secured(&platform).await;
    let server = format!("https://localhost:{}", address.port());
    let mut stranger = platform.connect_with(dial(&server, RootCertStore::empty(), None), local);
    let said = why_not(&mut stranger).await;
    assert!(said.contains("no TLS with localhost") && said.contains("trusted here"), "{said}");
    drop(stranger);
    let other_name = format!("https://{address}");
    let mut elsewhere = platform.connect_with(dial(&other_name, roots.clone(), None), local);
    assert!(why_not(&mut elsewhere).await.contains("no TLS with"));
    drop(elsewhere);
    let _runtime = platform.connect_with(dial(&server, roots, None), local);
    platform.until_open("prod", 1).await;
    assert_eq!(Caller::of(&platform, "prod").await.get("/").await.1, "here");
}

#[tokio::test]
async fn a_proxy_is_asked_with_its_credential_and_its_refusal_is_repeated() {
    let platform = Platform::start().await;
    let local = listen(|_| async { text(StatusCode::OK, "here") }).await;
    let address = proxy().await;
    let server = format!("http://{}", platform.address);
    let by = |credential: Option<&str>| Proxy {
        host: address.ip().to_string(),
        port: address.port(),
        credential: credential.map(|text| Arc::new(text.to_owned().into())),
    };
    let mut refused = platform.connect_with(dial(&server, RootCertStore::empty(), Some(by(None))), local);
    let said = why_not(&mut refused).await;
    assert!(said.contains("407 Who are you") && said.contains(&address.to_string()), "{said}");
    drop(refused);
    let _runtime =
        platform.connect_with(dial(&server, RootCertStore::empty(), Some(by(Some("user:pass")))), local);
    platform.until_open("prod", 1).await;
    assert_eq!(Caller::of(&platform, "prod").await.get("/").await.1, "here");
}

/// As from a company's network: a proxy that is asked to CONNECT, behind it TLS by an authority of one's own, and inside a WebSocket of a caller.
#[tokio::test]
async fn tls_of_an_authority_of_ones_own_goes_through_a_proxy_and_carries_websockets() {
    let (platform, local) = (Platform::start().await, listen(backend).await);
    let (address, roots) = secured(&platform).await;
    let by = proxy().await;
    for carrier in [Carrier::Raw, Carrier::WebSocket] {
        let proxy = Proxy {
            host: by.ip().to_string(),
            port: by.port(),
            credential: Some(Arc::new("user:pass".to_owned().into())),
        };
        let server = format!("https://localhost:{}", address.port());
        let runtime =
            platform.connect_with(Dial { carrier, ..dial(&server, roots.clone(), Some(proxy)) }, local);
        platform.until_open("prod", 1).await;
        let (status, large) = Caller::of(&platform, "prod").await.get("/large").await;
        assert_eq!((status, large.len()), (StatusCode::OK, 3_000_000));
        let stream = TcpStream::connect(platform.address).await.expect("connected");
        let uri = format!("ws://{}.{DOMAIN}/socket", name("prod"));
        let (mut socket, _) = tokio_tungstenite::client_async(uri, stream).await.expect("opened");
        socket.send(Message::text("through all of it")).await.expect("sent");
        let heard = socket.next().await.expect("open").expect("a message");
        assert_eq!(heard, Message::text("through all of it"));
        drop((socket, runtime));
        platform.until_open("prod", 0).await;
    }
}
