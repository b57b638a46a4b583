//! A RabbitMQ of the test's own, with an Erlang port mapper of its own.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use crate::folder::{Folder, program, signal, wait_until};
use crate::free_port;

pub struct Server {
    folder: Folder,
    scripts: PathBuf,
    port: u16,
    distribution_port: u16,
    mapper_port: u16,
    mapper: Mutex<Child>,
    running: Mutex<Option<Child>>,
    hosts: AtomicU32,
}

/// The one that tests of this process share, each with a virtual host of its own.
pub fn shared() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(Server::start)
}

impl Server {
    pub fn start() -> Self {
        let folder = Folder::new("rabbitmq", "rabbitmq");
        let (port, distribution_port, mapper_port) = (free_port(), free_port(), free_port());
        folder.write(".erlang.cookie", "slipwaytest", 0o400);
        folder.write(
            "rabbitmq.conf",
            &format!("listeners.tcp.1 = 127.0.0.1:{port}\nlog.file.level = warning\n"),
            0o644,
        );
        folder.write("enabled_plugins", "[].\n", 0o644);
        let mut mapper = folder.command(&program(&["/usr/bin/epmd"]));
        mapper.args(["-port", &mapper_port.to_string(), "-address", "127.0.0.1"]);
        let mapper = Mutex::new(folder.start("epmd", &mut mapper));
        let server = Self {
            folder,
            scripts: scripts(),
            port,
            distribution_port,
            mapper_port,
            mapper,
            running: Mutex::new(None),
            hosts: AtomicU32::new(0),
        };
        server.run();
        server
    }

    fn command(&self, script: &str) -> Command {
        let folder = self.folder.path();
        let mut command = self.folder.command(&self.scripts.join(script));
        command
            .env("RABBITMQ_NODENAME", format!("slipway{}@localhost", self.port))
            .env("RABBITMQ_CONFIG_FILE", folder.join("rabbitmq.conf"))
            .env("RABBITMQ_MNESIA_BASE", folder.join("mnesia"))
            .env("RABBITMQ_LOG_BASE", folder.join("logs"))
            .env("RABBITMQ_ENABLED_PLUGINS_FILE", folder.join("enabled_plugins"))
            .env("RABBITMQ_PID_FILE", folder.join("erlang.pid"))
            .env("RABBITMQ_DIST_PORT", self.distribution_port.to_string())
            .env("RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS", "+S 1:1 +sbwt none")
            .env("ERL_EPMD_PORT", self.mapper_port.to_string())
            .env("LANG", "C.UTF-8");
        command
    }

    pub fn run(&self) {
        let mut command = self.command("rabbitmq-server");
        let child = self.folder.start("rabbitmq", &mut command);
        *self.running.lock().expect("not poisoned") = Some(child);
        let told = || self.folder.log("rabbitmq");
        wait_until("RabbitMQ", Duration::from_secs(120), told, || {
            self.command("rabbitmqctl")
                .args(["-q", "await_startup", "--timeout", "60"])
                .output()
                .is_ok_and(|done| done.status.success())
        });
        self.ctl(&["set_disk_free_limit", "50MB"]);
    }

    /// As a crash would.
    pub fn stop(&self) {
        let Some(mut child) = self.running.lock().expect("not poisoned").take() else { return };
        if let Ok(pid) = std::fs::read_to_string(self.folder.path().join("erlang.pid"))
            && let Ok(pid) = pid.trim().parse()
        {
            signal(pid, "KILL").expect("kill can be started");
        }
        signal(child.id(), "KILL").expect("kill can be started");
        let _ = child.wait();
    }

    /// RabbitMQ 3.10 notes a new quorum queue in a file that it syncs a few seconds later; killed before that, the queue
    /// comes back without a leader. This has the notes on disk at once.
    pub fn settle(&self) {
        self.ctl(&["eval", "[dets:sync(Table) || Table <- dets:all()]."]);
    }

    pub fn ctl(&self, arguments: &[&str]) -> String {
        let output =
            self.command("rabbitmqctl").arg("-q").args(arguments).output().expect("rabbitmqctl starts");
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "rabbitmqctl {arguments:?}: {text}");
        text
    }

    /// A new empty virtual host; its address.
    pub fn host(&self) -> String {
        let name = format!("test{}", self.hosts.fetch_add(1, Ordering::Relaxed));
        self.ctl(&["add_vhost", &name]);
        self.ctl(&["set_permissions", "-p", &name, "guest", ".*", ".*", ".*"]);
        format!("amqp://guest:guest@127.0.0.1:{}/{name}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
        if let Ok(mut mapper) = self.mapper.lock() {
            let _ = mapper.kill();
            let _ = mapper.wait();
        }
    }
}

/// The package's own scripts; those on the path switch users by themselves.
fn scripts() -> PathBuf {
    let mut found: Vec<_> = std::fs::read_dir("/usr/lib/rabbitmq/lib")
        .into_iter()
        .flatten()
        .flatten()
        .map(|version| version.path().join("sbin"))
        .filter(|folder: &PathBuf| Path::new(folder).join("rabbitmq-server").exists())
        .collect();
    found.sort();
    found.pop().expect("RabbitMQ is not installed: run scripts/setup.sh test")
}
