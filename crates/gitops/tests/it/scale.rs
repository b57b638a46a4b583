//! Large applications: the work grows with the number of objects, not with its square.

use crate::sim::{Cluster, Shell, config, wave};
use slipway_gitops::sync::SyncProgress;
use std::time::{Duration, Instant};

/// One comparison and one plan of an application of this many objects, all of which differ.
fn time_of(objects: usize) -> Duration {
    let desired: Vec<_> =
        (0..objects).map(|i| config(&format!("c{i}"), "new", &[wave(["0", "1", "2"][i % 3])])).collect();
    let shell = Shell::new(&[], desired);
    let live: Vec<_> = (0..objects)
        .map(|i| {
            shell.tracked(&config(
                &format!("c{i}"),
                if i % 2 == 0 { "old" } else { "new" },
                &[wave(["0", "1", "2"][i % 3])],
            ))
        })
        .collect();
    let cluster = Cluster::with(&live);
    let mut progress = SyncProgress::start(shell.started_at, "r");
    let start = Instant::now();
    let plan = shell.plan(&cluster, &progress);
    assert_eq!(plan.steps.len(), objects.div_ceil(2));
    progress.results = plan.results;
    shell.plan(&cluster, &progress);
    start.elapsed()
}

#[test]
fn ten_times_the_objects_take_about_ten_times_as_long() {
    let best_of = |runs: usize, objects: usize| (0..runs).map(|_| time_of(objects)).min().expect("a run");
    let (small, large) = (best_of(3, 150), best_of(2, 1500));
    println!("150 objects {small:?}, 1500 objects {large:?}");
    // A square would be a hundred times; the rest is room for a busy machine.
    assert!(large < small * 50, "150 objects {small:?}, 1500 objects {large:?}");
}
