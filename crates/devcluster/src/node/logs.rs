//! Container logs: from the file that Podman writes, or from Docker's command.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncSeekExt as _};
use tokio::sync::mpsc;

use super::container::{container_name, log_file};
use super::engine::words;
use crate::api::Cluster;
use crate::value::{Json as _, parse_time};
use slipway_container::Kind;

#[derive(Debug, Clone, Default)]
pub(crate) struct LogOptions {
    pub(crate) follow: bool,
    pub(crate) timestamps: bool,
    pub(crate) tail: Option<usize>,
    pub(crate) since: Option<jiff::Timestamp>,
    pub(crate) limit_bytes: Option<usize>,
}

/// One attempt of one container.
pub(crate) struct Source {
    pub(crate) pod: Value,
    pub(crate) container: String,
    pub(crate) attempt: i64,
}

pub(crate) async fn stream_logs(
    cluster: Arc<Cluster>,
    source: Source,
    options: LogOptions,
    sender: mpsc::Sender<Bytes>,
) {
    let Some(engine) = cluster.node.engine() else { return };
    let folder = cluster.data.join("pods").join(source.pod.uid());
    if engine.kind == Kind::Docker {
        let name = container_name(&engine, source.pod.uid(), &source.container, source.attempt);
        let mut args = words(&["logs"]);
        if options.follow {
            args.push("-f".to_owned());
        }
        if options.timestamps {
            args.push("-t".to_owned());
        }
        if let Some(tail) = options.tail {
            args.extend(["--tail".to_owned(), tail.to_string()]);
        }
        if let Some(since) = options.since {
            args.extend(["--since".to_owned(), since.to_string()]);
        }
        args.push(name);
        let mut command = engine.command(&args);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true);
        let Ok(mut child) = command.spawn() else { return };
        let (out, err) = (child.stdout.take(), child.stderr.take());
        tokio::join!(copy(out, &sender), copy(err, &sender));
        return;
    }
    let path = log_file(&folder, &source.container, source.attempt);
    follow_file(&cluster, &source, &path, &options, &sender).await;
}

async fn copy(pipe: Option<impl tokio::io::AsyncRead + Unpin>, sender: &mpsc::Sender<Bytes>) {
    let Some(mut pipe) = pipe else { return };
    let mut buffer = vec![0; 16 << 10];
    while let Ok(count) = pipe.read(&mut buffer).await {
        if count == 0 || sender.send(Bytes::copy_from_slice(&buffer[..count])).await.is_err() {
            return;
        }
    }
}

async fn follow_file(
    cluster: &Cluster,
    source: &Source,
    path: &Path,
    options: &LogOptions,
    sender: &mpsc::Sender<Bytes>,
) {
    let Some((mut file, start)) = open(path, options, cluster, source).await else { return };
    if file.seek(std::io::SeekFrom::Start(start)).await.is_err() {
        return;
    }
    let mut writer = Writer { options, sender, sent: 0, line_open: false };
    let mut rest: Vec<u8> = Vec::new();
    let mut buffer = vec![0; 64 << 10];
    loop {
        let count = match file.read(&mut buffer).await {
            Ok(count) => count,
            Err(_) => return,
        };
        if count == 0 {
            let ended = !options.follow || !is_running(cluster, source);
            if ended {
                // What was written between the read and the look.
                let Ok(more) = file.read(&mut buffer).await else { return };
                if more == 0 {
                    return;
                }
                rest.extend_from_slice(&buffer[..more]);
            } else {
                tokio::select! {
                    () = sender.closed() => return,
                    () = tokio::time::sleep(Duration::from_millis(150)) => {}
                }
                continue;
            }
        } else {
            rest.extend_from_slice(&buffer[..count]);
        }
        while let Some(end) = rest.iter().position(|b| *b == b'\n') {
            let line: Vec<u8> = rest.drain(..=end).collect();
            if !writer.line(&line[..line.len() - 1]).await {
                return;
            }
        }
    }
}

async fn open(
    path: &Path,
    options: &LogOptions,
    cluster: &Cluster,
    source: &Source,
) -> Option<(tokio::fs::File, u64)> {
    // The file appears when the container starts.
    for _ in 0..50 {
        if path.exists() || !options.follow || !is_running(cluster, source) {
            break;
        }
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
    let start = match options.tail {
        Some(lines) => {
            let path: PathBuf = path.to_owned();
            tokio::task::spawn_blocking(move || tail_start(&path, lines)).await.ok()?
        }
        None => 0,
    };
    tokio::fs::File::open(path).await.ok().map(|file| (file, start))
}

fn is_running(cluster: &Cluster, source: &Source) -> bool {
    let Some(pod) = cluster
        .get("pods", source.pod.namespace(), source.pod.name())
        .filter(|p| p.uid() == source.pod.uid())
    else {
        return false;
    };
    let statuses =
        pod.list_at("status.containerStatuses").iter().chain(pod.list_at("status.initContainerStatuses"));
    statuses.into_iter().any(|s| {
        s.str_at("name") == source.container
            && s.int_at("restartCount") == Some(source.attempt)
            && s.at("state.running").is_some()
    })
}

struct Writer<'a> {
    options: &'a LogOptions,
    sender: &'a mpsc::Sender<Bytes>,
    sent: usize,
    line_open: bool,
}

impl Writer<'_> {
    /// `time stream F|P text`: P lines go on in the next one.
    async fn line(&mut self, line: &[u8]) -> bool {
        let mut parts = line.splitn(4, |b| *b == b' ');
        let (time, _stream, tag, text) =
            (parts.next(), parts.next(), parts.next(), parts.next().unwrap_or(b""));
        let Some(time) = time.and_then(|t| std::str::from_utf8(t).ok()) else { return true };
        if let Some(since) = self.options.since
            && parse_time(time).is_some_and(|t| t < since)
        {
            return true;
        }
        let mut out = Vec::with_capacity(text.len() + 40);
        if self.options.timestamps && !self.line_open {
            let stamp = parse_time(time)
                .map(|t| t.strftime("%Y-%m-%dT%H:%M:%S.%9fZ").to_string())
                .unwrap_or_else(|| time.to_owned());
            out.extend_from_slice(stamp.as_bytes());
            out.push(b' ');
        }
        out.extend_from_slice(text);
        self.line_open = tag == Some(b"P");
        if !self.line_open {
            out.push(b'\n');
        }
        let mut done = false;
        if let Some(limit) = self.options.limit_bytes {
            out.truncate(limit.saturating_sub(self.sent));
            done = self.sent + out.len() >= limit;
        }
        self.sent += out.len();
        self.sender.send(Bytes::from(out)).await.is_ok() && !done
    }
}

/// Where the last `lines` lines of a file begin; read backwards, so that long logs cost nothing.
fn tail_start(path: &Path, lines: usize) -> u64 {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let Ok(mut file) = std::fs::File::open(path) else { return 0 };
    let Ok(length) = file.seek(SeekFrom::End(0)) else { return 0 };
    if lines == 0 {
        return length;
    }
    let (mut position, mut seen) = (length, 0);
    let mut buffer = vec![0; 64 << 10];
    while position > 0 {
        let step = position.min(buffer.len() as u64);
        position -= step;
        let part = &mut buffer[..step as usize];
        if file.seek(SeekFrom::Start(position)).is_err() || file.read_exact(part).is_err() {
            return 0;
        }
        for (index, byte) in part.iter().enumerate().rev() {
            if *byte == b'\n' && position + (index as u64) + 1 != length {
                seen += 1;
                if seen == lines {
                    return position + index as u64 + 1;
                }
            }
        }
    }
    0
}

/// The end of a log as plain text, for termination messages.
pub(super) fn tail_text(path: &Path, lines: usize, bytes: usize) -> String {
    use std::io::{Read as _, Seek as _, SeekFrom};
    let start = tail_start(path, lines);
    let mut text = Vec::new();
    if let Ok(mut file) = std::fs::File::open(path)
        && file.seek(SeekFrom::Start(start)).is_ok()
    {
        let _ = file.take(1 << 20).read_to_end(&mut text);
    }
    let plain: Vec<String> = String::from_utf8_lossy(&text)
        .lines()
        .map(|line| line.splitn(4, ' ').nth(3).unwrap_or("").to_owned())
        .collect();
    let all = plain.join("\n");
    all.chars().rev().take(bytes).collect::<Vec<_>>().into_iter().rev().collect()
}
