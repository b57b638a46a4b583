//! A command in a container of one of an Application's pods, over a WebSocket.
//!
//! In: a pod of the Application's tree, a command, and what is typed. Out: what it prints, and how it ended. Beginning and end are
//! recorded by the control plane, also when the caller just leaves. It ends when whoever opened it may not any more.

use std::time::Duration;

use axum::Extension;
use axum::extract::ws::{Message, WebSocket, WebSocketUpgrade};
use axum::extract::{Query, State};
use axum::http::StatusCode;
use axum::response::Response;
use futures::StreamExt as _;
use futures::stream::SplitStream;
use serde::Deserialize;
use slipway_api::proxy::{EXEC_PROTOCOL, ExecEnded, ExecRequest, ExecSize, channel};
use slipway_cluster::{Exec, ExecOptions, ObjectKey};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWriteExt as _};
use tokio::sync::{OwnedSemaphorePermit, mpsc};

use super::logs::container;
use super::peer::{GONE_AFTER, PING_EVERY, tell};
use super::tree::Tree;
use super::{AppPath, Asker, Proxy, Refusal};

const MESSAGE_BYTES_MAX: usize = 1 << 20;
const READ_BYTES: usize = 16 << 10;
const QUEUE: usize = 8;
const LAST_WORDS: Duration = Duration::from_secs(5);

#[derive(Deserialize)]
pub(super) struct InTheAddress {
    request: String,
}

/// One command, from the moment it is asked for: its end is recorded whatever becomes of it.
struct Session {
    proxy: Proxy,
    asker: Asker,
    outcome: String,
    _place: OwnedSemaphorePermit,
}

impl Drop for Session {
    fn drop(&mut self) {
        let (proxy, asker) = (self.proxy.clone(), self.asker.clone());
        let outcome = std::mem::take(&mut self.outcome);
        if let Ok(runtime) = tokio::runtime::Handle::try_current() {
            runtime.spawn(async move { proxy.tell_end(&asker, outcome).await });
        }
    }
}

pub(super) async fn exec(
    State(proxy): State<Proxy>,
    Extension(asker): Extension<Asker>,
    path: AppPath,
    Query(InTheAddress { request }): Query<InTheAddress>,
    upgrade: WebSocketUpgrade,
) -> Result<Response, Refusal> {
    let place = proxy.stream()?;
    let mut session =
        Session { proxy: proxy.clone(), asker, outcome: "it was not started".into(), _place: place };
    let opened = open(&proxy, path, &request).await;
    let exec = opened.inspect_err(|refusal| {
        session.outcome = format!("it was not started: {}", refusal.message);
    })?;
    let upgrade = upgrade.protocols([EXEC_PROTOCOL]).max_message_size(MESSAGE_BYTES_MAX);
    Ok(upgrade.on_upgrade(move |socket| carry(session, socket, exec)))
}

async fn open(proxy: &Proxy, path: AppPath, request: &str) -> Result<Exec, Refusal> {
    let wrong = |message: String| Refusal::new(StatusCode::BAD_REQUEST, "BAD_REQUEST", message);
    let request: ExecRequest =
        serde_json::from_str(request).map_err(|error| wrong(format!("`request` cannot be read: {error}")))?;
    if request.command.is_empty() {
        return Err(wrong("give a command".into()));
    }
    let tree = Tree::of(proxy, path)?;
    if proxy.running()?.settings.get().impersonation {
        let message = "commands are not run in another's name, and with impersonation nothing here is done in the runtime's own: use kubectl";
        return Err(Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "NOT_PERMITTED", message));
    }
    let key = ObjectKey::new("", "Pod", &request.namespace, &request.pod);
    tree.find(&key)?;
    let pod = tree.to.cluster.read(&key).await?.ok_or_else(|| tree.nothing(&key))?;
    let mut names = Vec::new();
    let container = container(&pod, &request.container, &mut names).ok_or_else(|| {
        let message = format!("no container is called {}: there are {}", request.container, names.join(", "));
        Refusal::new(StatusCode::NOT_FOUND, "NOT_FOUND", message)
    })?;
    let options = ExecOptions { container, command: request.command, tty: request.tty, stdin: request.stdin };
    let opened = tree.to.cluster.exec(&key.namespace, &key.name, &options).await;
    opened.map_err(|error| Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, "EXEC_FAILED", error.to_string()))
}

async fn carry(mut session: Session, socket: WebSocket, mut exec: Exec) {
    let (to, from) = socket.split();
    let (sender, mut outbox) = mpsc::channel::<Message>(QUEUE);
    let said = futures::stream::poll_fn(move |context| outbox.poll_recv(context));
    let writer = tokio::spawn(tell(to, said, PING_EVERY));
    let (stdout, stderr) = (exec.stdout.take(), exec.stderr.take());
    let typing = listen(from, exec.stdin.take(), exec.size.take());
    let printing = async {
        tokio::join!(print(channel::STDOUT, stdout, &sender), print(channel::STDERR, stderr, &sender));
        (&mut exec.end).await
    };
    let proxy = session.proxy.clone();
    let asker = session.asker.clone();
    let ended = tokio::select! {
        end = printing => ExecEnded { code: end.code, message: end.message },
        why = typing => ExecEnded { code: None, message: why.into() },
        why = proxy.until_revoked(&asker) => ExecEnded { code: None, message: why },
    };
    drop(exec);
    session.outcome = match ended.code {
        Some(code) => format!("exit code {code}"),
        None => ended.message.clone(),
    };
    let status = framed(channel::STATUS, &serde_json::to_vec(&ended).unwrap_or_default());
    let _ = tokio::time::timeout(LAST_WORDS, async {
        let _ = sender.send(status).await;
        drop(sender);
        let _ = writer.await;
    })
    .await;
}

fn framed(channel: u8, bytes: &[u8]) -> Message {
    let mut message = Vec::with_capacity(bytes.len() + 1);
    message.push(channel);
    message.extend_from_slice(bytes);
    Message::Binary(message.into())
}

async fn print(
    channel: u8,
    stream: Option<Box<dyn AsyncRead + Send + Unpin>>,
    sender: &mpsc::Sender<Message>,
) {
    let Some(mut stream) = stream else { return };
    let mut buffer = vec![0; READ_BYTES];
    while let Ok(count @ 1..) = stream.read(&mut buffer).await {
        if sender.send(framed(channel, &buffer[..count])).await.is_err() {
            // Nobody listens; how it ends is found out by whoever waits for that.
            return;
        }
    }
}

/// Until the caller leaves: why.
async fn listen(
    mut from: SplitStream<WebSocket>,
    mut stdin: Option<Box<dyn tokio::io::AsyncWrite + Send + Unpin>>,
    mut size: Option<slipway_cluster::Resize>,
) -> &'static str {
    loop {
        let message = match tokio::time::timeout(GONE_AFTER, from.next()).await {
            Ok(Some(Ok(message))) => message,
            Ok(_) => return "the caller left",
            Err(_) => return "the caller does not answer",
        };
        let bytes = match message {
            Message::Binary(bytes) => bytes,
            Message::Close(_) => return "the caller left",
            _ => continue,
        };
        match bytes.split_first() {
            Some((&channel::STDIN, typed)) => {
                if let Some(input) = &mut stdin
                    && (input.write_all(typed).await.is_err() || input.flush().await.is_err())
                {
                    stdin = None;
                }
            }
            Some((&channel::CLOSE, [channel::STDIN])) => {
                if let Some(mut input) = stdin.take() {
                    let _ = input.shutdown().await;
                }
            }
            Some((&channel::SIZE, text)) => {
                if let (Some(size), Ok(wanted)) = (&mut size, serde_json::from_slice::<ExecSize>(text)) {
                    size.set(wanted.columns, wanted.rows).await;
                }
            }
            _ => {}
        }
    }
}
