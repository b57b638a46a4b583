//! Commands in running containers, and connections into a pod's network.

use std::fs::File;
use std::process::Stdio;

use serde_json::Value;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpStream;
use tokio::process::Child;

use super::container::container_name;
use super::engine::{Engine, words};
use crate::value::Json as _;

pub(crate) type Reader = Box<dyn AsyncRead + Send + Unpin>;
pub(crate) type Writer = Box<dyn AsyncWrite + Send + Unpin>;

/// A command that runs in a container.
pub(crate) struct Exec {
    pub(crate) stdin: Option<Writer>,
    pub(crate) stdout: Option<Reader>,
    pub(crate) stderr: Option<Reader>,
    terminal: Option<File>,
    child: Child,
}

/// How it ended.
pub(crate) struct ExecEnd {
    pub(crate) code: i32,
}

pub(crate) struct ExecWish {
    pub(crate) command: Vec<String>,
    pub(crate) stdin: bool,
    pub(crate) tty: bool,
}

impl Exec {
    pub(crate) fn start(engine: &Engine, pod: &Value, container: &str, attempt: i64, wish: &ExecWish) -> Result<Exec, String> {
        let mut args = words(&["exec"]);
        if wish.stdin || wish.tty {
            args.push("-i".to_owned());
        }
        if wish.tty {
            args.push("-t".to_owned());
        }
        args.push(container_name(engine, pod.uid(), container, attempt));
        args.extend(wish.command.iter().cloned());
        Self::spawn(engine, &args, wish)
    }

    /// The streams of the container's own process.
    pub(crate) fn attach(engine: &Engine, pod: &Value, container: &str, attempt: i64, wish: &ExecWish) -> Result<Exec, String> {
        let mut args = words(&["attach", "--sig-proxy=false"]);
        if !wish.stdin {
            args.push("--no-stdin".to_owned());
        }
        args.push(container_name(engine, pod.uid(), container, attempt));
        Self::spawn(engine, &args, wish)
    }

    fn spawn(engine: &Engine, args: &[String], wish: &ExecWish) -> Result<Exec, String> {
        let mut command = engine.command(args);
        command.kill_on_drop(true);
        let fail = |e: std::io::Error| format!("the command cannot be started: {e}");
        if wish.tty {
            let (master, slave) = open_terminal().map_err(fail)?;
            command.stdin(slave.try_clone().map_err(fail)?).stdout(slave.try_clone().map_err(fail)?).stderr(slave);
            let child = command.spawn().map_err(fail)?;
            // The command's own copies of the terminal must close with it, so that reading ends.
            drop(command);
            let reader = tokio::fs::File::from_std(master.try_clone().map_err(fail)?);
            let writer = tokio::fs::File::from_std(master.try_clone().map_err(fail)?);
            return Ok(Exec {
                stdin: wish.stdin.then(|| Box::new(writer) as Writer),
                stdout: Some(Box::new(reader)),
                stderr: None,
                terminal: Some(master),
                child,
            });
        }
        if wish.stdin {
            command.stdin(Stdio::piped());
        }
        let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().map_err(fail)?;
        Ok(Exec {
            stdin: child.stdin.take().map(|pipe| Box::new(pipe) as Writer),
            stdout: child.stdout.take().map(|pipe| Box::new(pipe) as Reader),
            stderr: child.stderr.take().map(|pipe| Box::new(pipe) as Reader),
            terminal: None,
            child,
        })
    }

    /// A new terminal size, as `{"Width": …, "Height": …}`.
    pub(crate) fn resize(&self, size: &Value) {
        let Some(terminal) = &self.terminal else { return };
        let number = |field: &str| u16::try_from(size.int_at(field).unwrap_or(0)).unwrap_or(0);
        let size = rustix::termios::Winsize { ws_row: number("Height"), ws_col: number("Width"), ws_xpixel: 0, ws_ypixel: 0 };
        if rustix::termios::tcsetwinsize(terminal, size).is_ok()
            && let Some(pid) = self.child.id().and_then(|id| rustix::process::Pid::from_raw(id as i32))
        {
            let _ = rustix::process::kill_process(pid, rustix::process::Signal::WINCH);
        }
    }

    pub(crate) async fn wait(&mut self) -> ExecEnd {
        let code = self.child.wait().await.ok().and_then(|status| status.code()).unwrap_or(137);
        ExecEnd { code }
    }
}

fn open_terminal() -> std::io::Result<(File, File)> {
    use rustix::fs::{Mode, OFlags};
    use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
    grantpt(&master)?;
    unlockpt(&master)?;
    let name = ptsname(&master, Vec::new())?;
    let slave = rustix::fs::open(name.as_c_str(), OFlags::RDWR | OFlags::NOCTTY | OFlags::CLOEXEC, Mode::empty())?;
    // Raw until the engine sets it up, so that nothing typed early is echoed twice.
    let mut modes = rustix::termios::tcgetattr(&slave)?;
    modes.make_raw();
    rustix::termios::tcsetattr(&slave, rustix::termios::OptionalActions::Now, &modes)?;
    Ok((File::from(master), File::from(slave)))
}

/// A connection to a port as the pod itself sees it, so that servers on its loopback are reached too.
pub(crate) async fn connect(engine: &Engine, pod: &Value, port: u16) -> Result<TcpStream, String> {
    let sandbox = container_name(engine, pod.uid(), "POD", 0);
    let details = engine.inspect(&[sandbox]).await?;
    let pid = details.first().and_then(|d| d.int_at("State.Pid")).filter(|pid| *pid > 0);
    if let Some(pid) = pid
        && engine.rootful
    {
        let inside = tokio::task::spawn_blocking(move || connect_inside(pid, port)).await.map_err(|e| e.to_string())?;
        match inside {
            Ok(stream) => {
                stream.set_nonblocking(true).map_err(|e| e.to_string())?;
                return TcpStream::from_std(stream).map_err(|e| e.to_string());
            }
            Err(error) if error.kind() == std::io::ErrorKind::PermissionDenied => {}
            Err(error) => return Err(format!("dial tcp4 127.0.0.1:{port}: {error}")),
        }
    }
    let ip = pod.str_at("status.podIP");
    TcpStream::connect((ip, port)).await.map_err(|e| format!("dial tcp4 {ip}:{port}: {e}"))
}

/// A thread of its own enters the pod's network, opens the socket there, and ends.
fn connect_inside(pid: i64, port: u16) -> std::io::Result<std::net::TcpStream> {
    let thread = std::thread::spawn(move || {
        let file = File::open(format!("/proc/{pid}/ns/net"))?;
        rustix::thread::move_into_link_name_space(
            std::os::fd::AsFd::as_fd(&file),
            Some(rustix::thread::LinkNameSpaceType::Network),
        )?;
        std::net::TcpStream::connect_timeout(&std::net::SocketAddr::from(([127, 0, 0, 1], port)), std::time::Duration::from_secs(5))
    });
    thread.join().unwrap_or_else(|_| Err(std::io::Error::other("the connecting thread ended")))
}
