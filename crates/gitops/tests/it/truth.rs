//! *Synced* is claimed only of the revision that was compared, whatever happens to the repository in between.
//!
//! A repository that moves, breaks and is away; a shell that wakes up for all kinds of reasons, reads when what it knows
//! does not stand for the target revision, compares, and syncs when it is asked to.

use crate::sim::{Cluster, Shell, config};
use serde_json::json;
use slipway_gitops::compare;
use slipway_gitops::refresh::{Head, Standing};
use slipway_gitops::sync::{self, OutcomePhase, SyncProgress};
use slipway_gitops::{Comparison, SyncCode};

/// A commit: its manifests, or none when they do not parse.
struct Commit {
    value: Option<u32>,
}

#[derive(Clone, Debug, PartialEq)]
struct Manifests {
    revision: usize,
    value: u32,
}

/// What the shell remembers, and what it was last told about the head of the branch.
struct World {
    commits: Vec<Commit>,
    away: bool,
    head: Head<u32, Manifests, String>,
    /// The newest revision that the shell was ever shown.
    seen: Option<usize>,
    now: u32,
    cluster: Cluster,
    random: u64,
}

impl World {
    fn new(seed: u64) -> Self {
        Self {
            commits: vec![Commit { value: Some(0) }],
            away: false,
            head: Head::default(),
            seen: None,
            now: 0,
            cluster: Cluster::default(),
            random: seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1,
        }
    }

    fn chance(&mut self, of: u64) -> u64 {
        self.random ^= self.random << 13;
        self.random ^= self.random >> 7;
        self.random ^= self.random << 17;
        self.random % of
    }

    /// Reads the head of the branch, as the runtime does.
    fn read(&mut self) {
        if self.away {
            self.head.failed(self.now, "away".into(), false);
            return;
        }
        let revision = self.commits.len() - 1;
        self.seen = Some(revision);
        match self.commits[revision].value {
            Some(value) => self.head.read(self.now, Manifests { revision, value }),
            None => {
                self.head.failed(self.now, format!("revision {revision} does not parse"), true);
            }
        }
    }

    /// What stands for the target revision; `None` with the reason when nothing does.
    fn desired(&mut self, asked: bool) -> Result<Manifests, String> {
        let asked = asked.then_some(self.now);
        if self.head.standing(asked, |_| true, |_| true) == Standing::Unread {
            self.read();
        }
        match self.head.standing(None, |_| true, |_| true) {
            Standing::Manifests(manifests) => Ok(manifests.clone()),
            Standing::Failure(why) => Err(why.clone()),
            Standing::Unread => Err("the repository is away".into()),
        }
    }

    fn look(&mut self, asked: bool) -> (Shell, Comparison, Option<Manifests>) {
        let found = self.desired(asked);
        let value = found.as_ref().map_or(0, |manifests| manifests.value);
        let shell = Shell::new(&[], vec![config("a", &value.to_string(), &[])]);
        let comparison = match &found {
            Ok(_) => shell.compare(&self.cluster),
            Err(why) => compare::failed(
                &shell.application,
                &shell.settings,
                slipway_crd::ConditionType::ComparisonError,
                why,
                shell.started_at,
            ),
        };
        (shell, comparison, found.ok())
    }

    /// The invariant.
    fn check(&self, comparison: &Comparison, compared: Option<&Manifests>, shell: &Shell, story: &[String]) {
        let revisions = compared.map(|manifests| vec![manifests.revision.to_string()]);
        let claim = comparison.claim(&shell.application, revisions.as_deref());
        let story = || story.join(", ");
        if claim.status != "Synced" {
            assert!(compared.is_some() || claim.revision.is_empty(), "nothing was compared: {}", story());
            return;
        }
        let of: usize = claim.revision.parse().unwrap_or_else(|_| panic!("synced to nothing: {}", story()));
        assert_eq!(Some(of), self.seen, "a newer revision was seen: {}", story());
        let value = self.commits[of].value.unwrap_or_else(|| panic!("it does not parse: {}", story()));
        let live =
            self.cluster.get("ConfigMap", "a").unwrap_or_else(|| panic!("nothing is there: {}", story()));
        assert_eq!(live["data"]["value"], json!(value.to_string()), "{}", story());
    }
}

#[test]
fn synced_is_claimed_only_of_the_revision_that_was_compared() {
    let (mut synced, mut refused) = (0, 0);
    for seed in 0..300 {
        let mut world = World::new(seed);
        let mut story = Vec::new();
        for _ in 0..40 {
            world.now += 1;
            let event = world.chance(8);
            story.push(
                ["push", "break", "away", "back", "wake", "refresh", "sync", "drift"][event as usize]
                    .to_owned(),
            );
            match event {
                0 => {
                    let value = Some(world.now);
                    world.commits.push(Commit { value });
                }
                1 => world.commits.push(Commit { value: None }),
                2 => world.away = true,
                3 => world.away = false,
                4 | 5 => {
                    let (shell, comparison, compared) = world.look(event == 5);
                    world.check(&comparison, compared.as_ref(), &shell, &story);
                    synced += u32::from(comparison.sync_status == SyncCode::Synced);
                }
                6 => {
                    let (shell, comparison, compared) = world.look(true);
                    let before = world.cluster.log.len();
                    let plan = sync::plan(
                        &comparison,
                        &shell.operation,
                        &SyncProgress::start(shell.started_at, "abcdef0"),
                    );
                    match compared {
                        Some(manifests) => {
                            shell.sync(&mut world.cluster, None);
                            assert_eq!(Some(manifests.revision), world.seen, "{}", story.join(", "));
                        }
                        None => {
                            let outcome = plan.outcome.expect("it is refused");
                            assert_eq!(outcome.phase, OutcomePhase::Error, "{}", story.join(", "));
                            assert!(plan.steps.is_empty() && world.cluster.log.len() == before);
                            refused += 1;
                        }
                    }
                    let (shell, comparison, compared) = world.look(false);
                    world.check(&comparison, compared.as_ref(), &shell, &story);
                }
                _ => {
                    if world.cluster.get("ConfigMap", "a").is_some() {
                        world.cluster.edit("ConfigMap", "a", |a| a["data"]["value"] = json!("drifted"));
                    }
                }
            }
        }
    }
    assert!(synced > 100 && refused > 100, "the stories are dull: {synced} synced, {refused} refused");
}
