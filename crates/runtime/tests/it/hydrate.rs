//! The source hydrator on the real Kubernetes: rendered manifests travel through a branch before they are synced.

use std::process::Command;

use serde_json::json;

use crate::site::{Process, Site, automated};

fn git(folder: &std::path::Path, arguments: &[&str]) -> String {
    let output = Command::new("git").arg("-C").arg(folder).args(arguments).output().expect("git runs");
    assert!(output.status.success(), "git {arguments:?}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8_lossy(&output.stdout).trim().to_owned()
}

fn chart(replicas: &str) -> String {
    format!(
        "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {{{{ .Release.Name }}}}}}\ndata: {{replicas: \"{replicas}\"}}\n"
    )
}

#[test]
fn rendered_manifests_are_pushed_once_and_synced_from_there() {
    let site = Site::quiet(&[
        ("chart/Chart.yaml", "apiVersion: v2\nname: shop\nversion: 0.1.0\n".into()),
        ("chart/templates/map.yaml", chart("{{ .Values.replicas }}")),
        ("chart/values.yaml", "replicas: 1\n".into()),
    ]);
    let wet = site.folder.path().join("wet.git");
    std::fs::create_dir(&wet).expect("a folder");
    git(&wet, &["init", "--quiet", "--bare", "--initial-branch=main"]);
    let name = site.target.name().to_owned();
    let mut app = site.application(&name, "", automated());
    app["spec"].as_object_mut().expect("an object").remove("source");
    app["spec"]["sourceHydrator"] = json!({
        "drySource": {"repoURL": format!("file://{}", site.repo().display()), "path": "chart", "targetRevision": "main"},
        "syncSource": {"repoURL": format!("file://{}", wet.display()), "targetBranch": "env/test", "path": "apps/shop"},
    });
    let dry = site.git(&["rev-parse", "HEAD"]);
    let template = "{{ .metadata.drySha | trunc 7 }} by {{ .metadata.author }}";
    site.create(&json!({"apiVersion": "v1", "kind": "ConfigMap",
        "metadata": {"name": "argocd-cm", "namespace": site.control.name()},
        "data": {"sourceHydrator.commitMessageTemplate": template}}));
    let helm = slipway_testkit::tool("helm");
    let helm = helm.parent().expect("a program is in a folder").display().to_string();
    let path = format!("{helm}:{}", std::env::var("PATH").unwrap_or_default());
    let process = Process::start(&site, "engine", &[("PATH", &path)]);
    site.create(&app);
    site.wait(&name, &format!("{{.status.sourceHydrator.lastSuccessfulOperation.drySHA}}={dry}"));
    site.wait(&name, "{.status.sync.status}=Synced");
    let status = site.app(&name)["status"].clone();
    let tip = git(&wet, &["rev-parse", "env/test"]);
    assert_eq!(status["sourceHydrator"]["currentOperation"]["phase"], "Hydrated");
    assert_eq!(status["sourceHydrator"]["currentOperation"]["hydratedSHA"], tip.as_str());
    assert_eq!(status["sync"]["revision"], tip.as_str(), "what is synced is what was pushed");
    assert_eq!(status["sync"]["comparedTo"]["source"]["path"], "apps/shop");
    let subject = git(&wet, &["log", "-1", "--format=%s", "env/test"]);
    assert!(subject.starts_with(&format!("{} by ", &dry[..7])), "{subject}");
    assert!(git(&wet, &["show", "env/test:apps/shop/manifest.yaml"]).contains("replicas: \"1\""));
    let replicas = || site.target.kubectl(&["get", "configmap", &name, "-o", "jsonpath={.data.replicas}"]);
    assert_eq!(replicas(), "1");

    // Killed and started again, it has nothing to push.
    drop(process);
    let _process = Process::start(&site, "engine", &[("PATH", &path)]);
    let dry = site.commit(&[("chart/values.yaml", "replicas: 2\n".into())]);
    site.control.kubectl(&["annotate", "app", &name, "argocd.argoproj.io/refresh=normal"]);
    site.wait(&name, &format!("{{.status.sourceHydrator.lastSuccessfulOperation.drySHA}}={dry}"));
    site.until("the new value", || replicas() == "2");
    assert_eq!(git(&wet, &["rev-list", "--count", "env/test"]), "2");

    // A commit that changes no manifest makes no commit.
    let dry = site.commit(&[("README", "words".into())]);
    site.control.kubectl(&["annotate", "app", &name, "argocd.argoproj.io/hydrate=normal"]);
    site.wait(&name, &format!("{{.status.sourceHydrator.lastSuccessfulOperation.drySHA}}={dry}"));
    assert_eq!(git(&wet, &["rev-list", "--count", "env/test"]), "2");
    let annotations = site.app(&name)["metadata"]["annotations"].to_string();
    assert!(!annotations.contains("argocd.argoproj.io/hydrate"), "{annotations}");

    // What cannot be rendered fails with a sentence, and what runs goes on.
    site.commit(&[("chart/templates/map.yaml", chart("{{ .Values.replicas"))]);
    site.control.kubectl(&["annotate", "app", &name, "argocd.argoproj.io/refresh=normal"]);
    site.wait(&name, "{.status.sourceHydrator.currentOperation.phase}=Failed");
    let message = site.app(&name)["status"]["sourceHydrator"]["currentOperation"]["message"].to_string();
    assert!(message.contains("map.yaml"), "{message}");
    assert_eq!(replicas(), "2");

    // A path that climbs out is refused before anything is written.
    let outside = format!("outside-{name}");
    app["metadata"]["name"] = json!(format!("{name}-climbs"));
    app["spec"]["sourceHydrator"]["syncSource"]["path"] = json!(format!("../../{outside}"));
    site.create(&app);
    site.wait(&format!("{name}-climbs"), "{.status.sourceHydrator.currentOperation.phase}=Failed");
    let message = site.app(&format!("{name}-climbs"))["status"]["sourceHydrator"].to_string();
    assert!(message.contains("without `..`"), "{message}");
    assert!(
        !site.folder.path().join(&outside).exists()
            && !site.folder.path().join("engine").join(&outside).exists()
    );
}
