//! The cache that the CLI reads: trees, manifests and clusters, answered from the engine's state.
//!
//! Reading is all that it is for: writes are refused, and there is nothing to lose.

use std::collections::BTreeSet;
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use aws_lc_rs::constant_time::verify_slices_are_equal;
use base64::Engine as _;
use base64::prelude::{BASE64_STANDARD, BASE64_URL_SAFE_NO_PAD};
use flate2::Compression;
use flate2::write::GzEncoder;
use serde_json::{Value, json};
use slipway_cluster::{ClusterError, ObjectKey, WriteOptions};
use slipway_model::Secret;
use tokio::io::{AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;

use super::resp::{Pushed, Reply, RespError, read_command};
use super::{Core, views};

/// Where the CLI looks for the password.
const SECRET: &str = "argocd-redis";
const FIELD: &str = "auth";
/// Somebody who connects and says nothing is in the way of the others.
const SILENCE: Duration = Duration::from_secs(600);
const CONNECTIONS_MAX: usize = 64;

/// The password of the installation; made if there is none, by whichever engine comes first.
pub(super) async fn password(core: &Core) -> Result<Secret<String>, ClusterError> {
    let namespace = core.settings.namespace();
    let key = ObjectKey::new("", "Secret", namespace, SECRET);
    if let Some(found) = core.cluster.read(&key).await?.as_ref().and_then(known) {
        return Ok(found);
    }
    let mut random = [0; 24];
    aws_lc_rs::rand::fill(&mut random).expect("the system has random numbers");
    let made = BASE64_URL_SAFE_NO_PAD.encode(random);
    let object = json!({"apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": SECRET, "namespace": namespace,
            "labels": {"app.kubernetes.io/name": SECRET, "app.kubernetes.io/part-of": "argocd"}},
        "stringData": {FIELD: made}});
    match core.cluster.create(&object, WriteOptions::default()).await {
        Ok(_) => Ok(Secret::new(made)),
        Err(error) if error.already_exists() => {
            let found = core.cluster.read(&key).await?.as_ref().and_then(known);
            // A Secret without the field is as good as no password to the CLI, which sends none then.
            Ok(found.unwrap_or_else(|| Secret::new(String::new())))
        }
        Err(error) => Err(error),
    }
}

fn known(secret: &Value) -> Option<Secret<String>> {
    let bytes = BASE64_STANDARD.decode(secret["data"][FIELD].as_str()?).ok()?;
    String::from_utf8(bytes).ok().map(Secret::new)
}

pub(super) async fn serve(core: Arc<Core>, listener: TcpListener, password: Secret<String>) {
    let room = Arc::new(tokio::sync::Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = room.clone().acquire_owned().await else { return };
        let stream = super::accept(&listener).await;
        let client = Client {
            core: core.clone(),
            password: password.clone(),
            admitted: password.expose().is_empty(),
            channels: BTreeSet::new(),
            reconciled: core.view.reconciles(),
        };
        tokio::spawn(async move {
            let _place = place;
            if let Err(error) = client.talk(stream).await {
                tracing::debug!(%error, "A reader of the cache went away.");
            }
        });
    }
}

struct Client {
    core: Arc<Core>,
    password: Secret<String>,
    admitted: bool,
    channels: BTreeSet<Vec<u8>>,
    /// Instances that were looked at.
    reconciled: broadcast::Receiver<Arc<str>>,
}

impl Client {
    async fn talk(mut self, stream: TcpStream) -> Result<(), RespError> {
        let (read, mut write) = stream.into_split();
        let mut read = BufReader::new(read);
        // A command that was read halfway must not be dropped, so it is read beside the waiting.
        let (sender, mut commands) = tokio::sync::mpsc::channel(16);
        let reading = async move {
            while let Some(command) = tokio::time::timeout(SILENCE, read_command(&mut read))
                .await
                .map_err(|_| std::io::Error::from(std::io::ErrorKind::TimedOut))??
            {
                if sender.send(command).await.is_err() {
                    break;
                }
            }
            Ok::<(), RespError>(())
        };
        let answering = async move {
            loop {
                let mut out = Vec::new();
                tokio::select! {
                    command = commands.recv() => {
                        let Some(command) = command else { return Ok(()) };
                        for reply in self.answer(&command).await {
                            reply.write(&mut out);
                        }
                    }
                    looked = self.reconciled.recv(), if !self.channels.is_empty() => match looked {
                        Ok(instance) => {
                            let channel = format!("app|managed-resources|{instance}").into_bytes();
                            if self.channels.contains(&channel) {
                                Reply::Push("message", channel, Pushed::Text("")).write(&mut out);
                            }
                        }
                        // Whoever missed something looks at everything once.
                        Err(RecvError::Lagged(_)) => {
                            for channel in &self.channels {
                                Reply::Push("message", channel.clone(), Pushed::Text("")).write(&mut out);
                            }
                        }
                        Err(RecvError::Closed) => return Ok(()),
                    },
                }
                write.write_all(&out).await?;
            }
        };
        tokio::try_join!(reading, answering).map(|_| ())
    }

    async fn answer(&mut self, command: &[Vec<u8>]) -> Vec<Reply> {
        let name = command.first().map(|name| name.to_ascii_uppercase()).unwrap_or_default();
        let arguments = command.get(1..).unwrap_or_default();
        let one = |reply| vec![reply];
        match (name.as_slice(), arguments) {
            (b"AUTH", [.., word]) => {
                self.admitted = verify_slices_are_equal(word, self.password.expose().as_bytes()).is_ok()
                    || self.password.expose().is_empty();
                one(if self.admitted {
                    Reply::Status("OK")
                } else {
                    Reply::Error("WRONGPASS invalid password".into())
                })
            }
            // Clients that are told so speak the older protocol, which is all that is needed.
            (b"HELLO", _) => one(Reply::Error("ERR unknown command 'HELLO'".into())),
            _ if !self.admitted => one(Reply::Error("NOAUTH Authentication required.".into())),
            (b"PING", _) => one(Reply::Status("PONG")),
            (b"CLIENT" | b"SELECT", _) => one(Reply::Status("OK")),
            (b"GET", [key]) => one(match std::str::from_utf8(key) {
                Ok(key) => Reply::Bulk(self.value(key).await),
                Err(_) => Reply::Bulk(None),
            }),
            (b"SUBSCRIBE", [_, ..]) => {
                // What was looked at before is not news.
                self.reconciled = self.reconciled.resubscribe();
                let note = |channel: &Vec<u8>| {
                    self.channels.insert(channel.clone());
                    Reply::Push("subscribe", channel.clone(), Pushed::Count(self.channels.len()))
                };
                arguments.iter().map(note).collect()
            }
            (b"UNSUBSCRIBE", _) => {
                let gone: Vec<Vec<u8>> = match arguments {
                    [] => self.channels.iter().cloned().collect(),
                    some => some.to_vec(),
                };
                let note = |channel: Vec<u8>| {
                    self.channels.remove(&channel);
                    Reply::Push("unsubscribe", channel, Pushed::Count(self.channels.len()))
                };
                gone.into_iter().map(note).collect()
            }
            (b"SET" | b"SETEX" | b"SETNX" | b"DEL" | b"UNLINK" | b"RENAME" | b"EXPIRE" | b"PUBLISH", _) => {
                one(Reply::Error("READONLY the engine's state is read here, never written".into()))
            }
            (name, _) => {
                one(Reply::Error(format!("ERR unknown command '{}'", String::from_utf8_lossy(name))))
            }
        }
    }

    /// `family|name|format version`, and `.gz` for what is to be compressed.
    async fn value(&self, key: &str) -> Option<Vec<u8>> {
        let (key, compressed) = key.strip_suffix(".gz").map_or((key, false), |key| (key, true));
        let (what, _version) = key.rsplit_once('|')?;
        let value = match what.split('|').collect::<Vec<_>>().as_slice() {
            ["app", "resources-tree", instance] => views::tree(&self.core, instance).await?,
            ["app", "managed-resources", instance] => views::managed(&self.core, instance).await?,
            ["cluster", "info", server] => views::cluster(&self.core, server)?,
            _ => return None,
        };
        let text = value.to_string().into_bytes();
        if !compressed {
            return Some(text);
        }
        let mut packed = GzEncoder::new(Vec::new(), Compression::fast());
        packed.write_all(&text).and_then(|()| packed.finish()).ok()
    }
}
