//! The client against real servers on this machine, some of which mean harm.

use std::net::{IpAddr, SocketAddr};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::{IntoResponse, Redirect, Response};
use futures::StreamExt;
use slipway_net::{
    Client, Encryption, Letter, Limits, MailError, MailServer, Names, NetError, Request, Rules, Settings,
};

const METADATA: &str = "http://169.254.169.254/latest/meta-data";

/// What a server was asked: the path, and the `authorization` that came with it.
type Asked = Arc<Mutex<Vec<(String, Option<String>)>>>;

/// Answers by path; `/to?ADDRESS` redirects there.
async fn server() -> (SocketAddr, Asked) {
    let asked = Asked::default();
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = axum::Router::new().fallback(answer).with_state(asked.clone());
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, asked)
}

async fn answer(State(asked): State<Asked>, uri: Uri, headers: HeaderMap) -> Response {
    let token = headers.get("authorization").and_then(|value| value.to_str().ok()).map(str::to_owned);
    asked.lock().unwrap().push((uri.path().to_owned(), token));
    match uri.path() {
        "/to" => Redirect::temporary(uri.query().unwrap_or_default()).into_response(),
        "/circle" => Redirect::temporary("/circle").into_response(),
        "/endless" => {
            let piece =
                || std::future::ready(Some((Ok::<_, std::io::Error>(Bytes::from(vec![0; 1 << 16])), ())));
            Body::from_stream(futures::stream::unfold((), move |()| piece())).into_response()
        }
        "/slow" => {
            let pieces = futures::stream::repeat(()).then(|()| async {
                tokio::time::sleep(Duration::from_millis(50)).await;
                Ok::<_, std::io::Error>(Bytes::from_static(b"x"))
            });
            Body::from_stream(pieces).into_response()
        }
        "/missing" => StatusCode::NOT_FOUND.into_response(),
        _ => "hello".into_response(),
    }
}

/// A client of a process inside of a private network.
fn client(settings: impl FnOnce(&mut Settings)) -> Client {
    let mut chosen = Settings {
        rules: Rules::default().with_private(),
        limits: Limits { redirects: 5, ..Limits::default() },
        ..Settings::default()
    };
    settings(&mut chosen);
    Client::new(chosen).unwrap()
}

/// A name server that gives its answers in turn, and the last one for ever.
struct Fake {
    answers: Vec<Vec<IpAddr>>,
    lookups: AtomicUsize,
}

impl Fake {
    fn new(answers: &[&[&str]]) -> Arc<Self> {
        let parse = |answer: &&[&str]| answer.iter().map(|ip| ip.parse().unwrap()).collect();
        Arc::new(Self { answers: answers.iter().map(parse).collect(), lookups: AtomicUsize::new(0) })
    }
}

impl Names for Fake {
    fn look_up(&self, _: &str) -> std::io::Result<Vec<IpAddr>> {
        let turn = self.lookups.fetch_add(1, Ordering::SeqCst);
        Ok(self.answers[turn.min(self.answers.len() - 1)].clone())
    }
}

#[tokio::test]
async fn an_answer_is_given_as_it_is() {
    let (address, _) = server().await;
    let client = client(|_| ());
    let answer = client.send(Request::get(&format!("http://{address}/x"))).await.unwrap();
    assert_eq!(
        (answer.status, answer.body.as_slice(), answer.is_success()),
        (200, b"hello".as_slice(), true)
    );
    assert!(answer.header("content-type").is_some_and(|kind| kind.starts_with("text/plain")));
    assert_eq!(client.send(Request::get(&format!("http://{address}/missing"))).await.unwrap().status, 404);
}

#[tokio::test]
async fn a_redirect_does_not_lead_to_the_machine_room() {
    let (address, asked) = server().await;
    for to in [METADATA, "http://[fe80::1]/", "http://[::ffff:169.254.169.254]/", "http://0xa9fea9fe/"] {
        let url = format!("http://{address}/to?{to}");
        let refused = client(|_| ()).send(Request::get(&url)).await.unwrap_err();
        assert!(matches!(refused, NetError::Forbidden { .. }), "{to}: {refused}");
    }
    let url = format!("http://{address}/to?file:///etc/passwd");
    assert!(matches!(client(|_| ()).send(Request::get(&url)).await, Err(NetError::Address(_))));
    assert_eq!(asked.lock().unwrap().len(), 5);
}

#[tokio::test]
async fn a_name_is_what_it_means() {
    for answer in [&["169.254.169.254"][..], &["127.0.0.1", "169.254.169.254"], &["fd00:ec2::254"]] {
        let client = client(|settings| settings.names = Some(Fake::new(&[answer])));
        let refused = client.send(Request::get("http://git.example:1/")).await.unwrap_err();
        assert!(matches!(refused, NetError::Forbidden { .. }), "{answer:?}: {refused}");
        let sent = client.mail(&mail_server("git.example", 25), &letter()).await;
        assert!(matches!(sent, Err(MailError::Net(NetError::Forbidden { .. }))), "{sent:?}");
    }
    // With the rules of a server that stands in the open the machine itself is inside.
    let outside = client(|settings| settings.rules = Rules::default());
    let refused = outside.send(Request::get("http://localhost:1/")).await.unwrap_err();
    assert!(matches!(refused, NetError::Forbidden { .. }), "{refused}");
}

#[tokio::test]
async fn a_second_answer_of_the_name_server_changes_nothing() {
    let (address, asked) = server().await;
    let names = Fake::new(&[&["127.0.0.1"], &["169.254.169.254"]]);
    let client = client(|settings| settings.names = Some(names.clone()));
    let url = format!("http://git.example:{}/first", address.port());
    assert_eq!(client.send(Request::get(&url)).await.unwrap().status, 200);
    assert_eq!((names.lookups.load(Ordering::SeqCst), asked.lock().unwrap().len()), (1, 1));
}

#[tokio::test]
async fn a_redirect_to_a_name_is_checked_as_the_first_one() {
    let (address, _) = server().await;
    let names = Fake::new(&[&["127.0.0.1"], &["169.254.169.254"]]);
    let client = client(|settings| settings.names = Some(names));
    let url = format!("http://a.example:{}/to?http://b.example/", address.port());
    let refused = client.send(Request::get(&url)).await.unwrap_err();
    assert!(matches!(&refused, NetError::Forbidden { host, .. } if host == "b.example"), "{refused}");
}

#[tokio::test]
async fn secrets_stay_with_the_host_that_they_were_given_for() {
    let ((first, asked), (second, other)) = (server().await, server().await);
    let secrets = [("authorization", "Bearer s3cret")];
    let url = format!("http://{first}/to?http://{second}/there");
    client(|_| ()).send(Request { secrets: &secrets, ..Request::get(&url) }).await.unwrap();
    assert_eq!(asked.lock().unwrap()[0].1.as_deref(), Some("Bearer s3cret"));
    assert_eq!(*other.lock().unwrap(), [("/there".to_owned(), None)]);
    let url = format!("http://{first}/to?/again");
    client(|_| ()).send(Request { secrets: &secrets, ..Request::get(&url) }).await.unwrap();
    assert_eq!(asked.lock().unwrap()[2], ("/again".to_owned(), Some("Bearer s3cret".to_owned())));
    // What was sent is not sent on.
    let url = format!("http://{first}/to?http://{second}/body");
    let refused = client(|_| ()).send(Request { body: Some(b"x"), ..Request::get(&url) }).await;
    assert!(matches!(refused, Err(NetError::Redirect { .. })), "{refused:?}");
    assert_eq!(other.lock().unwrap().len(), 1);
}

#[tokio::test]
async fn a_client_without_redirects_gives_the_redirect() {
    let (address, _) = server().await;
    let url = format!("http://{address}/to?{METADATA}");
    let plain = client(|settings| settings.limits.redirects = 0);
    let answer = plain.send(Request::get(&url)).await.unwrap();
    assert_eq!((answer.status, answer.header("location")), (307, Some(METADATA)));
    let circle = format!("http://{address}/circle");
    assert!(matches!(client(|_| ()).send(Request::get(&circle)).await, Err(NetError::Redirect { .. })));
}

#[tokio::test]
async fn an_answer_that_never_ends_is_cut_by_its_size_or_its_time() {
    let (address, _) = server().await;
    let small = client(|settings| settings.limits.bytes = 1 << 20);
    let endless = format!("http://{address}/endless");
    let cut = small.send(Request::get(&endless)).await;
    assert!(matches!(cut, Err(NetError::TooLarge { bytes: 0x100000, .. })), "{cut:?}");
    let own = Request { bytes_max: Some(9), ..Request::get(&endless) };
    assert!(matches!(small.send(own).await, Err(NetError::TooLarge { bytes: 9, .. })));

    let hasty = client(|settings| settings.limits.whole = Duration::from_millis(400));
    let started = Instant::now();
    let cut = hasty.send(Request::get(&format!("http://{address}/slow"))).await;
    assert!(matches!(cut, Err(NetError::Unreachable { .. })), "{cut:?}");
    assert!(started.elapsed() < Duration::from_secs(10), "{:?}", started.elapsed());
}

#[tokio::test]
async fn addresses_in_every_spelling_are_seen_for_what_they_are() {
    let outside = client(|settings| settings.rules = Rules::default());
    for address in [
        "http://127.0.0.1/",
        "http://0x7f.1/",
        "http://2130706433/",
        "http://[::1]/",
        "http://[::ffff:127.0.0.1]/",
        METADATA,
        "gopher://example.com/",
        "file:///etc/passwd",
        "http://user:secret@example.com/",
    ] {
        assert!(outside.check(address).is_err(), "{address}");
    }
    assert!(outside.check("https://example.com/x").is_ok());
    for address in ["http://user:hunter2@example.com/?token=hunter2", "x://user:hunter2@ex ample?hunter2"] {
        let refused = outside.check(address).unwrap_err().to_string();
        assert!(!refused.contains("hunter2"), "{refused}");
    }
}

fn mail_server(host: &str, port: u16) -> MailServer<'_> {
    MailServer { host, port, encryption: Encryption::None, login: None }
}

fn letter() -> Letter<'static> {
    Letter {
        name: "",
        from: "ci@example.com",
        to: &["ada@example.com"],
        subject: "x\r\nBcc: evil@example.com",
        text: "a\r\n.\r\nQUIT\r\n",
        html: true,
    }
}

/// Says these lines one after the other, each after a line of the client, and gives what it heard.
async fn mail_host(says: &'static [&'static str]) -> (u16, tokio::task::JoinHandle<String>) {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let port = listener.local_addr().unwrap().port();
    let heard = tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut heard = String::new();
        for line in says {
            let _ = stream.write_all(format!("{line}\r\n").as_bytes()).await;
            let mut bytes = [0; 4096];
            let Ok(count) = stream.read(&mut bytes).await else { break };
            heard.push_str(&String::from_utf8_lossy(&bytes[..count]));
        }
        heard
    });
    (port, heard)
}

#[tokio::test]
async fn a_letter_is_one_letter_whatever_is_in_it() {
    let says = &["220 hi", "250 hi", "250 ok", "250 ok", "354 go", "250 queued", "221 bye"];
    let (port, heard) = mail_host(says).await;
    client(|_| ()).mail(&mail_server("127.0.0.1", port), &letter()).await.unwrap();
    let heard = heard.await.unwrap();
    assert_eq!(heard.matches("RCPT TO:").count(), 1, "{heard}");
    assert!(heard.contains("MAIL FROM:<ci@example.com>") && heard.contains("text/html"), "{heard}");
    assert!(!heard.contains("evil") && heard.matches("\r\n.\r\n").count() == 1, "{heard}");
}

#[tokio::test]
async fn a_mail_server_that_refuses_or_offers_no_encryption_is_told_apart_from_one_that_is_busy() {
    let (port, _) = mail_host(&["421 too busy"]).await;
    let busy = client(|_| ()).mail(&mail_server("127.0.0.1", port), &letter()).await.unwrap_err();
    assert!(
        matches!(&busy, MailError::Refused(said) if said.starts_with("421")) && busy.may_pass(),
        "{busy}"
    );
    let (port, _) = mail_host(&["220 hi", "250 hi", "550 no such sender", "221 bye"]).await;
    let refused = client(|_| ()).mail(&mail_server("127.0.0.1", port), &letter()).await.unwrap_err();
    assert!(matches!(&refused, MailError::Refused(_)) && !refused.may_pass(), "{refused}");
    // Neither a letter nor a password is sent in the open when that was not asked for.
    let password = slipway_model::Secret::new("hunter2".to_owned());
    for encryption in [Encryption::StartTls, Encryption::IfOffered] {
        let (port, heard) = mail_host(&["220 hi", "250-hi\r\n250 AUTH PLAIN", "221 bye"]).await;
        let server =
            MailServer { encryption, login: Some(("ci", &password)), ..mail_server("mail.example", port) };
        let names = Fake::new(&[&["127.0.0.1"]]);
        let client = client(|settings| settings.names = Some(names));
        client.mail(&server, &letter()).await.unwrap_err();
        let heard = heard.await.unwrap();
        assert!(!heard.contains("AUTH") && !heard.contains("MAIL FROM"), "{heard}");
    }
}
