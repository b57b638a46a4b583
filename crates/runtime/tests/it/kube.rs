//! The engine on a real Kubernetes, as kubectl sees it. Applications are written after the public shape of the
//! well-known examples; their images are those that the cluster brings along.

use serde_json::json;
use slipway_testkit::TEST_IMAGE;

use crate::site::{Site, automated, deployment, hook, in_wave, service};

#[test]
fn the_guestbook_is_deployed_as_plain_files_a_chart_and_a_kustomization_and_answers_to_kubectl() {
    let chart =
        deployment("{{ .Release.Name }}-ui").replace("replicas: 1", "replicas: {{ .Values.replicas }}");
    let site = Site::new(&[
        ("plain/deployment.yaml", deployment("plain-ui")),
        ("plain/service.yaml", service("plain-ui")),
        ("helm/Chart.yaml", "apiVersion: v2\nname: guestbook\nversion: 0.1.0\n".into()),
        ("helm/values.yaml", "replicas: 1\n".into()),
        ("helm/templates/deployment.yaml", chart),
        ("helm/templates/service.yaml", service("{{ .Release.Name }}-ui")),
        (
            "kustomize/kustomization.yaml",
            "namePrefix: kustomize-\nresources: [deployment.yaml, service.yaml]\n".into(),
        ),
        ("kustomize/deployment.yaml", deployment("ui")),
        ("kustomize/service.yaml", service("ui")),
    ]);
    for name in ["plain", "helm", "kustomize"] {
        site.create(&site.application(name, name, automated()));
    }
    for (name, kind) in [("plain", "Directory"), ("helm", "Helm"), ("kustomize", "Kustomize")] {
        site.wait(name, "{.status.health.status}=Healthy");
        site.wait(name, "{.status.sync.status}=Synced");
        let app = site.app(name);
        assert_eq!(app["status"]["sourceType"], kind);
        assert_eq!(
            app["status"]["operationState"]["message"], "successfully synced (all tasks run)",
            "{name}"
        );
        assert_eq!(app["status"]["summary"]["images"], json!([TEST_IMAGE]), "{name}");
        assert_eq!(app["status"]["resources"].as_array().map(Vec::len), Some(2), "{name}");
        assert!(site.target.succeeds(&["get", "deployment", &format!("{name}-ui")]), "{name}");
    }
    let table = site.control.kubectl(&["get", "app", "plain"]);
    assert!(
        table
            .lines()
            .next()
            .is_some_and(|head| head.contains("SYNC STATUS") && head.contains("HEALTH STATUS")),
        "{table}"
    );
    assert!(table.contains("Synced") && table.contains("Healthy"), "{table}");
    let wide = site.control.kubectl(&["get", "applications", "-o", "wide"]);
    assert!(wide.contains("REVISION") && wide.contains("PROJECT"), "{wide}");

    // A new commit by hand: annotate, and the annotation goes when it was looked at.
    let second = site.commit(&[("plain/service.yaml", service("plain-ui").replace("port: 80", "port: 81"))]);
    site.control.kubectl(&["annotate", "app/plain", "argocd.argoproj.io/refresh=normal"]);
    site.wait("plain", &format!("{{.status.operationState.syncResult.revision}}={second}"));
    site.wait("plain", "{.status.operationState.phase}=Succeeded");
    assert_eq!(
        site.target.kubectl(&["get", "service", "plain-ui", "-o", "jsonpath={.spec.ports[0].port}"]),
        "81"
    );
    assert!(site.app("plain")["metadata"]["annotations"]["argocd.argoproj.io/refresh"].is_null());

    // An operation by hand.
    let patch =
        json!({"operation": {"initiatedBy": {"username": "ada"}, "sync": {"revision": second}}}).to_string();
    let before = site.app("helm")["status"]["operationState"]["startedAt"].clone();
    site.control.kubectl(&["patch", "app", "helm", "--type", "merge", "-p", &patch]);
    site.until("the operation", || {
        let app = site.app("helm");
        let state = &app["status"]["operationState"];
        state["phase"] == "Succeeded" && state["operation"]["initiatedBy"]["username"] == "ada"
    });
    assert_ne!(site.app("helm")["status"]["operationState"]["startedAt"], before);

    // What kubectl describe shows.
    let events = site.control.kubectl(&[
        "get",
        "events",
        "-o",
        "jsonpath={range .items[*]}{.reason} {.message}{\"\\n\"}{end}",
    ]);
    for words in [
        "OperationStarted Initiated automated sync to",
        "OperationStarted ada initiated sync to",
        &format!("OperationCompleted Sync operation to {second} succeeded"),
        "ResourceUpdated Updated sync status: OutOfSync -> Synced",
        "-> Healthy",
    ] {
        assert!(events.contains(words), "no event says {words:?}:\n{events}");
    }

    // Drift is repaired, and cascading deletion empties the namespace.
    site.target.kubectl(&["delete", "service", "kustomize-ui"]);
    site.until("the repair", || site.target.succeeds(&["get", "service", "kustomize-ui"]));
    let finalizer =
        json!({"metadata": {"finalizers": ["resources-finalizer.argocd.argoproj.io"]}}).to_string();
    site.control.kubectl(&["patch", "app", "kustomize", "--type", "merge", "-p", &finalizer]);
    site.control.kubectl(&["delete", "app", "kustomize", "--timeout=60s"]);
    let left = site.target.kubectl(&["get", "deployments,services", "-o", "name"]);
    assert!(!left.contains("kustomize"), "{left}");
    assert!(left.contains("plain-ui"), "{left}");
}

#[test]
fn waves_and_hooks_go_in_order_and_an_application_of_applications_waits_for_its_children() {
    let site = Site::new(&[
        ("waves/before.yaml", hook("before", "PreSync", "BeforeHookCreation")),
        ("waves/after.yaml", hook("after", "PostSync", "HookSucceeded")),
        ("waves/backend.yaml", in_wave(&deployment("backend"), -1)),
        ("waves/frontend.yaml", in_wave(&deployment("frontend"), 2)),
    ]);
    let child = |name: &str, path: &str| {
        let mut child = site.application(name, path, automated());
        child["metadata"]["finalizers"] = json!(["resources-finalizer.argocd.argoproj.io"]);
        child.to_string()
    };
    site.commit(&[
        ("apps/waves.yaml", child("waves", "waves")),
        ("apps/maps.yaml", child("maps", "maps")),
        (
            "maps/map.yaml",
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: map}\ndata: {a: \"1\"}\n".into(),
        ),
    ]);
    let mut root = site.application("root", "apps", automated());
    root["spec"]["destination"]["namespace"] = site.control.name().into();
    root["metadata"]["finalizers"] = json!(["resources-finalizer.argocd.argoproj.io"]);
    site.create(&root);
    site.wait("root", "{.status.sync.status}=Synced");
    assert_eq!(site.app("root")["status"]["summary"]["isAppOfApps"], true);
    for name in ["maps", "waves"] {
        site.until(name, || site.control.succeeds(&["get", "app", name]));
        site.wait(name, "{.status.operationState.phase}=Succeeded");
        site.wait(name, "{.status.health.status}=Healthy");
    }
    let time = |kind: &str, name: &str| {
        site.target.kubectl(&["get", kind, name, "-o", "jsonpath={.metadata.creationTimestamp}"])
    };
    let ready = site.target.kubectl(&[
        "get",
        "deployment",
        "backend",
        "-o",
        "jsonpath={.status.conditions[?(@.type==\"Available\")].lastTransitionTime}",
    ]);
    assert!(time("job", "before") <= time("deployment", "backend"), "the hook goes first");
    assert!(ready <= time("deployment", "frontend"), "a wave waits for the one before");
    assert!(
        !site.target.succeeds(&["get", "job", "after"]),
        "a hook that succeeded is deleted where it says so"
    );
    let state = site.app("waves")["status"]["operationState"].clone();
    assert_eq!(state["message"], "successfully synced (no more tasks)");
    let results = state["syncResult"]["resources"].as_array().cloned().unwrap_or_default();
    let hooks: Vec<_> = results
        .iter()
        .filter(|result| result["hookType"].is_string())
        .map(|result| (result["name"].clone(), result["hookType"].clone(), result["hookPhase"].clone()))
        .collect();
    assert_eq!(
        hooks,
        [
            (json!("before"), json!("PreSync"), json!("Succeeded")),
            (json!("after"), json!("PostSync"), json!("Succeeded"))
        ]
    );
    // Everything goes with the root, children and what they deployed.
    site.control.kubectl(&["delete", "app", "root", "--timeout=90s"]);
    assert_eq!(site.control.kubectl(&["get", "applications", "-o", "name"]).trim(), "");
    site.until("the end of what they deployed", || {
        site.target.kubectl(&["get", "deployments", "-o", "name"]).trim().is_empty()
    });
}

#[test]
fn labels_track_other_managers_are_left_alone_and_delete_hooks_run() {
    let map = |name: &str| {
        format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {name}}}\ndata: {{a: \"1\"}}\n")
    };
    let site = Site::new(&[
        ("app/kept.yaml", map("kept")),
        ("app/pruned.yaml", map("pruned")),
        ("app/deployment.yaml", deployment("scaled")),
        ("app/before.yaml", hook("before-end", "PreDelete", "HookSucceeded")),
        ("app/after.yaml", hook("after-end", "PostDelete", "HookFailed")),
    ]);
    site.control.apply(
        &json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-cm"},
            "data": {"application.resourceTrackingMethod": "label"}})
        .to_string(),
    );
    let mut app = site.application("labelled", "app", automated());
    app["spec"]["ignoreDifferences"] =
        json!([{"group": "apps", "kind": "Deployment", "managedFieldsManagers": ["autoscaler"]}]);
    app["spec"]["syncPolicy"]["syncOptions"] = json!(["RespectIgnoreDifferences=true"]);
    app["metadata"]["finalizers"] = json!(["resources-finalizer.argocd.argoproj.io"]);
    site.create(&app);
    site.wait("labelled", "{.status.sync.status}=Synced");
    site.wait("labelled", "{.status.health.status}=Healthy");
    let label = site.target.kubectl(&[
        "get",
        "configmap",
        "kept",
        "-o",
        "jsonpath={.metadata.labels.app\\.kubernetes\\.io/instance}",
    ]);
    assert_eq!(label, "labelled");
    let finalizers = site.app("labelled")["metadata"]["finalizers"].to_string();
    assert!(
        finalizers.contains("pre-delete-finalizer") && finalizers.contains("post-delete-finalizer"),
        "{finalizers}"
    );

    // Another manager scales; that is its business. A person edits; that is drift.
    site.target.kubectl(&["scale", "deployment", "scaled", "--replicas=0"]);
    site.until("the repair", || {
        site.target.kubectl(&["get", "deployment", "scaled", "-o", "jsonpath={.spec.replicas}"]) == "1"
    });
    let patch = json!({"spec": {"replicas": 2}}).to_string();
    site.target.kubectl(&[
        "patch",
        "deployment",
        "scaled",
        "--field-manager=autoscaler",
        "--type=merge",
        "-p",
        &patch,
    ]);
    std::fs::remove_file(site.repo().join("app/pruned.yaml")).expect("removed");
    let third = site.commit(&[("app/kept.yaml", map("kept").replace("\"1\"", "\"2\""))]);
    site.control.kubectl(&["annotate", "app/labelled", "argocd.argoproj.io/refresh=normal"]);
    site.wait("labelled", &format!("{{.status.sync.revision}}={third}"));
    site.wait("labelled", "{.status.sync.status}=Synced");
    assert!(!site.target.succeeds(&["get", "configmap", "pruned"]), "what is labelled and not wanted goes");
    assert_eq!(site.target.kubectl(&["get", "deployment", "scaled", "-o", "jsonpath={.spec.replicas}"]), "2");

    site.control.kubectl(&["delete", "app", "labelled", "--timeout=90s"]);
    let left = site.target.kubectl(&["get", "deployments,configmaps,jobs", "-o", "name"]);
    assert!(!left.contains("kept") && !left.contains("scaled") && !left.contains("before-end"), "{left}");
    assert!(left.contains("after-end"), "a hook that is to stay when it succeeds stays: {left}");
}

#[test]
fn the_server_is_asked_what_an_apply_would_change_where_that_is_wanted() {
    // The server throws `maxUnavailable` away, because the feature is switched off: nobody else can know that.
    let set = |name: &str, more: &str| {
        format!(
            "apiVersion: apps/v1\nkind: StatefulSet\nmetadata: {{name: {name}}}\nspec:\n  replicas: 0\n{more}  \
             serviceName: {name}\n  selector: {{matchLabels: {{app: {name}}}}}\n  \
             updateStrategy: {{type: RollingUpdate, rollingUpdate: {{maxUnavailable: 2}}}}\n  template:\n    \
             metadata: {{labels: {{app: {name}}}}}\n    spec: {{containers: [{{name: c, image: \"{TEST_IMAGE}\"}}]}}\n"
        )
    };
    let ready = "  minReadySeconds: 5\n";
    let site =
        Site::new(&[("asked/set.yaml", set("asked", ready)), ("guessed/set.yaml", set("guessed", ready))]);
    let mut asked = site.application("asked", "asked", json!({"automated": {}}));
    asked["metadata"]["annotations"] = json!({"argocd.argoproj.io/compare-options": "ServerSideDiff=true"});
    site.create(&asked);
    site.create(&site.application("guessed", "guessed", json!({"automated": {}})));
    for name in ["asked", "guessed"] {
        site.wait(name, "{.status.operationState.phase}=Succeeded");
    }
    site.wait("asked", "{.status.sync.status}=Synced");
    site.wait("guessed", "{.status.sync.status}=OutOfSync");

    // What a person changes is a difference, and what is put back is none.
    for (seconds, status) in [(7, "OutOfSync"), (5, "Synced")] {
        let patch = json!({"spec": {"minReadySeconds": seconds}}).to_string();
        site.target.kubectl(&["patch", "statefulset", "asked", "--type", "merge", "-p", &patch]);
        site.wait("asked", &format!("{{.status.sync.status}}={status}"));
    }

    // What the manifest no longer has goes, although a client applied it.
    site.commit(&[("asked/set.yaml", set("asked", ""))]);
    site.control.kubectl(&["annotate", "app/asked", "argocd.argoproj.io/refresh=normal"]);
    site.until("the end of the field", || {
        let path = "jsonpath={.spec.minReadySeconds}";
        site.target.kubectl(&["get", "statefulset", "asked", "-o", path]).is_empty()
    });
    site.wait("asked", "{.status.sync.status}=Synced");
    let conditions = site.app("asked")["status"]["conditions"].to_string();
    assert!(!conditions.contains("ServerSideDiffWarning"), "{conditions}");
}
