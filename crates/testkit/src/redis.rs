//! A Redis of the test's own. It keeps nothing: nothing durable may rest on it.

use std::net::TcpStream;
use std::process::Child;
use std::sync::{Mutex, OnceLock};
use std::time::Duration;

use crate::folder::{Folder, program, signal, wait_until};
use crate::free_port;

pub struct Server {
    folder: Folder,
    port: u16,
    running: Mutex<Option<Child>>,
}

pub fn shared() -> &'static Server {
    static SERVER: OnceLock<Server> = OnceLock::new();
    SERVER.get_or_init(Server::start)
}

impl Server {
    pub fn start() -> Self {
        let server =
            Self { folder: Folder::new("redis", "redis"), port: free_port(), running: Mutex::new(None) };
        server.run();
        server
    }

    pub fn run(&self) {
        let mut command =
            self.folder.command(&program(&["/usr/bin/redis-server", "/usr/local/bin/redis-server"]));
        command.args([
            "--port",
            &self.port.to_string(),
            "--bind",
            "127.0.0.1",
            "--save",
            "",
            "--appendonly",
            "no",
        ]);
        let child = self.folder.start("redis", &mut command);
        *self.running.lock().expect("not poisoned") = Some(child);
        wait_until(
            "Redis",
            Duration::from_secs(30),
            || self.folder.log("redis"),
            || TcpStream::connect(("127.0.0.1", self.port)).is_ok(),
        );
    }

    pub fn stop(&self) {
        if let Some(mut child) = self.running.lock().expect("not poisoned").take() {
            signal(child.id(), "KILL").expect("kill can be started");
            let _ = child.wait();
        }
    }

    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        self.stop();
    }
}
