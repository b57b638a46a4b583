//! Repositories that were pushed to by somebody who wants what is on the engine's machine, through a whole engine.

use serde_json::json;

use crate::world::{World, config_map};

const CANARY: &str = "CANARY-of-the-agents";

/// `.argocd-source.yaml` beside the manifests is all that it took: the name of a parameter that names a second one.
#[tokio::test]
async fn a_pushed_override_reads_no_file_of_the_engine() {
    let world = World::new().await;
    let mut config = world.config();
    let agents = config.data.join("agents.json");
    std::fs::create_dir_all(&config.data).expect("made");
    std::fs::write(&agents, CANARY).expect("written");
    let folder = |name: &str| slipway_testkit::tool(name).parent().expect("a folder").to_owned();
    config.tools = ["helm", "kustomize", "jsonnet"].iter().map(|name| folder(name)).collect();
    let leak =
        format!("helm: {{fileParameters: [{{name: \"leak={},x\", path: values.yaml}}]}}\n", agents.display());
    let template =
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {leak: {{ toJson .Values | quote }}}\n";
    let importing = format!("importstr '{}'", agents.display());
    let kustomization =
        format!("namePrefix: a-\nResources: ['file://{}?ref=main']\n", world.repo().display());
    world.commit(&[
        ("helm/Chart.yaml", "apiVersion: v2\nname: c\nversion: 0.1.0\n"),
        ("helm/values.yaml", "a: 1\n"),
        ("helm/templates/m.yaml", template),
        ("helm/.argocd-source.yaml", &leak),
        ("kustomize/kustomization.yaml", &kustomization),
        ("jsonnet/main.jsonnet", "import 'evil.txt'"),
        ("jsonnet/evil.txt", &importing),
        ("kustomization.yaml", "resources: [stolen.yaml]\n"),
        ("stolen.yaml", &config_map("stolen", CANARY)),
    ]);
    for (name, _) in CASES {
        world.application_at(name, name, "default", json!({"automated": {}})).await;
    }
    world.start_with(config);
    for (name, words) in CASES {
        let app =
            world.until(name, words, |app| app["status"]["conditions"].to_string().contains(words)).await;
        assert!(!app.to_string().contains(CANARY), "{app}");
        assert_eq!(app["status"]["conditions"][0]["type"], "ComparisonError", "{app}");
    }
    assert!(
        world.get("ConfigMap", "a-stolen").await.is_none() && world.get("ConfigMap", "m").await.is_none()
    );
}

const CASES: [(&str, &str); 3] = [
    ("helm", "is not a name"),
    ("kustomize", "kustomization.yaml:2:"),
    ("jsonnet", "outside of the repository"),
];
