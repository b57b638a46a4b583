//! `slipway rollout`: files alone, no cluster and no server.

use crate::process::slipway;

const CANARY: &str = "\
apiVersion: argoproj.io/v1alpha1
kind: Rollout
metadata: {name: shop}
spec:
  replicas: 4
  selector: {matchLabels: {app: shop}}
  template:
    metadata: {labels: {app: shop}}
    spec: {containers: [{name: shop, image: shop:1}]}
  strategy:
    canary:
      steps: [{setWeight: 25}, {pause: {}}]
";

#[test]
fn rollouts_are_checked_and_previewed_in_files() {
    let folder = tempfile::tempdir().expect("a folder");
    let file = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::write(&path, text).expect("written");
        path.display().to_string()
    };
    let good = file("good.yaml", CANARY);
    let bad = file("bad.yaml", &CANARY.replace("setWeight: 25", "setWeight: 125"));
    let run = |arguments: &[&str]| {
        let output = slipway(arguments);
        let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        (output.status.code(), text(&output.stdout), text(&output.stderr))
    };
    assert_eq!(run(&["rollout", "lint", &good]), (Some(0), String::new(), String::new()));
    let (code, said, _) = run(&["rollout", "lint", &good, &bad]);
    assert_eq!(code, Some(1));
    assert_eq!(
        said,
        format!(
            "{bad}:12:16: error: Rollout/shop: spec.strategy.canary.steps[0].setWeight: 125 is not between 0 and 100\n"
        )
    );
    let (code, _, said) = run(&["rollout", "lint", "/nowhere/a.yaml"]);
    assert!(code == Some(2) && said.contains("/nowhere/a.yaml"), "{said}");
    let (_, json, _) = run(&["rollout", "lint", &bad, "-o", "json"]);
    let findings: serde_json::Value = serde_json::from_str(&json).expect("JSON");
    assert_eq!((&findings[0]["valid"], &findings[0]["findings"][0]["line"]), (&false.into(), &12.into()));

    let (code, json, _) = run(&["rollout", "preview", &good, "-o", "json"]);
    assert_eq!(code, Some(0));
    let rows: Vec<serde_json::Value> = serde_json::from_str(&json).expect("JSON");
    let sizes: Vec<_> = rows.iter().map(|row| (row["new"].as_i64(), row["stable"].as_i64())).collect();
    assert_eq!(sizes, [(Some(1), Some(3)), (Some(1), Some(3)), (Some(4), Some(0))]);
}
