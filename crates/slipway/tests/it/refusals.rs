use crate::process::{Process, slipway};

fn said(arguments: &[&str]) -> String {
    let output = slipway(arguments);
    assert!(!output.status.success(), "{arguments:?} was not refused");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn help_lists_every_role_with_a_line() {
    let help = String::from_utf8(slipway(&["server", "--help"]).stdout).unwrap();
    for role in slipway_server::Role::ALL {
        let line = help.lines().find(|line| line.trim().starts_with(role.name()));
        assert!(line.is_some_and(|line| line.contains(role.about())), "{}:\n{help}", role.name());
    }
    let wrong = said(&["server", "--roles", "hub"]);
    assert!(wrong.contains("there is no role `hub`") && wrong.contains("pipelines-api"), "{wrong}");
}

#[test]
fn a_second_process_on_one_sqlite_database_is_refused_in_a_sentence() {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let first = Process::start(&["--data", data]);
    let second = said(&["server", "--data", data, "--listen", "127.0.0.1:0"]);
    assert!(second.contains("in use by another slipway process"), "{second}");
    let (took, code) = first.stop();
    assert_eq!(code, Some(0));
    assert!(took.as_secs() < 10);
    for _ in 0..5 {
        let (_, code) = Process::start(&["--data", data]).stop();
        assert_eq!(code, Some(0), "the next start goes on, and ends in order as soon as it says ready");
    }
}

#[test]
fn what_only_one_process_could_use_is_refused_beside_a_database_for_many() {
    // The port of a platform that somebody has started here with `make up`; theirs, or ours for the moment.
    let _theirs = std::net::TcpListener::bind("127.0.0.1:8080");
    let database = slipway_testkit::postgres::shared().database();
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let refused = said(&["server", "--data", data, "--listen", "127.0.0.1:0", "--database", &database]);
    assert!(refused.contains("in-process bus") && refused.contains("--bus"), "{refused}");
    let refused =
        said(&["server", "--data", data, "--database", "postgres://u:hunter2@10.0.0.1/d?sslmode=maybe"]);
    assert!(refused.contains("sslmode is `require` or `disable`"), "{refused}");
}
