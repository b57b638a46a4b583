//! Messages by e-mail: a whole conversation with a mail server that is busy at first.

use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::json;
use slipway_server::{EgressRules, Network};
use tokio::io::{AsyncBufReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;

use crate::support::Platform;

/// What was said before the letter, and the letter.
#[derive(Debug, Default)]
struct Delivery {
    commands: Vec<String>,
    letter: Vec<String>,
}

/// As RFC 5321 has it, with a greeting and an answer to `EHLO` of several lines; `None` when it went away.
async fn converse(stream: TcpStream) -> Option<Delivery> {
    let mut line = BufReader::new(stream);
    let mut delivery = Delivery::default();
    line.get_mut().write_all(b"220-mail.example here\r\n220 ready\r\n").await.ok()?;
    loop {
        let mut said = String::new();
        if line.read_line(&mut said).await.ok()? == 0 {
            return None;
        }
        let said = said.strip_suffix("\r\n").expect("lines end with CRLF").to_owned();
        let word = said.split([' ', ':']).next().unwrap_or_default().to_owned();
        delivery.commands.push(said);
        let answer: &[u8] = match word.as_str() {
            "EHLO" => b"250-mail.example\r\n250-AUTH PLAIN LOGIN\r\n250 8BITMIME\r\n",
            "AUTH" => b"235 welcome\r\n",
            "MAIL" => b"250 ok\r\n",
            "RCPT" => b"251 will forward\r\n",
            "DATA" => b"354 go on\r\n",
            "QUIT" => b"221 goodbye\r\n",
            other => panic!("not a command: {other}"),
        };
        line.get_mut().write_all(answer).await.ok()?;
        if word == "DATA" {
            loop {
                let mut text = String::new();
                line.read_line(&mut text).await.ok()?;
                match text.strip_suffix("\r\n").expect("lines end with CRLF") {
                    "." => break,
                    text => delivery.letter.push(text.to_owned()),
                }
            }
            line.get_mut().write_all(b"250 queued\r\n").await.ok()?;
        }
        if word == "QUIT" {
            return Some(delivery);
        }
    }
}

async fn mail_server() -> (u16, mpsc::UnboundedReceiver<Delivery>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let (sender, receiver) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let mut busy = true;
        while let Ok((mut stream, _)) = listener.accept().await {
            if std::mem::take(&mut busy) {
                let _ = stream.write_all(b"421 too busy, come later\r\n").await;
                continue;
            }
            if let Some(delivery) = converse(stream).await {
                let _ = sender.send(delivery);
            }
        }
    });
    (port, receiver)
}

#[tokio::test]
async fn an_ended_build_is_told_by_mail_also_when_the_mail_server_was_busy() {
    let network =
        Network { egress_allowed: EgressRules::parse(&["127.0.0.1"]).unwrap(), ..Network::default() };
    let platform = Platform::start_with(network).await;
    let (port, mut heard) = mail_server().await;
    let data = json!({"host": "127.0.0.1", "port": port, "tls": "none", "from": "ci@example.com", "to": ["ada@example.com", "bob@example.com"],
        "username": "ci", "password": "canary-mail-password", "on": ["terminated"], "pipelines": ["m/*"]});
    let context = json!({"metadata": {"name": "mail"}, "spec": {"type": "notification.email", "data": data}});
    platform.post("/api/contexts", context).await;
    for name in ["m/mail", "other/silent"] {
        platform.pipeline(name, "demo/app").await;
    }
    let mut ids = Vec::new();
    // The one that nobody wants to hear about first: when the other has arrived, it was passed over.
    for name in ["other%2Fsilent", "m%2Fmail"] {
        let id = platform
            .post(&format!("/api/pipelines/run/{name}"), json!({}))
            .await
            .as_str()
            .unwrap()
            .to_owned();
        let ended = platform.call("DELETE", &format!("/api/progress/{id}"), &platform.admin_key, None).await;
        assert_eq!(ended.0, 200);
        ids.push(id);
    }
    let end = Instant::now() + Duration::from_secs(120);
    let delivery = loop {
        // Its pauses are of the server's clock.
        platform.pass(5_000);
        match tokio::time::timeout(Duration::from_millis(500), heard.recv()).await {
            Ok(delivery) => break delivery.unwrap(),
            Err(_) => {
                let told = platform.get(&format!("/api/builds/{}/reports", ids[1])).await;
                assert!(Instant::now() < end, "no letter: {told}");
            }
        }
    };
    let expected = [
        "EHLO slipway".to_owned(),
        format!("AUTH PLAIN {}", STANDARD.encode("\0ci\0canary-mail-password")),
        "MAIL FROM:<ci@example.com>".into(),
        "RCPT TO:<ada@example.com>".into(),
        "RCPT TO:<bob@example.com>".into(),
        "DATA".into(),
        "QUIT".into(),
    ];
    assert_eq!(delivery.commands, expected);
    let blank = delivery.letter.iter().position(String::is_empty).expect("head and body");
    let (head, body) = delivery.letter.split_at(blank);
    assert!(head.contains(&"To: ada@example.com, bob@example.com".to_owned()), "{head:?}");
    let subject = head.iter().find_map(|line| line.strip_prefix("Subject: =?utf-8?B?")).unwrap();
    let text = |encoded: &str| String::from_utf8(STANDARD.decode(encoded).unwrap()).unwrap();
    let subject = text(subject.strip_suffix("?=").unwrap());
    assert!(subject.contains("m/mail") && subject.contains("terminated"), "{subject}");
    let body = text(&body.concat());
    assert!(body.contains(&ids[1]), "{body}");
    // What went wrong at first and what was sent is shown, without the password.
    let told = platform.get(&format!("/api/builds/{}/reports", ids[1])).await;
    assert_eq!(told[0]["kind"], "email", "{told}");
    assert_eq!(platform.get(&format!("/api/builds/{}/reports", ids[0])).await, json!([]));
    for shown in [told, platform.get("/api/contexts?decrypt=false").await] {
        assert!(!shown.to_string().contains("canary"), "{shown}");
    }
    assert!(heard.try_recv().is_err(), "one letter");
}
