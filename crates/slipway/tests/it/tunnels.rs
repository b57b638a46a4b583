//! Tunnels over several processes: whichever of them is asked, the runtime answers, also after one was killed.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use slipway_model::Secret;
use slipway_runtime::{TunnelDial, TunnelState, keep_tunnel};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

use crate::process::{Process, Shared};

/// A balancer as small as one can be: every new connection goes where it is told to.
async fn balancer() -> (SocketAddr, Arc<Mutex<SocketAddr>>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let target = Arc::new(Mutex::new(address));
    let shared = target.clone();
    tokio::spawn(async move {
        loop {
            let (mut near, _) = listener.accept().await.unwrap();
            let target = *shared.lock().unwrap();
            tokio::spawn(async move {
                if let Ok(mut far) = TcpStream::connect(target).await {
                    let _ = tokio::io::copy_bidirectional(&mut near, &mut far).await;
                }
            });
        }
    });
    (address, target)
}

fn address_of(process: &Process) -> SocketAddr {
    process.url.strip_prefix("http://").unwrap().parse().unwrap()
}

async fn until(process: &Process, key: &str, what: &str, question: impl Fn(&Value) -> bool) -> Value {
    let started = Instant::now();
    loop {
        let (_, shown) = process.call("GET", "/api/runtimes/prod", key, None).await;
        if question(&shown) {
            return shown;
        }
        assert!(started.elapsed() < slipway_testkit::PATIENCE, "{what}: {shown}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
}

async fn through(process: &Process, path: &str, size: usize) -> (u16, String) {
    let url = format!("{}{path}/webhooks/echo", process.url);
    let answer = reqwest::Client::new().post(url).body("x".repeat(size)).send().await.unwrap();
    (answer.status().as_u16(), answer.text().await.unwrap())
}

#[tokio::test(flavor = "multi_thread")]
async fn a_runtime_is_reached_through_any_process_and_comes_back_when_its_own_is_killed() {
    let shared = Shared::new();
    let mut one = shared.start("");
    let key = one.first_key.clone().expect("it started first");
    let two = shared.start("");
    // A process that answers for tunnels and holds none.
    let front = shared.start("tunnel-server");
    let made = one.good("POST", "/api/runtimes", &key, Some(json!({"name": "prod"}))).await;
    let shown = one.good("GET", "/api/runtimes/prod", &key, None).await;
    let path = shown["url"].as_str().expect("a path of the platform").to_owned();

    let local = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let ends = local.local_addr().unwrap();
    let echo = axum::Router::new()
        .fallback(|body: String| async move { format!("{} bytes arrived", body.len()) })
        .layer(axum::extract::DefaultBodyLimit::disable());
    tokio::spawn(async move { axum::serve(local, echo).await });
    let (balancer, target) = balancer().await;
    *target.lock().unwrap() = address_of(&one);
    let client = slipway_api::Client::new(
        format!("http://{balancer}"),
        Secret::new(made["token"].as_str().unwrap().to_owned()),
    );
    let (state, mut states) = tokio::sync::watch::channel(TunnelState::Connecting);
    let stop = CancellationToken::new();
    let dial = TunnelDial::new(&client, None, false).unwrap();
    tokio::spawn(keep_tunnel(dial, ends, state, std::sync::Arc::default(), stop.clone()));
    states.wait_for(|state| *state == TunnelState::Open).await.unwrap();

    // Every process knows of it, and of one tunnel alone.
    let at_one = until(&one, &key, "at one", |shown| shown["tunnels"] == 1).await;
    let at_two = until(&two, &key, "at two", |shown| shown["tunnels"] == 1).await;
    let holder = &at_two["sessions"][0]["process"];
    assert!(holder.is_string() && *holder == at_one["sessions"][0]["process"], "{at_one} {at_two}");
    let list = two.good("GET", "/api/runtimes", &key, None).await;
    assert_eq!(list[0]["tunnels"], 1, "{list}");
    // More than any window holds at once, and several at a time.
    let (status, said) = through(&two, &path, 3_000_000).await;
    assert_eq!((status, said.as_str()), (200, "3000000 bytes arrived"));
    let all = (1..=20).map(|size| through(if size % 2 == 0 { &two } else { &front }, &path, size));
    for (at, (status, said)) in futures::future::join_all(all).await.into_iter().enumerate() {
        assert_eq!((status, said), (200, format!("{} bytes arrived", at + 1)));
    }

    // Its process is killed: the runtime comes back at the other one, and everybody finds it there.
    *target.lock().unwrap() = address_of(&two);
    let killed = Instant::now();
    one.kill();
    loop {
        let (status, said) = through(&front, &path, 7).await;
        if status == 200 {
            assert_eq!(said, "7 bytes arrived");
            break;
        }
        assert!(status == 502 && killed.elapsed() < slipway_testkit::PATIENCE, "{status} {said}");
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    println!("reached again {} ms after its process was killed", killed.elapsed().as_millis());
    // The dead process is forgotten when it has been silent for a while.
    let shown = until(&two, &key, "after the kill", |shown| shown["tunnels"] == 1).await;
    assert_ne!(shown["sessions"][0]["process"], *holder);

    // The one that holds it stops: it is gone from the table at once.
    stop.cancel();
    until(&two, &key, "after the end", |shown| shown["tunnels"] == 0).await;
    let (status, said) = through(&front, &path, 7).await;
    assert_eq!(status, 502, "{said}");
    assert!(said.contains("the runtime is not connected"), "{said}");
}

/// The door between processes is for processes: a key, a token and a made-up text open nothing.
#[tokio::test(flavor = "multi_thread")]
async fn the_door_between_processes_opens_to_nobody_else() {
    let shared = Shared::new();
    let one = shared.start("");
    let key = one.first_key.clone().expect("it started first");
    let made = one.good("POST", "/api/runtimes", &key, Some(json!({"name": "prod"}))).await;
    let token = made["token"].as_str().unwrap();
    let ask = async |credential: &str, upgrade: &str| {
        let call = reqwest::Client::new().get(format!("{}/api/agent/peer", one.url));
        let call = call.header("connection", "upgrade").header("upgrade", upgrade);
        let answer = call.header("authorization", credential).send().await.unwrap();
        (answer.status().as_u16(), answer.text().await.unwrap_or_default())
    };
    for credential in [key.as_str(), token, "", "sealed:v2:AAAA", &format!("sealed:v2:{}", "A".repeat(200))] {
        let (status, said) = ask(credential, "slipway-tunnel").await;
        assert_eq!(status, 401, "{credential}: {said}");
        assert!(said.contains("for processes of the platform"), "{said}");
    }
    assert_eq!(ask(&key, "websocket").await.0, 400);
}
