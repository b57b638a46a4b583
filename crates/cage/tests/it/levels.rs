//! What is seen from inside, at every strength.

use std::process::Command;

use slipway_cage::{Cage, Level, Network, Streams, User};
use slipway_testkit::inside::{Probe, Seen};

fn look(cage: &Cage, probe: &Probe, workspace: &std::path::Path) -> Seen {
    let mut command = Command::new(probe.path());
    command.current_dir(workspace).env("HOME", workspace);
    let child = cage.spawn(&command, Streams::listening()).expect("it starts");
    let output = child.wait_with_output().expect("it ends");
    Seen::in_output(&output.stdout)
}

fn workspace(cage: &Cage) -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder can be made");
    std::fs::write(folder.path().join("file"), "ours").expect("a file can be written");
    cage.give(folder.path()).expect("it can be given away");
    folder
}

#[test]
fn with_namespaces_nothing_but_the_workspace_is_there() {
    let probe = Probe::named("tool");
    let cage = Cage::new().at(Level::Namespaces);
    let folder = workspace(&cage);
    let seen = look(&cage.clone().write(folder.path()), &probe, folder.path());
    seen.assert_caged().assert_no_network().assert_own_user();
    assert_eq!(seen.0["folder"], folder.path().display().to_string());
    assert_eq!(seen.0["host"], "cage");
    assert_eq!(seen.number("pid"), 1);
    // The probe's own folder and the workspace; `canary` lies beside the program and is not there.
    assert_eq!(seen.texts("tmp").len(), 2, "{}", seen.0);
    assert!(folder.path().join("inside.json").exists(), "the workspace may be written to");
}

#[test]
fn two_programs_are_two_users() {
    let probe = Probe::named("tool");
    let uid = || {
        let cage = Cage::new();
        let folder = workspace(&cage);
        look(&cage.clone().write(folder.path()), &probe, folder.path()).number("uid")
    };
    assert_ne!(uid(), uid());
}

#[test]
fn with_our_own_user_there_are_no_capabilities_either() {
    let probe = Probe::named("tool");
    let cage = Cage::new().user(User::Ours);
    let folder = workspace(&cage);
    let seen = look(&cage.write(folder.path()), &probe, folder.path());
    seen.assert_caged().assert_no_network();
    assert_eq!(seen.number("uid"), 0);
}

#[test]
fn in_a_user_namespace_nothing_but_the_workspace_is_there() {
    let probe = Probe::named("tool");
    let cage = Cage::new().at(Level::UserNamespace);
    let folder = workspace(&cage);
    let seen = look(&cage.clone().write(folder.path()), &probe, folder.path());
    seen.assert_caged().assert_no_network();
    assert_eq!(seen.number("pid"), 1);
}

#[test]
fn with_landlock_nothing_but_the_workspace_can_be_read() {
    let probe = Probe::named("tool");
    let cage = Cage::new().at(Level::Landlock);
    let folder = workspace(&cage);
    let seen = look(&cage.clone().write(folder.path()), &probe, folder.path());
    seen.assert_no_network();
    for name in [
        "canary_read",
        "shadow_read",
        "write_root",
        "write_usr",
        "write_etc",
        "unix",
        "unshare_user",
        "mount",
    ] {
        assert_ne!(seen.number(name), 0, "{name}: {}", seen.0);
    }
    for name in ["cap_effective", "cap_permitted", "cap_bounding"] {
        assert_eq!(seen.number(name), 0, "{name}: {}", seen.0);
    }
    assert_eq!(seen.number("seccomp"), 2);
    assert_eq!((seen.texts("root").len(), seen.texts("tmp").len(), seen.texts("proc").len()), (0, 0, 0));
    assert!(folder.path().join("inside.json").exists(), "the workspace may be written to");
}

/// Only where the operator said so: files are open, and still there is no socket, no capability and another user.
#[test]
fn with_the_filter_alone_there_is_no_network_and_no_right() {
    let probe = Probe::named("tool");
    let cage = Cage::new().at(Level::Filter);
    let folder = workspace(&cage);
    let seen = look(&cage.clone().write(folder.path()), &probe, folder.path());
    seen.assert_no_network().assert_own_user();
    for name in
        ["shadow_read", "write_root", "write_usr", "unix", "unshare_user", "mount", "ptrace", "io_uring"]
    {
        assert_ne!(seen.number(name), 0, "{name}: {}", seen.0);
    }
}

#[test]
fn what_is_read_cannot_be_written() {
    let cage = Cage::new();
    let folder = workspace(&cage);
    let script = format!("cat {0}/file && ! echo more >> {0}/file", folder.path().display());
    let mut command = Command::new("sh");
    command.args(["-c", &script]);
    let output =
        cage.read(folder.path()).spawn(&command, Streams::listening()).expect("it starts").wait_with_output();
    let output = output.expect("it ends");
    assert!(output.status.success());
    assert_eq!(output.stdout, b"ours");
}

#[test]
fn programs_in_the_workspace_run_only_where_it_was_said() {
    for (runnable, wanted) in [(false, 126), (true, 7)] {
        let cage = Cage::new();
        let folder = workspace(&cage);
        let script = folder.path().join("run");
        std::fs::write(&script, "#!/bin/sh\nexit 7\n").expect("a file can be written");
        let executable = std::os::unix::fs::PermissionsExt::from_mode(0o755);
        std::fs::set_permissions(&script, executable).expect("its mode can be set");
        let cage = cage.write(folder.path());
        let cage = if runnable { cage.runnable() } else { cage };
        let mut command = Command::new("sh");
        command.arg("-c").arg(&script);
        let status =
            cage.spawn(&command, Streams::listening()).expect("it starts").wait_blocking().expect("it ends");
        assert_eq!(status.code(), Some(wanted));
        // By its own name, relative to the folder that it runs in.
        let mut command = Command::new("./run");
        command.current_dir(folder.path());
        let started = cage.spawn(&command, Streams::listening());
        assert_eq!(started.is_ok(), runnable);
    }
}

#[test]
fn a_program_that_is_not_there_is_said_as_such() {
    let error =
        Cage::new().spawn(&Command::new("no-such-program"), Streams::listening()).map(drop).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::NotFound);
}

#[test]
fn what_could_not_be_built_is_named() {
    let cage = Cage::new().read("/tmp/no-such-folder-of-a-cage");
    let error = cage.spawn(&Command::new("true"), Streams::listening()).map(drop).unwrap_err();
    assert!(error.to_string().contains("no-such-folder-of-a-cage` cannot be shown"), "{error}");
    let mut command = Command::new("true");
    command.current_dir("/");
    let error = Cage::new().read("/tmp/../etc").spawn(&command, Streams::listening()).map(drop).unwrap_err();
    assert!(error.to_string().contains("absolute path"), "{error}");
}

#[test]
fn nothing_of_the_environment_flows_on() {
    let mut command = Command::new("env");
    command.env("SAID", "yes");
    let output = Cage::new()
        .spawn(&command, Streams::listening())
        .expect("it starts")
        .wait_with_output()
        .expect("it ends");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let names: Vec<&str> = text.lines().filter_map(|line| line.split('=').next()).collect();
    assert_eq!(names.len(), 2, "{text}");
    assert!(names.contains(&"SAID") && names.contains(&"PATH"), "{text}");
}

#[test]
fn the_machines_network_is_there_when_it_was_asked_for() {
    let probe = Probe::named("tool");
    let cage = Cage::new().network(Network::Host);
    let folder = workspace(&cage);
    let seen = look(&cage.clone().write(folder.path()), &probe, folder.path());
    seen.assert_caged().assert_own_user();
    assert_eq!(seen.number("loopback"), 0, "{}", seen.0);
    assert!(
        seen.texts("etc").contains(&"resolv.conf".to_owned())
            || !std::path::Path::new("/etc/resolv.conf").exists()
    );
}

/// The tests of the weaker levels again, as somebody without any right: another user, and root of a pod that has no
/// capability.
#[test]
fn a_process_without_rights_cages_too() {
    let folder = tempfile::tempdir().expect("a folder can be made");
    let open = || std::os::unix::fs::PermissionsExt::from_mode(0o777);
    std::fs::set_permissions(folder.path(), open()).expect("its mode can be set");
    let program = folder.path().join("it");
    // By another process: a test beside this one may fork while we have the copy open for writing, and then it cannot be run.
    let copied = Command::new("cp")
        .arg(std::env::current_exe().expect("a test program has a path"))
        .arg(&program)
        .status()
        .expect("cp is installed");
    assert!(copied.success());
    let nobody: &[&str] = &["--reuid=61999", "--regid=61999", "--clear-groups", "--bounding-set=-all"];
    let bare_root: &[&str] = &["--clear-groups", "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs"];
    for (who, test) in [
        (nobody, "levels::in_a_user_namespace_nothing_but_the_workspace_is_there"),
        (nobody, "levels::with_landlock_nothing_but_the_workspace_can_be_read"),
        (nobody, "levels::nothing_of_the_environment_flows_on"),
        (nobody, "ends::all_inside_ends_with_this_process"),
        // The kernel lets nobody without a capability map root into a user namespace, so that Landlock is what is left.
        (bare_root, "levels::with_landlock_nothing_but_the_workspace_can_be_read"),
        (bare_root, "levels::nothing_of_the_environment_flows_on"),
    ] {
        let output = Command::new("setpriv")
            .args(who)
            .arg(&program)
            .args(["--exact", test])
            .current_dir(folder.path())
            .env("TMPDIR", folder.path())
            .output()
            .expect("setpriv is installed");
        let said =
            [&output.stdout[..], &output.stderr[..]].map(|text| String::from_utf8_lossy(text).into_owned());
        let held = output.status.success() && said[0].contains("1 passed");
        assert!(held, "{who:?} {test}: {}: {said:?}", output.status);
    }
}

/// The platform keeps what it makes to itself; what a caged program stands on has to be walked by somebody else.
#[test]
fn a_private_process_starts_programs_all_the_same() {
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "umask 077; exec \"$0\" --exact levels::programs_see_dev_null --nocapture"]);
    command.arg(std::env::current_exe().expect("this program")).env("SLIPWAY_TEST_PRIVATE", "1");
    let output = command.output().expect("it starts");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(output.status.success() && text.contains("1 passed"), "{text}");
}

#[test]
fn programs_see_dev_null() {
    let cage = Cage::new().at(Level::Namespaces);
    let folder = workspace(&cage);
    let mut command = Command::new("/bin/sh");
    command.args(["-c", "cat file && exec 3<>/dev/null && cd /tmp && echo seen"]).current_dir(folder.path());
    let child = cage.clone().write(folder.path()).spawn(&command, Streams::listening()).expect("it starts");
    let output = child.wait_with_output().expect("it ends");
    assert_eq!(String::from_utf8_lossy(&output.stdout), "oursseen\n", "{output:?}");
}
