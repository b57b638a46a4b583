//! A sync that is interrupted anywhere ends in the same state, and its hooks run once.

use crate::sim::{Cluster, Kill, Shell, When, config, deployment, hook, job, policy, wave};
use serde_json::Value;
use slipway_crd::names;

/// A small generator of numbers: the same seed gives the same application.
struct Seeds(u64);

impl Seeds {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        (self.0 >> 33) % below
    }

    fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.next(from.len() as u64) as usize]
    }
}

/// An application with waves, hooks and things to prune, and a cluster from before.
fn make(seed: u64) -> (Shell, Cluster) {
    let mut seeds = Seeds(seed.wrapping_mul(0x9E3779B97F4A7C15) | 1);
    let waves = ["-1", "0", "0", "1", "2"];
    let options = [
        vec![],
        vec!["CreateNamespace=true"],
        vec!["PruneLast=true"],
        vec!["ApplyOutOfSyncOnly=true"],
        vec!["ServerSideApply=true"],
    ];
    let mut shell = Shell::new(seeds.pick(&options).as_slice(), Vec::new());
    let mut live = Vec::new();
    for i in 0..seeds.next(7) + 1 {
        let number = *seeds.pick(&waves);
        let object = match seeds.next(3) {
            0 => deployment(&format!("d{i}"), seeds.next(12) == 0, &[wave(number)]),
            _ => config(&format!("c{i}"), "new", &[wave(number)]),
        };
        match seeds.next(4) {
            0 => live.push(shell.tracked(&object)),
            1 if object["kind"] == "ConfigMap" => {
                let mut old = object.clone();
                old["data"]["value"] = "old".into();
                live.push(shell.tracked(&old));
            }
            _ => {}
        }
        shell.desired.push(object);
    }
    for i in 0..seeds.next(4) {
        let number = *seeds.pick(&waves);
        live.push(shell.tracked(&config(&format!("old{i}"), "1", &[wave(number)])));
    }
    let phases = ["PreSync", "Sync", "PostSync", "SyncFail", "PreSync,PostSync"];
    let policies =
        ["", "HookSucceeded", "HookFailed", "BeforeHookCreation,HookSucceeded", "HookSucceeded,HookFailed"];
    for i in 0..seeds.next(4) {
        let (phase, delete, number) = (*seeds.pick(&phases), *seeds.pick(&policies), *seeds.pick(&waves));
        let mut one = job(&format!("h{i}"), seeds.next(9) == 0, &[hook(phase), policy(delete), wave(number)]);
        if seeds.next(4) == 0 {
            one["metadata"]["generateName"] = format!("g{i}-").into();
            if let Some(meta) = one["metadata"].as_object_mut() {
                meta.remove("name");
            }
        } else if seeds.next(3) == 0 {
            live.push(old_hook(&shell, &one));
        }
        shell.desired.push(one);
    }
    (shell, Cluster::with(&live))
}

/// What a former operation left behind.
fn old_hook(shell: &Shell, hook: &Value) -> Value {
    let mut old = shell.tracked(hook);
    old["metadata"]["annotations"][names::HOOK_OPERATION] = "2025-01-01T00:00:00Z#0/PreSync".into();
    old
}

#[test]
fn a_killed_shell_ends_where_an_undisturbed_one_does() {
    let mut kills = 0;
    for seed in 0..40 {
        let (shell, before) = make(seed);
        let mut undisturbed = before.clone();
        let run = shell.sync(&mut undisturbed, None);
        settle(&mut undisturbed);
        assert!(
            undisturbed.hook_runs.values().all(|n| *n == 1 || has_two_phases(&shell)),
            "seed {seed}: {:?}",
            undisturbed.hook_runs
        );
        for at_call in 0..run.calls {
            for when in [When::Before, When::After, When::Recorded] {
                let mut cluster = before.clone();
                let killed = shell.sync(&mut cluster, Some(Kill { at_call, when }));
                settle(&mut cluster);
                kills += 1;
                let place = format!("seed {seed}, call {at_call}, {when:?}");
                assert_eq!(killed.outcome, run.outcome, "{place}");
                assert_eq!(
                    cluster.canonical(),
                    undisturbed.canonical(),
                    "{place}\n{:?}\n{:?}",
                    cluster.log,
                    undisturbed.log
                );
                assert_eq!(cluster.hook_runs, undisturbed.hook_runs, "{place}");
            }
        }
    }
    assert!(kills > 700, "only {kills} kills were tried");
}

/// What was applied last gets its time to become what it will be.
fn settle(cluster: &mut Cluster) {
    for _ in 0..4 {
        cluster.tick();
    }
}

/// A named hook of two phases is made twice in one operation, once for each.
fn has_two_phases(shell: &Shell) -> bool {
    shell.desired.iter().any(|o| o["metadata"]["annotations"][names::HOOK] == "PreSync,PostSync")
}

#[test]
fn a_second_sync_of_the_same_revision_changes_nothing_but_hooks() {
    for seed in 0..100 {
        let (mut shell, mut cluster) = make(seed);
        shell.desired.retain(|o| o["kind"] != "Job");
        let run = shell.sync(&mut cluster, None);
        if run.outcome.phase != slipway_gitops::sync::OutcomePhase::Succeeded {
            continue;
        }
        let before = cluster.canonical();
        shell.started_at = "2026-03-03T00:00:00Z".parse().expect("a time");
        let again = shell.sync(&mut cluster, None);
        assert_eq!(again.calls, 0, "seed {seed}: {:?}", cluster.log);
        assert_eq!(cluster.canonical(), before);
    }
}

/// Whatever the application and the cluster are: what is wanted is never pruned, hooks of a phase come before what the
/// phase after it applies, and a wave never begins before the one below it.
#[test]
fn nothing_that_is_wanted_is_pruned_and_waves_ascend() {
    let mut pruned = 0;
    for seed in 0..400 {
        let (shell, mut cluster) = make(seed);
        shell.sync(&mut cluster, None);
        let wanted = |name: &str| shell.desired.iter().find(|o| o["metadata"]["name"] == name);
        let wave_of = |object: &Value| {
            object["metadata"]["annotations"][names::SYNC_WAVE]
                .as_str()
                .and_then(|w| w.parse::<i32>().ok())
                .unwrap_or(0)
        };
        let mut wave = i32::MIN;
        for line in &cluster.log {
            let (verb, name) = line.split_once(' ').expect("a verb and a name");
            match (verb, wanted(name)) {
                ("prune", found) => {
                    pruned += 1;
                    assert!(
                        found.is_none(),
                        "seed {seed}: {name} is wanted and was pruned\n{:?}",
                        cluster.log
                    );
                }
                ("apply", Some(object)) => {
                    let now = wave_of(object);
                    assert!(
                        now >= wave,
                        "seed {seed}: {name} of wave {now} after wave {wave}\n{:?}",
                        cluster.log
                    );
                    wave = now;
                }
                _ => {}
            }
        }
        for object in shell.desired.iter().filter(|object| object["kind"] == "ConfigMap") {
            let name = object["metadata"]["name"].as_str().unwrap_or_default();
            let before = cluster.log.iter().any(|line| *line == format!("delete {name}"));
            assert!(!before, "seed {seed}: {name} was deleted");
        }
    }
    assert!(pruned > 100, "only {pruned} objects were pruned: the test says nothing");
}
