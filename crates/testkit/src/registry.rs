//! A real image registry on loopback, for charts and images.

use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// Runs until it is dropped.
#[derive(Debug)]
pub struct Registry {
    child: Child,
    port: u16,
    _folder: tempfile::TempDir,
}

/// Of [`Registry::private`].
pub const REGISTRY_USER: &str = "robot";
pub const REGISTRY_PASSWORD: &str = "only-for-tests";
/// The same, as the registry reads it.
const REGISTRY_LOGIN: &str = "robot:$2b$05$abcdefghijklmnopqrstuuDt8u8tY.Zm8YU.pieFNyF5h5afvnc0a\n";

impl Registry {
    pub fn start() -> Self {
        Self::start_with("")
    }

    /// One that lets nobody in without a password.
    pub fn private() -> Self {
        Self::start_with(REGISTRY_LOGIN)
    }

    fn start_with(logins: &str) -> Self {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let port = crate::free_port();
        let config = folder.path().join("config.yaml");
        let data = folder.path().join("data").display().to_string();
        let file = folder.path().join("logins");
        std::fs::write(&file, logins).expect("written");
        let auth = match logins {
            "" => String::new(),
            _ => format!("auth: {{htpasswd: {{realm: test, path: {}}}}}\n", file.display()),
        };
        let text = format!(
            "version: 0.1\n{auth}log: {{level: warn}}\nstorage: {{filesystem: {{rootdirectory: {data}}}}}\n\
             http: {{addr: \"127.0.0.1:{port}\"}}\n"
        );
        std::fs::write(&config, text).expect("written");
        let child = Command::new(crate::tool("registry"))
            .arg("serve")
            .arg(&config)
            .env("OTEL_TRACES_EXPORTER", "none")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .expect("the registry starts");
        let registry = Self { child, port, _folder: folder };
        let end = Instant::now() + Duration::from_secs(30);
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        while TcpStream::connect_timeout(&address, Duration::from_secs(1)).is_err() {
            assert!(Instant::now() < end, "the registry does not listen");
            std::thread::sleep(Duration::from_millis(20));
        }
        registry
    }

    /// `127.0.0.1:PORT`.
    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }
}

impl Drop for Registry {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
