//! docs/scaling.md, followed word by word: its commands against a real PostgreSQL, RabbitMQ and Redis.
//!
//! The block of variables is replaced by values of this machine; every other block runs as it stands on the page.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc;
use std::time::{Duration, Instant};

use slipway_testkit::{free_port, postgres, rabbitmq, redis};

const PAGE: &str = include_str!("../../../../docs/scaling.md");

/// The fenced blocks by the names in the comments before them, in the order of the page.
fn steps() -> BTreeMap<&'static str, &'static str> {
    let mut found = BTreeMap::new();
    for part in PAGE.split("<!-- step: ").skip(1) {
        let (name, rest) = part.split_once(" -->").expect("a step has a name");
        let block = rest.trim_start().strip_prefix("```sh\n").expect("a block of commands follows its name");
        let (block, _) = block.split_once("```").expect("a block has an end");
        assert!(found.insert(name, block).is_none(), "step `{name}` is there twice");
    }
    found
}

struct Machine {
    folder: tempfile::TempDir,
    variables: Vec<(&'static str, String)>,
    steps: BTreeMap<&'static str, &'static str>,
}

impl Machine {
    fn command(&self, script: &str, more: &[(&str, String)]) -> Command {
        let bin = self.folder.path().join("bin");
        let path = std::env::var("PATH").unwrap();
        let mut command = Command::new("bash");
        command
            .args(["-euo", "pipefail", "-c", script])
            .current_dir(self.folder.path())
            .env("PATH", format!("{}:{path}", bin.display()))
            .env("HOME", self.folder.path())
            .env("SLIPWAY_CONFIG", self.folder.path().join("config.json"))
            .env("CTL_LOG", self.folder.path().join("ctl.log"));
        for (name, value) in self
            .variables
            .iter()
            .map(|(name, value)| (*name, value))
            .chain(more.iter().map(|(name, value)| (*name, value)))
        {
            command.env(name, value);
        }
        command
    }

    fn run(&self, step: &str) -> Output {
        self.command(self.steps[step], &[]).output().unwrap()
    }

    fn good(&self, step: &str) -> String {
        let output = self.run(step);
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        assert!(output.status.success(), "{step}: {text}");
        text
    }

    /// Runs until it is dropped; its lines come as they are printed.
    fn start(&self, step: &str, more: &[(&str, String)]) -> Running {
        let mut child = self
            // The program takes the shell's place, so that a signal reaches it.
            .command(
                &self.steps[step].replace("\nslipway runner", "\nexec slipway runner").replacen(
                    "slipway server",
                    "exec slipway server",
                    1,
                ),
                more,
            )
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = mpsc::channel();
        let (out, err) = (child.stdout.take().unwrap(), child.stderr.take().unwrap());
        let other = sender.clone();
        std::thread::spawn(move || {
            BufReader::new(out).lines().map_while(Result::ok).try_for_each(|line| sender.send(line))
        });
        std::thread::spawn(move || {
            BufReader::new(err).lines().map_while(Result::ok).try_for_each(|line| other.send(line))
        });
        Running { child, lines, seen: Vec::new() }
    }
}

struct Running {
    child: Child,
    lines: mpsc::Receiver<String>,
    seen: Vec<String>,
}

impl Running {
    fn until(&mut self, words: &str) -> String {
        let until = Instant::now() + slipway_testkit::PATIENCE;
        while Instant::now() < until {
            if let Some(line) = self.seen.iter().find(|line| line.contains(words)) {
                return line.clone();
            }
            if let Ok(line) = self.lines.recv_timeout(Duration::from_millis(200)) {
                self.seen.push(line);
            }
        }
        panic!("it did not say `{words}`: {:#?}", self.seen);
    }

    fn heard(&mut self) -> &[String] {
        self.seen.extend(self.lines.try_iter());
        &self.seen
    }

    fn stop(mut self) {
        Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().unwrap();
        self.child.wait().unwrap();
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn program(path: &Path, text: &str) {
    std::fs::write(path, text).unwrap();
    std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o755)).unwrap();
}

fn machine() -> Machine {
    let folder = tempfile::tempdir().unwrap();
    let bin = folder.path().join("bin");
    std::fs::create_dir(&bin).unwrap();
    std::os::unix::fs::symlink(env!("CARGO_BIN_EXE_slipway"), bin.join("slipway")).unwrap();
    // Which broker is meant only the test knows: it is told what the page says.
    program(
        &bin.join("rabbitmqctl"),
        "#!/bin/sh\nprintf '%s\\037' \"$@\" >> \"$CTL_LOG\"\necho >> \"$CTL_LOG\"\n",
    );
    let name = format!("scaled{}", free_port());
    let (host, admin) = (rabbitmq::shared().host(), postgres::shared().url("slipway", "postgres"));
    let broker = host.split_once('@').unwrap().1.split_once('/').unwrap().0;
    let server = admin.split_once('@').unwrap().1.split_once('/').unwrap().0;
    let inside = |name: &str| folder.path().join(name).display().to_string();
    let listen = format!("127.0.0.1:{}", free_port());
    let variables = vec![
        ("PG_ADMIN", admin.clone()),
        ("PASSWORD", "secret".into()),
        ("DATABASE", format!("postgres://{name}:secret@{server}/{name}")),
        ("BUS", format!("amqp://{name}:secret@{broker}/{name}")),
        ("CACHE", redis::shared().url()),
        ("SHARED", inside("shared")),
        ("URL", format!("http://{listen}")),
        ("LISTEN", listen),
        ("RUNNER_DATA", inside("runner")),
        ("EXECUTOR", "host".into()),
        ("BACKUP", inside("backup")),
        ("NAME", name),
    ];
    Machine { folder, variables, steps: steps() }
}

/// Every variable of the page has a value here, and no other is needed but the key that a process prints.
fn check_variables(machine: &Machine) {
    let named: Vec<_> =
        machine.steps["variables"].lines().filter_map(|line| Some(line.split_once('=')?.0)).collect();
    for (name, _) in &machine.variables {
        assert!(named.contains(name), "the page does not name `{name}`");
    }
    for name in named {
        assert!(machine.variables.iter().any(|(known, _)| *known == name), "`{name}` has no value here");
    }
}

#[test]
fn the_page_about_scaling_is_followed_word_by_word() {
    let mut machine = machine();
    check_variables(&machine);
    machine.good("database");
    machine.good("broker");
    let asked = std::fs::read_to_string(machine.folder.path().join("ctl.log")).unwrap();
    for line in asked.lines() {
        let words: Vec<_> = line.split('\u{1f}').filter(|word| !word.is_empty()).collect();
        rabbitmq::shared().ctl(&words);
    }
    let mut one = machine.start("process", &[]);
    let mut two = machine.start("process", &[("LISTEN", format!("127.0.0.1:{}", free_port()))]);
    for process in [&mut one, &mut two] {
        process.until("Slipway server at");
        process.until("Roles");
    }
    std::thread::sleep(Duration::from_millis(200));
    let printed: Vec<String> =
        [&mut one, &mut two].into_iter().flat_map(|process| process.heard().to_vec()).collect();
    let keys: Vec<_> =
        printed.iter().filter_map(|line| line.strip_prefix("API key")).map(str::trim).collect();
    assert_eq!(keys.len(), 1, "one of them printed the key: {printed:#?}");
    machine.variables.push(("API_KEY", keys[0].to_owned()));
    assert_eq!(machine.good("ready").trim(), "ready");
    machine.good("sign-in");
    let mut runner = machine.start("runner", &[]);
    runner.until("Runner ready");
    let log = machine.good("build");
    assert!(log.contains("hello from the scaled set"), "{log}");
    let watched = machine.good("watch");
    for metric in [
        "slipway_part_up{part=\"bus\"} 1",
        "slipway_deferred_messages{state=\"dead\"} 0",
        "slipway_bus_dead_letters",
    ] {
        assert!(watched.contains(metric), "{metric}: {watched}");
    }
    machine.good("backup");
    // S8: not while somebody is connected.
    let refused = machine.run("restore");
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains("stop all of them first"), "{said}");
    // S7: a folder that is not the shared one.
    let elsewhere: PathBuf = machine.folder.path().join("elsewhere");
    let wrong = machine
        .command(
            machine.steps["process"],
            &[("SHARED", elsewhere.display().to_string()), ("LISTEN", "127.0.0.1:0".into())],
        )
        .output()
        .unwrap();
    let said = String::from_utf8_lossy(&wrong.stderr).into_owned();
    assert!(!wrong.status.success() && said.contains("master.key"), "{said}");
    assert!(!elsewhere.join("master.key").exists(), "no new key was made");
    runner.stop();
    one.stop();
    two.stop();
    machine.good("restore");
    let mut again = machine.start("process", &[]);
    again.until("Slipway server at");
    assert_eq!(machine.good("ready").trim(), "ready");
}
