//! A backup of a running platform on SQLite, restored on PostgreSQL, and back.

use std::path::Path;

use crate::process::{Process, Shared, anchored, commit, git, slipway, working_copy};

fn run(arguments: &[&str]) -> Result<String, String> {
    let output = slipway(arguments);
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    if output.status.success() { Ok(text(&output.stdout)) } else { Err(text(&output.stderr)) }
}

async fn same(process: &Process, key: &str, folder: &Path, builds: &[serde_json::Value]) {
    assert_eq!(process.builds(key).await, builds);
    let pipelines = process.good("GET", "/api/pipelines", key, None).await;
    assert_eq!(pipelines["docs"][0]["metadata"]["name"], "demo/build", "{pipelines}");
    let copy = tempfile::tempdir_in(folder).unwrap();
    let (good, output) = git(copy.path(), &["clone", "-q", &process.remote(key), "copy"]);
    assert!(good, "{output}");
    assert_eq!(std::fs::read_to_string(copy.path().join("copy/file.txt")).unwrap(), "first");
}

#[tokio::test(flavor = "multi_thread")]
async fn k120_a_platform_moves_from_sqlite_to_postgres_and_back_and_its_record_tells() {
    let folder = tempfile::tempdir().unwrap();
    let at = |name: &str| folder.path().join(name).to_str().unwrap().to_owned();
    let small = Process::start(&["--data", &at("small")]);
    let key = small.first_key.clone().expect("a new platform");
    small.repository_with_pipeline(&key).await;
    let work = working_copy(folder.path());
    commit(&work, "first");
    assert!(git(&work, &["push", &small.remote(&key), "main"]).0);
    let builds = small.wait_for_builds(&key, 1, slipway_testkit::PATIENCE).await;
    assert_eq!(builds.len(), 1);
    // While it runs.
    let written = run(&["admin", "backup", "--data", &at("small"), &at("one.tar")]).unwrap();
    assert!(written.contains("1 repositories"), "{written}");
    let mode =
        std::os::unix::fs::PermissionsExt::mode(&std::fs::metadata(at("one.tar")).unwrap().permissions());
    assert_eq!(mode & 0o077, 0, "it holds secrets");
    let refused = run(&["admin", "restore", "--data", &at("small"), &at("one.tar")]).unwrap_err();
    assert!(refused.contains("in use by another slipway process"), "{refused}");
    for name in ["after-1", "after-2", "after-3"] {
        small.good("POST", "/api/team", &key, Some(serde_json::json!({"name": name}))).await;
    }
    let newer = small.good("GET", "/api/audit", &key, None).await["total"].as_i64().unwrap();
    assert_eq!(small.stop().1, Some(0));
    assert!(anchored(Path::new(&at("small"))).contains(&newer), "the last record is anchored when it stops");
    let refused = run(&["admin", "restore", "--data", &at("small"), &at("one.tar")]).unwrap_err();
    assert!(refused.contains("there is data already") && refused.contains("--force"), "{refused}");

    // One changed byte anywhere is found, and nothing is restored.
    let mut bytes = std::fs::read(at("one.tar")).unwrap();
    let middle = bytes.windows(10).position(|window| window == b"demo/build").unwrap();
    bytes[middle] ^= 1;
    std::fs::write(at("damaged.tar"), &bytes).unwrap();
    let refused = run(&["admin", "restore", "--data", &at("new"), &at("damaged.tar")]).unwrap_err();
    assert!(refused.contains("is damaged") && refused.contains("the sum of"), "{refused}");
    std::fs::write(at("short.tar"), &bytes[..bytes.len() / 2]).unwrap();
    let refused = run(&["admin", "restore", "--data", &at("new"), &at("short.tar")]).unwrap_err();
    assert!(refused.contains("is damaged"), "{refused}");

    let shared = Shared::new();
    let large_data = shared.data().to_str().unwrap().to_owned();
    run(&["admin", "restore", "--database", &shared.database, "--data", &large_data, &at("one.tar")])
        .unwrap();
    let large = shared.start("");
    assert!(large.first_key.is_none(), "the administrator came with the backup");
    same(&large, &key, folder.path(), &builds).await;
    run(&["admin", "backup", "--database", &shared.database, "--data", &large_data, &at("two.tar")]).unwrap();
    drop(large);

    run(&["admin", "restore", "--data", &at("again"), &at("two.tar")]).unwrap();
    let again = Process::start(&["--data", &at("again")]);
    same(&again, &key, folder.path(), &builds).await;
    drop(again);
    run(&["admin", "restore", "--force", "--data", &at("small"), &at("two.tar")]).unwrap();
    let small = Process::start(&["--data", &at("small")]);
    same(&small, &key, folder.path(), &builds).await;
    // The trail is whole again, and tells that three records of before are not in it any more.
    let verified = small.good("GET", "/api/audit/verify", &key, None).await;
    assert_eq!(
        (&verified["ok"], &verified["problems"]),
        (&true.into(), &serde_json::json!([])),
        "{verified}"
    );
    let told = small.good("GET", "/api/audit?action=restore", &key, None).await;
    assert_eq!(told["total"], 2, "once on PostgreSQL, once here: {told}");
    let last = &told["docs"][0];
    assert_eq!((&last["actorKind"], &last["entityName"]), (&"operator".into(), &"two.tar".into()));
    let after = &last["detail"]["after"];
    assert_eq!(after["recordsReplaced"], newer, "{after}");
    assert_eq!(after["recordsDropped"], 3 - 1, "the restore on PostgreSQL is a record too: {after}");
    // Whoever drops the end of the trail in the database alone is still found.
    drop(small);
    let database = Path::new(&at("small")).join("slipway.db");
    let cut = "DELETE FROM audit WHERE action = 'restore' AND seq = (SELECT max(seq) FROM audit a WHERE a.chain = audit.chain); \
        UPDATE audit_heads SET seq = (SELECT max(seq) FROM audit a WHERE a.chain = audit_heads.chain), \
        hash = (SELECT hash FROM audit a WHERE a.chain = audit_heads.chain ORDER BY seq DESC LIMIT 1)";
    let script =
        "import sqlite3,sys; c=sqlite3.connect(sys.argv[1]); c.executescript(sys.argv[2]); c.commit()";
    let done = std::process::Command::new("python3").args(["-c", script]).arg(database).arg(cut).status();
    assert!(done.unwrap().success());
    let small = Process::start(&["--data", &at("small")]);
    let verified = small.good("GET", "/api/audit/verify", &key, None).await;
    assert_eq!(verified["ok"], false, "{verified}");
    assert!(verified["problems"].to_string().contains("was anchored and is missing"), "{verified}");
}
