//! `--watch`, and whose log is printed when no build is named: against a real server, without polling it.

use std::io::{BufRead, BufReader};
use std::process::{Child, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use serde_json::{Value, json};

use crate::process::{Process, command, slipway_with};

const SOON: Duration = slipway_testkit::PATIENCE;

/// A command that goes on printing, and its lines.
struct Watching {
    child: Child,
    lines: Receiver<String>,
}

impl Watching {
    fn start(process: &Process, key: &str, arguments: &[&str]) -> Self {
        let mut child = command()
            .envs([("SLIPWAY_URL", process.url.as_str()), ("SLIPWAY_API_KEY", key)])
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let (sender, lines) = channel();
        let out = BufReader::new(child.stdout.take().unwrap());
        std::thread::spawn(move || out.lines().map_while(Result::ok).try_for_each(|line| sender.send(line)));
        Self { child, lines }
    }

    fn line(&self) -> String {
        self.lines.recv_timeout(SOON).expect("a line is printed")
    }

    fn object(&self) -> Value {
        serde_json::from_str(&self.line()).expect("each line is an object")
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// One that needs no commit, so that builds of it wait for a runner that never comes.
async fn pipeline(process: &Process, key: &str) {
    let steps = json!({"hello": {"image": "busybox", "commands": ["echo hello"]}});
    let body = json!({"metadata": {"name": "demo/build"}, "spec": {"steps": steps}});
    process.good("POST", "/api/pipelines", key, Some(body)).await;
}

async fn run(process: &Process, key: &str) -> String {
    let id = process.good("POST", "/api/pipelines/run/demo%2Fbuild", key, Some(json!({}))).await;
    id.as_str().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watched_list_of_builds_prints_each_change_of_each_build() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(&["--data", folder.path().to_str().unwrap()]);
    let key = process.first_key.clone().unwrap();
    pipeline(&process, &key).await;
    let first = run(&process, &key).await;

    let objects = Watching::start(&process, &key, &["build", "list", "--watch", "-o", "json"]);
    let table = Watching::start(&process, &key, &["build", "list", "-w"]);
    assert_eq!(objects.object()["id"], first, "what is there comes first");
    assert!(table.line().starts_with("ID "), "a table has its headings");
    assert!(table.line().contains(&first));

    let second = run(&process, &key).await;
    assert_eq!(objects.object()["id"], second, "a new one is printed, and no other");
    assert!(table.line().contains(&second));

    process.good("DELETE", &format!("/api/progress/{first}"), &key, None).await;
    let changed = objects.object();
    assert_eq!((&changed["id"], &changed["status"]), (&json!(first), &json!("terminated")));
    let row = table.line();
    assert!(row.contains(&first) && row.contains("terminated"), "{row}");

    let filtered =
        Watching::start(&process, &key, &["build", "list", "-w", "--status", "terminated", "-o", "name"]);
    assert_eq!(filtered.line(), first);
    process.good("DELETE", &format!("/api/progress/{second}"), &key, None).await;
    assert_eq!(filtered.line(), second, "filters hold for what comes later");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_watched_list_survives_a_restart_of_the_server() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap().to_owned();
    let process = Process::start(&["--data", &data]);
    let key = process.first_key.clone().unwrap();
    pipeline(&process, &key).await;
    let first = run(&process, &key).await;
    let watching = Watching::start(&process, &key, &["build", "list", "-w", "-o", "name"]);
    assert_eq!(watching.line(), first);
    let listen = process.url.strip_prefix("http://").unwrap().to_owned();
    process.stop();
    let process = Process::start_at(&listen, &["--data", &data]);
    let second = run(&process, &key).await;
    assert_eq!(watching.line(), second, "it reconnected, and prints what it had not seen");
}

#[tokio::test(flavor = "multi_thread")]
async fn logs_without_a_build_are_of_ones_own_latest() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(&["--data", folder.path().to_str().unwrap()]);
    let key = process.first_key.clone().unwrap();
    pipeline(&process, &key).await;
    process.good("POST", "/api/service-users", &key, Some(json!({"name": "robot", "role": "Admin"}))).await;
    let path = "/api/auth/key?subjectType=service-account&subjectReference=robot";
    let robot = process.good("POST", path, &key, Some(json!({"name": "robot", "scopes": []}))).await;
    let robot = robot.as_str().unwrap().to_owned();
    let of = |key: &str| {
        let output = slipway_with(
            &[("SLIPWAY_URL", process.url.clone()), ("SLIPWAY_API_KEY", key.to_owned())],
            &["build", "logs"],
        );
        assert!(output.status.success());
        String::from_utf8_lossy(&output.stderr).into_owned()
    };
    let theirs = run(&process, &robot).await;
    assert!(of(&key).contains(&theirs), "whoever has none of their own gets the latest");
    let own = run(&process, &key).await;
    let theirs = run(&process, &robot).await;
    assert!(of(&key).contains(&own), "their own, although another one is later");
    assert!(of(&robot).contains(&theirs));
}

#[tokio::test(flavor = "multi_thread")]
async fn commands_that_change_something_print_it_in_the_wanted_format() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(&["--data", folder.path().to_str().unwrap()]);
    let key = process.first_key.clone().unwrap();
    pipeline(&process, &key).await;
    let build = run(&process, &key).await;
    let said = |arguments: &[&str]| {
        let output = slipway_with(
            &[("SLIPWAY_URL", process.url.clone()), ("SLIPWAY_API_KEY", key.clone())],
            arguments,
        );
        String::from_utf8(output.stdout).unwrap()
    };
    let json = |arguments: &[&str]| -> Value {
        let text = said(&[arguments, &["-o", "json"]].concat());
        serde_json::from_str(&text).unwrap_or_else(|error| panic!("{arguments:?}: {error}: {text}"))
    };
    assert_eq!(json(&["team", "create", "devs"])["name"], "devs");
    assert_eq!(json(&["team", "delete", "devs", "--yes"])["deleted"], true);
    let entity = ["--action", "run", "--entity", "pipeline/demo/build"];
    assert_eq!(json(&[&["access", "explain"][..], &entity].concat())["allowed"], true);
    assert_eq!(said(&[&["access", "explain", "-o", "name"][..], &entity].concat()), "allowed\n");
    assert_eq!(json(&["audit", "verify"])["ok"], true);
    assert_eq!(json(&["key", "create", "ci"])["name"], "ci");
    assert_eq!(json(&["repo", "create", "demo/other"])["name"], "demo/other");
    json(&["build", "terminate", &build]);
    assert_eq!(json(&["build", "wait", &build])["status"], "terminated");
    assert!(said(&["build", "restart", &build, "-o", "yaml"]).contains(&format!("restartOf: {build}")));
    assert_eq!(json(&["version"])["version"], env!("CARGO_PKG_VERSION"));
    assert_eq!(json(&["eval", "1 == 1"])["result"], true);
}
