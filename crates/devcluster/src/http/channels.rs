//! Exec and attach over WebSockets: Kubernetes' channel protocols `v5.channel.k8s.io` and `v4.channel.k8s.io`.
//!
//! Each message begins with its channel: 0 stdin, 1 stdout, 2 stderr, 3 the end as a Status, 4 terminal size;
//! in v5 also 255, which closes the channel that follows.

use bytes::Bytes;
use futures::{SinkExt as _, StreamExt as _};
use http::{HeaderValue, Response, StatusCode, header};
use hyper::upgrade::Upgraded;
use hyper_util::rt::TokioIo;
use serde_json::{Value, json};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::derive_accept_key;
use tokio_tungstenite::tungstenite::protocol::frame::coding::CloseCode;
use tokio_tungstenite::tungstenite::protocol::{CloseFrame, Role};

use super::reply::full;
use super::{Ask, Body};
use crate::error::{ApiError, ApiResult};
use crate::node::{Exec, Reader};

pub(super) type Socket = WebSocketStream<TokioIo<Upgraded>>;

/// Answers a WebSocket handshake with one of `spoken`, and runs `serve` on the socket.
pub(super) fn websocket<F, Fut>(mut ask: Ask, spoken: &[&'static str], serve: F) -> ApiResult<Response<Body>>
where
    F: FnOnce(Socket, &'static str) -> Fut + Send + 'static,
    Fut: Future<Output = ()> + Send,
{
    let key = ask.header("sec-websocket-key").to_owned();
    if key.is_empty() || !ask.header("upgrade").eq_ignore_ascii_case("websocket") {
        return Err(ApiError::bad_request("this request needs a WebSocket: use kubectl 1.31 or newer, or any client of the Kubernetes WebSocket protocol"));
    }
    let asked: Vec<String> = ask.header("sec-websocket-protocol").split(',').map(|p| p.trim().to_owned()).collect();
    let Some(protocol) = asked.iter().find_map(|a| spoken.iter().find(|s| *s == a).copied()) else {
        return Err(ApiError::bad_request(format!("unable to negotiate a protocol: client offers {asked:?}, this cluster speaks {spoken:?}")));
    };
    let upgrade = hyper::upgrade::on(&mut ask.request);
    let shutdown = ask.shutdown.clone();
    tokio::spawn(async move {
        let Ok(stream) = upgrade.await else { return };
        let socket = WebSocketStream::from_raw_socket(TokioIo::new(stream), Role::Server, None).await;
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = serve(socket, protocol) => {}
        }
    });
    let mut response = Response::new(full(Bytes::new()));
    *response.status_mut() = StatusCode::SWITCHING_PROTOCOLS;
    let headers = response.headers_mut();
    headers.insert(header::UPGRADE, HeaderValue::from_static("websocket"));
    headers.insert(header::CONNECTION, HeaderValue::from_static("Upgrade"));
    headers.insert(header::SEC_WEBSOCKET_PROTOCOL, HeaderValue::from_static(protocol));
    if let Ok(value) = derive_accept_key(key.as_bytes()).parse() {
        headers.insert(header::SEC_WEBSOCKET_ACCEPT, value);
    }
    Ok(response)
}

pub(super) fn upgrade(ask: Ask, start: impl FnOnce() -> Result<Exec, String> + Send + 'static) -> ApiResult<Response<Body>> {
    websocket(ask, &["v5.channel.k8s.io", "v4.channel.k8s.io", "channel.k8s.io"], |socket, _| async move {
        match start() {
            Ok(exec) => run(socket, exec).await,
            Err(why) => refuse(socket, &why).await,
        }
    })
}

async fn refuse(mut socket: Socket, why: &str) {
    let status = ApiError::new(500, "InternalError", why).status();
    let _ = socket.send(message(3, status.to_string().as_bytes())).await;
    let _ = socket.send(goodbye()).await;
}

/// Clients report anything but a normal closure as an error.
pub(super) fn goodbye() -> Message {
    Message::Close(Some(CloseFrame { code: CloseCode::Normal, reason: "".into() }))
}

fn message(channel: u8, bytes: &[u8]) -> Message {
    let mut data = Vec::with_capacity(bytes.len() + 1);
    data.push(channel);
    data.extend_from_slice(bytes);
    Message::Binary(data.into())
}

async fn pump(channel: u8, pipe: Option<Reader>, sender: mpsc::Sender<Message>) {
    let Some(mut pipe) = pipe else { return };
    let mut buffer = vec![0; 32 << 10];
    // A closed terminal reads as an error; both are the end.
    while let Ok(count) = pipe.read(&mut buffer).await {
        if count == 0 || sender.send(message(channel, &buffer[..count])).await.is_err() {
            return;
        }
    }
}

async fn run(socket: Socket, mut exec: Exec) {
    let (mut sink, mut source) = socket.split();
    let (sender, mut outgoing) = mpsc::channel::<Message>(32);
    let stdout = tokio::spawn(pump(1, exec.stdout.take(), sender.clone()));
    let stderr = tokio::spawn(pump(2, exec.stderr.take(), sender.clone()));
    let writer = tokio::spawn(async move {
        while let Some(message) = outgoing.recv().await {
            if sink.send(message).await.is_err() {
                return;
            }
        }
        let _ = sink.send(goodbye()).await;
        let _ = sink.close().await;
    });
    let mut stdin = exec.stdin.take();
    let end = loop {
        tokio::select! {
            end = exec.wait() => break Some(end),
            incoming = source.next() => match incoming {
                Some(Ok(Message::Binary(data))) => match data.split_first() {
                    Some((0, bytes)) => {
                        if let Some(pipe) = stdin.as_mut()
                            && (pipe.write_all(bytes).await.is_err() || pipe.flush().await.is_err())
                        {
                            stdin = None;
                        }
                    }
                    Some((4, bytes)) => {
                        if let Ok(size) = serde_json::from_slice::<Value>(bytes) {
                            exec.resize(&size);
                        }
                    }
                    Some((255, [0])) => stdin = None,
                    _ => {}
                },
                Some(Ok(Message::Ping(data))) => drop(sender.send(Message::Pong(data)).await),
                Some(Ok(Message::Close(_)) | Err(_)) | None => break None,
                Some(Ok(_)) => {}
            },
        }
    };
    drop(stdin);
    if let Some(end) = end {
        let drain = async {
            let _ = stdout.await;
            let _ = stderr.await;
        };
        let _ = tokio::time::timeout(std::time::Duration::from_secs(2), drain).await;
        let _ = sender.send(message(3, end_status(end.code).to_string().as_bytes())).await;
    }
    drop(sender);
    let _ = tokio::time::timeout(std::time::Duration::from_secs(2), writer).await;
}

fn end_status(code: i32) -> Value {
    match code {
        0 => json!({"metadata": {}, "status": "Success"}),
        code => json!({
            "metadata": {}, "status": "Failure", "reason": "NonZeroExitCode",
            "message": format!("command terminated with non-zero exit code: exit status {code}"),
            "details": {"causes": [{"reason": "ExitCode", "message": code.to_string()}]}, "code": 500,
        }),
    }
}
