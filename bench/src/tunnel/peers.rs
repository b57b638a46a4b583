//! Published tunnels, as far as their programs are in a folder: each with its two ends as processes, set up as its documentation does.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use anyhow::Context;
use tokio::net::TcpStream;

pub(super) struct Peer {
    pub(super) what: &'static str,
    programs: &'static [&'static str],
    commands: fn(&Setting) -> anyhow::Result<Vec<Command>>,
}

/// What a peer is set up with: its programs, ports that are free, and the backend.
struct Setting {
    folder: PathBuf,
    files: PathBuf,
    control: u16,
    callers: u16,
    local: u16,
}

impl Setting {
    fn command(&self, program: &str, words: &[&str]) -> Command {
        let mut command = Command::new(self.folder.join(program));
        command.args(words).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        command
    }

    /// A program that reads its settings from a file.
    fn with_file(&self, program: &str, before: &[&str], text: &str) -> anyhow::Result<Command> {
        let file = self.files.join(format!("{program}{}.toml", text.len()));
        std::fs::write(&file, text)?;
        let mut command = self.command(program, before);
        command.arg(file);
        Ok(command)
    }
}

/// How each carries bytes stands in its name: only what is encrypted compares with ours.
pub(super) const ALL: &[Peer] = &[
    Peer { what: "frp 0.65, TLS, http", programs: &["frps", "frpc"], commands: frp_http },
    Peer { what: "frp 0.65, TLS, tcp", programs: &["frps", "frpc"], commands: frp_tcp },
    Peer { what: "chisel 1.11, SSH, tcp", programs: &["chisel"], commands: chisel },
    Peer { what: "rathole 0.5, plain, tcp", programs: &["rathole"], commands: rathole },
    Peer { what: "bore 0.6, plain, tcp", programs: &["bore"], commands: bore },
];

fn frp_http(at: &Setting) -> anyhow::Result<Vec<Command>> {
    frp(at, &format!("vhostHTTPPort = {}\n", at.callers), "type = \"http\"\ncustomDomains = [\"bench\"]")
}

fn frp_tcp(at: &Setting) -> anyhow::Result<Vec<Command>> {
    frp(at, "", &format!("type = \"tcp\"\nremotePort = {}", at.callers))
}

/// TLS is on by default.
fn frp(at: &Setting, more: &str, proxy: &str) -> anyhow::Result<Vec<Command>> {
    let server = format!(
        "bindAddr = \"127.0.0.1\"\nproxyBindAddr = \"127.0.0.1\"\nbindPort = {}\n{more}log.level = \"error\"\n",
        at.control
    );
    let client = format!(
        "serverAddr = \"127.0.0.1\"\nserverPort = {}\nlog.level = \"error\"\n[[proxies]]\nname = \"bench\"\nlocalIP = \"127.0.0.1\"\nlocalPort = {}\n{proxy}\n",
        at.control, at.local
    );
    Ok(vec![at.with_file("frps", &["-c"], &server)?, at.with_file("frpc", &["-c"], &client)?])
}

fn chisel(at: &Setting) -> anyhow::Result<Vec<Command>> {
    let (port, server) = (at.control.to_string(), format!("http://127.0.0.1:{}", at.control));
    let remote = format!("R:127.0.0.1:{}:127.0.0.1:{}", at.callers, at.local);
    Ok(vec![
        at.command("chisel", &["server", "--host", "127.0.0.1", "--port", &port, "--reverse"]),
        at.command("chisel", &["client", &server, &remote]),
    ])
}

fn rathole(at: &Setting) -> anyhow::Result<Vec<Command>> {
    let server = format!(
        "[server]\nbind_addr = \"127.0.0.1:{}\"\ndefault_token = \"bench\"\n[server.services.bench]\nbind_addr = \"127.0.0.1:{}\"\n",
        at.control, at.callers
    );
    let client = format!(
        "[client]\nremote_addr = \"127.0.0.1:{}\"\ndefault_token = \"bench\"\n[client.services.bench]\nlocal_addr = \"127.0.0.1:{}\"\n",
        at.control, at.local
    );
    Ok(vec![
        at.with_file("rathole", &["--server"], &server)?,
        at.with_file("rathole", &["--client"], &client)?,
    ])
}

/// Its control port is always the same one.
fn bore(at: &Setting) -> anyhow::Result<Vec<Command>> {
    let (callers, local) = (at.callers.to_string(), at.local.to_string());
    Ok(vec![
        at.command("bore", &["server", "--min-port", "1024", "--bind-addr", "127.0.0.1"]),
        at.command("bore", &["local", &local, "--to", "127.0.0.1", "--port", &callers]),
    ])
}

pub(super) struct Running {
    children: Vec<Child>,
    _files: tempfile::TempDir,
    pub(super) address: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        for child in &mut self.children {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}

impl Peer {
    /// None when a program of it is not there.
    pub(super) async fn start(&self, folder: &Path, local: &str) -> anyhow::Result<Option<Running>> {
        if !self.programs.iter().all(|program| folder.join(program).is_file()) {
            return Ok(None);
        }
        let files = tempfile::tempdir()?;
        let local = local.rsplit_once(':').context("an address")?.1.parse()?;
        let setting = Setting {
            folder: folder.to_owned(),
            files: files.path().to_owned(),
            control: free_port()?,
            callers: free_port()?,
            local,
        };
        let address = format!("127.0.0.1:{}", setting.callers);
        let mut running = Running { children: Vec::new(), _files: files, address };
        for mut command in (self.commands)(&setting)? {
            running.children.push(command.spawn()?);
            // Its server listens before its client dials.
            tokio::time::sleep(Duration::from_millis(700)).await;
        }
        for _ in 0..100 {
            if answers(&running.address).await {
                return Ok(Some(running));
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        anyhow::bail!("it did not come up")
    }
}

/// Through to the backend, not only to its own listener.
async fn answers(address: &str) -> bool {
    if TcpStream::connect(address).await.is_err() {
        return false;
    }
    let asked = async {
        let mut sender = crate::load::connect(address).await?;
        let answer = sender.send_request(crate::request("GET", "/webhooks/small", "", "")).await?;
        anyhow::ensure!(answer.status().is_success());
        Ok(())
    };
    tokio::time::timeout(Duration::from_secs(1), asked)
        .await
        .is_ok_and(|asked: anyhow::Result<()>| asked.is_ok())
}

fn free_port() -> anyhow::Result<u16> {
    Ok(std::net::TcpListener::bind("127.0.0.1:0")?.local_addr()?.port())
}
