//! Random pipelines: every plan is consistent, every build ends, and a runner that is killed at any
//! point reaches the same end as one that is not.

use slipway_pipeline::{BuildStatus, Pipeline, StepStatus};

use crate::simulation::{Disturbance, mix, run};

/// A small deterministic source of choices.
struct Choice {
    seed: u64,
    drawn: u64,
}

impl Choice {
    fn below(&mut self, limit: u64) -> u64 {
        self.drawn += 1;
        mix(self.seed, self.drawn) % limit
    }

    fn one_in(&mut self, chances: u64) -> bool {
        self.below(chances) == 0
    }
}

/// A pipeline as text; names are `s0`, `s1`, … in the order in which they are written.
fn pipeline(seed: u64) -> String {
    let mut choice = Choice { seed, drawn: 0 };
    let parallel = choice.one_in(3);
    let mut text = String::from("version: '1.0'\n");
    if parallel {
        text.push_str("mode: parallel\n");
    }
    if choice.one_in(4) {
        text.push_str("fail_fast: false\n");
    }
    if choice.one_in(6) {
        text.push_str("strict_fail_fast: true\n");
    }
    if choice.one_in(5) {
        text.push_str("hooks: {on_elected: [a], on_success: [b], on_fail: [c], on_finish: [d]}\n");
    }
    text.push_str("steps:\n");
    let mut names = Vec::new();
    for _ in 0..1 + choice.below(6) {
        if choice.one_in(4) {
            let block = format!("s{}", names.len());
            names.push(block.clone());
            text.push_str(&format!("  {block}:\n    type: parallel\n"));
            if choice.one_in(4) {
                text.push_str("    fail_fast: false\n");
            }
            let children = 1 + choice.below(3);
            if choice.one_in(4) {
                let only = format!("s{}", names.len());
                text.push_str(&format!("    success_criteria: {{steps: {{only: [{only}]}}}}\n"));
            }
            text.push_str("    steps:\n");
            for _ in 0..children {
                step(&mut text, "      ", &mut names, &mut choice, false);
            }
        } else {
            step(&mut text, "  ", &mut names, &mut choice, true);
        }
    }
    text
}

fn step(text: &mut String, indent: &str, names: &mut Vec<String>, choice: &mut Choice, approvals: bool) {
    let name = format!("s{}", names.len());
    text.push_str(&format!("{indent}{name}:\n"));
    let mut line = |key: &str| text.push_str(&format!("{indent}  {key}\n"));
    if approvals && choice.one_in(8) {
        line("type: pending-approval");
        if choice.one_in(2) {
            line("timeout: {duration: 1, timeUnit: minutes, finalState: denied}");
        }
    } else {
        line("image: x");
        if choice.one_in(5) {
            line("retry: {maxAttempts: 3, delay: 5, exponentialFactor: 2}");
        }
    }
    if choice.one_in(4) {
        line("fail_fast: false");
    }
    if choice.one_in(6) {
        line("hooks: {on_elected: [a], on_fail: [b], on_finish: {exec: [c], annotations: {set: []}}}");
    }
    if choice.one_in(3) && !names.is_empty() {
        let other = &names[choice.below(names.len() as u64) as usize];
        let on = ["success", "failure", "finished", "skipped", "terminated"][choice.below(5) as usize];
        let when = match choice.below(4) {
            0 => format!("when: {{steps: [{{name: {other}, on: [{on}]}}]}}"),
            1 => format!("when: {{steps: {{any: [{{name: {other}, on: [{on}]}}, {{name: {name}x}}]}}}}"),
            2 => format!("when: {{condition: {{all: {{c: \"steps.{other}.result == '{on}'\"}}}}}}"),
            _ => {
                let result = ["failure", "success", "terminated"][choice.below(3) as usize];
                format!("when: {{condition: {{any: {{c: \"workflow.result == '{result}'\"}}}}}}")
            }
        };
        line(&when);
    }
    names.push(name);
}

fn parsed(seed: u64) -> Pipeline {
    let text = pipeline(seed);
    let (pipeline, findings) = Pipeline::parse(&text);
    pipeline.unwrap_or_else(|| panic!("seed {seed}: {findings:#?}\n{text}"))
}

fn script(seed: u64) -> impl Fn(&str, u32) -> StepStatus {
    move |id: &str, attempt: u32| {
        let key = id
            .bytes()
            .fold(u64::from(attempt), |sum, byte| sum.wrapping_mul(31).wrapping_add(u64::from(byte)));
        if mix(seed, key).is_multiple_of(4) { StepStatus::Failure } else { StepStatus::Success }
    }
}

#[test]
fn a_killed_runner_reaches_the_same_end() {
    for seed in 0..120 {
        let pipeline = parsed(seed);
        let script = script(seed);
        let calm = run(&pipeline, &script, Disturbance::default());
        assert!(calm.starts.values().all(|count| *count == 1), "seed {seed}: an attempt was started twice");
        for crash in 0..3 {
            let disturbed =
                run(&pipeline, &script, Disturbance { crash: Some(crash), ..Disturbance::default() });
            assert_eq!(disturbed, calm, "seed {seed}, crash {crash}\n{}", self::pipeline(seed));
        }
    }
}

#[test]
fn steps_may_end_in_any_order() {
    for seed in 0..120 {
        let pipeline = parsed(seed);
        let script = script(seed);
        for shuffle in 0..3 {
            let disturbance =
                Disturbance { crash: Some(seed), shuffle: Some(shuffle), ..Disturbance::default() };
            let end = run(&pipeline, &script, disturbance);
            assert!(end.starts.values().all(|count| *count == 1), "seed {seed}, shuffle {shuffle}");
        }
    }
}

#[test]
fn a_terminated_build_ends_as_terminated_and_starts_only_cleanup() {
    for seed in 0..100 {
        let pipeline = parsed(seed);
        let script = script(seed);
        for after in [0, 2, 5] {
            let disturbance =
                Disturbance { terminate_after: Some(after), crash: Some(seed), shuffle: Some(seed) };
            let end = run(&pipeline, &script, disturbance);
            // A short build may be over before anybody asks; then it is as it would have been.
            let unasked = run(&pipeline, &script, Disturbance { terminate_after: None, ..disturbance });
            let fits = end.status == BuildStatus::Terminated || end.status == unasked.status;
            assert!(fits, "seed {seed} after {after}: {end:#?}, unasked {unasked:#?}");
            assert!(
                end.starts.values().all(|count| *count == 1),
                "seed {seed} after {after}: {:?}",
                end.starts
            );
            let open: Vec<_> = end.steps.iter().filter(|(_, (status, _))| status.is_active()).collect();
            assert!(open.is_empty(), "seed {seed} after {after}: {open:?}");
        }
    }
}
