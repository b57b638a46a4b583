//! Is an application to be compared again, and how thoroughly?

use crate::cluster::Settings;
use jiff::{SignedDuration, Timestamp};
use slipway_crd::{Application, names};

/// How much of a comparison is made anew. A higher level includes the lower ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CompareLevel {
    /// Only the tree: a child of a managed object changed.
    Tree,
    /// Against the revision that was compared to before: a managed object changed.
    Recent,
    /// Against the newest revision, which may come from a cache.
    Latest,
    /// Against the newest revision, asked for now.
    LatestForced,
}

/// A refresh that is due.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refresh {
    pub level: CompareLevel,
    /// Manifests are rendered again even if a cache has them.
    pub hard: bool,
    pub why: String,
}

/// What happened since the last comparison, and how often one is due.
#[derive(Debug, Clone, Copy)]
pub struct RefreshInput<'a> {
    pub application: &'a Application,
    pub now: Timestamp,
    /// `timeout.reconciliation` and this application's share of the jitter; zero: never.
    pub soft_timeout_seconds: i64,
    /// `timeout.hard.reconciliation`; zero: never.
    pub hard_timeout_seconds: i64,
    /// The engine itself wants one: an operation ended, a watched object changed.
    pub requested: Option<CompareLevel>,
}

/// The refresh that is due, if one is; the most thorough reason wins.
pub fn refresh_decision(input: RefreshInput<'_>) -> Option<Refresh> {
    let application = input.application;
    let due = |level, hard, why: &str| Some(Refresh { level, hard, why: why.to_string() });
    match application.metadata.annotation(names::REFRESH) {
        Some("hard") => return due(CompareLevel::LatestForced, true, "a hard refresh was asked for"),
        Some(_) => return due(CompareLevel::LatestForced, false, "a refresh was asked for"),
        None => {}
    }
    let (spec, compared) = (&application.spec, &application.status.sync.compared_to);
    let reconciled = application.status.reconciled_at.as_ref().and_then(|t| t.parse::<Timestamp>().ok());
    let Some(reconciled) = reconciled else {
        return due(CompareLevel::LatestForced, false, "it was never compared");
    };
    let source_changed = if spec.has_several_sources() {
        compared.sources != spec.sources
    } else {
        compared.source.as_ref() != spec.effective_sources().first()
    };
    if source_changed {
        return due(CompareLevel::LatestForced, false, "its source changed");
    }
    if compared.destination != spec.destination || compared.ignore_differences != spec.ignore_differences {
        return due(CompareLevel::Latest, false, "its destination or ignored differences changed");
    }
    let is_older = |seconds: i64| {
        seconds > 0 && input.now.duration_since(reconciled) >= SignedDuration::from_secs(seconds)
    };
    if is_older(input.hard_timeout_seconds) {
        return due(CompareLevel::Latest, true, "the last comparison is too old for its manifests");
    }
    if is_older(input.soft_timeout_seconds) {
        return due(CompareLevel::Latest, false, "the last comparison is too old");
    }
    input.requested.and_then(|level| due(level, false, "something changed in the cluster"))
}

/// True when the application asked to be left alone.
pub fn is_skipped(application: &Application) -> bool {
    application.metadata.annotation(names::SKIP_RECONCILE) == Some("true")
}

/// This application's share of the jitter: the same each time, and spread evenly over applications.
pub fn jitter_seconds(application: &Application, settings: &Settings, most: i64) -> i64 {
    // FNV-1a over the name: no randomness in this room, and a restart must not bring all applications together.
    let name = application.instance_name(&settings.control_plane_namespace);
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    if most > 0 { (hash % most as u64) as i64 } else { 0 }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::{Value, json};

    fn decide(
        change: impl FnOnce(&mut Value),
        requested: Option<CompareLevel>,
    ) -> Option<(CompareLevel, bool)> {
        let mut app = json!({
            "metadata": {"name": "a"},
            "spec": {"project": "p", "source": {"repoURL": "r"}, "destination": {"name": "c"}},
            "status": {"reconciledAt": "2026-01-01T00:00:00Z", "sync": {"status": "Synced", "comparedTo": {"source": {"repoURL": "r"}, "destination": {"name": "c"}}}},
        });
        change(&mut app);
        let application: Application = serde_json::from_value(app).expect("readable");
        let input = RefreshInput {
            application: &application,
            now: "2026-01-01T00:02:00Z".parse().expect("a time"),
            soft_timeout_seconds: 180,
            hard_timeout_seconds: 0,
            requested,
        };
        refresh_decision(input).map(|r| (r.level, r.hard))
    }

    #[test]
    fn the_strongest_reason_wins() {
        assert_eq!(decide(|_| {}, None), None);
        assert_eq!(decide(|_| {}, Some(CompareLevel::Recent)), Some((CompareLevel::Recent, false)));
        let annotate = |value: &'static str| {
            move |app: &mut Value| app["metadata"]["annotations"] = json!({names::REFRESH: value})
        };
        assert_eq!(
            decide(annotate("hard"), Some(CompareLevel::Tree)),
            Some((CompareLevel::LatestForced, true))
        );
        assert_eq!(decide(annotate("normal"), None), Some((CompareLevel::LatestForced, false)));
        assert_eq!(
            decide(|app| app["spec"]["source"]["path"] = json!("x"), None),
            Some((CompareLevel::LatestForced, false))
        );
        assert_eq!(
            decide(|app| app["spec"]["destination"]["namespace"] = json!("x"), None),
            Some((CompareLevel::Latest, false))
        );
        assert_eq!(
            decide(|app| app["status"]["reconciledAt"] = json!("2025-12-31T23:00:00Z"), None),
            Some((CompareLevel::Latest, false))
        );
        assert_eq!(decide(|app| app["status"] = json!({}), None), Some((CompareLevel::LatestForced, false)));
    }

    #[test]
    fn jitter_is_steady_and_spread() {
        let at = |name: &str| {
            let app: Application =
                serde_json::from_value(json!({"metadata": {"name": name}})).expect("readable");
            jitter_seconds(&app, &Settings::default(), 60)
        };
        assert_eq!(at("a"), at("a"));
        let distinct: std::collections::BTreeSet<i64> = (0..100).map(|i| at(&format!("app-{i}"))).collect();
        assert!(distinct.len() > 30 && distinct.iter().all(|s| (0..60).contains(s)), "{distinct:?}");
    }
}
