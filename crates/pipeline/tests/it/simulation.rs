//! A build without containers: plans are checked and taken up, steps end as a script says, time only
//! moves when a plan asks to be woken.

use std::collections::BTreeMap;

use slipway_pipeline::plan::{Outcome, apply, check, finish, plan};
use slipway_pipeline::{Action, BuildState, BuildStatus, Pipeline, StepStatus};

/// Decides how an attempt of a step ends.
pub(crate) type Script<'a> = dyn Fn(&str, u32) -> StepStatus + 'a;

/// How the simulated runner is disturbed. All of it is derived from the number of plans made so far,
/// so a run repeats itself.
#[derive(Clone, Copy, Default)]
pub(crate) struct Disturbance {
    /// Take up only some of the actions of a plan, then forget it, as a runner that was killed does.
    pub(crate) crash: Option<u64>,
    /// Let steps end in any order, also while actions of the last plan have not been taken up.
    pub(crate) shuffle: Option<u64>,
    /// Ask to terminate after so many plans.
    pub(crate) terminate_after: Option<usize>,
}

/// What a finished build leaves behind.
#[derive(Debug, PartialEq)]
pub(crate) struct End {
    pub(crate) status: BuildStatus,
    pub(crate) steps: BTreeMap<String, (StepStatus, u32)>,
    /// How often each attempt of each step was started: never more than once.
    pub(crate) starts: BTreeMap<(String, u32), usize>,
}

/// Runs a pipeline to its end. Panics with the history when a plan is wrong or the build hangs.
pub(crate) fn run(pipeline: &Pipeline, script: &Script<'_>, disturbance: Disturbance) -> End {
    let mut state = BuildState::default();
    let mut starts = BTreeMap::new();
    let mut history = Vec::new();
    for round in 0..10_000_u64 {
        if disturbance.terminate_after == Some(round as usize) {
            state.terminate_requested = true;
        }
        let made = plan(pipeline, &state);
        let wrong = check(pipeline, &state, &made);
        assert!(wrong.is_empty(), "{wrong:#?}\n{history:#?}\n{state:#?}");
        if let Some(finished) = made.finished {
            let steps =
                state.steps.iter().map(|(id, step)| (id.clone(), (step.status, step.attempt))).collect();
            return End { status: finished.status, steps, starts };
        }
        let taken = match disturbance.crash {
            Some(seed) if made.actions.len() > 1 => 1 + (mix(seed, round) as usize) % made.actions.len(),
            _ => made.actions.len(),
        };
        for action in &made.actions[..taken] {
            history.push(format!("{round}: {} {}", word(action), action.step()));
            if let Action::Start { step, attempt, .. } | Action::RunHook { step, attempt, .. } = action {
                *starts.entry((step.clone(), *attempt)).or_default() += 1;
            }
            apply(&mut state, action).expect("a planned action fits the state");
        }
        // Whatever happens, the state survives a write to disk.
        let text = serde_json::to_string(&state).expect("serialises");
        state = serde_json::from_str(&text).expect("reads back");
        if taken > 0 && disturbance.shuffle.is_none() {
            continue;
        }
        let mut active = state.steps.iter().filter(|(_, step)| step.status.is_active());
        let active = match disturbance.shuffle {
            Some(seed) => {
                let all: Vec<_> = active.collect();
                all.get(mix(seed, round) as usize % all.len().max(1)).copied()
            }
            None => active.next(),
        };
        match active.map(|(id, step)| (id.clone(), step.clone())) {
            Some((id, step)) => {
                let status = match step.status {
                    StepStatus::Terminating => StepStatus::Terminated,
                    StepStatus::PendingApproval => match script(&id, 1) {
                        StepStatus::Failure => StepStatus::Denied,
                        _ => StepStatus::Approved,
                    },
                    _ => script(&id, step.attempt),
                };
                history.push(format!("{round}: {id} ends as {}", status.as_str()));
                finish(pipeline, &mut state, &id, step.attempt, Outcome::new(status))
                    .expect("an active step ends");
            }
            None if taken > 0 => {}
            None => match made.wake_at_ms {
                Some(at) => state.now_ms = state.now_ms.max(at),
                None => assert!(!made.actions.is_empty(), "nothing to wait for: {history:#?}"),
            },
        }
    }
    panic!("the build does not end: {history:#?}");
}

fn word(action: &Action) -> &'static str {
    match action {
        Action::Start { .. } => "start",
        Action::Skip { .. } => "skip",
        Action::Cancel { .. } => "cancel",
        Action::AwaitApproval { .. } => "ask",
        Action::Settle { .. } => "settle",
        Action::RunHook { .. } => "hook",
    }
}

/// SplitMix64 of two numbers.
pub(crate) fn mix(seed: u64, index: u64) -> u64 {
    let mut z = seed.wrapping_add(index.wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15));
    z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    z ^ (z >> 31)
}
