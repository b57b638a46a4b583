//! As much of SPDY/3.1 as `kubectl port-forward` speaks: streams with headers, data, resets and pings.
//!
//! Comes in: bytes of an upgraded connection. Goes out: one TCP connection into the pod per pair of streams.
//! Headers are compressed with one zlib stream per direction and a fixed dictionary (SPDY/3 §2.6.10); what is sent
//! uses stored blocks, which every inflater reads.

use std::collections::HashMap;
use std::io;
use std::sync::Arc;

use miniz_oxide::inflate::TINFLStatus;
use miniz_oxide::inflate::core::inflate_flags::{TINFL_FLAG_HAS_MORE_INPUT, TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF};
use miniz_oxide::inflate::core::{DecompressorOxide, decompress};
use tokio::io::{AsyncRead, AsyncReadExt as _, AsyncWrite, AsyncWriteExt as _};
use tokio::net::tcp::OwnedWriteHalf;
use tokio::sync::mpsc;

use super::forward::PodPorts;

static DICTIONARY: &[u8] = include_bytes!("spdy.dictionary");

const SYN_STREAM: u16 = 1;
const SYN_REPLY: u16 = 2;
const RST_STREAM: u16 = 3;
const PING: u16 = 6;
const GOAWAY: u16 = 7;
const FLAG_FIN: u8 = 1;
const FRAME_BYTES_MAX: usize = 1 << 20;

/// Inflates header blocks. The window begins with the dictionary and lives as long as the connection.
struct Headers {
    state: Box<DecompressorOxide>,
    window: Vec<u8>,
    first: bool,
}

impl Headers {
    fn new() -> Self {
        Headers { state: Box::default(), window: DICTIONARY.to_vec(), first: true }
    }

    fn read(&mut self, mut block: &[u8]) -> io::Result<HashMap<String, String>> {
        let bad = |what: &str| io::Error::new(io::ErrorKind::InvalidData, what.to_owned());
        if self.first {
            // The zlib header, and the dictionary's checksum when it names one.
            let skip = if block.get(1).is_some_and(|flags| flags & 0x20 != 0) { 6 } else { 2 };
            block = block.get(skip..).ok_or_else(|| bad("short header block"))?;
            self.first = false;
        }
        let start = self.window.len();
        let mut filled = start;
        let mut input = block;
        loop {
            self.window.resize(filled + (16 << 10), 0);
            let flags = TINFL_FLAG_HAS_MORE_INPUT | TINFL_FLAG_USING_NON_WRAPPING_OUTPUT_BUF;
            let (status, read, written) = decompress(&mut self.state, input, &mut self.window, filled, flags);
            input = &input[read..];
            filled += written;
            match status {
                TINFLStatus::HasMoreOutput => {}
                TINFLStatus::NeedsMoreInput | TINFLStatus::Done => break,
                _ => return Err(bad("header block cannot be inflated")),
            }
        }
        self.window.truncate(filled);
        let headers = parse_headers(&self.window[start..]).ok_or_else(|| bad("malformed header block"));
        // References reach back 32 KiB at most.
        if self.window.len() > 128 << 10 {
            let cut = self.window.len() - (32 << 10);
            self.window.drain(..cut);
        }
        headers
    }
}

fn parse_headers(data: &[u8]) -> Option<HashMap<String, String>> {
    let mut position = 0;
    let number = |position: &mut usize| -> Option<usize> {
        let bytes = data.get(*position..*position + 4)?;
        *position += 4;
        Some(u32::from_be_bytes(bytes.try_into().ok()?) as usize)
    };
    let count = number(&mut position)?;
    let mut headers = HashMap::new();
    for _ in 0..count {
        let mut text = || -> Option<String> {
            let length = number(&mut position)?;
            let bytes = data.get(position..position + length)?;
            position += length;
            Some(String::from_utf8_lossy(bytes).into_owned())
        };
        let name = text()?;
        headers.insert(name.to_lowercase(), text()?);
    }
    Some(headers)
}

enum Out {
    Reply(u32),
    Data(u32, Vec<u8>, bool),
    Ping([u8; 4]),
}

async fn write_frames(mut writer: impl AsyncWrite + Unpin, mut frames: mpsc::Receiver<Out>) {
    let mut first = true;
    while let Some(frame) = frames.recv().await {
        let bytes = match frame {
            Out::Reply(stream) => {
                let mut block = Vec::new();
                if first {
                    block.extend_from_slice(&[0x78, 0x01]);
                    first = false;
                }
                // A stored block with no headers in it, and an empty one: Go's inflater hands out data only at a flush.
                block.extend_from_slice(&[0, 4, 0, 0xfb, 0xff, 0, 0, 0, 0]);
                block.extend_from_slice(&[0, 0, 0, 0xff, 0xff]);
                let mut payload = stream.to_be_bytes().to_vec();
                payload.extend(block);
                control(SYN_REPLY, 0, &payload)
            }
            Out::Data(stream, data, fin) => {
                let mut out = stream.to_be_bytes().to_vec();
                out.push(if fin { FLAG_FIN } else { 0 });
                out.extend_from_slice(&(data.len() as u32).to_be_bytes()[1..]);
                out.extend_from_slice(&data);
                out
            }
            Out::Ping(id) => control(PING, 0, &id),
        };
        if writer.write_all(&bytes).await.is_err() || writer.flush().await.is_err() {
            return;
        }
    }
    let _ = writer.shutdown().await;
}

fn control(kind: u16, flags: u8, payload: &[u8]) -> Vec<u8> {
    let mut out = vec![0x80, 3];
    out.extend_from_slice(&kind.to_be_bytes());
    out.push(flags);
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(payload);
    out
}

#[derive(Default)]
struct Streams {
    /// Error stream of each request.
    errors: HashMap<String, u32>,
    /// Where the data of a stream goes.
    data: HashMap<u32, mpsc::Sender<Vec<u8>>>,
}

pub(super) async fn serve(mut reader: impl AsyncRead + Unpin, writer: impl AsyncWrite + Unpin + Send + 'static, ports: Arc<PodPorts>) {
    let (sender, frames) = mpsc::channel(64);
    let writing = tokio::spawn(write_frames(writer, frames));
    let mut headers = Headers::new();
    let mut streams = Streams::default();
    loop {
        match frame(&mut reader, &mut headers, &mut streams, &sender, &ports).await {
            Ok(true) => {}
            Ok(false) => break,
            Err(error) => {
                tracing::debug!(%error, "A SPDY connection ended.");
                break;
            }
        }
    }
    drop((sender, streams));
    let _ = writing.await;
}

/// Reads one frame; false at the end.
async fn frame(
    reader: &mut (impl AsyncRead + Unpin),
    headers: &mut Headers,
    streams: &mut Streams,
    sender: &mpsc::Sender<Out>,
    ports: &Arc<PodPorts>,
) -> io::Result<bool> {
    let mut head = [0; 8];
    reader.read_exact(&mut head).await?;
    let flags = head[4];
    let length = u32::from_be_bytes([0, head[5], head[6], head[7]]) as usize;
    if length > FRAME_BYTES_MAX {
        return Ok(false);
    }
    let mut payload = vec![0; length];
    reader.read_exact(&mut payload).await?;
    let first = |payload: &[u8]| payload.get(..4).and_then(|b| b.try_into().ok()).map(u32::from_be_bytes).map(|n| n & 0x7fff_ffff);
    if head[0] & 0x80 == 0 {
        let stream = u32::from_be_bytes([head[0], head[1], head[2], head[3]]);
        if let Some(target) = streams.data.get(&stream)
            && !payload.is_empty()
        {
            let _ = target.send(payload).await;
        }
        if flags & FLAG_FIN != 0 {
            streams.data.remove(&stream);
        }
        return Ok(true);
    }
    match u16::from_be_bytes([head[2], head[3]]) {
        SYN_STREAM if payload.len() >= 10 => {
            let stream = first(&payload).unwrap_or(0);
            let names = headers.read(&payload[10..])?;
            let _ = sender.send(Out::Reply(stream)).await;
            open(stream, &names, streams, sender, ports);
        }
        RST_STREAM => {
            if let Some(stream) = first(&payload) {
                streams.data.remove(&stream);
            }
        }
        PING if payload.len() == 4 => {
            let _ = sender.send(Out::Ping([payload[0], payload[1], payload[2], payload[3]])).await;
        }
        GOAWAY => return Ok(false),
        _ => {}
    }
    Ok(true)
}

fn open(stream: u32, names: &HashMap<String, String>, streams: &mut Streams, sender: &mpsc::Sender<Out>, ports: &Arc<PodPorts>) {
    let get = |name: &str| names.get(name).cloned().unwrap_or_default();
    let request = get("requestid");
    if get("streamtype") == "error" {
        streams.errors.insert(request, stream);
        return;
    }
    let errors = streams.errors.remove(&request);
    let (input, incoming) = mpsc::channel(64);
    streams.data.insert(stream, input);
    let port = get("port").parse().unwrap_or(0);
    tokio::spawn(connection(stream, errors, port, incoming, sender.clone(), ports.clone()));
}

async fn connection(stream: u32, errors: Option<u32>, port: u16, incoming: mpsc::Receiver<Vec<u8>>, sender: mpsc::Sender<Out>, ports: Arc<PodPorts>) {
    match ports.dial(port).await {
        Err(why) => {
            if let Some(errors) = errors {
                let text = format!("error forwarding port {port} to the pod: {why}");
                let _ = sender.send(Out::Data(errors, text.into_bytes(), true)).await;
            }
        }
        Ok(socket) => {
            let (mut reader, writer) = socket.into_split();
            let upward = tokio::spawn(upward(incoming, writer));
            let mut buffer = vec![0; 32 << 10];
            while let Ok(count) = reader.read(&mut buffer).await {
                if count == 0 || sender.send(Out::Data(stream, buffer[..count].to_vec(), false)).await.is_err() {
                    break;
                }
            }
            upward.abort();
            if let Some(errors) = errors {
                let _ = sender.send(Out::Data(errors, Vec::new(), true)).await;
            }
        }
    }
    let _ = sender.send(Out::Data(stream, Vec::new(), true)).await;
}

async fn upward(mut incoming: mpsc::Receiver<Vec<u8>>, mut writer: OwnedWriteHalf) {
    while let Some(data) = incoming.recv().await {
        if writer.write_all(&data).await.is_err() {
            return;
        }
    }
    let _ = writer.shutdown().await;
    // Keep the half open until the task is aborted, so that answers still come through.
    std::future::pending::<()>().await;
}
