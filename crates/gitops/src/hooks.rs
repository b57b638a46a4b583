//! Hooks and waves: what the annotations of an object make of it. Argo's own annotations win over Helm's.

use crate::object;
use serde_json::Value;
use slipway_crd::names;

/// The phases of a sync, in the order they run; SyncFail only after a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum SyncPhase {
    PreSync,
    Sync,
    PostSync,
    SyncFail,
}

impl SyncPhase {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::PreSync => "PreSync",
            Self::Sync => "Sync",
            Self::PostSync => "PostSync",
            Self::SyncFail => "SyncFail",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::PreSync, Self::Sync, Self::PostSync, Self::SyncFail].into_iter().find(|p| p.as_str() == text)
    }
}

/// What a hook annotation may name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum HookType {
    Phase(SyncPhase),
    Skip,
    PreDelete,
    PostDelete,
}

/// When a hook is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum DeletePolicy {
    HookSucceeded,
    HookFailed,
    BeforeHookCreation,
}

/// The hook types of an object. Empty for plain objects and for hooks of a kind that nobody runs here.
pub fn types(object: &Value) -> Vec<HookType> {
    let argo: Vec<_> = object::annotation_parts(object, names::HOOK).filter_map(parse_argo).collect();
    if !argo.is_empty() { argo } else { helm_types(object).collect() }
}

fn parse_argo(text: &str) -> Option<HookType> {
    match text {
        "Skip" => Some(HookType::Skip),
        "PreDelete" => Some(HookType::PreDelete),
        "PostDelete" => Some(HookType::PostDelete),
        _ => SyncPhase::parse(text).map(HookType::Phase),
    }
}

fn helm_types(object: &Value) -> impl Iterator<Item = HookType> {
    let mut seen = Vec::new();
    for part in object::annotation_parts(object, names::HELM_HOOK) {
        let one = match part {
            "pre-install" | "pre-upgrade" => HookType::Phase(SyncPhase::PreSync),
            "post-install" | "post-upgrade" => HookType::Phase(SyncPhase::PostSync),
            "pre-delete" => HookType::PreDelete,
            "post-delete" => HookType::PostDelete,
            _ => continue,
        };
        if !seen.contains(&one) {
            seen.push(one);
        }
    }
    seen.into_iter()
}

/// True for an object that is a hook of any sort. `crd-install` is an ordinary resource.
pub fn is_hook(object: &Value) -> bool {
    if object::annotation(object, names::HOOK).is_some() {
        return !is_skipped(object);
    }
    let mut parts = object::annotation_parts(object, names::HELM_HOOK).peekable();
    parts.peek().is_some() && !parts.any(|part| part == "crd-install")
}

/// A hook without any type that we know is left out altogether (Helm's `test`, a misspelt word).
pub fn is_ignored(object: &Value) -> bool {
    is_hook(object) && types(object).is_empty()
}

/// `Skip` counts only when it stands alone: the object is compared but never applied.
pub fn is_skipped(object: &Value) -> bool {
    types(object) == [HookType::Skip]
}

/// The phases that an object runs in: for a plain object Sync, for a hook those it names.
pub fn phases(object: &Value) -> Vec<SyncPhase> {
    if !is_hook(object) {
        return vec![SyncPhase::Sync];
    }
    let mut phases = Vec::new();
    for one in types(object) {
        if let HookType::Phase(phase) = one
            && !phases.contains(&phase)
        {
            phases.push(phase);
        }
    }
    phases
}

/// When this hook is to be deleted; BeforeHookCreation when it does not say.
pub fn delete_policies(object: &Value) -> Vec<DeletePolicy> {
    let mut policies: Vec<_> = object::annotation_parts(object, names::HOOK_DELETE_POLICY)
        .filter_map(|part| match part {
            "HookSucceeded" => Some(DeletePolicy::HookSucceeded),
            "HookFailed" => Some(DeletePolicy::HookFailed),
            "BeforeHookCreation" => Some(DeletePolicy::BeforeHookCreation),
            _ => None,
        })
        .collect();
    policies.extend(object::annotation_parts(object, names::HELM_HOOK_DELETE_POLICY).filter_map(|part| {
        match part {
            "hook-succeeded" => Some(DeletePolicy::HookSucceeded),
            "hook-failed" => Some(DeletePolicy::HookFailed),
            "before-hook-creation" => Some(DeletePolicy::BeforeHookCreation),
            _ => None,
        }
    }));
    if policies.is_empty() {
        policies.push(DeletePolicy::BeforeHookCreation);
    }
    policies.sort();
    policies.dedup();
    policies
}

/// The wave: Argo's annotation, else Helm's weight, else 0. What is not a number is not there.
pub fn wave(object: &Value) -> i64 {
    let number = |name| object::annotation(object, name).and_then(|text| text.trim().parse::<i32>().ok());
    i64::from(number(names::SYNC_WAVE).or_else(|| number(names::HELM_HOOK_WEIGHT)).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn object(annotations: &[(&str, &str)]) -> Value {
        let map: serde_json::Map<_, _> = annotations.iter().map(|(k, v)| (k.to_string(), json!(v))).collect();
        json!({"metadata": {"annotations": map}})
    }

    #[test]
    fn argo_overrides_helm_and_several_phases_are_several() {
        let hook = object(&[(names::HOOK, "PreSync, PostSync"), (names::HELM_HOOK, "pre-delete")]);
        assert_eq!(phases(&hook), [SyncPhase::PreSync, SyncPhase::PostSync]);
        let helm = object(&[(names::HELM_HOOK, "pre-install,pre-upgrade")]);
        assert_eq!(phases(&helm), [SyncPhase::PreSync]);
    }

    #[test]
    fn skip_counts_only_alone() {
        assert!(is_skipped(&object(&[(names::HOOK, "Skip")])));
        assert!(!is_hook(&object(&[(names::HOOK, "Skip")])));
        assert!(!is_skipped(&object(&[(names::HOOK, "Skip,Sync")])));
    }

    #[test]
    fn hooks_without_a_phase_are_left_out() {
        assert!(is_ignored(&object(&[(names::HELM_HOOK, "test")])));
        assert!(is_ignored(&object(&[(names::HOOK, "Presync")])));
        assert!(!is_ignored(&object(&[(names::HELM_HOOK, "crd-install")])));
        assert!(!is_hook(&object(&[(names::HELM_HOOK, "crd-install")])));
    }

    #[test]
    fn waves_fall_back_to_the_helm_weight() {
        assert_eq!(wave(&object(&[(names::SYNC_WAVE, "-5"), (names::HELM_HOOK_WEIGHT, "3")])), -5);
        assert_eq!(wave(&object(&[(names::SYNC_WAVE, "soon"), (names::HELM_HOOK_WEIGHT, "3")])), 3);
        assert_eq!(wave(&object(&[])), 0);
    }

    #[test]
    fn a_hook_is_deleted_before_the_next_unless_it_says_otherwise() {
        assert_eq!(delete_policies(&object(&[])), [DeletePolicy::BeforeHookCreation]);
        let both = object(&[
            (names::HOOK_DELETE_POLICY, "HookSucceeded"),
            (names::HELM_HOOK_DELETE_POLICY, "hook-failed"),
        ]);
        assert_eq!(delete_policies(&both), [DeletePolicy::HookSucceeded, DeletePolicy::HookFailed]);
    }
}
