//! Who holds which shard: the table, a fair share, and who is alive. Values in, values out.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use slipway_model::SHARES as SHARDS;

use crate::Key;

/// The part that an object belongs to, whatever its kind.
pub(super) fn shard_of(key: &Key) -> u16 {
    slipway_model::share_of(&key.namespace, &key.name)
}

/// The shards that each engine holds. A shard that stands nowhere is free.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Table(BTreeMap<String, BTreeSet<u16>>);

impl Table {
    /// Reads `engine: "0 1 2"`. What is unreadable is nobody's; what stands twice belongs to the first.
    pub(super) fn parse(data: &Value) -> Self {
        let mut taken = BTreeSet::new();
        let mut table = BTreeMap::new();
        for (engine, numbers) in data.as_object().into_iter().flatten() {
            let numbers = numbers.as_str().unwrap_or_default().split_whitespace();
            let shards: BTreeSet<u16> = numbers
                .filter_map(|number| number.parse().ok())
                .filter(|number| *number < SHARDS && taken.insert(*number))
                .collect();
            if !shards.is_empty() {
                table.insert(engine.clone(), shards);
            }
        }
        Self(table)
    }

    pub(super) fn data(&self) -> Value {
        let line = |shards: &BTreeSet<u16>| {
            let numbers: Vec<String> = shards.iter().map(u16::to_string).collect();
            Value::String(numbers.join(" "))
        };
        let lines = self.0.iter().filter(|(_, shards)| !shards.is_empty());
        Value::Object(lines.map(|(engine, shards)| (engine.clone(), line(shards))).collect::<Map<_, _>>())
    }

    pub(super) fn engines(&self) -> impl Iterator<Item = &String> {
        self.0.keys()
    }

    pub(super) fn of(&self, engine: &str) -> BTreeSet<u16> {
        self.0.get(engine).cloned().unwrap_or_default()
    }

    pub(super) fn without(mut self, engine: &str) -> Self {
        self.0.remove(engine);
        self
    }

    pub(super) fn with(mut self, engine: &str, shards: BTreeSet<u16>) -> Self {
        for held in self.0.values_mut() {
            held.retain(|shard| !shards.contains(shard));
        }
        self.0.insert(engine.to_owned(), shards);
        self
    }

    /// What the engine should hold now: its own up to its fair share, and what nobody alive holds. It never takes what
    /// a living engine has: that one gives back by itself when it sees that it has too much.
    pub(super) fn share_of(&self, engine: &str, living: &BTreeSet<String>) -> BTreeSet<u16> {
        let others = living.iter().filter(|other| *other != engine).count();
        let rank = living.iter().filter(|other| other.as_str() < engine).count();
        let (each, rest) = (usize::from(SHARDS) / (others + 1), usize::from(SHARDS) % (others + 1));
        let fair = each + usize::from(rank < rest);
        let mut share: BTreeSet<u16> = self.of(engine).into_iter().take(fair).collect();
        let held: BTreeSet<u16> = living
            .iter()
            .filter(|other| *other != engine)
            .flat_map(|other| self.of(other))
            .chain(self.of(engine))
            .collect();
        let missing = fair - share.len();
        share.extend((0..SHARDS).filter(|shard| !held.contains(shard)).take(missing));
        share
    }
}

/// When each lease was last seen to change, by our own clock: clocks of other machines are not trusted.
#[derive(Default)]
pub(super) struct Witness(HashMap<String, (String, Instant)>);

impl Witness {
    /// `leases`: the engines' last renewals; empty text for an engine that stands in the table and has no lease.
    /// Whoever is seen for the first time counts as alive from now on: nothing may be taken from it too early.
    pub(super) fn see(&mut self, leases: &BTreeMap<String, String>, now: Instant) {
        self.0.retain(|engine, _| leases.contains_key(engine));
        for (engine, renewed) in leases {
            if self.0.get(engine).is_none_or(|(known, _)| known != renewed) {
                self.0.insert(engine.clone(), (renewed.clone(), now));
            }
        }
    }

    pub(super) fn living(&self, lease: Duration, now: Instant) -> BTreeSet<String> {
        let alive = self.0.iter().filter(|(_, (_, at))| now.duration_since(*at) < lease);
        alive.map(|(engine, _)| engine.clone()).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn set(engines: &[&str]) -> BTreeSet<String> {
        engines.iter().map(|engine| (*engine).to_owned()).collect()
    }

    /// Everybody takes turns until nothing changes; gives how many each has.
    fn settle(mut table: Table, living: &[&str]) -> (Table, Vec<usize>) {
        for _ in 0..10 {
            for engine in living {
                let share = table.share_of(engine, &set(living));
                for other in living.iter().filter(|other| *other != engine) {
                    assert!(share.is_disjoint(&table.of(other)), "{engine} takes from {other}");
                }
                table = table.with(engine, share);
            }
        }
        let counts = living.iter().map(|engine| table.of(engine).len()).collect();
        (table, counts)
    }

    #[test]
    fn everybody_has_a_fair_share_and_only_that_of_the_dead_moves() {
        let (table, counts) = settle(Table::default(), &["a"]);
        assert_eq!(counts, [64]);
        let (table, counts) = settle(table, &["a", "b"]);
        assert_eq!(counts, [32, 32]);
        let (table, counts) = settle(table, &["a", "b", "c"]);
        assert_eq!(counts, [22, 21, 21]);
        let before = table.clone();
        let (table, counts) = settle(table, &["a", "c"]);
        assert_eq!(counts, [32, 32]);
        assert!(before.of("a").is_subset(&table.of("a")) && before.of("c").is_subset(&table.of("c")));
        assert_eq!(Table::parse(&table.clone().without("b").data()), table.without("b"));
    }

    #[test]
    fn a_table_that_somebody_spoiled_gives_nothing_to_two() {
        let table = Table::parse(&json!({"a": "1 2 x 99 -1", "b": "2 3", "c": 7}));
        assert_eq!(table.of("a"), [1, 2].into());
        assert_eq!(table.of("b"), [3].into());
        assert_eq!(Table::parse(&Value::Null), Table::default());
    }

    #[test]
    fn names_spread_over_all_parts() {
        let counts = (0..6400).fold([0_usize; SHARDS as usize], |mut counts, n| {
            let key = Key::new(crate::Kind::new("argoproj.io", "Application"), "argocd", format!("app{n}"));
            counts[usize::from(shard_of(&key))] += 1;
            counts
        });
        assert!(counts.iter().all(|count| (50..170).contains(count)), "{counts:?}");
    }

    #[test]
    fn a_lease_that_does_not_change_runs_out_by_our_own_clock() {
        let (start, lease) = (Instant::now(), Duration::from_secs(15));
        let mut witness = Witness::default();
        let leases = |b: &str| BTreeMap::from([("a".to_owned(), "1".to_owned()), ("b".into(), b.into())]);
        witness.see(&leases("1970-01-01"), start);
        assert_eq!(witness.living(lease, start), set(&["a", "b"]), "an old time may be a slow clock");
        let later = start + Duration::from_secs(16);
        witness.see(&leases("1970-01-02"), later);
        assert_eq!(witness.living(lease, later), set(&["b"]));
        witness.see(&BTreeMap::new(), later);
        assert!(witness.living(lease, later).is_empty());
    }
}
