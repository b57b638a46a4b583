//! How many pods each version gets while an update is under way.
//!
//! In: what is wanted (replicas, weight, surge, how many may be missing) and what there is. Out: the sizes to set now. Users know
//! these numbers by heart, so every rounding is as upstream has it. Knows neither steps nor routers.

use serde_json::Value;

/// What a weight is a part of, when nothing is said.
pub const MAX_WEIGHT: i64 = 100;

/// One version's pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Pods {
    /// Asked for (`spec.replicas` of its ReplicaSet).
    pub wanted: i64,
    pub available: i64,
}

impl Pods {
    /// Those that would be missed: more may be available for a moment than are wanted.
    fn counted(self) -> i64 {
        self.available.min(self.wanted)
    }
}

/// What the update is to look like.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Wanted {
    pub replicas: i64,
    /// Of [`Self::max_weight`].
    pub weight: i64,
    pub max_weight: i64,
    /// Pods beyond `replicas`.
    pub surge: i64,
    /// Pods below `replicas` that may be unavailable.
    pub unavailable: i64,
}

/// Sizes of the new and of the stable version.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sizes {
    pub new: i64,
    pub stable: i64,
}

/// True for a number or a percentage; `"25"` is one, too.
pub fn is_amount(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_i64().is_some_and(|number| number >= 0),
        Value::String(text) => text.trim_end_matches('%').parse::<u32>().is_ok(),
        _ => false,
    }
}

pub(crate) fn amount_is_zero(value: &Value) -> bool {
    match value {
        Value::Number(number) => number.as_i64() == Some(0),
        Value::String(text) => text.trim_end_matches('%').parse::<u32>() == Ok(0),
        _ => false,
    }
}

/// Pods that an amount means: `"25%"`, `"25"` (a percentage, too) or 3.
fn resolve(value: Option<&Value>, replicas: i64, round_up: bool) -> i64 {
    let percentage = match value {
        None => 25,
        Some(Value::Number(number)) => return number.as_i64().unwrap_or(0),
        Some(Value::String(text)) => text.trim_end_matches('%').parse().unwrap_or(0),
        Some(_) => 0,
    };
    let parts = replicas * percentage;
    if round_up { ceil(parts, 100) } else { parts.div_euclid(100) }
}

/// Surge and unavailable in pods. Both zero would stop every update: then one pod may be missing.
pub fn bounds(max_surge: Option<&Value>, max_unavailable: Option<&Value>, replicas: i64) -> (i64, i64) {
    let surge = resolve(max_surge, replicas, true);
    let unavailable = resolve(max_unavailable, replicas, false);
    if surge == 0 && unavailable == 0 { (0, 1) } else { (surge, unavailable.min(replicas)) }
}

fn ceil(value: i64, by: i64) -> i64 {
    value.div_euclid(by) + i64::from(value.rem_euclid(by) != 0)
}

/// The sizes that come closest to the weight: their sum is `replicas`, or one more where surge allows it.
pub fn closest(wanted: &Wanted) -> Sizes {
    let Wanted { replicas, weight, max_weight, surge, .. } = *wanted;
    if replicas == 0 {
        return Sizes { new: 0, stable: 0 };
    }
    let up = ceil(replicas * weight, max_weight);
    let down = (replicas * weight).div_euclid(max_weight);
    // From 1 to 99 % there is a pod of each version, where there can be two.
    let may_be_none = weight == 0 || weight == max_weight || (replicas == 1 && surge == 0);
    // Wider than what is counted: products of three numbers are compared.
    let tied = |total: i64| {
        let (twice, of) = (i128::from(total) * i128::from(weight) * 2, i128::from(max_weight));
        twice.rem_euclid(of) == 0 && (twice / of) % 2 == 1
    };
    let mut options = Vec::with_capacity(4);
    if up < replicas || may_be_none {
        options.push((up, replicas));
    }
    if !tied(replicas) && (down != 0 || may_be_none) {
        options.push((down, replicas));
    }
    if surge > 0 {
        options.push((up, replicas + 1));
        if !tied(replicas + 1) && (down != 0 || may_be_none) {
            options.push((down, replicas + 1));
        }
    }
    // Compared as fractions: |new/total - weight/max|. The first of equals wins.
    let distance = |(new, total): (i64, i64)| {
        let off = i128::from(new) * i128::from(max_weight) - i128::from(weight) * i128::from(total);
        (off.unsigned_abs(), i128::from(total).unsigned_abs())
    };
    let closer = |a: (i64, i64), b: (i64, i64)| {
        let ((a_off, a_total), (b_off, b_total)) = (distance(a), distance(b));
        a_off * b_total < b_off * a_total
    };
    let best = options.into_iter().reduce(|best, next| if closer(next, best) { next } else { best });
    let (new, total) = best.unwrap_or((0, replicas));
    Sizes { new, stable: total - new }
}

/// The sizes to set now, without a router: pods are the weight. `stable` is none at the first deployment, or when the new version
/// is the stable one; `older` are the pods wanted of all other versions.
pub fn basic(wanted: &Wanted, new: Option<Pods>, stable: Option<Pods>, older: i64) -> Sizes {
    let goal = match stable {
        Some(_) => closest(wanted),
        None => Sizes { new: wanted.replicas, stable: 0 },
    };
    let most = wanted.replicas + wanted.surge;
    let now = Sizes { new: new.map_or(0, |pods| pods.wanted), stable: stable.map_or(0, |pods| pods.wanted) };
    let mut sizes = now;
    let mut room = most - now.new - now.stable - older;
    // The stable version first: it is what users rely on.
    if stable.is_some() && now.stable < goal.stable && room > 0 {
        sizes.stable = goal.stable.min(now.stable + room);
        room -= sizes.stable - now.stable;
    }
    if new.is_some() && now.new < goal.new && room > 0 {
        sizes.new = goal.new.min(now.new + room);
    }
    // Older versions leave before either of these gets smaller.
    if older > 0 {
        return sizes;
    }
    let least = wanted.replicas - wanted.unavailable;
    let grows = new.is_none() || goal.new >= now.new;
    // Of the version that shrinks every pod counts; of the other only those that are available.
    let there = if grows {
        new.map_or(0, Pods::counted) + now.stable
    } else {
        now.new + stable.map_or(0, Pods::counted)
    };
    let spare = there - least;
    if spare <= 0 {
        return sizes;
    }
    if !grows {
        sizes.new = drained(new, goal.new, spare, sizes.new);
        (sizes.new, sizes.stable) = within(new, stable, (sizes.new, sizes.stable), most, least);
    } else if stable.is_some() {
        sizes.stable = drained(stable, goal.stable, spare, sizes.stable);
        (sizes.stable, sizes.new) = within(stable, new, (sizes.stable, sizes.new), most, least);
    }
    sizes
}

fn drained(pods: Option<Pods>, goal: i64, spare: i64, size: i64) -> i64 {
    match pods {
        Some(pods) if pods.wanted > goal => goal.max(pods.wanted - spare),
        _ => size,
    }
}

/// Takes from the growing version what is beyond the surge, and gives back what is needed to stay available.
fn within(
    draining: Option<Pods>,
    growing: Option<Pods>,
    (drained, grown): (i64, i64),
    most: i64,
    least: i64,
) -> (i64, i64) {
    let over = (grown + drained - most).max(0);
    let Some(pods) = growing else { return (drained, grown) };
    let grown = grown - over;
    let available = draining.map_or(0, |pods| pods.available.min(drained)) + pods.available.min(grown);
    let taken = (pods.available - grown).max(0);
    let missing = (least - available).max(0);
    let grown = grown + taken.min(missing);
    // What was given back may not pass the surge: then the other one leaves.
    (drained - (grown + drained - most).max(0), grown)
}

/// The sizes where a router sends the traffic: the stable version keeps its size unless `stable_follows`. `scale` is what a step
/// `setCanaryScale` asks for instead of the weight; `actual` the weight of the new version that routers have now.
pub fn routed(
    wanted: &Wanted,
    scale: Option<Scale>,
    actual: i64,
    stable_follows: bool,
    at_least: i64,
) -> Sizes {
    let share = |weight: i64| ceil(wanted.replicas * weight, wanted.max_weight);
    let new = match scale {
        Some(Scale::Replicas(replicas)) => replicas,
        Some(Scale::Weight(weight)) => share(weight),
        None => share(wanted.weight),
    };
    let stable = if stable_follows {
        let (goal, now) = (wanted.max_weight - wanted.weight, wanted.max_weight - actual);
        share(goal).max(share(now))
    } else {
        wanted.replicas
    };
    let some = |size: i64| if size > 0 { size.max(at_least.min(wanted.replicas)) } else { size };
    Sizes { new: some(new), stable: some(stable) }
}

/// How many pods a step asks for, apart from the weight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    Replicas(i64),
    Weight(i64),
}
