//! Scenarios: a pipeline, what each step will do, and the order in which things happen.

use std::collections::BTreeMap;

use crate::pipeline::Pipeline;
use crate::plan::{Action, CancelReason, Outcome, apply, check, finish, plan};
use crate::spec::StepKind;
use crate::state::{BuildState, BuildStatus, StepStatus};
use crate::variables::Layer;

/// What a step does when it runs: its results, attempt by attempt; success when the list is over.
type Script = BTreeMap<&'static str, Vec<StepStatus>>;

struct World {
    pipeline: Pipeline,
    state: BuildState,
    script: Script,
    /// Everything the plans did, in order, as short words.
    log: Vec<String>,
}

impl World {
    fn new(text: &str) -> Self {
        let (pipeline, findings) = Pipeline::parse(text);
        let pipeline = pipeline.unwrap_or_else(|| panic!("no pipeline: {findings:#?}"));
        Self { pipeline, state: BuildState::default(), script: Script::new(), log: Vec::new() }
    }

    fn with(mut self, step: &'static str, results: &[StepStatus]) -> Self {
        self.script.insert(step, results.to_vec());
        self
    }

    /// Plans, checks the plan, survives a restart, and takes up every action.
    fn step(&mut self) -> crate::plan::Plan {
        let made = plan(&self.pipeline, &self.state);
        assert_eq!(check(&self.pipeline, &self.state, &made), Vec::<String>::new(), "{:#?}", self.log);
        let text = serde_json::to_string(&self.state).expect("state serialises");
        let reloaded: BuildState = serde_json::from_str(&text).expect("state reads back");
        assert_eq!(plan(&self.pipeline, &reloaded), made, "the same state gives the same plan");
        for action in &made.actions {
            apply(&mut self.state, action).expect("a planned action fits the state");
            self.log.push(match action {
                Action::Start { step, attempt: 1, .. } => format!("start {step}"),
                Action::Start { step, attempt, .. } => format!("start {step} #{attempt}"),
                Action::RunHook { step, .. } => format!("hook {step}"),
                Action::Skip { step, .. } => format!("skip {step}"),
                Action::Cancel { step, reason: CancelReason::Timeout } => format!("timeout {step}"),
                Action::Cancel { step, .. } => format!("cancel {step}"),
                Action::AwaitApproval { step, .. } => format!("ask {step}"),
                Action::Settle { step, status, .. } => format!("settle {step} {}", status.as_str()),
            });
        }
        made
    }

    /// Ends one active step as its script says.
    fn end(&mut self, id: &str) {
        let observed = self.state.step(id);
        let results = self.script.get(id).cloned().unwrap_or_default();
        let status = match observed.status {
            StepStatus::Terminating => StepStatus::Terminated,
            StepStatus::PendingApproval => *results.first().unwrap_or(&StepStatus::Approved),
            _ => *results.get(observed.attempt as usize - 1).unwrap_or(&StepStatus::Success),
        };
        finish(&self.pipeline, &mut self.state, id, observed.attempt, Outcome::new(status))
            .expect("an active step can end");
    }

    fn active(&self) -> Vec<String> {
        let active = self.state.steps.iter().filter(|(_, observed)| observed.status.is_active());
        active.map(|(id, _)| id.clone()).collect()
    }

    /// Runs to the end; time only moves when the plan asks to be woken.
    fn run(&mut self) -> (BuildStatus, String) {
        for _ in 0..1_000 {
            let made = self.step();
            if let Some(finished) = made.finished {
                return (finished.status, finished.reason);
            }
            if !made.actions.is_empty() {
                continue;
            }
            match self.active().first() {
                Some(id) => self.end(&id.clone()),
                None => self.state.now_ms = made.wake_at_ms.expect("something to wait for"),
            }
        }
        panic!("the build does not end: {:#?}", self.log);
    }
}

#[track_caller]
fn expect(mut world: World, status: BuildStatus, log: &[&str]) {
    let (ended, reason) = world.run();
    assert_eq!(world.log, log, "{reason}");
    assert_eq!(ended, status, "{reason}");
}

use StepStatus::{Denied, Failure, Success};

#[test]
fn steps_run_in_the_order_of_the_file() {
    let world = World::new("version: '1.0'\nsteps:\n  zeta: {image: a}\n  alpha: {image: a}\n");
    expect(world, BuildStatus::Success, &["start zeta", "start alpha"]);
}

#[test]
fn a_failing_step_stops_the_build() {
    let world =
        World::new("version: '1.0'\nsteps:\n  a: {image: x}\n  b: {image: x}\n").with("a", &[Failure]);
    expect(world, BuildStatus::Error, &["start a", "skip b"]);
}

#[test]
fn fail_fast_false_lets_the_build_go_on_and_strict_counts_it() {
    let text = "version: '1.0'\nsteps:\n  a: {image: x, fail_fast: false}\n  b: {image: x}\n";
    expect(World::new(text).with("a", &[Failure]), BuildStatus::Success, &["start a", "start b"]);
    let strict = format!("{text}strict_fail_fast: true\n");
    expect(World::new(&strict).with("a", &[Failure]), BuildStatus::Error, &["start a", "start b"]);
}

#[test]
fn root_fail_fast_false_runs_cleanup_on_failure_only() {
    let text = "version: '1.0'\nfail_fast: false\nsteps:\n  a: {image: x}\n  clean:\n    image: x\n    when:\n      \
                condition: {all: {failed: \"workflow.result == 'failure'\"}}\n";
    expect(World::new(text).with("a", &[Failure]), BuildStatus::Success, &["start a", "start clean"]);
    expect(World::new(text), BuildStatus::Success, &["start a", "skip clean"]);
}

#[test]
fn retries_wait_longer_each_time_and_then_give_up() {
    let text = "version: '1.0'\nsteps:\n  a:\n    image: x\n    retry: {maxAttempts: 3, delay: 5, exponentialFactor: 2}\n";
    let mut world = World::new(text).with("a", &[Failure, Failure, Success]);
    assert_eq!(world.run().0, BuildStatus::Success);
    assert_eq!(world.log, ["start a", "start a #2", "start a #3"]);
    assert_eq!(world.state.now_ms, 30_000);
    let world = World::new(text).with("a", &[Failure, Failure, Failure]);
    expect(world, BuildStatus::Error, &["start a", "start a #2", "start a #3"]);
}

#[test]
fn a_step_past_its_timeout_is_cancelled_and_fails() {
    let mut world = World::new("version: '1.0'\nsteps:\n  a: {image: x, timeout: 30s}\n  b: {image: x}\n");
    let made = world.step();
    assert_eq!(made.wake_at_ms, Some(30_000));
    world.state.now_ms = 29_999;
    assert!(world.step().actions.is_empty());
    world.state.now_ms = 30_000;
    world.step();
    world.end("a");
    assert_eq!(world.state.step("a").reason.as_deref(), Some("it ran longer than its timeout"));
    assert_eq!(world.run().0, BuildStatus::Error);
    assert_eq!(world.log, ["start a", "timeout a", "skip b"]);
}

#[test]
fn children_of_a_block_run_together_and_inherit_its_timeout() {
    let text = "version: '1.0'\nsteps:\n  p:\n    type: parallel\n    timeout: 1m\n    steps:\n      a: {image: x}\n      \
                b: {image: x, timeout: 2m}\n  c: {image: x}\n";
    let mut world = World::new(text);
    world.step();
    assert_eq!(world.log, ["start a", "start b"]);
    assert_eq!(world.state.step("a").deadline_ms, Some(60_000));
    assert_eq!(world.state.step("b").deadline_ms, Some(120_000));
    expect(world, BuildStatus::Success, &["start a", "start b", "start c"]);
}

#[test]
fn success_criteria_decide_for_a_block() {
    let text = "version: '1.0'\nsteps:\n  p:\n    type: parallel\n    success_criteria: {steps: {ignore: [b]}}\n    \
                steps:\n      a: {image: x}\n      b: {image: x}\n  c: {image: x}\n";
    expect(World::new(text).with("b", &[Failure]), BuildStatus::Success, &["start a", "start b", "start c"]);
    expect(World::new(text).with("a", &[Failure]), BuildStatus::Error, &["start a", "start b", "skip c"]);
}

#[test]
fn parallel_mode_follows_dependencies_not_order() {
    let text = "version: '1.0'\nmode: parallel\nsteps:\n  last:\n    image: x\n    when: {steps: [{name: left}, {name: right, on: [finished]}]}\n  \
                left: {image: x, when: {steps: [{name: first}]}}\n  right: {image: x, fail_fast: false, when: {steps: [{name: first}]}}\n  \
                first: {image: x}\n  rescue: {image: x, when: {steps: [{name: left, on: [failure]}]}}\n";
    let log = ["start first", "start left", "start right", "skip rescue", "start last"];
    expect(World::new(text).with("right", &[Failure]), BuildStatus::Success, &log);
}

#[test]
fn parallel_mode_gives_workflow_result_at_the_end() {
    let text = "version: '1.0'\nmode: parallel\nfail_fast: false\nsteps:\n  mail:\n    image: x\n    when: {condition: {any: {ok: \"workflow.result == 'success'\"}}}\n  \
                clean:\n    image: x\n    when: {condition: {any: {bad: \"workflow.result == 'failure'\"}}}\n  work: {image: x}\n";
    expect(World::new(text), BuildStatus::Success, &["start work", "start mail", "skip clean"]);
    let failed = World::new(text).with("work", &[Failure]);
    expect(failed, BuildStatus::Success, &["start work", "start clean", "skip mail"]);
}

#[test]
fn branches_match_by_name_or_expression() {
    let text = "version: '1.0'\nsteps:\n  a: {image: x, when: {branch: {only: [main, /^FB-/i]}}}\n  b: {image: x, when: {branch: {ignore: [main]}}}\n";
    for (branch, log) in
        [("main", ["start a", "skip b"]), ("fb-1", ["start a", "start b"]), ("x", ["skip a", "start b"])]
    {
        let mut world = World::new(text);
        world.state.branch.branch = Some(branch.to_owned());
        expect(world, BuildStatus::Success, &log);
    }
}

#[test]
fn conditions_see_variables_and_missing_ones_stay_literal() {
    let text = "version: '1.0'\nsteps:\n  there: {image: x, when: {condition: {all: {c: 'includes(\"${{X}}\", \"{{X}}\") == false'}}}}\n  \
                missing: {image: x, when: {condition: {all: {c: 'includes(\"${{X}}\", \"{{X}}\") == true'}}}}\n";
    expect(World::new(text), BuildStatus::Success, &["skip there", "start missing"]);
    let mut world = World::new(text);
    world.state.variables.set(Layer::Pipeline, "X", "1");
    expect(world, BuildStatus::Success, &["start there", "skip missing"]);
}

#[test]
fn approvals_wait_and_a_denial_fails() {
    let text = "version: '1.0'\nsteps:\n  ask: {type: pending-approval}\n  deploy: {image: x}\n";
    expect(World::new(text), BuildStatus::Success, &["ask ask", "start deploy"]);
    expect(World::new(text).with("ask", &[Denied]), BuildStatus::Denied, &["ask ask", "skip deploy"]);
}

#[test]
fn an_approval_nobody_answers_becomes_what_the_file_says() {
    for (state, status, log) in [
        ("approved", BuildStatus::Success, ["ask ask", "settle ask approved", "start deploy"]),
        ("denied", BuildStatus::Denied, ["ask ask", "settle ask denied", "skip deploy"]),
        ("terminated", BuildStatus::Terminated, ["ask ask", "settle ask terminated", "skip deploy"]),
    ] {
        let text = format!(
            "version: '1.0'\nsteps:\n  ask:\n    type: pending-approval\n    timeout: {{duration: 2, timeUnit: minutes, finalState: {state}}}\n  deploy: {{image: x}}\n"
        );
        let mut world = World::new(&text);
        assert_eq!(world.step().wake_at_ms, Some(120_000));
        world.state.now_ms = 120_000;
        let (ended, _) = world.run();
        assert_eq!((ended, world.log.iter().map(String::as_str).collect::<Vec<_>>()), (status, log.to_vec()));
    }
}

#[test]
fn hooks_surround_steps_and_the_pipeline() {
    let text = "version: '1.0'\nhooks:\n  on_elected: [echo start]\n  on_fail: [echo failed]\n  on_finish: {exec: {image: x}}\nsteps:\n  a:\n    image: x\n    hooks:\n      \
                on_elected: {steps: {one: {image: x}, two: {image: x}}}\n      on_success: {exec: [echo ok], annotations: {set: []}}\n      on_finish: [echo bye]\n";
    let log = [
        "hook hooks.on_elected.exec",
        "hook a.hooks.on_elected.one",
        "hook a.hooks.on_elected.two",
        "start a",
        "hook a.hooks.on_success.exec",
        "hook a.hooks.on_success.annotate",
        "hook a.hooks.on_finish.exec",
        "hook hooks.on_finish.exec",
    ];
    expect(World::new(text), BuildStatus::Success, &log);
    let failed = World::new(text).with("a", &[Failure]);
    let log =
        [&log[..4], &["hook a.hooks.on_finish.exec", "hook hooks.on_fail.exec", "hook hooks.on_finish.exec"]];
    expect(failed, BuildStatus::Error, &log.concat());
}

#[test]
fn a_hook_step_may_be_called_like_the_annotations_beside_it() {
    let text = "version: '1.0'\nsteps: {}\nhooks:\n  on_finish: {exec: {steps: {annotate: {image: x}}}, annotations: {set: []}}\n";
    let log = ["hook hooks.on_finish.annotate", "hook hooks.on_finish.annotate#"];
    expect(World::new(text), BuildStatus::Success, &log);
}

#[test]
fn a_failing_on_elected_hook_fails_what_it_belongs_to_and_later_hooks_do_not() {
    let pipeline = "version: '1.0'\nhooks: {on_elected: [x], on_finish: [y]}\nsteps: {a: {image: x}}\n";
    let world = World::new(pipeline).with("hooks.on_elected.exec", &[Failure]);
    expect(world, BuildStatus::Error, &["hook hooks.on_elected.exec", "skip a", "hook hooks.on_finish.exec"]);
    let world = World::new(pipeline).with("hooks.on_finish.exec", &[Failure]);
    expect(
        world,
        BuildStatus::Success,
        &["hook hooks.on_elected.exec", "start a", "hook hooks.on_finish.exec"],
    );
    let step = "version: '1.0'\nsteps: {a: {image: x, hooks: {on_elected: [x]}}, b: {image: x}}\n";
    let world = World::new(step).with("a.hooks.on_elected.exec", &[Failure]);
    expect(world, BuildStatus::Error, &["hook a.hooks.on_elected.exec", "settle a failure", "skip b"]);
    let tolerant = step.replace("on_elected: [x]", "on_elected: {exec: {image: x, fail_fast: false}}");
    let world = World::new(&tolerant).with("a.hooks.on_elected.exec", &[Failure]);
    expect(world, BuildStatus::Success, &["hook a.hooks.on_elected.exec", "start a", "start b"]);
}

#[test]
fn terminating_cancels_what_runs_and_starts_only_what_asks_for_it() {
    let text = "version: '1.0'\nhooks: {on_finish: [x]}\nsteps:\n  p:\n    type: parallel\n    steps:\n      work: {image: x}\n      \
                clean: {image: x, when: {condition: {any: {t: \"workflow.result == 'terminated'\"}}}}\n  next: {image: x}\n";
    let mut world = World::new(text);
    world.step();
    assert_eq!(world.log, ["start work"]);
    world.state.terminate_requested = true;
    let log = ["start work", "cancel work", "settle next terminated", "start clean"];
    expect(world, BuildStatus::Terminated, &log);
}

#[test]
fn a_late_answer_of_an_old_attempt_changes_nothing() {
    let text = "version: '1.0'\nsteps:\n  a: {image: x, retry: {maxAttempts: 2}}\n";
    let mut world = World::new(text).with("a", &[Failure]);
    world.step();
    world.end("a");
    world.state.now_ms += 5_000;
    world.step();
    let before = world.state.clone();
    let late = finish(&world.pipeline, &mut world.state, "a", 1, Outcome::new(Success));
    assert!(late.is_err_and(|error| error.to_string().contains("attempt 2 is the current one")));
    assert_eq!(world.state, before);
}

#[test]
fn exports_reach_later_steps_and_reserved_names_are_refused() {
    let text = "version: '1.0'\nsteps:\n  a: {image: x}\n  b: {image: 'x:${{TAG}}', environment: ['TAG=own', 'FULL=${{TAG}}-z']}\n";
    let mut world = World::new(text);
    world.step();
    let mut outcome = Outcome::new(Success);
    for (name, value) in [("TAG", "1.2"), ("LD_PRELOAD", "evil.so"), ("CF_BUILD_ID", "0")] {
        outcome.exports.push(super::Export { name: name.to_owned(), value: value.to_owned(), mask: false });
    }
    let recorded = finish(&world.pipeline, &mut world.state, "a", 1, outcome).expect("recorded");
    assert_eq!(recorded.refused.len(), 2);
    let made = world.step();
    let Some(Action::Start { spec, .. }) = made.actions.first() else { panic!("b starts: {made:?}") };
    let StepKind::Freestyle(freestyle) = &spec.kind else { panic!("a freestyle step") };
    assert_eq!(freestyle.image, "x:1.2");
    assert_eq!(freestyle.environment.get("TAG").map(String::as_str), Some("own"));
    assert_eq!(freestyle.environment.get("FULL").map(String::as_str), Some("1.2-z"));
    assert!(!freestyle.environment.contains_key("LD_PRELOAD"));
}

#[test]
fn chosen_and_left_out_steps() {
    let text = "version: '1.0'\nsteps:\n  a: {image: x}\n  p: {type: parallel, steps: {b: {image: x}, c: {image: x}}}\n";
    let mut world = World::new(text);
    world.state.only_steps.insert("p".to_owned());
    expect(world, BuildStatus::Success, &["skip a", "start b", "start c"]);
    let mut world = World::new(text);
    world.state.skip_steps.insert("b".to_owned());
    expect(world, BuildStatus::Success, &["start a", "skip b", "start c"]);
}

#[test]
fn scale_and_matrix_become_blocks() {
    let text = "version: '1.0'\nsteps:\n  s:\n    image: x\n    environment: [A=1]\n    scale:\n      one: {environment: [B=1]}\n      two: {image: y}\n  \
                m:\n    commands: [go]\n    matrix: {image: [a, b], environment: [[C=1], [C=0]]}\n";
    let mut world = World::new(text);
    let made = world.step();
    let Some(Action::Start { spec, .. }) = made.actions.first() else { panic!("{made:?}") };
    let StepKind::Freestyle(freestyle) = &spec.kind else { panic!("a freestyle step") };
    assert_eq!(
        (freestyle.environment.contains_key("A"), freestyle.environment.contains_key("B")),
        (true, true)
    );
    let log = ["start one", "start two", "start m_1", "start m_2", "start m_3", "start m_4"];
    expect(world, BuildStatus::Success, &log);
}
