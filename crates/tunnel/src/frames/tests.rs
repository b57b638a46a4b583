//! Frames beside a library that others use, and frames that nobody sends.

use futures::{SinkExt as _, StreamExt as _};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_tungstenite::WebSocketStream;
use tokio_tungstenite::tungstenite::Message;
use tokio_tungstenite::tungstenite::protocol::Role;

use super::*;

/// Beside a library that others use: what one writes the other reads.
#[tokio::test]
async fn frames_are_those_of_the_standard() {
    for ours in [true, false] {
        let (near, far) = tokio::io::duplex(7_000);
        let mut framed = Framed::new(near, ours);
        let role = if ours { Role::Client } else { Role::Server };
        let mut theirs = WebSocketStream::from_raw_socket(far, role, None).await;
        let sent: Vec<Vec<u8>> = [0, 1, 125, 126, 127, 65_535, 65_536, 100_003]
            .iter()
            .map(|length| (0..*length).map(|at: u32| (at % 251) as u8).collect())
            .collect();
        let all = sent.concat();
        let said = sent.clone();
        let other = tokio::spawn(async move {
            for one in said {
                theirs.send(Message::binary(one)).await.unwrap();
                theirs.send(Message::Ping("there?".into())).await.unwrap();
            }
            let mut heard = Vec::new();
            let mut pongs = 0;
            loop {
                match theirs.next().await {
                    Some(Ok(Message::Binary(bytes))) => heard.extend_from_slice(&bytes),
                    Some(Ok(Message::Pong(said))) => {
                        assert_eq!(&said[..], b"there?");
                        pongs += 1;
                    }
                    Some(Ok(Message::Close(_))) | None => return (heard, pongs),
                    other => panic!("{other:?}"),
                }
            }
        });
        let mut heard = vec![0; all.len()];
        framed.read_exact(&mut heard).await.unwrap();
        assert!(heard == all, "{ours}");
        for one in &sent {
            let (head, rest) = one.split_at(one.len().min(9));
            let pieces = [IoSlice::new(head), IoSlice::new(rest)];
            let written = framed.write_vectored(&pieces).await.unwrap();
            framed.write_all(&one[written..]).await.unwrap();
            framed.flush().await.unwrap();
        }
        // The last question came behind the last payload.
        let mut more = [0; 1];
        assert!(futures::future::poll_immediate(framed.read(&mut more)).await.is_none());
        framed.shutdown().await.unwrap();
        let (told, pongs) = other.await.unwrap();
        assert!(told == all, "{ours}");
        assert_eq!(pongs, sent.len());
    }
}

#[tokio::test]
async fn what_no_tunnel_sends_ends_it() {
    let masked = |first: u8, second: u8| vec![first, second | 0x80, 1, 2, 3, 4, 0, 0];
    for (what, bytes) in [
        ("text", masked(0x81, 1)),
        ("no mask", vec![0x82, 1, 0]),
        ("bits of an extension", masked(0xc2, 1)),
        ("an opcode of nobody", masked(0x83, 1)),
        ("a long ping", vec![0x89, 0xfe, 1, 0, 1, 2, 3, 4]),
        ("a ping of everything", [&[0x89, 0xff][..], &[0xff; 8], &[1, 2, 3, 4]].concat()),
        ("much", vec![0x82, 0xff, 0, 0, 0, 1, 0, 0, 0, 0, 1, 2, 3, 4]),
        ("half a head", vec![0x82]),
        ("half a payload", vec![0x82, 0x82, 1, 2, 3, 4, 0]),
    ] {
        let (near, mut far) = tokio::io::duplex(100);
        let mut framed = Framed::new(near, true);
        far.write_all(&bytes).await.unwrap();
        drop(far);
        let mut heard = Vec::new();
        assert!(framed.read_to_end(&mut heard).await.is_err(), "{what}: {heard:?}");
    }
}

#[tokio::test]
async fn nothing_is_kept_when_nothing_is_on_its_way() {
    let (near, mut far) = tokio::io::duplex(1 << 20);
    let mut framed = Framed::new(near, false);
    for length in [300_000, 9] {
        framed.write_all(&vec![7; length]).await.unwrap();
        framed.flush().await.unwrap();
    }
    far.write_all(&[0x82, 2, 7, 7]).await.unwrap();
    framed.read_exact(&mut [0; 2]).await.unwrap();
    assert!(framed.out.capacity() <= KEPT && framed.ahead.capacity() <= AHEAD);
}
