//! Port-forward and proxy: connections into a pod.
//!
//! kubectl tunnels SPDY through a WebSocket (`SPDY/3.1+portforward.k8s.io`) or upgrades to SPDY directly; other clients
//! use the plain channel protocol, two channels per port.

use std::sync::Arc;

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http::{HeaderValue, Response, StatusCode, header};
use hyper_util::rt::TokioIo;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_tungstenite::tungstenite::Message;

use super::channels::{Socket, goodbye, websocket};
use super::reply::full;
use super::resources::Target;
use super::{Ask, Body, spdy};
use crate::error::{ApiError, ApiResult};
use crate::node::{Engine, connect};
use crate::value::Json as _;

const TUNNEL: &str = "SPDY/3.1+portforward.k8s.io";

/// A pod whose ports can be dialled.
pub(super) struct PodPorts {
    engine: Arc<Engine>,
    pod: Value,
}

impl PodPorts {
    pub(super) async fn dial(&self, port: u16) -> Result<tokio::net::TcpStream, String> {
        connect(&self.engine, &self.pod, port).await
    }
}

fn running(ask: &Ask, pod: Value) -> ApiResult<PodPorts> {
    if pod.str_at("status.phase") != "Running" {
        return Err(ApiError::bad_request(format!("unable to forward port because pod is not running. Current status={}", pod.str_at("status.phase"))));
    }
    match ask.cluster.node.engine() {
        Some(engine) => Ok(PodPorts { engine, pod }),
        None => Err(ApiError::new(503, "ServiceUnavailable", ask.cluster.node.unavailable().unwrap_or_default())),
    }
}

pub(super) async fn start(mut ask: Ask, pod: Value) -> ApiResult<Response<Body>> {
    let ports = running(&ask, pod)?;
    if ask.header("upgrade").eq_ignore_ascii_case("SPDY/3.1") {
        let upgrade = hyper::upgrade::on(&mut ask.request);
        let shutdown = ask.shutdown.clone();
        tokio::spawn(async move {
            let Ok(stream) = upgrade.await else { return };
            let (reader, writer) = tokio::io::split(TokioIo::new(stream));
            tokio::select! {
                () = shutdown.cancelled() => {}
                () = spdy::serve(reader, writer, Arc::new(ports)) => {}
            }
        });
        let mut response = Response::new(full(Bytes::new()));
        *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
        let headers = response.headers_mut();
        headers.insert(header::UPGRADE, HeaderValue::from_static("SPDY/3.1"));
        headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
        headers.insert("x-stream-protocol-version", HeaderValue::from_static("portforward.k8s.io"));
        return Ok(response);
    }
    let asked: Vec<u16> = ask.query.all("ports").iter().flat_map(|p| p.split(',')).filter_map(|p| p.parse().ok()).collect();
    websocket(ask, &[TUNNEL, "v4.channel.k8s.io", "channel.k8s.io"], |socket, protocol| async move {
        if protocol == TUNNEL { tunnel(socket, ports).await } else { plain(socket, asked, ports).await }
    })
}

/// SPDY bytes in binary messages.
async fn tunnel(socket: Socket, ports: PodPorts) {
    let (near, far) = tokio::io::duplex(256 << 10);
    let (reader, writer) = tokio::io::split(near);
    let (mut far_reader, mut far_writer) = tokio::io::split(far);
    let (mut sink, mut source) = socket.split();
    let inward = async {
        while let Some(Ok(message)) = source.next().await {
            match message {
                Message::Binary(data) if far_writer.write_all(&data).await.is_err() => return,
                Message::Close(_) => return,
                _ => {}
            }
        }
    };
    let outward = async {
        let mut buffer = vec![0; 32 << 10];
        while let Ok(count) = far_reader.read(&mut buffer).await {
            if count == 0 || sink.send(Message::Binary(Bytes::copy_from_slice(&buffer[..count]))).await.is_err() {
                return;
            }
        }
    };
    tokio::select! {
        () = inward => {}
        () = outward => {}
        () = spdy::serve(reader, writer, Arc::new(ports)) => {}
    }
}

/// Channels 2n and 2n+1 carry the data and the errors of the n-th port; each begins with the port's number.
async fn plain(socket: Socket, asked: Vec<u16>, ports: PodPorts) {
    let (mut sink, mut source) = socket.split();
    let (sender, mut outgoing) = tokio::sync::mpsc::channel::<Message>(32);
    let frame = |channel: usize, bytes: &[u8]| {
        let mut data = vec![channel as u8];
        data.extend_from_slice(bytes);
        Message::Binary(data.into())
    };
    let mut writers = Vec::new();
    for (index, port) in asked.iter().enumerate() {
        for channel in [2 * index, 2 * index + 1] {
            if sink.send(frame(channel, &port.to_le_bytes())).await.is_err() {
                return;
            }
        }
        match ports.dial(*port).await {
            Ok(stream) => {
                let (mut reader, writer) = stream.into_split();
                let sender = sender.clone();
                writers.push(Some(writer));
                tokio::spawn(async move {
                    let mut buffer = vec![0; 32 << 10];
                    while let Ok(count) = reader.read(&mut buffer).await {
                        let mut data = vec![(2 * index) as u8];
                        data.extend_from_slice(&buffer[..count]);
                        if count == 0 || sender.send(Message::Binary(data.into())).await.is_err() {
                            break;
                        }
                    }
                });
            }
            Err(why) => {
                writers.push(None);
                let _ = sink.send(frame(2 * index + 1, why.as_bytes())).await;
            }
        }
    }
    drop(sender);
    loop {
        tokio::select! {
            message = outgoing.recv() => match message {
                Some(message) => if sink.send(message).await.is_err() { return },
                None => break,
            },
            incoming = source.next() => match incoming {
                Some(Ok(Message::Binary(data))) => {
                    if let Some((channel, bytes)) = data.split_first()
                        && let Some(Some(writer)) = writers.get_mut(usize::from(*channel) / 2)
                        && channel % 2 == 0
                        && writer.write_all(bytes).await.is_err()
                    {
                        break;
                    }
                }
                Some(Ok(Message::Close(_)) | Err(_)) | None => return,
                Some(Ok(_)) => {}
            },
        }
    }
    let _ = sink.send(goodbye()).await;
}

/// `…/pods/web:8080/proxy/path` and `…/services/web:80/proxy/path`: one request, passed on.
pub(super) async fn proxy(ask: Ask, target: &Target, object: Value) -> ApiResult<Response<Body>> {
    let path = format!("/{}", target.rest.join("/"));
    let address = if target.resource.plural == "pods" {
        let port = object.list_at("spec.containers").iter().flat_map(|c| c.list_at("ports")).find_map(|p| p.int_at("containerPort")).unwrap_or(80);
        format!("{}:{port}", object.str_at("status.podIP"))
    } else {
        let port = object.list_at("spec.ports").first().and_then(|p| p.int_at("port")).unwrap_or(80);
        format!("{}:{port}", object.str_at("spec.clusterIP"))
    };
    let unreachable = |e: String| ApiError::new(503, "ServiceUnavailable", format!("error trying to reach service: {e}"));
    let stream = tokio::net::TcpStream::connect(&address).await.map_err(|e| unreachable(e.to_string()))?;
    let (mut client, connection) = hyper::client::conn::http1::handshake(TokioIo::new(stream)).await.map_err(|e| unreachable(e.to_string()))?;
    tokio::spawn(connection);
    let query = ask.request.uri().query().map(|q| format!("?{q}")).unwrap_or_default();
    let (parts, body) = ask.request.into_parts();
    let mut request = http::Request::builder().method(parts.method).uri(format!("{path}{query}")).header(header::HOST, &address);
    for (name, value) in parts.headers.iter().filter(|(name, _)| !matches!(name.as_str(), "host" | "authorization" | "connection")) {
        request = request.header(name, value);
    }
    let request = request.body(body).map_err(|e| unreachable(e.to_string()))?;
    let answer = client.send_request(request).await.map_err(|e| unreachable(e.to_string()))?;
    let (parts, mut body) = answer.into_parts();
    let (sender, mut response) = super::reply::streaming("application/octet-stream");
    *response.status_mut() = parts.status;
    if let Some(kind) = parts.headers.get(header::CONTENT_TYPE) {
        response.headers_mut().insert(header::CONTENT_TYPE, kind.clone());
    }
    tokio::spawn(async move {
        use http_body_util::BodyExt as _;
        while let Some(Ok(frame)) = body.frame().await {
            if let Ok(data) = frame.into_data()
                && sender.send(data).await.is_err()
            {
                return;
            }
        }
    });
    Ok(response)
}
