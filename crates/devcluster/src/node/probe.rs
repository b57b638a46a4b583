//! Probes: exec, HTTP, TCP. One task per running container.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::sync::Notify;

use super::engine::{Engine, words};
use crate::api::Cluster;
use crate::controllers::record_at;
use crate::value::Json as _;

/// What the probes of one container have found.
#[derive(Debug, Default, Clone)]
pub(super) struct Health {
    pub(super) started: bool,
    pub(super) ready: bool,
    /// A liveness or startup probe gave up: the container has to be restarted.
    pub(super) restart: Option<String>,
}

pub(super) struct Subject {
    pub(super) cluster: Arc<Cluster>,
    pub(super) engine: Arc<Engine>,
    pub(super) pod: Value,
    pub(super) container: Value,
    /// The engine's name of the running attempt.
    pub(super) name: String,
    pub(super) ip: String,
    pub(super) health: Arc<Mutex<Health>>,
    pub(super) notify: Arc<Notify>,
}

impl Subject {
    fn set(&self, change: impl FnOnce(&mut Health)) {
        change(&mut self.health.lock().expect("health lock"));
        self.notify.notify_one();
    }
}

/// Runs until the container ends; the worker aborts it then.
pub(super) async fn watch(subject: Subject) {
    if let Some(probe) = subject.container.get("startupProbe").cloned() {
        if !until_started(&subject, &probe).await {
            return;
        }
    }
    let readiness = subject.container.get("readinessProbe").cloned();
    subject.set(|health| {
        health.started = true;
        health.ready = readiness.is_none();
    });
    let liveness = subject.container.get("livenessProbe").cloned();
    tokio::join!(
        async {
            if let Some(probe) = readiness {
                keep_ready(&subject, &probe).await;
            }
        },
        async {
            if let Some(probe) = liveness {
                keep_alive(&subject, &probe).await;
            }
        },
    );
}

fn seconds(probe: &Value, field: &str, default: i64) -> Duration {
    Duration::from_secs(probe.int_at(field).unwrap_or(default).max(0) as u64)
}

async fn until_started(subject: &Subject, probe: &Value) -> bool {
    tokio::time::sleep(seconds(probe, "initialDelaySeconds", 0)).await;
    let limit = probe.int_at("failureThreshold").unwrap_or(3);
    let mut failures = 0;
    loop {
        match check(subject, probe).await {
            Ok(()) => return true,
            Err(why) => {
                failures += 1;
                unhealthy(subject, "Startup", &why).await;
                if failures >= limit {
                    subject.set(|health| health.restart = Some("failed startup probe".to_owned()));
                    return false;
                }
            }
        }
        tokio::time::sleep(seconds(probe, "periodSeconds", 10).max(Duration::from_millis(100))).await;
    }
}

async fn keep_ready(subject: &Subject, probe: &Value) {
    tokio::time::sleep(seconds(probe, "initialDelaySeconds", 0)).await;
    let (wanted, limit) = (probe.int_at("successThreshold").unwrap_or(1), probe.int_at("failureThreshold").unwrap_or(3));
    let (mut successes, mut failures) = (0, 0);
    let mut ready = false;
    loop {
        match check(subject, probe).await {
            Ok(()) => {
                successes += 1;
                failures = 0;
            }
            Err(why) => {
                failures += 1;
                successes = 0;
                unhealthy(subject, "Readiness", &why).await;
            }
        }
        let now = if ready { failures < limit } else { successes >= wanted };
        if now != ready {
            ready = now;
            subject.set(|health| health.ready = now);
        }
        // Until the first success Kubernetes looks more often than once a period, so that pods become ready soon.
        let period = seconds(probe, "periodSeconds", 10);
        tokio::time::sleep(if ready { period } else { period.min(Duration::from_secs(1)) }.max(Duration::from_millis(200))).await;
    }
}

async fn keep_alive(subject: &Subject, probe: &Value) {
    tokio::time::sleep(seconds(probe, "initialDelaySeconds", 0)).await;
    let limit = probe.int_at("failureThreshold").unwrap_or(3);
    let mut failures = 0;
    loop {
        match check(subject, probe).await {
            Ok(()) => failures = 0,
            Err(why) => {
                failures += 1;
                unhealthy(subject, "Liveness", &why).await;
            }
        }
        if failures >= limit {
            subject.set(|health| health.restart = Some("failed liveness probe".to_owned()));
            return;
        }
        tokio::time::sleep(seconds(probe, "periodSeconds", 10).max(Duration::from_millis(100))).await;
    }
}

async fn unhealthy(subject: &Subject, kind: &str, why: &str) {
    let field = format!("spec.containers{{{}}}", subject.container.str_at("name"));
    let text = format!("{kind} probe failed: {why}");
    record_at(&subject.cluster, &subject.pod, &field, "Warning", "Unhealthy", &text, "kubelet").await;
}

async fn check(subject: &Subject, probe: &Value) -> Result<(), String> {
    let limit = seconds(probe, "timeoutSeconds", 1).max(Duration::from_secs(1));
    let work = async {
        if let Some(action) = probe.get("exec") {
            return exec(subject, action, limit).await;
        }
        if let Some(action) = probe.get("httpGet") {
            return http_get(&subject.container, &subject.ip, action).await;
        }
        let action = probe.get("tcpSocket").or_else(|| probe.get("grpc"));
        match action {
            Some(action) => {
                let port = port_number(&subject.container, action.get("port")).ok_or("the port has no number")?;
                let host = Some(action.str_at("host")).filter(|h| !h.is_empty()).unwrap_or(&subject.ip);
                TcpStream::connect((host, port)).await.map(drop).map_err(|e| format!("dial tcp {host}:{port}: {e}"))
            }
            None => Ok(()),
        }
    };
    // An exec has its own limit; starting the engine's command takes a while and is not the probe's fault.
    let outer = if probe.get("exec").is_some() { limit + Duration::from_secs(5) } else { limit };
    tokio::time::timeout(outer, work).await.unwrap_or_else(|_| Err(format!("no answer within {} s", limit.as_secs())))
}

pub(super) async fn exec(subject: &Subject, action: &Value, _limit: Duration) -> Result<(), String> {
    exec_in(&subject.engine, &subject.name, action).await
}

/// Runs a command in a container; the error is its output.
pub(super) async fn exec_in(engine: &Engine, name: &str, action: &Value) -> Result<(), String> {
    let mut args = words(&["exec", name]);
    args.extend(action.list_at("command").iter().filter_map(Value::as_str).map(str::to_owned));
    let done = engine.call(&args).await?;
    match done.code {
        0 => Ok(()),
        _ => Err(format!("{}{}", done.stdout, done.stderr).trim().to_owned()),
    }
}

pub(super) fn port_number(container: &Value, port: Option<&Value>) -> Option<u16> {
    match port? {
        Value::Number(number) => number.as_u64().and_then(|n| u16::try_from(n).ok()),
        Value::String(name) => container
            .list_at("ports")
            .iter()
            .find(|p| p.str_at("name") == name)
            .and_then(|p| p.int_at("containerPort"))
            .and_then(|n| u16::try_from(n).ok())
            .or_else(|| name.parse().ok()),
        _ => None,
    }
}

/// GET; any status from 200 to 399 is good. TLS certificates are not looked at, as in Kubernetes.
pub(super) async fn http_get(container: &Value, ip: &str, action: &Value) -> Result<(), String> {
    let port = port_number(container, action.get("port")).ok_or("the port has no number")?;
    let host = Some(action.str_at("host")).filter(|h| !h.is_empty()).unwrap_or(ip);
    let path = action.str_at("path");
    let mut head = format!("GET {} HTTP/1.1\r\nConnection: close\r\nAccept: */*\r\nUser-Agent: kube-probe/1.34\r\n", if path.is_empty() { "/" } else { path });
    let mut host_header = format!("{host}:{port}");
    for header in action.list_at("httpHeaders") {
        if header.str_at("name").eq_ignore_ascii_case("host") {
            host_header = header.str_at("value").to_owned();
        } else {
            head.push_str(&format!("{}: {}\r\n", header.str_at("name"), header.str_at("value")));
        }
    }
    head.push_str(&format!("Host: {host_header}\r\n\r\n"));
    let stream = TcpStream::connect((host, port)).await.map_err(|e| format!("Get \"http://{host}:{port}{path}\": {e}"))?;
    let status = if action.str_at("scheme") == "HTTPS" {
        let stream = super::network::insecure_tls(stream, host).await?;
        exchange(stream, &head).await
    } else {
        exchange(stream, &head).await
    }?;
    if (200..400).contains(&status) { Ok(()) } else { Err(format!("HTTP probe failed with statuscode: {status}")) }
}

async fn exchange(mut stream: impl tokio::io::AsyncRead + tokio::io::AsyncWrite + Unpin, head: &str) -> Result<u16, String> {
    stream.write_all(head.as_bytes()).await.map_err(|e| e.to_string())?;
    let mut answer = Vec::new();
    let mut buffer = [0; 256];
    while answer.len() < 16 {
        match stream.read(&mut buffer).await {
            Ok(0) => break,
            Ok(count) => answer.extend_from_slice(&buffer[..count]),
            Err(error) => return Err(error.to_string()),
        }
    }
    let text = String::from_utf8_lossy(&answer);
    text.split(' ').nth(1).and_then(|code| code.get(..3)?.parse().ok()).ok_or_else(|| "malformed HTTP response".to_owned())
}
