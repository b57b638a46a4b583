//! A look from inside: a program that takes the place of a tool, tells what it sees, and one line that asserts it.
//!
//! ```ignore
//! let probe = Probe::named("helm");
//! let renderer = renderer.with_tools(vec![probe.bin()]);
//! Seen::in_object(&rendered.objects[0]).assert_caged().assert_no_network().assert_own_user();
//!
//! if again_in_place_of("/usr/bin/git", "inside::git_fetches_in_a_cage") { return }
//! Seen::in_folder(&mirror).assert_caged();
//! ```
//!
//! A tool that is new to the platform gets its test with these lines. The probe knows a file that it must not read
//! and a port on loopback that it must not reach; both are there, so that a hole shows.

use std::net::TcpListener;
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::Value;

/// The program, in a folder of its own that can be put first on a PATH.
pub struct Probe {
    folder: tempfile::TempDir,
    name: String,
    port: u16,
    _listeners: (TcpListener, UnixListener),
}

impl Probe {
    pub fn named(name: &str) -> Self {
        Self::ending_with(name, 0)
    }

    /// For tools whose failure is what carries their words outwards.
    pub fn ending_with(name: &str, code: i32) -> Self {
        let folder = tempfile::Builder::new().prefix("inside-").tempdir().expect("a folder can be made");
        let canary = folder.path().join("canary");
        std::fs::write(&canary, "CANARY").expect("the canary can be written");
        let socket = UnixListener::bind(folder.path().join("canary.socket")).expect("a socket can be made");
        let port = TcpListener::bind("127.0.0.1:0").expect("loopback has free ports");
        let number = port.local_addr().expect("a bound socket has an address").port();
        let source = folder.path().join("inside.c");
        std::fs::write(&source, include_str!("inside.c")).expect("the source can be written");
        let bin = folder.path().join("bin");
        std::fs::create_dir(&bin).expect("a folder can be made");
        let output = Command::new("cc")
            .arg("-O1")
            .arg(format!("-DCANARY=\"{}\"", canary.display()))
            .arg(format!("-DPORT={number}"))
            .arg(format!("-DEXIT={code}"))
            .arg("-o")
            .arg(bin.join(name))
            .arg(&source)
            .output()
            .expect("cc is installed, as for every build of Rust");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self { folder, name: name.to_owned(), port: number, _listeners: (port, socket) }
    }

    pub fn path(&self) -> PathBuf {
        self.bin().join(&self.name)
    }

    /// The folder that holds the program and nothing else.
    pub fn bin(&self) -> PathBuf {
        self.folder.path().join("bin")
    }

    /// The file that must not be read.
    pub fn canary(&self) -> PathBuf {
        self.folder.path().join("canary")
    }

    /// The port on loopback that must not be reached, and somebody listens on.
    pub fn port(&self) -> u16 {
        self.port
    }
}

/// Runs one test of this test program again where the probe lies over `place`, such as `/usr/bin/git`, for that run
/// alone. True in the outer run, which has nothing more to do.
pub fn again_in_place_of(place: &str, test: &str) -> bool {
    const INNER: &str = "TESTKIT_INSIDE";
    if std::env::var_os(INNER).is_some() {
        return false;
    }
    let probe = Probe::named("probe");
    let program = std::env::current_exe().expect("a test program has a path");
    let output = Command::new("unshare")
        .args(["--mount", "sh", "-c", "mount --bind \"$1\" \"$2\" && shift 2 && exec \"$@\"", "sh"])
        .arg(probe.path())
        .arg(std::fs::canonicalize(place).unwrap_or_else(|error| panic!("{place}: {error}")))
        .arg(program)
        .args(["--exact", test, "--nocapture"])
        .env(INNER, "1")
        .env("INSIDE_SECRET", "of-the-parent")
        .output()
        .expect("unshare is installed, and this is root");
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success(), "{said}{}", String::from_utf8_lossy(&output.stderr));
    assert!(said.contains("1 passed"), "no test is named {test}: {said}");
    true
}

/// What the program saw.
pub struct Seen(pub Value);

impl Seen {
    /// From what a renderer gave out.
    pub fn in_object(object: &Value) -> Self {
        let report = object["data"]["report"].as_str().unwrap_or_else(|| panic!("no report in {object}"));
        Self(serde_json::from_str(report).expect("the probe writes JSON"))
    }

    /// From a program's standard output.
    pub fn in_output(output: &[u8]) -> Self {
        Self::in_object(&serde_json::from_slice(output).expect("the probe writes JSON"))
    }

    /// From words on standard error, or an error message that holds them.
    pub fn in_words(words: &str) -> Self {
        let start =
            words.find("inside: ").unwrap_or_else(|| panic!("no report in {words}")) + "inside: ".len();
        let mut values = serde_json::Deserializer::from_str(&words[start..]).into_iter::<Value>();
        Self(values.next().expect("a report follows").expect("the probe writes JSON"))
    }

    /// From what gpgv is believed to have said.
    pub fn in_fingerprint(hex: &str) -> Self {
        let bytes: Vec<u8> = (0..hex.len() / 2)
            .map(|at| u8::from_str_radix(&hex[2 * at..2 * at + 2], 16).expect("the probe writes hex"))
            .collect();
        Self(serde_json::from_slice(&bytes).expect("the probe writes JSON"))
    }

    /// From the file that it left where it could write.
    pub fn in_folder(folder: &Path) -> Self {
        let file = folder.join("inside.json");
        let text = std::fs::read(&file).unwrap_or_else(|error| panic!("{}: {error}", file.display()));
        Self(serde_json::from_slice(&text).expect("the probe writes JSON"))
    }

    pub fn number(&self, name: &str) -> i64 {
        self.0[name].as_i64().unwrap_or_else(|| panic!("`{name}` is no number in {}", self.0))
    }

    pub fn texts(&self, name: &str) -> Vec<String> {
        let list = self.0[name].as_array().unwrap_or_else(|| panic!("`{name}` is no list in {}", self.0));
        list.iter().filter_map(|text| text.as_str().map(str::to_owned)).collect()
    }

    /// What holds for every program that the platform starts, network or not.
    #[track_caller]
    pub fn assert_caged(&self) -> &Self {
        for (name, wanted) in [
            ("cap_effective", 0),
            ("cap_permitted", 0),
            ("cap_inheritable", 0),
            ("cap_bounding", 0),
            ("no_new_privs", 1),
            ("seccomp", 2),
            ("groups", 0),
            ("limit_core", 0),
        ] {
            assert_eq!(self.number(name), wanted, "{name} in {}", self.0);
        }
        for name in [
            "canary_read",
            "canary_stat",
            "shadow_read",
            "write_root",
            "write_usr",
            "write_etc",
            "unix",
            "raw",
            "packet",
            "vsock",
            "unshare_user",
            "unshare_mount",
            "mount",
            "chroot",
            "ptrace",
            "mknod",
            "bpf",
            "io_uring",
            "keyctl",
            "set_id",
            "outlive",
        ] {
            assert_ne!(self.number(name), 0, "{name} was possible: {}", self.0);
        }
        // Those that came before it inside of its own cage, and nobody else.
        assert!(self.number("processes") < self.number("pid") && self.number("pid") < 50, "{}", self.0);
        assert_eq!(self.0["descriptors"].as_array().map(Vec::len), Some(0), "{}", self.0);
        assert_eq!(self.texts("proc"), [""; 0], "{}", self.0);
        assert!(
            !self.texts("environment").iter().any(|pair| pair.starts_with("INSIDE_SECRET")),
            "{}",
            self.0
        );
        let root = self.texts("root");
        for name in ["home", "root", "var", "work", "sys", "run", "opt", "boot"] {
            // A workspace in such a folder is seen, with nothing beside it.
            let own = self.0["folder"].as_str().is_some_and(|path| path.starts_with(&format!("/{name}/")));
            assert!(own || !root.iter().any(|seen| seen == name), "/{name} is seen: {}", self.0);
        }
        self
    }

    /// What others must not be able to read is neither in its arguments nor in its environment.
    #[track_caller]
    pub fn assert_nowhere(&self, secret: &str) -> &Self {
        let texts = self.texts("arguments").into_iter().chain(self.texts("environment"));
        assert!(!texts.into_iter().any(|text| text.contains(secret)), "{secret} is in {}", self.0);
        self
    }

    /// No way to anybody.
    #[track_caller]
    pub fn assert_no_network(&self) -> &Self {
        assert_ne!(self.number("loopback"), 0, "loopback was reached: {}", self.0);
        assert_ne!(self.number("udp"), 0, "{}", self.0);
        assert_eq!(self.number("interfaces_with_address"), 0, "{}", self.0);
        self
    }

    /// Somebody who owns nothing.
    #[track_caller]
    pub fn assert_own_user(&self) -> &Self {
        assert!(self.number("uid") >= 50_000 && self.number("gid") >= 50_000, "{}", self.0);
        assert_ne!(self.number("setuid"), 0, "{}", self.0);
        assert!(self.number("limit_processes") <= 4096, "{}", self.0);
        self
    }
}
