//! CronWorkflows over days, without a clock: what begins when, once, whoever dies in between.

use jiff::{SignedDuration, Timestamp};
use serde_json::{Value, json};
use slipway_crd::workflow::CronWorkflow;
use slipway_workflow::cron::{Action, Observed, plan};

use crate::sim::yaml;

struct Clock {
    observed: Observed,
    now: Timestamp,
    began: Vec<String>,
}

impl Clock {
    fn new(spec: &str) -> Self {
        let mut spec = yaml(spec);
        spec["workflowSpec"] =
            json!({"entrypoint": "main", "templates": [{"name": "main", "container": {"image": "x"}}]});
        let object = json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "CronWorkflow",
            "metadata": {"name": "c", "namespace": "n", "uid": "u", "creationTimestamp": "2026-03-01T00:00:00Z"}, "spec": spec});
        let cron: CronWorkflow = serde_json::from_value(object).expect("a CronWorkflow");
        let now = "2026-03-01T00:00:00Z".parse().expect("a time");
        Self { observed: Observed { cron, ..Observed::default() }, now, began: Vec::new() }
    }

    /// One reconcile. `dies`: before anything is written down.
    fn look(&mut self, dies: bool) -> Option<Timestamp> {
        let next = plan(&self.observed, self.now);
        for action in &next.actions {
            if let Action::Create(child) = action {
                let name = child["metadata"]["name"].as_str().expect("a name").to_owned();
                if self.observed.children.iter().all(|known| known["metadata"]["name"] != name.as_str()) {
                    self.began.push(
                        child["metadata"]["annotations"]["workflows.argoproj.io/scheduled-time"]
                            .as_str()
                            .expect("a time")
                            .to_owned(),
                    );
                    self.observed.children.push((**child).clone());
                }
            }
        }
        if dies {
            return None;
        }
        let cron = &mut self.observed.cron;
        cron.status = next.status;
        cron.metadata.annotations.extend(next.annotations);
        cron.metadata.labels.extend(next.labels);
        for action in &next.actions {
            match action {
                Action::Create(_) => {}
                Action::Terminate(name) => self.end(name, "Failed"),
                Action::Delete(name) => {
                    self.observed.children.retain(|child| child["metadata"]["name"] != name.as_str())
                }
            }
        }
        next.requeue_at
    }

    fn end(&mut self, name: &str, phase: &str) {
        let now = self.now.to_string();
        let of = |child: &&mut Value| child["metadata"]["name"] == name;
        let child = self.observed.children.iter_mut().find(of).expect("there");
        child["status"] = json!({"phase": phase, "finishedAt": now});
    }

    fn end_all(&mut self, phase: &str) {
        let open = self.observed.children.iter().filter(|child| child["status"].is_null());
        let names: Vec<String> =
            open.filter_map(|child| child["metadata"]["name"].as_str().map(str::to_owned)).collect();
        names.iter().for_each(|name| self.end(name, phase));
    }

    /// Looks whenever it wanted to, and at the end.
    fn until(&mut self, end: &str, phase: &str) {
        let end: Timestamp = end.parse().expect("a time");
        loop {
            let next = self.look(false);
            self.end_all(phase);
            match next {
                Some(at) if at <= end => self.now = at,
                _ => break,
            }
        }
        self.now = end;
        self.look(false);
    }

    fn wait(&mut self, duration: SignedDuration) {
        self.now = self.now.checked_add(duration).expect("a time");
    }
}

#[test]
fn every_moment_has_one_workflow_in_its_time_zone() {
    // Between these days clocks go forward in Berlin and not in Tokyo.
    let mut clock = Clock::new("schedules: ['0 2 * * *']\ntimezone: Europe/Berlin\n");
    clock.now = "2026-03-28T00:00:00Z".parse().expect("a time");
    clock.until("2026-03-30T12:00:00Z", "Succeeded");
    assert_eq!(clock.began, ["2026-03-28T01:00:00Z", "2026-03-29T01:00:00Z", "2026-03-30T00:00:00Z"]);
    let mut clock = Clock::new("schedules: ['CRON_TZ=Asia/Tokyo 0 9 * * *', '0 0 * * *', '@every 36h']\n");
    clock.until("2026-03-03T00:00:00Z", "Succeeded");
    // 9 in Tokyo and 0 in Greenwich are one moment; 36 hours are counted from the last one.
    assert_eq!(clock.began, ["2026-03-02T00:00:00Z", "2026-03-03T00:00:00Z"]);
    assert_eq!(clock.observed.cron.status.succeeded, 2);
}

#[test]
fn whoever_dies_begins_nothing_twice_and_misses_nothing() {
    let mut clock = Clock::new(
        "schedules: ['*/5 * * * *']\nconcurrencyPolicy: Forbid\nsuccessfulJobsHistoryLimit: 100\n",
    );
    for round in 0..60 {
        clock.wait(SignedDuration::from_mins(5));
        // It dies up to three times before it writes down what it did; some of its Workflows have ended by then.
        for _ in 0..round % 4 {
            clock.look(true);
        }
        if round % 3 == 0 {
            clock.end_all("Succeeded");
        }
        clock.look(false);
        clock.end_all("Succeeded");
        clock.look(false);
    }
    assert_eq!(clock.began.len(), 60);
    let mut once = clock.began.clone();
    once.dedup();
    assert_eq!(once, clock.began);
    assert_eq!(
        (clock.observed.cron.status.succeeded, clock.observed.cron.status.failed),
        (60, 0),
        "each is counted once"
    );
}

#[test]
fn what_was_missed_is_made_up_for_if_it_is_not_too_late() {
    for (deadline, away, began) in [
        ("", 8, vec!["2026-03-01T01:00:00Z"]),
        ("", 30, vec![]),
        ("startingDeadlineSeconds: 7200\n", 110, vec!["2026-03-01T02:00:00Z"]),
        ("startingDeadlineSeconds: 60\n", 8, vec![]),
    ] {
        let mut clock = Clock::new(&format!("schedules: ['0 * * * *']\n{deadline}"));
        clock.look(false);
        clock.wait(SignedDuration::from_mins(60 + away));
        clock.look(false);
        assert_eq!(clock.began, began, "{deadline} {away}");
    }
    // What would have been under another schedule, or while it was suspended, is not.
    let mut clock = Clock::new("schedules: ['0 * * * *']\n");
    clock.look(false);
    clock.wait(SignedDuration::from_mins(62));
    clock.observed.cron.spec.schedules = vec!["1 * * * *".into()];
    clock.look(false);
    assert!(clock.began.is_empty(), "{:?}", clock.began);
    clock.observed.cron.spec.suspend = true;
    assert_eq!(clock.look(false), None);
    clock.wait(SignedDuration::from_mins(61));
    clock.observed.cron.spec.suspend = false;
    clock.look(false);
    assert!(clock.began.is_empty(), "{:?}", clock.began);
    clock.until("2026-03-01T03:30:00Z", "Succeeded");
    assert_eq!(clock.began, ["2026-03-01T03:01:00Z"]);
}

#[test]
fn those_that_still_run_are_let_be_waited_for_or_replaced() {
    for (policy, began, active) in [("Allow", 3, 3), ("Forbid", 1, 1), ("Replace", 3, 1)] {
        let mut clock = Clock::new(&format!("schedules: ['0 * * * *']\nconcurrencyPolicy: {policy}\n"));
        for _ in 0..3 {
            clock.wait(SignedDuration::from_hours(1));
            clock.look(false);
            clock.look(false);
        }
        assert_eq!((clock.began.len(), clock.observed.cron.status.active.len()), (began, active), "{policy}");
    }
}

/// Killed after it wrote down what begins, and before it ended what was to be replaced.
#[test]
fn what_is_replaced_ends_whoever_dies() {
    let mut clock = Clock::new("schedules: ['0 * * * *']\nconcurrencyPolicy: Replace\n");
    clock.wait(SignedDuration::from_hours(1));
    clock.look(false);
    clock.wait(SignedDuration::from_hours(1));
    let next = plan(&clock.observed, clock.now);
    let Some(Action::Create(second)) = next.actions.first() else { panic!("{:?}", next.actions) };
    clock.observed.children.push((**second).clone());
    clock.observed.cron.status = next.status;
    clock.observed.cron.metadata.annotations.extend(next.annotations);
    let names: Vec<Value> =
        clock.observed.children.iter().map(|one| one["metadata"]["name"].clone()).collect();
    let next = plan(&clock.observed, clock.now);
    assert_eq!(next.actions, [Action::Terminate(names[0].as_str().expect("a name").into())]);
    clock.observed.children[0]["spec"]["shutdown"] = "Terminate".into();
    assert_eq!(plan(&clock.observed, clock.now).actions, [], "it is told once");
}

#[test]
fn few_of_those_that_ended_are_kept() {
    let mut clock = Clock::new("schedules: ['0 * * * *']\nsuccessfulJobsHistoryLimit: 2\n");
    for hour in 0..8 {
        clock.wait(SignedDuration::from_hours(1));
        clock.look(false);
        clock.end_all(if hour % 2 == 0 { "Succeeded" } else { "Failed" });
        clock.look(false);
    }
    let phases = |phase: &str| {
        clock.observed.children.iter().filter(|child| child["status"]["phase"] == phase).count()
    };
    assert_eq!((phases("Succeeded"), phases("Failed")), (2, 1));
    assert_eq!((clock.observed.cron.status.succeeded, clock.observed.cron.status.failed), (4, 4));
}

#[test]
fn conditions_decide_whether_it_runs_and_when_it_ends_for_good() {
    let mut clock = Clock::new(
        "schedules: ['* * * * *']\nwhen: \"{{= cronworkflow.lastScheduledTime == nil || (now() - cronworkflow.lastScheduledTime).Seconds() > 360 }}\"\n",
    );
    clock.until("2026-03-01T00:20:00Z", "Succeeded");
    assert_eq!(clock.began, ["2026-03-01T00:01:00Z", "2026-03-01T00:08:00Z", "2026-03-01T00:15:00Z"]);
    let mut clock =
        Clock::new("schedules: ['* * * * *']\nstopStrategy: {expression: cronworkflow.failed >= 2}\n");
    clock.until("2026-03-01T01:00:00Z", "Failed");
    assert_eq!(clock.began.len(), 2);
    assert_eq!(clock.observed.cron.status.phase, "Stopped");
    assert_eq!(clock.observed.cron.metadata.labels["cronworkflows.argoproj.io/completed"], "true");
}

#[test]
fn what_cannot_be_read_or_is_refused_is_said() {
    for spec in
        ["schedules: ['61 * * * *']\n", "schedules: []\n", "schedules: ['* * * * *']\ntimezone: Mars/Base\n"]
    {
        let mut clock = Clock::new(spec);
        clock.wait(SignedDuration::from_hours(1));
        assert_eq!(clock.look(false), None);
        assert_eq!(clock.observed.cron.status.conditions[0].r#type, "SpecError", "{spec}");
    }
    let mut clock = Clock::new("schedules: ['0 * * * *']\n");
    clock.wait(SignedDuration::from_hours(1));
    clock.observed.refused = Some("Workflow n/c: no".into());
    clock.look(false);
    assert_eq!(clock.observed.cron.status.conditions[0].message, "Workflow n/c: no");
    clock.observed.refused = None;
    clock.look(false);
    assert!(clock.began.is_empty(), "that moment is over");
    clock.until("2026-03-01T02:00:00Z", "Succeeded");
    assert_eq!(clock.began.len(), 1);
    assert!(clock.observed.cron.status.conditions.is_empty(), "{:?}", clock.observed.cron.status.conditions);
}
