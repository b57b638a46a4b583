//! T7 in short: tunnels come and go, and nothing of them stays. `SLIPWAY_TUNNEL_ROUNDS` and `SLIPWAY_TUNNELS` say for how long and how
//! many at once.

use std::process::Command;
use std::time::{Duration, Instant};

use http::StatusCode;
use slipway_tunnel::Carrier;

use crate::support::{Caller, Platform, listen, text};

pub(crate) fn number(name: &str, otherwise: usize) -> usize {
    std::env::var(name).ok().and_then(|text| text.parse().ok()).unwrap_or(otherwise)
}

fn open_files() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("of this process").count()
}

pub(crate) fn resident_bytes() -> usize {
    let text = std::fs::read_to_string("/proc/self/statm").expect("of this process");
    text.split(' ').nth(1).and_then(|pages| pages.parse::<usize>().ok()).expect("pages") * 4096
}

/// Other tests share this process, and would count: what is measured runs in one of its own, which is this test once more.
pub(crate) fn alone<F: Future<Output = ()>>(name: &str, measure: impl FnOnce() -> F) {
    const ALONE: &str = "SLIPWAY_TUNNEL_SOAK_ALONE";
    if std::env::var_os(ALONE).is_some() {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        return runtime.expect("a runtime").block_on(measure());
    }
    let itself = std::env::current_exe().expect("this program");
    let output = Command::new(itself)
        .args(["--exact", name, "--nocapture", "--test-threads=1"])
        .env(ALONE, "1")
        .output()
        .expect("started");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}\n{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "{said}");
    println!("{said}");
}

#[test]
fn t7_tunnels_come_and_go_and_nothing_of_them_stays() {
    alone("soak::t7_tunnels_come_and_go_and_nothing_of_them_stays", churn);
}

async fn churn() {
    let (rounds, tunnels) = (number("SLIPWAY_TUNNEL_ROUNDS", 30), number("SLIPWAY_TUNNELS", 25));
    let platform = Platform::start().await;
    let local = listen(|_| async { text(StatusCode::OK, "here") }).await;
    let mut before = None;
    for round in 0..rounds {
        let names: Vec<String> = (0..tunnels).map(|at| format!("r{at}")).collect();
        let carrier = if round % 2 == 0 { Carrier::Raw } else { Carrier::WebSocket };
        let agents: Vec<_> = names.iter().map(|name| platform.connect(name, local, carrier)).collect();
        for name in &names {
            platform.until_open(name, 1).await;
            let mut caller = Caller::of(&platform, name).await;
            for _ in 0..3 {
                assert_eq!(caller.get("/").await, (StatusCode::OK, "here".to_owned()));
            }
        }
        drop(agents);
        for name in &names {
            platform.until_open(name, 0).await;
        }
        // What a third of the rounds needed once is what all of them need.
        if round + 1 == (rounds / 3).max(1) {
            before = Some((settled(usize::MAX).await, resident_bytes()));
        }
    }
    let (files, bytes) = before.expect("at least one round");
    let files_now = settled(files).await;
    let bytes_now = resident_bytes();
    assert!(files_now <= files, "{files} open files became {files_now}");
    assert!(bytes_now < bytes + bytes / 10 + (4 << 20), "{bytes} bytes became {bytes_now}");
    println!("{rounds} rounds of {tunnels} tunnels: {files} files, {bytes} then {bytes_now} bytes");
}

/// Connections close a moment after their tunnels did: waits until there are so few files, or until their number stays.
async fn settled(wanted: usize) -> usize {
    let began = Instant::now();
    let (mut last, mut same) = (open_files(), 0);
    while same < 40 && began.elapsed() < Duration::from_secs(30) {
        tokio::time::sleep(Duration::from_millis(25)).await;
        let now = open_files();
        same = if now == last { same + 1 } else { 0 };
        last = now;
        if now <= wanted && wanted != usize::MAX {
            break;
        }
    }
    last
}
