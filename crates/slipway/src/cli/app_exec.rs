//! `slipway app exec`: a command in a container of one of an Application's pods, through its runtime.
//!
//! In: a pod, a command, what the person types and how large their terminal is. Out: what it prints, and its exit code. The
//! terminal is put back as it was however this ends.

use std::io::{Read as _, Write as _};
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::Args;
use futures::{SinkExt as _, StreamExt as _};
use reqwest::header;
use rustix::termios::tcgetwinsize;
use slipway_api::Client;
use slipway_api::application::{Application, ResourceNode};
use slipway_api::proxy::{ExecEnded, ExecRequest, ExecSize, channel};
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::mpsc;
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::handshake::client::generate_key;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::apps::{self, Name};
use super::debug::Raw;
use super::{nouns, proxy};

#[derive(Args)]
pub(crate) struct ExecArguments {
    #[command(flatten)]
    pub(super) app: Name,
    /// The pod, or a resource that has pods, as KIND/NAME or NAMESPACE/KIND/NAME; without it, the Application's only pod
    #[arg(long, value_name = "RESOURCE")]
    resource: Option<String>,
    /// The container; without it, the default one of the pod
    #[arg(short = 'c', long)]
    container: Option<String>,
    /// Pass standard input on
    #[arg(short = 'i', long)]
    stdin: bool,
    /// Give the command a terminal
    #[arg(short = 't', long)]
    tty: bool,
    /// The command and its arguments
    #[arg(last = true, required = true)]
    command: Vec<String>,
}

/// One pod at or below a resource. Of several the first by name that is well, as `kubectl exec deployment/…` does.
fn pod<'a>(app: &'a Application, wanted: Option<&str>) -> anyhow::Result<&'a ResourceNode> {
    let is_pod = |node: &&ResourceNode| node.kind == "Pod" && node.group.is_empty();
    let mut pods: Vec<&ResourceNode> = app.resources.iter().filter(is_pod).collect();
    pods.sort_by(|a, b| a.name.cmp(&b.name));
    let Some(wanted) = wanted else {
        return match pods.as_slice() {
            [pod] => Ok(pod),
            [] => bail!("{} has no pods now", app.name),
            _ => bail!("{} has {} pods: choose one with --resource pod/NAME", app.name, pods.len()),
        };
    };
    let root = apps::resource(app, wanted)?;
    let below = |pod: &ResourceNode| {
        let mut at = pod;
        for _ in 0..20 {
            if at.uid == root.uid {
                return true;
            }
            match app.resources.iter().find(|node| !node.uid.is_empty() && node.uid == at.parent_uid) {
                Some(parent) => at = parent,
                None => return false,
            }
        }
        false
    };
    pods.retain(|pod| below(pod));
    let well = |pod: &&&ResourceNode| pod.health.as_ref().is_some_and(|health| health.as_str() == "Healthy");
    let found = pods.iter().find(well).or(pods.first());
    found.copied().with_context(|| format!("{wanted} has no pods now"))
}

pub(crate) async fn run(
    client: &Client,
    app: &Application,
    wish: &ExecArguments,
) -> anyhow::Result<ExitCode> {
    let pod = pod(app, wish.resource.as_deref())?;
    let request = ExecRequest {
        namespace: pod.namespace.clone(),
        pod: pod.name.clone(),
        container: wish.container.clone().unwrap_or_default(),
        command: wish.command.clone(),
        tty: wish.tty,
        stdin: wish.stdin,
    };
    let detail = serde_json::to_value(&request)?;
    let text = nouns::part(&detail.to_string());
    let (runtime, path) = proxy::admitted(client, app, "exec", Some(detail)).await?;
    let asked = runtime
        .request(reqwest::Method::GET, &format!("{path}?request={text}"))
        .header(header::CONNECTION, "Upgrade")
        .header(header::UPGRADE, "websocket")
        .header(header::SEC_WEBSOCKET_VERSION, "13")
        .header(header::SEC_WEBSOCKET_KEY, generate_key());
    let answer = runtime.send(asked).await?;
    if answer.status() != reqwest::StatusCode::SWITCHING_PROTOCOLS {
        bail!("{} opens no WebSocket: a proxy in between may not pass them on", runtime.base());
    }
    let upgraded = answer.upgrade().await.context("cannot open the connection")?;
    let socket = WebSocketStream::from_raw_socket(upgraded, Role::Client, None).await;
    let raw = if wish.tty { Raw::enter()? } else { None };
    let ended = carry(socket, wish).await;
    drop(raw);
    let ended = ended?;
    match ended.code {
        Some(code) => Ok(ExitCode::from(u8::try_from(code).unwrap_or(1))),
        None => bail!("{}", ended.message),
    }
}

fn framed(channel: u8, bytes: &[u8]) -> Message {
    let mut message = vec![channel];
    message.extend_from_slice(bytes);
    Message::binary(message)
}

fn size() -> Option<Message> {
    let size = tcgetwinsize(std::io::stdout()).ok().filter(|size| size.ws_col > 0)?;
    let size = ExecSize { columns: size.ws_col, rows: size.ws_row };
    Some(framed(channel::SIZE, &serde_json::to_vec(&size).ok()?))
}

async fn carry(
    socket: WebSocketStream<reqwest::Upgraded>,
    wish: &ExecArguments,
) -> anyhow::Result<ExecEnded> {
    let (mut to, mut from) = socket.split();
    let mut typed = wish.stdin.then(typed);
    let mut resized = signal(SignalKind::window_change())?;
    if let Some(size) = size().filter(|_| wish.tty) {
        to.send(size).await?;
    }
    loop {
        tokio::select! {
            message = from.next() => match message {
                Some(Ok(Message::Binary(bytes))) => {
                    if let Some(ended) = show(&bytes)? {
                        return Ok(ended);
                    }
                }
                Some(Ok(Message::Close(_))) | Some(Err(_)) | None => bail!("the connection to the runtime was lost"),
                Some(Ok(_)) => {}
            },
            input = read(&mut typed) => match input {
                Some(bytes) => to.send(framed(channel::STDIN, &bytes)).await?,
                None => {
                    typed = None;
                    to.send(framed(channel::CLOSE, &[channel::STDIN])).await?;
                }
            },
            _ = resized.recv() => {
                if let Some(size) = size().filter(|_| wish.tty) {
                    to.send(size).await?;
                }
            }
        }
    }
}

/// `None`: that was all. Never, when nothing is passed on.
async fn read(typed: &mut Option<mpsc::Receiver<Vec<u8>>>) -> Option<Vec<u8>> {
    match typed {
        Some(typed) => typed.recv().await,
        None => std::future::pending().await,
    }
}

/// The bytes as they are: they are the command's, which the person runs.
fn show(bytes: &[u8]) -> anyhow::Result<Option<ExecEnded>> {
    match bytes.split_first() {
        Some((&channel::STDOUT, text)) => {
            let mut out = std::io::stdout().lock();
            out.write_all(text)?;
            out.flush()?;
        }
        Some((&channel::STDERR, text)) => std::io::stderr().lock().write_all(text)?,
        Some((&channel::STATUS, text)) => {
            return Ok(Some(serde_json::from_slice(text).context("the runtime sent an unreadable end")?));
        }
        _ => {}
    }
    Ok(None)
}

/// A thread, because standard input has no other way to be read; it ends with the process.
fn typed() -> mpsc::Receiver<Vec<u8>> {
    let (sender, receiver) = mpsc::channel(16);
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        loop {
            match std::io::stdin().lock().read(&mut buffer) {
                Ok(0) | Err(_) => return,
                Ok(count) => {
                    if sender.blocking_send(buffer[..count].to_vec()).is_err() {
                        return;
                    }
                }
            }
        }
    });
    receiver
}
