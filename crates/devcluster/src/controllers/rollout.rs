//! The arithmetic of a deployment's rollout: plain numbers in, target sizes out.

use serde_json::{Value, json};

use crate::value::Json as _;

/// One replica set, as the arithmetic sees it.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Counts {
    pub(super) wanted: i64,
    pub(super) have: i64,
    pub(super) available: i64,
}

/// What a deployment has, all sets together.
#[derive(Debug, Clone, Copy)]
pub(super) struct Seen {
    pub(super) have: i64,
    pub(super) updated: i64,
    pub(super) ready: i64,
    pub(super) available: i64,
}

impl Seen {
    pub(super) fn complete(&self, replicas: i64) -> bool {
        self.updated == replicas && self.have == replicas && self.available == replicas
    }

    pub(super) fn progressed(&self, before: &Seen) -> bool {
        self.updated > before.updated
            || self.have - self.updated < before.have - before.updated
            || self.ready > before.ready
            || self.available > before.available
    }
}

/// Surge and unavailability as numbers; both zero would never move, so one pod may be missing then.
pub(super) fn bounds(replicas: i64, surge: Option<&Value>, unavailable: Option<&Value>) -> (i64, i64) {
    let surge = super::pods::scaled(surge, replicas, true);
    let unavailable = super::pods::scaled(unavailable, replicas, false).min(replicas);
    if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable) }
}

/// One step of a rolling update: first grow the current set, then shrink old ones by what is spare.
pub(super) fn plan_rolling(sets: &[Counts], current: Option<usize>, replicas: i64, surge: i64, unavailable: i64) -> Vec<i64> {
    let mut targets: Vec<i64> = sets.iter().map(|s| s.wanted).collect();
    let Some(current) = current else { return targets };
    let total: i64 = targets.iter().sum();
    if targets[current] > replicas {
        targets[current] = replicas;
        return targets;
    }
    if targets[current] < replicas {
        let room = replicas + surge - total;
        if room > 0 {
            targets[current] += room.min(replicas - targets[current]);
            return targets;
        }
    }
    let old_total: i64 = total - sets[current].wanted;
    if old_total == 0 {
        return targets;
    }
    let least = replicas - unavailable;
    let new_unavailable = sets[current].wanted - sets[current].available;
    let mut spare = total - least - new_unavailable;
    if spare <= 0 {
        return targets;
    }
    // Pods that never became available cost nothing to remove.
    for (index, set) in sets.iter().enumerate().filter(|(index, _)| *index != current) {
        let broken = (set.wanted - set.available).clamp(0, spare);
        targets[index] -= broken;
        spare -= broken;
    }
    let available: i64 = sets.iter().map(|s| s.available).sum();
    let mut removable = (available - least).max(0);
    for (index, _) in sets.iter().enumerate().filter(|(index, _)| *index != current) {
        let step = targets[index].min(removable).max(0);
        targets[index] -= step;
        removable -= step;
    }
    targets
}

/// Recreate: everything old to zero, and the new one only when no old pod is left.
pub(super) fn plan_recreate(sets: &[Counts], current: Option<usize>, replicas: i64, old_pods: bool) -> Vec<i64> {
    let mut targets = vec![0; sets.len()];
    if let Some(current) = current {
        let old_left = old_pods || sets.iter().enumerate().any(|(i, s)| i != current && (s.wanted > 0 || s.have > 0));
        targets[current] = if old_left { sets[current].wanted.min(replicas) } else { replicas };
    }
    targets
}

/// A paused deployment still follows its size, in proportion to what each set has.
pub(super) fn plan_paused(sets: &[Counts], replicas: i64) -> Vec<i64> {
    let mut targets: Vec<i64> = sets.iter().map(|s| s.wanted).collect();
    let total: i64 = targets.iter().sum();
    if total == replicas || total == 0 {
        return targets;
    }
    for target in &mut targets {
        *target = *target * replicas / total;
    }
    let rest = replicas - targets.iter().sum::<i64>();
    if let Some(largest) = targets.iter_mut().max_by_key(|t| **t) {
        *largest += rest;
    }
    targets
}

/// Conditions of deployments carry two times: when the status changed, and when anything did.
pub(super) fn set_deployment_condition(
    conditions: &mut Vec<Value>,
    ty: &str,
    state: &str,
    reason: &str,
    message: &str,
    touch: bool,
    now: &str,
) {
    let old = conditions.iter().position(|c| c.str_at("type") == ty);
    let mut transition = now.to_owned();
    if let Some(index) = old {
        let same = conditions[index].str_at("status") == state;
        if same && conditions[index].str_at("reason") == reason && conditions[index].str_at("message") == message && !touch {
            return;
        }
        if same {
            transition = conditions[index].str_at("lastTransitionTime").to_owned();
        }
    }
    let fresh = json!({"type": ty, "status": state, "reason": reason, "message": message,
        "lastUpdateTime": now, "lastTransitionTime": transition});
    match old {
        Some(index) => conditions[index] = fresh,
        None => conditions.push(fresh),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(wanted: i64, available: i64) -> Counts {
        Counts { wanted, have: wanted, available }
    }

    #[test]
    fn a_rolling_update_never_breaks_its_bounds_and_ends() {
        for (replicas, surge, unavailable) in [(1, 1, 0), (3, 1, 0), (3, 0, 1), (10, 3, 2), (4, 4, 4)] {
            let mut sets = vec![set(replicas, replicas), set(0, 0)];
            for round in 0..100 {
                let targets = plan_rolling(&sets, Some(1), replicas, surge, unavailable);
                let total: i64 = targets.iter().sum();
                assert!(total <= replicas + surge, "surge: {targets:?}");
                for (set, target) in sets.iter_mut().zip(&targets) {
                    set.available = set.available.min(*target);
                    set.wanted = *target;
                    set.have = *target;
                }
                let available: i64 = sets.iter().map(|s| s.available).sum();
                assert!(available >= replicas - unavailable, "availability: {sets:?}");
                // One pod of the new set becomes available per round.
                sets[1].available = (sets[1].available + 1).min(sets[1].wanted);
                if sets[0].wanted == 0 && sets[1].available == replicas {
                    break;
                }
                assert!(round < 99, "the update ends: {sets:?}");
            }
        }
    }

    #[test]
    fn broken_old_pods_go_first() {
        let sets = [set(2, 0), set(1, 1), set(1, 0)];
        assert_eq!(plan_rolling(&sets, Some(2), 3, 1, 1), [1, 1, 1]);
    }

    #[test]
    fn recreate_waits_for_the_last_old_pod() {
        assert_eq!(plan_recreate(&[set(2, 2), set(0, 0)], Some(1), 2, true), [0, 0]);
        assert_eq!(plan_recreate(&[set(0, 0), set(0, 0)], Some(1), 2, true), [0, 0]);
        assert_eq!(plan_recreate(&[set(0, 0), set(0, 0)], Some(1), 2, false), [0, 2]);
    }

    #[test]
    fn a_paused_deployment_scales_in_proportion() {
        assert_eq!(plan_paused(&[set(6, 6), set(4, 4)], 20).iter().sum::<i64>(), 20);
        assert_eq!(plan_paused(&[set(6, 6), set(4, 4)], 5), [3, 2]);
    }
}
