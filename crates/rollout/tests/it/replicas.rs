//! How many pods: known numbers, and what must hold of all of them.

use slipway_rollout::preview;
use slipway_rollout::replicas::{Pods, Scale, Sizes, Wanted, basic, bounds, closest, routed};

fn wanted(replicas: i64, weight: i64, surge: i64, unavailable: i64) -> Wanted {
    Wanted { replicas, weight, max_weight: 100, surge, unavailable }
}

fn all(size: i64) -> Option<Pods> {
    Some(Pods { wanted: size, available: size })
}

#[test]
fn the_first_round_of_an_update_is_as_users_know_it() {
    // (replicas, weight, surge, unavailable, new now, stable now) → (new, stable)
    let table = [
        ((10, 10, 1, 1, 0, 10), (1, 9)),
        ((10, 30, 3, 0, 0, 10), (3, 10)),
        ((10, 30, 0, 5, 0, 10), (0, 7)),
        ((10, 5, 1, 1, 0, 10), (1, 10)),
        ((10, 5, 0, 1, 0, 10), (0, 9)),
        ((10, 5, 0, 1, 0, 9), (1, 9)),
        ((1, 5, 1, 0, 0, 1), (1, 1)),
        ((1, 95, 1, 0, 0, 1), (1, 1)),
        ((10, 100, 1, 0, 0, 10), (1, 10)),
        ((10, 0, 1, 1, 0, 10), (0, 10)),
        // Going back: the new version leaves, the stable one is filled first.
        ((10, 0, 1, 0, 5, 5), (5, 6)),
    ];
    for ((replicas, weight, surge, unavailable, new, stable), (new_size, stable_size)) in table {
        let sizes = basic(&wanted(replicas, weight, surge, unavailable), all(new), all(stable), 0);
        assert_eq!(
            sizes,
            Sizes { new: new_size, stable: stable_size },
            "{replicas} replicas, weight {weight}, surge {surge}, unavailable {unavailable}, {new} and {stable} there"
        );
    }
}

#[test]
fn the_sizes_come_closest_to_the_weight_and_a_tie_goes_to_the_new_version() {
    for ((replicas, weight, surge), (new, stable)) in [
        ((3, 50, 0), (2, 1)),
        ((2, 50, 0), (1, 1)),
        ((10, 1, 0), (1, 9)),
        ((10, 99, 0), (9, 1)),
        ((1, 50, 0), (1, 0)),
        ((0, 50, 1), (0, 0)),
        ((4, 20, 1), (1, 4)),
        ((10, 18, 1), (2, 9)),
        ((10, 24, 1), (3, 8)),
        ((10, 99, 1), (10, 1)),
        ((3, 49, 1), (2, 2)),
    ] {
        assert_eq!(
            closest(&wanted(replicas, weight, surge, 0)),
            Sizes { new, stable },
            "{replicas} at {weight}"
        );
    }
}

#[test]
fn no_round_passes_the_surge_or_takes_what_must_stay_available() {
    for replicas in 0..12 {
        for surge in 0..4 {
            for unavailable in 0..=replicas {
                if surge == 0 && unavailable == 0 {
                    continue;
                }
                for weight in [0, 1, 10, 25, 33, 50, 66, 90, 99, 100] {
                    let wanted = wanted(replicas, weight, surge, unavailable);
                    let mut sizes = Sizes { new: 0, stable: replicas };
                    for round in 0.. {
                        let next = basic(&wanted, all(sizes.new), all(sizes.stable), 0);
                        assert!(next.new >= 0 && next.stable >= 0, "{wanted:?}: {next:?}");
                        assert!(
                            next.new + next.stable <= replicas + surge,
                            "{wanted:?}: {sizes:?} → {next:?}"
                        );
                        let stay = sizes.new.min(next.new) + sizes.stable.min(next.stable);
                        assert!(stay >= replicas - unavailable, "{wanted:?}: {sizes:?} → {next:?}");
                        if next == sizes {
                            break;
                        }
                        assert!(round < 100, "{wanted:?} does not come to rest");
                        sizes = next;
                    }
                    assert_eq!(sizes, closest(&wanted), "{wanted:?} comes to rest elsewhere");
                }
            }
        }
    }
}

#[test]
fn older_versions_leave_before_the_others_get_smaller_and_the_first_deployment_is_whole() {
    let update = wanted(10, 50, 2, 2);
    assert_eq!(basic(&update, all(0), all(10), 2), Sizes { new: 0, stable: 10 });
    assert_eq!(basic(&update, all(0), None, 0), Sizes { new: 10, stable: 0 });
}

#[test]
fn amounts_are_numbers_or_percentages_and_never_both_nothing() {
    let text = |text: &str| serde_json::Value::from(text);
    assert_eq!(bounds(None, None, 10), (3, 2), "a quarter, rounded in favour of what runs");
    assert_eq!(bounds(Some(&text("25")), Some(&0.into()), 8), (2, 0), "a text is a percentage");
    assert_eq!(bounds(Some(&0.into()), Some(&text("0%")), 5), (0, 1));
    assert_eq!(bounds(Some(&1.into()), Some(&20.into()), 5), (1, 5));
}

#[test]
fn with_a_router_the_stable_version_stays_whole_unless_it_follows() {
    let update = wanted(5, 30, 1, 0);
    assert_eq!(routed(&update, None, 0, false, 1), Sizes { new: 2, stable: 5 });
    assert_eq!(routed(&update, Some(Scale::Replicas(4)), 0, false, 1), Sizes { new: 4, stable: 5 });
    assert_eq!(routed(&update, Some(Scale::Weight(100)), 0, false, 1), Sizes { new: 5, stable: 5 });
    assert_eq!(routed(&update, None, 30, true, 1), Sizes { new: 2, stable: 4 });
    assert_eq!(
        routed(&update, None, 0, true, 1),
        Sizes { new: 2, stable: 5 },
        "not before the requests are gone"
    );
    assert_eq!(routed(&wanted(5, 10, 1, 0), None, 0, false, 2), Sizes { new: 2, stable: 5 });
    assert_eq!(routed(&wanted(1, 100, 1, 0), None, 0, false, 2), Sizes { new: 1, stable: 1 });
}

#[test]
fn a_canary_is_shown_step_by_step_before_it_runs() {
    let rollout = serde_json::json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": {"name": "a"},
        "spec": {"replicas": 10, "strategy": {"canary": {
            "maxSurge": 1, "maxUnavailable": 0,
            "steps": [{"setWeight": 20}, {"pause": {"duration": "5m"}}, {"setWeight": 50}, {"pause": {}}],
        }}},
    });
    let rows = preview::steps(&serde_json::from_value(rollout).unwrap()).unwrap();
    let short: Vec<_> =
        rows.iter().map(|row| (row.step.as_str(), row.weight, row.sizes.new, row.sizes.stable)).collect();
    assert_eq!(
        short,
        [
            ("setWeight: 20", 20, 2, 8),
            ("pause: 5m", 20, 2, 8),
            ("setWeight: 50", 50, 5, 5),
            ("pause", 50, 5, 5),
            ("promote", 100, 10, 0),
        ]
    );
    assert!(rows.iter().all(|row| row.most_pods <= 11 && row.fewest_available >= 10), "{rows:?}");
}

#[test]
fn the_largest_numbers_that_are_read_neither_overflow_nor_take_long() {
    let most = i64::from(i32::MAX);
    let rollout = serde_json::json!({
        "apiVersion": "argoproj.io/v1alpha1", "kind": "Rollout", "metadata": {"name": "a"},
        "spec": {"replicas": most, "strategy": {"canary": {"maxSurge": 1, "maxUnavailable": 0, "steps": [{"setWeight": 50}]}}},
    });
    let rows = preview::steps(&serde_json::from_value(rollout).unwrap()).unwrap();
    let total = rows[0].sizes.new + rows[0].sizes.stable;
    assert!((most..=most + 1).contains(&total), "{total}");
    let wanted =
        Wanted { replicas: most, weight: most - 1, max_weight: most, surge: most, unavailable: most };
    let sizes = closest(&wanted);
    assert!(sizes.new > 0 && sizes.stable > 0, "{sizes:?}");
}
