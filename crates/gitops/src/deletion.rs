//! Deleting an application: hooks before, what it deployed, hooks after.
//!
//! Comes in: the application (its finalizers say which stages are left), what it tracks, and the rendered delete hooks.
//! Goes out: steps that may run now, what is waited for, and the finalizer that may go when a stage is over. The
//! finalizers are the memory: a stage whose finalizer is gone is never entered again.

use crate::cluster::Settings;
use crate::health::{self, HealthCode};
use crate::hooks::{self, DeletePolicy, HookType, SyncPhase};
use crate::object::{self, Manifest, ResourceKey};
use crate::options::{Deletion, Propagation, SyncOptions};
use crate::sync::{Action, ApplyHow, HookDeletion, PlannedStep, Waiting, WaitingOn};
use crate::tracking;
use jiff::Timestamp;
use serde_json::Value;
use slipway_crd::{Application, names};
use std::collections::BTreeMap;

/// What a deletion is planned from.
#[derive(Debug, Clone, Copy)]
pub struct DeletionInput<'a> {
    pub application: &'a Application,
    /// Live objects that this application tracks, hooks among them.
    pub live: &'a [Value],
    /// Rendered manifests; only PreDelete and PostDelete hooks are looked at. May be empty if none can be rendered.
    pub manifests: &'a [Value],
    pub settings: &'a Settings,
}

/// What is to be done next.
#[derive(Debug, Clone, Default)]
pub struct DeletionPlan {
    /// May run now, in order; steps of one batch at once.
    pub steps: Vec<PlannedStep>,
    pub waiting: Vec<Waiting>,
    /// The stage is over: take this finalizer off the Application and plan again.
    pub remove_finalizer: Option<String>,
    /// No finalizer of ours is left.
    pub done: bool,
    /// Why it cannot go on, for a DeletionError.
    pub error: Option<String>,
}

/// Plans the next part of a deletion.
pub fn plan_deletion(input: DeletionInput<'_>) -> DeletionPlan {
    let planner = Planner::new(input);
    let finalizers = &input.application.metadata.finalizers;
    let has = |name: &str| finalizers.iter().any(|f| f == name);
    let cleanup = |name: &str| format!("{name}/cleanup");
    if has(names::PRE_DELETE_FINALIZER) {
        return planner.hooks(HookType::PreDelete, names::PRE_DELETE_FINALIZER);
    }
    if has(&cleanup(names::PRE_DELETE_FINALIZER)) {
        return planner.clean_up(HookType::PreDelete, &cleanup(names::PRE_DELETE_FINALIZER));
    }
    if let Some(finalizer) = finalizers.iter().find(|f| is_resources_finalizer(f)) {
        return planner.cascade(finalizer);
    }
    if has(names::POST_DELETE_FINALIZER) {
        return planner.hooks(HookType::PostDelete, names::POST_DELETE_FINALIZER);
    }
    if has(&cleanup(names::POST_DELETE_FINALIZER)) {
        return planner.clean_up(HookType::PostDelete, &cleanup(names::POST_DELETE_FINALIZER));
    }
    DeletionPlan { done: true, ..DeletionPlan::default() }
}

fn is_resources_finalizer(finalizer: &str) -> bool {
    finalizer == names::RESOURCES_FINALIZER
        || finalizer.strip_prefix(names::RESOURCES_FINALIZER).is_some_and(|rest| rest.starts_with('/'))
}

struct Planner<'a> {
    input: DeletionInput<'a>,
    instance: String,
    options: SyncOptions,
}

impl<'a> Planner<'a> {
    fn new(input: DeletionInput<'a>) -> Self {
        Self {
            input,
            instance: input.application.instance_name(&input.settings.control_plane_namespace),
            options: SyncOptions::new(input.application.spec.sync_options()),
        }
    }

    fn deleted_at(&self) -> &str {
        self.input.application.metadata.deletion_timestamp.as_deref().unwrap_or_default()
    }

    fn mark(&self, stage: HookType) -> String {
        let stage = if stage == HookType::PreDelete { "PreDelete" } else { "PostDelete" };
        format!("{}#delete/{stage}", self.deleted_at())
    }

    /// The hooks of a stage as they are made.
    fn wanted(&self, stage: HookType) -> Vec<Value> {
        let destination = &self.input.application.spec.destination.namespace;
        let mut wanted: Vec<Value> = Vec::new();
        for manifest in self.input.manifests.iter().filter(|m| hooks::types(m).contains(&stage)) {
            let mut hook = manifest.clone();
            let is_cluster_scoped =
                matches!(object::kind(&hook), "ClusterRole" | "ClusterRoleBinding" | "Namespace");
            if object::namespace(&hook).is_empty()
                && !is_cluster_scoped
                && let Some(meta) = object::metadata_mut(&mut hook)
            {
                meta.insert("namespace".into(), destination.as_str().into());
            }
            tracking::set_tracking(&mut hook, &self.instance, self.input.settings);
            object::set_annotation(&mut hook, names::HOOK_OPERATION, &self.mark(stage));
            if let Some(meta) = object::metadata_mut(&mut hook) {
                meta.insert("finalizers".into(), Value::Array(vec![names::HOOK_FINALIZER.into()]));
            }
            wanted.push(hook);
        }
        wanted.sort_by_key(|hook| (hooks::wave(hook), ResourceKey::of(hook)));
        wanted
    }

    fn live(&self, key: &ResourceKey) -> Option<&'a Value> {
        self.input.live.iter().find(|o| ResourceKey::of(o) == *key)
    }

    fn hooks(&self, stage: HookType, finalizer: &str) -> DeletionPlan {
        let mut plan = DeletionPlan::default();
        let mut current_wave = None;
        for hook in self.wanted(stage) {
            let wave = hooks::wave(&hook);
            if current_wave.is_some_and(|current| current != wave) && !plan.is_idle() {
                break;
            }
            current_wave = Some(wave);
            self.hook(stage, hook, &mut plan);
        }
        if plan.is_idle() {
            plan.remove_finalizer = Some(finalizer.to_string());
        }
        plan
    }

    fn hook(&self, stage: HookType, hook: Value, plan: &mut DeletionPlan) {
        let key = ResourceKey::of(&hook);
        let Some(live) = self.live(&key) else {
            let object = Manifest::new(hook);
            let action = Action::RunHook { object, how: ApplyHow::ClientSide, force: false, validate: true };
            plan.steps.push(self.step(&key, action, "delete hook"));
            return;
        };
        if object::annotation(live, names::HOOK_OPERATION) != Some(&self.mark(stage)) {
            let action = Action::DeleteHook {
                key: key.clone(),
                uid: object::uid(live).into(),
                why: HookDeletion::BeforeHookCreation,
            };
            plan.steps.push(self.step(&key, action, "an earlier run of this hook is in the way"));
            return;
        }
        match health::assess(live).map(|h| (h.status, h.message)) {
            None | Some((HealthCode::Healthy, _)) => {}
            Some((HealthCode::Degraded | HealthCode::Unknown, message)) => {
                plan.error = Some(format!("delete hook {} failed: {message}", key.short()));
            }
            Some(_) => plan.waiting.push(Waiting {
                sentence: format!("waiting for completion of hook {}", key.short()),
                on: WaitingOn::Hook(vec![key]),
            }),
        }
    }

    /// Hooks that are to go are deleted, the others only released.
    fn clean_up(&self, stage: HookType, finalizer: &str) -> DeletionPlan {
        let mut plan = DeletionPlan::default();
        let mark = self.mark(stage);
        for live in
            self.input.live.iter().filter(|o| object::annotation(o, names::HOOK_OPERATION) == Some(&mark))
        {
            let (key, uid) = (ResourceKey::of(live), object::uid(live).to_string());
            let keeps = hooks::delete_policies(live) == [DeletePolicy::HookFailed];
            let is_gone =
                object::is_being_deleted(live) && !object::has_finalizer(live, names::HOOK_FINALIZER);
            if !keeps && !is_gone {
                let action = Action::DeleteHook { key: key.clone(), uid, why: HookDeletion::HookSucceeded };
                plan.steps.push(self.step(&key, action, "its application goes"));
            } else if object::has_finalizer(live, names::HOOK_FINALIZER) {
                plan.steps.push(self.step(
                    &key,
                    Action::ReleaseHook { key: key.clone(), uid },
                    "its application goes",
                ));
            }
        }
        if plan.is_idle() {
            plan.remove_finalizer = Some(finalizer.to_string());
        }
        plan
    }

    /// What the application deployed goes, the highest wave first, each wave after the other.
    fn cascade(&self, finalizer: &str) -> DeletionPlan {
        let propagation = match finalizer.rsplit_once('/') {
            Some((_, "background")) => Propagation::Background,
            _ => Propagation::Foreground,
        };
        let mut waves: BTreeMap<i64, Vec<&Value>> = BTreeMap::new();
        for live in self.input.live.iter().filter(|o| self.goes(o)) {
            waves.entry(hooks::wave(live)).or_default().push(live);
        }
        let mut plan = DeletionPlan::default();
        let Some((_, objects)) = waves.pop_last() else {
            plan.remove_finalizer = Some(finalizer.to_string());
            return plan;
        };
        let (mut leaving, mut unconfirmed) = (Vec::new(), Vec::new());
        for live in objects {
            let key = ResourceKey::of(live);
            if object::has_finalizer(live, names::HOOK_FINALIZER) {
                // A hook of a sync that was cut short: nobody else would take our finalizer off.
                let uid = object::uid(live).to_string();
                let action = Action::DeleteHook { key: key.clone(), uid, why: HookDeletion::Terminated };
                plan.steps.push(self.step(&key, action, "its application goes"));
            } else if object::is_being_deleted(live) {
                leaving.push(key);
            } else if self.options.delete_of(live) == Deletion::Confirm && !self.is_confirmed() {
                unconfirmed.push(key);
            } else {
                let action = Action::Prune {
                    key: key.clone(),
                    uid: object::uid(live).into(),
                    propagation,
                    own_wave: hooks::wave(live),
                };
                plan.steps.push(self.step(&key, action, "its application goes"));
            }
        }
        let mut wait = |keys: Vec<ResourceKey>, what: &str, on: fn(Vec<ResourceKey>) -> WaitingOn| {
            if let Some(first) = keys.first() {
                let more = if keys.len() > 1 {
                    format!(" and {} more resources", keys.len() - 1)
                } else {
                    String::new()
                };
                let sentence = format!("waiting for {what} of {}{more}", first.short());
                plan.waiting.push(Waiting { sentence, on: on(keys) });
            }
        };
        wait(leaving, "deletion", WaitingOn::Deletion);
        wait(unconfirmed, "deletion confirmation", WaitingOn::Confirmation);
        plan
    }

    /// Only what names this application as its owner goes, and never a definition, the application itself or a hook.
    fn goes(&self, live: &Value) -> bool {
        let own = object::group(live) == names::GROUP
            && object::kind(live) == "Application"
            && object::uid(live) == self.input.application.metadata.uid;
        let is_delete_hook =
            hooks::types(live).iter().any(|t| matches!(t, HookType::PreDelete | HookType::PostDelete));
        tracking::is_owned(live, &self.instance, self.input.settings)
            && !object::has_owner(live)
            && !object::is_crd(live)
            && !own
            && !is_delete_hook
            && self.options.delete_of(live) != Deletion::Never
    }

    fn is_confirmed(&self) -> bool {
        let approved = self.input.application.metadata.annotation(names::DELETION_APPROVED);
        let read = |text: &str| text.parse::<Timestamp>().ok();
        match (approved.and_then(read), read(self.deleted_at())) {
            (Some(approved), Some(deleted)) => approved >= deleted,
            _ => false,
        }
    }

    fn step(&self, key: &ResourceKey, action: Action, why: &str) -> PlannedStep {
        PlannedStep {
            phase: SyncPhase::Sync,
            wave: 0,
            batch: 0,
            key: key.clone(),
            version: String::new(),
            action,
            why: why.into(),
        }
    }
}

impl DeletionPlan {
    fn is_idle(&self) -> bool {
        self.steps.is_empty() && self.waiting.is_empty() && self.error.is_none()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn application(finalizers: &[&str], options: &[&str]) -> Application {
        serde_json::from_value(json!({
            "metadata": {"name": "shop", "namespace": "argocd", "uid": "app", "finalizers": finalizers, "deletionTimestamp": "2026-01-01T00:00:00Z"},
            "spec": {"destination": {"name": "one", "namespace": "web"}, "syncPolicy": {"syncOptions": options}},
        }))
        .expect("readable")
    }

    fn tracked(name: &str, annotations: &[(&str, &str)]) -> Value {
        let mut object = json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": name, "namespace": "web", "uid": name}});
        for (key, value) in annotations {
            object::set_annotation(&mut object, key, value);
        }
        tracking::set_tracking(&mut object, "shop", &Settings::default());
        object
    }

    fn plan(application: &Application, live: &[Value], manifests: &[Value]) -> DeletionPlan {
        plan_deletion(DeletionInput { application, live, manifests, settings: &Settings::default() })
    }

    fn names_of(plan: &DeletionPlan) -> Vec<&str> {
        plan.steps.iter().map(|s| s.key.name.as_str()).collect()
    }

    #[test]
    fn without_a_finalizer_everything_stays() {
        assert!(plan(&application(&[], &[]), &[tracked("a", &[])], &[]).done);
    }

    #[test]
    fn waves_go_from_the_highest_and_wait_for_each_other() {
        let app = application(&[names::RESOURCES_FINALIZER], &[]);
        let mut live = vec![
            tracked("first", &[]),
            tracked("last", &[(names::SYNC_WAVE, "2")]),
            tracked("kept", &[(names::SYNC_OPTIONS, "Delete=false")]),
        ];
        live.push(json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "foreign", "namespace": "web", "uid": "x"}}));
        assert_eq!(names_of(&plan(&app, &live, &[])), ["last"]);
        live[1]["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:01Z");
        let waiting = plan(&app, &live, &[]);
        assert!(waiting.steps.is_empty());
        assert_eq!(waiting.waiting[0].sentence, "waiting for deletion of /ConfigMap/last");
        live.remove(1);
        assert_eq!(names_of(&plan(&app, &live, &[])), ["first"]);
        live.remove(0);
        assert_eq!(plan(&app, &live, &[]).remove_finalizer.as_deref(), Some(names::RESOURCES_FINALIZER));
    }

    #[test]
    fn a_hook_that_a_sync_left_behind_is_let_go() {
        let app = application(&[names::RESOURCES_FINALIZER], &[]);
        let mut hook = tracked("h", &[(names::HOOK, "PreSync")]);
        hook["metadata"]["finalizers"] = json!([names::HOOK_FINALIZER]);
        hook["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        assert!(matches!(plan(&app, &[hook], &[]).steps[0].action, Action::DeleteHook { .. }));
    }

    #[test]
    fn confirmation_and_propagation_are_honoured() {
        let mut app =
            application(&["resources-finalizer.argocd.argoproj.io/background"], &["Delete=confirm"]);
        let live = [tracked("a", &[])];
        let waiting = plan(&app, &live, &[]);
        assert!(matches!(waiting.waiting[0].on, WaitingOn::Confirmation(_)));
        app.metadata.annotations.insert(names::DELETION_APPROVED.into(), "2026-01-01T00:00:00Z".into());
        let confirmed = plan(&app, &live, &[]);
        assert!(matches!(
            confirmed.steps[0].action,
            Action::Prune { propagation: Propagation::Background, .. }
        ));
    }

    #[test]
    fn delete_hooks_run_once_before_anything_goes() {
        let app = application(&[names::PRE_DELETE_FINALIZER, names::RESOURCES_FINALIZER], &[]);
        let mut manifest = json!({"apiVersion": "batch/v1", "kind": "Job", "metadata": {"name": "backup"}});
        object::set_annotation(&mut manifest, names::HOOK, "PreDelete");
        let first = plan(&app, &[tracked("a", &[])], std::slice::from_ref(&manifest));
        let Action::RunHook { object: made, .. } = &first.steps[0].action else { panic!("no hook") };
        let mut live = made.to_value();
        assert_eq!(plan(&app, std::slice::from_ref(&live), std::slice::from_ref(&manifest)).waiting.len(), 1);
        live["status"] =
            json!({"conditions": [{"type": "Failed", "status": "True", "message": "disk full"}]});
        assert_eq!(
            plan(&app, std::slice::from_ref(&live), std::slice::from_ref(&manifest)).error.as_deref(),
            Some("delete hook batch/Job/backup failed: disk full")
        );
        live["status"] = json!({"conditions": [{"type": "Complete", "status": "True"}]});
        assert_eq!(
            plan(&app, &[live.clone()], &[manifest]).remove_finalizer.as_deref(),
            Some(names::PRE_DELETE_FINALIZER)
        );
        let after = application(&["pre-delete-finalizer.argocd.argoproj.io/cleanup"], &[]);
        assert!(matches!(plan(&after, &[live], &[]).steps[0].action, Action::DeleteHook { .. }));
    }
}
