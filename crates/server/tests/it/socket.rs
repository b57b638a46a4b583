//! A WebSocket as pages and the published CLI open one, with nothing but a TCP connection.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::support::Platform;

pub(crate) struct Socket(TcpStream);

impl Socket {
    /// The status of the answer, and the connection when it is 101.
    pub(crate) fn open(platform: &Platform, path: &str, headers: &[(&str, &str)]) -> (u16, Option<Self>) {
        let address = platform.url.strip_prefix("http://").unwrap();
        let mut stream = TcpStream::connect(address).unwrap();
        let mut head = format!(
            "GET {path} HTTP/1.1\r\nhost: {address}\r\nconnection: upgrade\r\nupgrade: websocket\r\n\
             sec-websocket-version: 13\r\nsec-websocket-key: dGhlIHNhbXBsZSBub25jZQ==\r\n"
        );
        for (name, value) in headers {
            head += &format!("{name}: {value}\r\n");
        }
        stream.write_all(format!("{head}\r\n").as_bytes()).unwrap();
        stream.set_read_timeout(Some(slipway_testkit::PATIENCE)).unwrap();
        let mut seen = Vec::new();
        while !seen.ends_with(b"\r\n\r\n") {
            let mut byte = [0];
            assert_eq!(stream.read(&mut byte).unwrap(), 1, "{}", String::from_utf8_lossy(&seen));
            seen.push(byte[0]);
        }
        let status = String::from_utf8_lossy(&seen[9..12]).parse().unwrap();
        (status, (status == 101).then_some(Self(stream)))
    }

    /// Everything that changes, from now on.
    pub(crate) fn subscribe(platform: &Platform, key: &str) -> Self {
        let headers = [("authorization", key), ("sec-websocket-protocol", "graphql-transport-ws")];
        let (status, socket) = Self::open(platform, "/2.0/api/graphql", &headers);
        let mut socket = socket.unwrap_or_else(|| panic!("{status}"));
        socket.say(&json!({"type": "connection_init"}));
        assert_eq!(socket.hear(slipway_testkit::PATIENCE).unwrap()["type"], "connection_ack");
        let query = json!({"query": "subscription { changes { kind id } }"});
        socket.say(&json!({"type": "subscribe", "id": "1", "payload": query}));
        socket
    }

    pub(crate) fn say(&mut self, message: &Value) {
        let text = message.to_string();
        let length = u16::try_from(text.len()).unwrap();
        let mut frame = vec![0x81];
        match length {
            0..=125 => frame.push(0x80 | u8::try_from(length).unwrap()),
            _ => {
                frame.push(0x80 | 126);
                frame.extend(length.to_be_bytes());
            }
        }
        // A mask of zeros is a mask.
        frame.extend([0; 4]);
        frame.extend(text.as_bytes());
        self.0.write_all(&frame).unwrap();
    }

    /// The next message; `None` when nothing came in time, or the line was closed.
    pub(crate) fn hear(&mut self, within: Duration) -> Option<Value> {
        let until = Instant::now() + within;
        loop {
            let left = until.checked_duration_since(Instant::now())?.max(Duration::from_millis(1));
            self.0.set_read_timeout(Some(left)).unwrap();
            let mut head = [0; 2];
            self.0.read_exact(&mut head).ok()?;
            let mut length = u64::from(head[1] & 0x7f);
            if length == 126 {
                let mut long = [0; 2];
                self.0.read_exact(&mut long).ok()?;
                length = u64::from(u16::from_be_bytes(long));
            }
            assert!(length < 65_536);
            let mut body = vec![0; usize::try_from(length).unwrap()];
            self.0.set_read_timeout(Some(slipway_testkit::PATIENCE)).unwrap();
            self.0.read_exact(&mut body).ok()?;
            match head[0] & 0x0f {
                1 => return serde_json::from_slice(&body).ok(),
                8 => return None,
                _ => {}
            }
        }
    }

    /// Kinds and ids of changes until one is the last that is waited for.
    pub(crate) fn changes_until(&mut self, kind: &str, id: &str) -> Vec<(String, String)> {
        let mut heard = Vec::new();
        loop {
            let Some(message) = self.hear(slipway_testkit::PATIENCE) else {
                panic!("never heard of {kind} {id}: {heard:?}")
            };
            let change = &message["payload"]["data"]["changes"];
            let text = |name: &str| change[name].as_str().unwrap_or_default().to_owned();
            heard.push((text("kind"), text("id")));
            if heard.last().is_some_and(|(heard_kind, heard_id)| heard_kind == kind && heard_id == id) {
                return heard;
            }
        }
    }

    /// Whether the other side closes the line in time.
    pub(crate) fn closes(mut self) -> bool {
        let until = Instant::now() + Duration::from_secs(30);
        while Instant::now() < until {
            self.0.set_read_timeout(Some(Duration::from_secs(30))).unwrap();
            let mut bytes = [0; 1024];
            match self.0.read(&mut bytes) {
                Ok(0) => return true,
                Ok(_) => {}
                Err(error) => return error.kind() == std::io::ErrorKind::ConnectionReset,
            }
        }
        false
    }
}
