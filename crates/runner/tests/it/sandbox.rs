//! What a step on the host can and cannot do.

use std::os::unix::process::CommandExt;

use crate::contract::next_id;
use crate::runner::{SHIM, host};
use crate::server::Server;

async fn try_in_sandbox(script: &str) -> String {
    let server = &host().server;
    let id = next_id("sandbox");
    let yaml = format!(
        "version: '1.0'\nsteps:\n  attack:\n    image: x\n    commands:\n      - |\n{}\n",
        indent(&format!("set +e\n{script}"))
    );
    server.add(server.build(&id, &yaml));
    let record = server.finish(&id).await;
    record.log("attack").to_owned()
}

fn indent(text: &str) -> String {
    text.lines().map(|line| format!("        {line}\n")).collect()
}

#[tokio::test]
async fn only_the_volume_and_tmp_can_be_written() {
    let log = try_in_sandbox(
        "for place in / /etc /usr /usr/bin /var /run /root /codefresh /codefresh/bin /dev /opt; do\n  if touch $place/slipway-was-here 2>/dev/null; then echo \"WROTE $place\"; fi\ndone\nfor place in /codefresh/volume /tmp /var/tmp /dev/shm $HOME; do\n  if ! touch $place/ok; then echo \"NOT $place\"; fi\ndone\necho end",
    )
    .await;
    assert!(!log.contains("WROTE") && !log.contains("NOT ") && log.ends_with("end\n"), "{log}");
    for place in ["/", "/etc", "/usr", "/root", "/tmp"] {
        assert!(!std::path::Path::new(place).join("slipway-was-here").exists());
    }
    assert!(!std::path::Path::new("/tmp/ok").exists());
}

#[tokio::test]
async fn data_folders_homes_and_other_processes_are_not_there() {
    let data = host().data.display().to_string();
    let log = try_in_sandbox(&format!(
        "ls {data} && echo SAW\nfind /root /home -mindepth 1 2>/dev/null | grep . && echo SAW\ncat /etc/shadow 2>/dev/null && echo SAW\nset -- /proc/[0-9]*\necho \"$# processes\"\nid -u\nls /codefresh/volume\nls / \necho end"
    ))
    .await;
    assert!(!log.contains("SAW\n"), "{log}");
    assert!(log.contains("\nend\n"), "{log}");
    let count: u32 = log
        .lines()
        .find_map(|line| line.strip_suffix(" processes"))
        .and_then(|count| count.parse().ok())
        .unwrap();
    assert!(count <= 4, "{log}");
    assert!(!log.contains("\n0\n"), "the step is not root: {log}");
}

#[tokio::test]
async fn rights_cannot_be_won_back() {
    let log = try_in_sandbox(
        "grep NoNewPrivs /proc/self/status\ngrep CapEff /proc/self/status\nmount -o remount,rw / 2>/dev/null && echo REMOUNTED\numount /codefresh/bin 2>/dev/null && echo UNMOUNTED\nkill -9 1 2>/dev/null\necho still here\nunshare -Urm sh -c 'mount -o remount,bind,rw /usr 2>/dev/null && touch /usr/slipway-was-here && echo ESCAPED' 2>/dev/null\necho end",
    )
    .await;
    assert!(log.contains("NoNewPrivs:\t1") && log.contains("CapEff:\t0000000000000000"), "{log}");
    assert!(
        !log.contains("REMOUNTED\n") && !log.contains("UNMOUNTED\n") && !log.contains("ESCAPED\n"),
        "{log}"
    );
    assert!(log.contains("still here\n") && log.ends_with("end\n"), "{log}");
}

#[tokio::test]
async fn links_in_the_volume_lead_nowhere_for_later_steps() {
    let server = &host().server;
    let id = next_id("links");
    let app = next_id("team/links");
    server.repository(&app, &[("a", "b")]);
    let folder = app.rsplit('/').next().unwrap();
    let outside = tempfile::tempdir().unwrap();
    std::os::unix::fs::chown(outside.path(), Some(61_100), Some(61_100)).unwrap();
    let yaml = format!(
        "version: '1.0'\nsteps:\n  plant: {{image: x, commands: ['ln -s {out} {folder}', 'ln -s /etc/passwd env_vars_to_export']}}\n  clone: {{type: git-clone, repo: {app}, fail_fast: false}}\n  work: {{image: x, working_directory: /codefresh/volume/{folder}/sub, commands: ['echo hi']}}\n",
        out = outside.path().display()
    );
    server.add(server.build(&id, &yaml));
    let record = server.finish(&id).await;
    assert_eq!(record.step("clone").status, "error", "{:#?}", record.logs);
    assert_eq!(record.step("work").status, "error", "{:#?}", record.logs);
    assert_eq!(std::fs::read_dir(outside.path()).unwrap().count(), 0);
    assert!(!record.traffic.contains("root:x:0"), "{:#?}", record.logs);
}

#[tokio::test]
async fn a_runner_that_is_not_root_makes_the_same_sandbox() {
    const SOMEBODY: u32 = 54_321;
    if !is_root() {
        // Then every other test of this file has shown it.
        return;
    }
    let server = Server::start().await;
    server.repository("team/app", &[("a.txt", "from git\n")]);
    // A place of its own, where another user may go.
    let place = tempfile::tempdir().unwrap();
    let (shim, data) = (place.path().join("runner"), place.path().join("data"));
    // By a process of its own: a test beside this one that forks while we hold the copy open for writing would keep it busy.
    let copied = std::process::Command::new("cp").arg(SHIM).arg(&shim).status().unwrap();
    assert!(copied.success());
    std::fs::create_dir(&data).unwrap();
    for path in [place.path(), &data] {
        std::os::unix::fs::chown(path, Some(SOMEBODY), Some(SOMEBODY)).unwrap();
    }
    let mut runner = std::process::Command::new(&shim)
        .args([server.url.as_str(), data.to_str().unwrap(), "host"])
        .uid(SOMEBODY)
        .gid(SOMEBODY)
        .spawn()
        .unwrap();
    let id = next_id("user");
    let script = format!(
        "set +e; id -u; cat a.txt; grep CapEff /proc/self/status; ls {} && echo SAW; touch /etc/x /usr/x /codefresh/x && echo WROTE; mount -o remount,rw / && echo REMOUNTED; umount -l /codefresh/bin && echo UNMOUNTED; touch /tmp/ok /codefresh/volume/ok && echo end",
        data.display()
    );
    let yaml = format!(
        "version: '1.0'\nsteps:\n  main_clone: {{type: git-clone, repo: team/app}}\n  attack: {{image: x, commands: ['{script}']}}\n"
    );
    server.add(server.build(&id, &yaml));
    let record = server.finish(&id).await;
    runner.kill().unwrap();
    runner.wait().unwrap();
    let log = record.log("attack").replace(&script, "");
    assert_eq!(record.status(), "success", "{:#?}", record.logs);
    assert!(log.contains(&format!("\n{SOMEBODY}\nfrom git\n")), "{log}");
    assert!(log.contains("CapEff:\t0000000000000000") && log.ends_with("end\n"), "{log}");
    for won in ["SAW", "WROTE", "REMOUNTED", "UNMOUNTED"] {
        assert!(!log.contains(won), "{won}: {log}");
    }
}

fn is_root() -> bool {
    std::fs::metadata("/proc/self").is_ok_and(|meta| std::os::unix::fs::MetadataExt::uid(&meta) == 0)
}
