//! Applications that wait for others: `slipway.io/depends-on` names them, and an automated sync begins when all of them
//! are synced and healthy. A person's own sync waits for nobody.

use slipway_crd::{Application, HealthCode, SyncCode};
use std::collections::BTreeSet;

/// Names of Applications of the same namespace, separated by commas.
pub const DEPENDS_ON: &str = "slipway.io/depends-on";

fn named(app: &Application) -> Vec<&str> {
    let names = app.metadata.annotation(DEPENDS_ON).unwrap_or_default().split(',');
    names.map(str::trim).filter(|name| !name.is_empty()).collect()
}

/// Why the Application cannot begin yet; all reasons in one sentence. `find` gives another Application by its name.
pub fn unmet(app: &Application, find: impl Fn(&str) -> Option<Application>) -> Option<String> {
    if let Some(circle) = circle(app, &find) {
        return Some(format!("{circle}; take one of them out of the annotation {DEPENDS_ON}"));
    }
    let mut reasons = Vec::new();
    for name in named(app) {
        match find(name) {
            None => reasons.push(format!("{name}, which does not exist")),
            Some(other) => {
                let (sync, health) = (&other.status.sync.status, &other.status.health.status);
                if *sync != SyncCode::Synced || *health != HealthCode::Healthy {
                    let known = |text: &str| if text.is_empty() { "Unknown" } else { text }.to_owned();
                    reasons.push(format!(
                        "{name}, which is {} and {}",
                        known(sync.as_str()),
                        known(health.as_str())
                    ));
                }
            }
        }
    }
    (!reasons.is_empty()).then(|| format!("waiting for {}", reasons.join(", and for ")))
}

/// A way from the Application back to itself.
fn circle(app: &Application, find: &impl Fn(&str) -> Option<Application>) -> Option<String> {
    let start = app.metadata.name.as_str();
    let mut seen = BTreeSet::new();
    let mut ways: Vec<Vec<String>> = named(app).into_iter().map(|name| vec![name.to_owned()]).collect();
    while let Some(way) = ways.pop() {
        let last = way.last().map(String::as_str).unwrap_or_default();
        if last == start {
            let stations: Vec<&str> = std::iter::once(start).chain(way.iter().map(String::as_str)).collect();
            return Some(format!("applications wait for each other: {}", stations.join(" → ")));
        }
        if seen.insert(last.to_owned())
            && let Some(other) = find(last)
        {
            ways.extend(named(&other).into_iter().map(|next| [way.as_slice(), &[next.to_owned()]].concat()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn app(name: &str, depends_on: &str, sync: &str, health: &str) -> Application {
        serde_json::from_value(json!({"metadata": {"name": name, "annotations": {DEPENDS_ON: depends_on}},
            "spec": {}, "status": {"sync": {"status": sync}, "health": {"status": health}}}))
        .expect("readable")
    }

    #[test]
    fn everybody_waited_for_is_named_and_circles_are_found() {
        let all = [
            app("database", "", "Synced", "Healthy"),
            app("queue", "", "Synced", "Progressing"),
            app("a", "b", "", ""),
            app("b", "queue,a", "", ""),
        ];
        let find = |name: &str| all.iter().find(|app| app.metadata.name == name).cloned();
        let ask = |depends_on: &str| unmet(&app("shop", depends_on, "", ""), find);
        assert_eq!(ask(""), None);
        assert_eq!(ask(" database ,"), None);
        assert_eq!(
            ask("database,queue,nobody").as_deref(),
            Some("waiting for queue, which is Synced and Progressing, and for nobody, which does not exist")
        );
        assert!(ask("shop").is_some_and(|why| why.contains("shop → shop")));
        let circle = unmet(&all[2], find).expect("a circle");
        assert!(circle.contains("a → b → a"), "{circle}");
        assert!(
            ask("a").is_some_and(|why| why.starts_with("waiting for a, which is Unknown")),
            "not its circle"
        );
    }
}
