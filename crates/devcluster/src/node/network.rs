//! Services and names for pods: every ClusterIP is an address of this machine, behind which a proxy picks a pod.
//!
//! The whole service range is routed to loopback, so that listeners can be bound to each ClusterIP; pods reach it
//! through their gateway, which is this machine. That needs root. Without it pods run, but ClusterIPs do not answer.

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use serde_json::Value;
use tokio::net::{TcpListener, TcpStream, UdpSocket};
use tokio_util::sync::CancellationToken;

use crate::api::Cluster;
use crate::value::Json as _;

const SLICES: &str = "discovery.k8s.io/endpointslices";

pub(super) async fn serve(cluster: Arc<Cluster>, api: SocketAddr, shutdown: CancellationToken) {
    let [a, b] = cluster.service_net;
    let range = format!("{a}.{b}.0.0/16");
    if !route(&["replace", "local", &range, "dev", "lo"]).await {
        tracing::warn!(
            "ClusterIPs and cluster DNS need root (a route for {range} could not be set); pods run without them."
        );
        return;
    }
    let dns = tokio::spawn(serve_dns(cluster.clone(), Ipv4Addr::new(a, b, 0, 10), shutdown.clone()));
    proxies(cluster, api, shutdown).await;
    let _ = dns.await;
    route(&["del", "local", &range, "dev", "lo"]).await;
}

/// Takes back the route of a cluster that was killed.
pub(crate) async fn remove_route(net: [u8; 2]) {
    route(&["del", "local", &format!("{}.{}.0.0/16", net[0], net[1]), "dev", "lo"]).await;
}

async fn route(args: &[&str]) -> bool {
    let command = tokio::process::Command::new("ip")
        .arg("route")
        .args(args)
        .stdout(std::process::Stdio::null())
        .stderr(std::process::Stdio::null())
        .status()
        .await;
    command.is_ok_and(|status| status.success())
}

/// Ports of the machine that services may have.
pub(crate) const NODE_PORTS: std::ops::Range<i64> = 30_000..32_768;

/// Whether an address is one that this cluster gives to services, neither the network's own nor its broadcast.
pub(crate) fn is_service_address(net: [u8; 2], text: &str) -> bool {
    let Ok(address) = text.parse::<Ipv4Addr>() else { return false };
    let [a, b, c, d] = address.octets();
    [a, b] == net && (c, d) != (0, 0) && (c, d) != (255, 255)
}

type Proxies = HashMap<(SocketAddr, String), CancellationToken>;

/// Keeps one listener per service port.
async fn proxies(cluster: Arc<Cluster>, api: SocketAddr, shutdown: CancellationToken) {
    let mut running: Proxies = HashMap::new();
    loop {
        let (version, _) = cluster.store.list("services", None);
        align(&cluster, api, &mut running).await;
        let Some(mut watcher) = cluster.store.watch("services", version) else { continue };
        tokio::select! {
            () = shutdown.cancelled() => break,
            _ = watcher.next() => {}
        }
    }
    running.values().for_each(CancellationToken::cancel);
}

async fn align(cluster: &Arc<Cluster>, api: SocketAddr, running: &mut Proxies) {
    let mut wanted: HashMap<(SocketAddr, String), (String, String, Value)> = HashMap::new();
    for service in cluster.list("services", None) {
        let text = service.str_at("spec.clusterIP");
        let Ok(address) = text.parse::<Ipv4Addr>() else { continue };
        // A store of before may hold any address: what is not the cluster's is not listened on.
        if !is_service_address(cluster.service_net, text) {
            continue;
        }
        for port in service.list_at("spec.ports").iter().filter(|p| p.str_at("protocol") == "TCP") {
            let place = (service.namespace().to_owned(), service.name().to_owned(), port.clone());
            let id = format!("{}/{}/{}", place.0, place.1, port);
            if let Some(number) = port.int_at("port").and_then(|n| u16::try_from(n).ok()) {
                wanted.insert((SocketAddr::new(IpAddr::V4(address), number), id.clone()), place.clone());
            }
            if let Some(number) =
                port.int_at("nodePort").filter(|n| NODE_PORTS.contains(n)).and_then(|n| u16::try_from(n).ok())
            {
                wanted.insert((SocketAddr::new(api.ip(), number), id), place);
            }
        }
    }
    running.retain(|key, token| {
        let keep = wanted.contains_key(key);
        if !keep {
            token.cancel();
        }
        keep
    });
    for (key, (namespace, name, port)) in wanted {
        if running.contains_key(&key) {
            continue;
        }
        match bind(key.0).await {
            Ok(listener) => {
                let token = CancellationToken::new();
                let backend = Backend {
                    cluster: cluster.clone(),
                    api,
                    namespace,
                    name,
                    port,
                    turn: AtomicUsize::new(0),
                };
                tokio::spawn(accept(listener, Arc::new(backend), token.clone()));
                running.insert(key, token);
            }
            Err(error) => {
                tracing::warn!(address = %key.0, service = %name, %error, "Cannot listen on the address of a service.")
            }
        }
    }
}

/// A port may still be held by the listener it replaces.
async fn bind(address: SocketAddr) -> std::io::Result<TcpListener> {
    let mut last = None;
    for _ in 0..10 {
        match TcpListener::bind(address).await {
            Ok(listener) => return Ok(listener),
            Err(error) => last = Some(error),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    Err(last.unwrap_or_else(|| std::io::Error::other("no listener")))
}

struct Backend {
    cluster: Arc<Cluster>,
    api: SocketAddr,
    namespace: String,
    name: String,
    port: Value,
    turn: AtomicUsize,
}

impl Backend {
    /// Ready addresses behind this port.
    fn addresses(&self) -> Vec<SocketAddr> {
        if self.namespace == "default" && self.name == "kubernetes" {
            return vec![self.api];
        }
        let name = self.port.str_at("name");
        let mut found = Vec::new();
        for stored in self.cluster.store.list(SLICES, Some(&self.namespace)).1 {
            if stored.labels.get("kubernetes.io/service-name").is_none_or(|service| *service != self.name) {
                continue;
            }
            let slice = stored.value();
            let Some(port) = slice
                .list_at("ports")
                .iter()
                .find(|p| p.str_at("name") == name)
                .and_then(|p| p.int_at("port"))
            else {
                continue;
            };
            for endpoint in slice
                .list_at("endpoints")
                .iter()
                .filter(|e| e.at("conditions.ready") != Some(&Value::Bool(false)))
            {
                for address in endpoint
                    .list_at("addresses")
                    .iter()
                    .filter_map(Value::as_str)
                    .filter_map(|a| a.parse::<IpAddr>().ok())
                {
                    found.push(SocketAddr::new(address, port as u16));
                }
            }
        }
        if found.is_empty() {
            found = self.manual_endpoints(name);
        }
        found
    }

    /// Endpoints that somebody wrote by hand, for services without a selector.
    fn manual_endpoints(&self, name: &str) -> Vec<SocketAddr> {
        let Some(object) = self.cluster.get("endpoints", &self.namespace, &self.name) else {
            return Vec::new();
        };
        let mut found = Vec::new();
        for subset in object.list_at("subsets") {
            let port = subset
                .list_at("ports")
                .iter()
                .find(|p| p.str_at("name") == name)
                .and_then(|p| p.int_at("port"));
            for address in subset.list_at("addresses") {
                if let (Some(port), Ok(ip)) = (port, address.str_at("ip").parse()) {
                    found.push(SocketAddr::new(ip, port as u16));
                }
            }
        }
        found
    }

    async fn connect(&self) -> Option<TcpStream> {
        let addresses = self.addresses();
        let start = self.turn.fetch_add(1, Ordering::Relaxed);
        for index in 0..addresses.len() {
            let address = addresses[(start + index) % addresses.len()];
            if let Ok(Ok(stream)) =
                tokio::time::timeout(Duration::from_secs(3), TcpStream::connect(address)).await
            {
                return Some(stream);
            }
        }
        None
    }
}

async fn accept(listener: TcpListener, backend: Arc<Backend>, token: CancellationToken) {
    loop {
        let accepted = tokio::select! {
            () = token.cancelled() => return,
            accepted = listener.accept() => accepted,
        };
        let Ok((mut client, _)) = accepted else {
            tokio::time::sleep(Duration::from_millis(50)).await;
            continue;
        };
        let backend = backend.clone();
        tokio::spawn(async move {
            if let Some(mut server) = backend.connect().await {
                let _ = client.set_nodelay(true);
                let _ = server.set_nodelay(true);
                let _ = tokio::io::copy_bidirectional(&mut client, &mut server).await;
            }
        });
    }
}

async fn serve_dns(cluster: Arc<Cluster>, address: Ipv4Addr, shutdown: CancellationToken) {
    let socket = match UdpSocket::bind((address, 53)).await {
        Ok(socket) => Arc::new(socket),
        Err(error) => {
            tracing::warn!(%address, %error, "Cluster DNS cannot listen; pods cannot resolve services by name.");
            return;
        }
    };
    let mut buffer = vec![0; 1500];
    loop {
        let received = tokio::select! {
            () = shutdown.cancelled() => return,
            received = socket.recv_from(&mut buffer) => received,
        };
        let Ok((count, peer)) = received else { continue };
        let (cluster, socket, packet) = (cluster.clone(), socket.clone(), buffer[..count].to_vec());
        tokio::spawn(async move {
            if let Some(answer) = dns_answer(&cluster, &packet).await {
                let _ = socket.send_to(&answer, peer).await;
            }
        });
    }
}

/// The first question's name, type and where it ends.
fn question(packet: &[u8]) -> Option<(String, u16, usize)> {
    let mut position = 12;
    let mut labels: Vec<String> = Vec::new();
    loop {
        let length = *packet.get(position)? as usize;
        position += 1;
        if length == 0 {
            break;
        }
        if length > 63 {
            return None;
        }
        labels.push(String::from_utf8_lossy(packet.get(position..position + length)?).to_lowercase());
        position += length;
    }
    let kind = u16::from_be_bytes([*packet.get(position)?, *packet.get(position + 1)?]);
    Some((labels.join("."), kind, position + 4))
}

async fn dns_answer(cluster: &Cluster, packet: &[u8]) -> Option<Vec<u8>> {
    let (name, kind, end) = question(packet)?;
    let Some(inside) = name.strip_suffix(".cluster.local").or((name == "cluster.local").then_some("")) else {
        return forward(packet).await.or_else(|| Some(reply(packet, end, &[], 2)));
    };
    let Some(found) = lookup(cluster, inside) else { return Some(reply(packet, end, &[], 3)) };
    let addresses: Vec<Ipv4Addr> = if kind == 1 || kind == 255 { found } else { Vec::new() };
    Some(reply(packet, end, &addresses, 0))
}

/// `web.default.svc`, `web-0.web.default.svc`: addresses, or nothing when there is no such name.
fn lookup(cluster: &Cluster, name: &str) -> Option<Vec<Ipv4Addr>> {
    let parts: Vec<&str> = name.split('.').collect();
    let (host, service, namespace) = match parts.as_slice() {
        [service, namespace, "svc"] => (None, *service, *namespace),
        [host, service, namespace, "svc"] => (Some(*host), *service, *namespace),
        [_, "svc"] | ["svc"] | [""] => return Some(Vec::new()),
        [dashed, _, "pod"] => return dashed.replace('-', ".").parse().ok().map(|ip| vec![ip]),
        _ => return None,
    };
    let object = cluster.get("services", namespace, service)?;
    if host.is_none()
        && let Ok(address) = object.str_at("spec.clusterIP").parse()
    {
        return Some(vec![address]);
    }
    let mut found = Vec::new();
    for stored in cluster.store.list(SLICES, Some(namespace)).1 {
        if stored.labels.get("kubernetes.io/service-name").is_none_or(|s| s != service) {
            continue;
        }
        for endpoint in stored.value().list_at("endpoints") {
            let named = host.is_none_or(|host| endpoint.str_at("hostname") == host);
            if named && (host.is_some() || endpoint.bool_at("conditions.ready")) {
                found.extend(
                    endpoint
                        .list_at("addresses")
                        .iter()
                        .filter_map(Value::as_str)
                        .filter_map(|a| a.parse::<Ipv4Addr>().ok()),
                );
            }
        }
    }
    if host.is_some() && found.is_empty() { None } else { Some(found) }
}

fn reply(packet: &[u8], end: usize, addresses: &[Ipv4Addr], code: u8) -> Vec<u8> {
    let mut out = packet[..end.min(packet.len())].to_vec();
    // A response, authoritative, recursion as asked and available.
    out[2] = 0x84 | (packet[2] & 1);
    out[3] = 0x80 | code;
    out[4..12].copy_from_slice(&[0, 1, 0, addresses.len() as u8, 0, 0, 0, 0]);
    for address in addresses {
        out.extend_from_slice(&[0xc0, 12, 0, 1, 0, 1, 0, 0, 0, 5, 0, 4]);
        out.extend_from_slice(&address.octets());
    }
    out
}

/// Everything outside the cluster is asked where this machine asks.
async fn forward(packet: &[u8]) -> Option<Vec<u8>> {
    let config = tokio::fs::read_to_string("/etc/resolv.conf").await.ok()?;
    let servers =
        config.lines().filter_map(|line| line.strip_prefix("nameserver ")?.trim().parse::<IpAddr>().ok());
    for server in servers {
        let local: SocketAddr =
            if server.is_ipv4() { ([0, 0, 0, 0], 0).into() } else { ([0u16; 8], 0).into() };
        let Ok(socket) = UdpSocket::bind(local).await else { continue };
        if socket.send_to(packet, (server, 53)).await.is_err() {
            continue;
        }
        let mut buffer = vec![0; 4096];
        if let Ok(Ok(count)) = tokio::time::timeout(Duration::from_secs(3), socket.recv(&mut buffer)).await {
            buffer.truncate(count);
            return Some(buffer);
        }
    }
    None
}

/// TLS without looking at the certificate: what an HTTPS probe wants.
pub(super) async fn insecure_tls(
    stream: TcpStream,
    host: &str,
) -> Result<tokio_rustls::client::TlsStream<TcpStream>, String> {
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let config = rustls::ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .map_err(|e| e.to_string())?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anything(provider)))
        .with_no_client_auth();
    let name = rustls::pki_types::ServerName::try_from(host.to_owned()).map_err(|e| e.to_string())?;
    tokio_rustls::TlsConnector::from(Arc::new(config)).connect(name, stream).await.map_err(|e| e.to_string())
}

#[derive(Debug)]
struct Anything(Arc<rustls::crypto::CryptoProvider>);

impl rustls::client::danger::ServerCertVerifier for Anything {
    fn verify_server_cert(
        &self,
        _: &rustls::pki_types::CertificateDer<'_>,
        _: &[rustls::pki_types::CertificateDer<'_>],
        _: &rustls::pki_types::ServerName<'_>,
        _: &[u8],
        _: rustls::pki_types::UnixTime,
    ) -> Result<rustls::client::danger::ServerCertVerified, rustls::Error> {
        Ok(rustls::client::danger::ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        cert: &rustls::pki_types::CertificateDer<'_>,
        dss: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        cert: &rustls::pki_types::CertificateDer<'_>,
        dss: &rustls::DigitallySignedStruct,
    ) -> Result<rustls::client::danger::HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(message, cert, dss, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<rustls::SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}
