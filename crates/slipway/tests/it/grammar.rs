//! One grammar, `slipway <noun> <verb>`, against a real server; the older forms still work.

use crate::process::{Process, slipway, slipway_with};

/// What was printed, of a command that has to succeed.
fn said(process: &Process, arguments: &[&str]) -> String {
    let output = slipway_with(&credentials(process), arguments);
    let errors = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(output.status.success(), "{arguments:?}: {errors}");
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// The error of one that has to fail.
fn refused(process: Option<&Process>, arguments: &[&str]) -> String {
    let variables = process.map(credentials).unwrap_or_default();
    let output = slipway_with(&variables, arguments);
    assert!(!output.status.success(), "{arguments:?} was not refused");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

fn credentials(process: &Process) -> Vec<(&'static str, String)> {
    vec![
        ("SLIPWAY_URL", process.url.clone()),
        ("SLIPWAY_API_KEY", process.first_key.clone().expect("the first start has a key")),
    ]
}

#[test]
fn every_noun_is_listed_shown_created_and_deleted_in_one_way() {
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(&["--data", folder.path().to_str().unwrap()]);
    let file = folder.path().join("pipeline.yaml");
    let text = "version: '1.0'\nkind: pipeline\nmetadata: {name: team/app}\nspec:\n  steps: {a: {image: alpine, commands: [echo hi]}}\n";
    std::fs::write(&file, text).unwrap();
    let file = file.to_str().unwrap();

    assert!(said(&process, &["pipeline", "create", "-f", file]).contains("Created pipeline team/app"));
    assert!(said(&process, &["pipeline", "list"]).contains("team/app"));
    assert_eq!(said(&process, &["pipeline", "list", "-o", "name", "--project", "team"]), "team/app\n");
    assert_eq!(said(&process, &["pipeline", "list", "-o", "name", "--project", "other"]), "");
    assert!(said(&process, &["pipeline", "get", "team/app"]).contains("step      a"));
    let exported = folder.path().join("exported.yaml");
    std::fs::write(&exported, said(&process, &["pipeline", "export", "team/app"])).unwrap();
    let edited = said(&process, &["pipeline", "edit", "team/app", "-f", exported.to_str().unwrap()]);
    assert!(edited.contains("Changed pipeline team/app"), "{edited}");
    assert!(said(&process, &["project", "list", "-o", "name"]).contains("team"));
    assert!(refused(Some(&process), &["project", "delete", "team"]).contains("has 1 pipelines"));

    // Older forms, and the ones that people try.
    for old in [&["pipelines"][..], &["get", "pipelines"], &["get", "pipeline", "team/app"]] {
        assert!(said(&process, old).contains("team/app"), "{old:?}");
    }
    for nothing in
        [&["get", "builds"][..], &["get", "apps"], &["build", "list"], &["app", "list"], &["repos"]]
    {
        said(&process, nothing);
    }
    let filters = ["app", "list", "--health", "Degraded,Missing", "--search", "a b", "-l", "team=blue"];
    assert_eq!(said(&process, &filters), "");
    assert!(refused(Some(&process), &["app", "list", "--sort", "luck"]).contains("problems"));
    assert!(said(&process, &["pipeline", "delete", "team/app"]).contains("Deleted pipeline team/app"));
    assert!(said(&process, &["project", "delete", "team"]).contains("Deleted project team"));
    assert!(refused(Some(&process), &["pipeline", "get", "team/app"]).contains("team/app"));

    assert!(said(&process, &["team", "create", "devs"]).contains("Created team devs"));
    assert!(said(&process, &["team", "get", "devs"]).contains("name: devs"));
    assert!(said(&process, &["team", "list", "-o", "json"]).contains("\"devs\""));
    assert!(said(&process, &["describe", "team", "devs"]).contains("name: devs"));
    assert!(said(&process, &["team", "delete", "devs", "--yes"]).contains("Deleted team devs"));
    assert!(said(&process, &["repo", "create", "team/code"]).contains("Created team/code"));
    assert!(said(&process, &["repo", "list", "-o", "name"]).contains("team/code"));
    assert!(said(&process, &["key", "list", "-o", "yaml"]).contains("name:"));
    assert!(said(&process, &["whoami", "-o", "json"]).contains(&process.url));
    assert!(said(&process, &["retention"]).contains("Builds are kept for ever"));
    let kept = said(&process, &["retention", "--builds", "90", "--logs", "30"]);
    assert!(
        kept.contains("Builds are kept for 90 days") && kept.contains("Logs are kept for 30 days"),
        "{kept}"
    );
    let kept = said(&process, &["retention", "--builds", "forever"]);
    assert!(
        kept.contains("Builds are kept for ever") && kept.contains("Logs are kept for 30 days"),
        "{kept}"
    );
    assert!(said(&process, &["open", "builds"]).contains(&format!("{}/builds", process.url)));
    for filter in [&["--status", "error"][..], &["-n", "1"], &["--branch", "main"], &["--trigger", "push"]] {
        said(&process, &[&["build", "list"][..], filter].concat());
    }
    assert!(refused(Some(&process), &["build", "get", "e38b5e45"]).contains("there is no build `e38b5e45`"));
}

#[test]
fn errors_are_one_sentence_that_says_what_to_do() {
    assert!(refused(None, &["run", "missing.yml"]).contains("no such file: missing.yml"));
    let said = refused(None, &["build", "list"]);
    assert!(said.contains("no server is configured") && said.contains("slipway auth login"), "{said}");
    let held = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", held.local_addr().unwrap());
    drop(held);
    let away = vec![("SLIPWAY_URL", url.clone()), ("SLIPWAY_API_KEY", "x".to_owned())];
    let output = slipway_with(&away, &["build", "list"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(text, format!("error: cannot reach {url} (connection refused): is the server running?\n"));
    let login = slipway_with(&away, &["auth", "login", "--url", &url, "--email", "a@b.c"]);
    assert!(String::from_utf8_lossy(&login.stderr).contains("--password-stdin"));
    let folder = tempfile::tempdir().unwrap();
    let process = Process::start(&["--data", folder.path().to_str().unwrap()]);
    let wrong = vec![("SLIPWAY_URL", process.url.clone()), ("SLIPWAY_API_KEY", "not-a-key".to_owned())];
    let output = slipway_with(&wrong, &["pipeline", "list"]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(
        text.contains("the API key in SLIPWAY_API_KEY is not valid") && text.contains("auth login"),
        "{text}"
    );
}

#[test]
fn what_needs_no_server_says_what_it_found() {
    let output = slipway(&["auth", "get-contexts"]);
    assert!(output.status.success());
    assert!(String::from_utf8_lossy(&output.stderr).contains("No contexts are saved"));
    let output = slipway(&["eval", "upper(\"a\")"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("this is not a condition"));
    assert_eq!(slipway(&["eval", "upper(\"a\") == \"A\""]).stdout, b"true\n");
    assert!(String::from_utf8_lossy(&slipway(&["version"]).stdout).starts_with("slipway "));
    let folder = tempfile::tempdir().unwrap();
    let bad = folder.path().join("bad.yml");
    std::fs::write(&bad, "version: '1.0'\nsteps:\n  a: {type: pending-aproval}\n  b: {imgae: x}\n").unwrap();
    let output = slipway(&["run", bad.to_str().unwrap()]);
    let text = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(text.contains("hint: "), "{text}");
}
