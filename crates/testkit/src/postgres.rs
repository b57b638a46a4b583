//! A PostgreSQL of the test's own.

use std::path::PathBuf;
use std::process::{Child, Command};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use crate::folder::{Folder, signal, wait_until};
use crate::free_port;

pub struct Server {
    folder: Folder,
    binaries: PathBuf,
    port: u16,
    running: Mutex<Option<Child>>,
    databases: AtomicU32,
}

/// The one that tests of this process share, each with databases of its own.
pub fn shared() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(|| Server::start(&[]))
}

impl Server {
    /// With settings beside the defaults, as `name=value`.
    pub fn start(settings: &[&str]) -> Self {
        let binaries = binaries();
        let folder = Folder::new("postgres", "postgres");
        let made = folder
            .command(&binaries.join("initdb"))
            .args(["--pgdata", "data", "--username", "slipway", "--auth", "trust", "--encoding", "UTF8"])
            .args(["--locale", "C.UTF-8", "--no-sync"])
            .output()
            .expect("initdb can be started");
        assert!(made.status.success(), "initdb: {}", String::from_utf8_lossy(&made.stderr));
        let mut config = format!(
            "listen_addresses = '127.0.0.1'\nunix_socket_directories = '{}'\nmax_connections = 200\n\
             shared_buffers = 32MB\n",
            folder.path().display()
        );
        for setting in settings {
            let (name, value) = setting.split_once('=').expect("settings are name=value");
            config += &format!("{name} = {value}\n");
        }
        folder.write("data/postgresql.conf", &config, 0o600);
        let server = Self {
            folder,
            binaries,
            port: free_port(),
            running: Mutex::new(None),
            databases: AtomicU32::new(0),
        };
        server.run();
        server
    }

    /// Starts it again after [`Self::stop`], on the same port and data.
    pub fn run(&self) {
        let mut command = self.folder.command(&self.binaries.join("postgres"));
        command.args(["-D", "data", "-p", &self.port.to_string()]);
        // What a killed server leaves behind; the process it names is gone.
        let _ = std::fs::remove_file(self.folder.path().join("data/postmaster.pid"));
        let child = self.folder.start("postgres", &mut command);
        *self.running.lock().expect("not poisoned") = Some(child);
        wait_until(
            "PostgreSQL",
            Duration::from_secs(60),
            || self.folder.log("postgres"),
            || self.psql("postgres", "SELECT 1").is_ok(),
        );
    }

    /// As a crash would: no checkpoint, every connection is cut.
    pub fn stop(&self) {
        if let Some(mut child) = self.running.lock().expect("not poisoned").take() {
            signal(child.id(), "QUIT").expect("kill can be started");
            let _ = child.wait();
        }
    }

    /// A new empty database; its address.
    pub fn database(&self) -> String {
        let name = format!("test_{}", self.databases.fetch_add(1, Ordering::Relaxed));
        self.psql("postgres", &format!("CREATE DATABASE {name}")).expect("the server's owner may");
        self.url("slipway", &name)
    }

    pub fn url(&self, user: &str, database: &str) -> String {
        format!("postgres://{user}@127.0.0.1:{}/{database}", self.port)
    }

    /// One statement; what it answered, or what the server said against it.
    pub fn psql(&self, database: &str, sql: &str) -> Result<String, String> {
        let output = Command::new(self.binaries.join("psql"))
            .args(["-X", "-q", "-A", "-t", "-v", "ON_ERROR_STOP=1", "-h", "127.0.0.1", "-U", "slipway"])
            .args(["-p", &self.port.to_string(), "-d", database, "-c", sql])
            .output()
            .map_err(|error| error.to_string())?;
        if output.status.success() {
            Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned())
        } else {
            Err(String::from_utf8_lossy(&output.stderr).into_owned())
        }
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}

fn binaries() -> PathBuf {
    let mut found: Vec<_> = std::fs::read_dir("/usr/lib/postgresql")
        .into_iter()
        .flatten()
        .flatten()
        .map(|version| version.path().join("bin"))
        .filter(|folder| folder.join("initdb").exists() && folder.join("postgres").exists())
        .collect();
    found.sort();
    found.pop().expect("PostgreSQL is not installed: run scripts/setup.sh test")
}
