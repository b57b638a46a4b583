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

#[test]
fn applications_that_share_a_revision_and_a_branch_are_one_commit_or_none() {
    let files = |folder: &str, value: &str| {
        [
            (format!("{folder}/Chart.yaml"), "apiVersion: v2\nname: shop\nversion: 0.1.0\n".to_owned()),
            (format!("{folder}/templates/map.yaml"), chart(value)),
        ]
    };
    let site = Site::quiet(&[]);
    let commit = |changes: &[(String, String)]| {
        let changes: Vec<(&str, String)> =
            changes.iter().map(|(path, text)| (path.as_str(), text.clone())).collect();
        site.commit(&changes)
    };
    commit(&[files("one", "1"), files("two", "1")].concat());
    let wet = site.folder.path().join("wet.git");
    std::fs::create_dir(&wet).expect("a folder");
    git(&wet, &["init", "--quiet", "--bare", "--initial-branch=main"]);
    let helm = slipway_testkit::tool("helm");
    let helm = helm.parent().expect("a program is in a folder").display().to_string();
    let path = format!("{helm}:{}", std::env::var("PATH").unwrap_or_default());
    let _process = Process::start(&site, "engine", &[("PATH", &path)]);
    let named = |name: &str| format!("{name}-{}", site.target.name());
    // Nothing can be rendered before both are there: the branch is not.
    for name in ["one", "two"] {
        let mut app = site.application(&named(name), "", automated());
        app["spec"].as_object_mut().expect("an object").remove("source");
        app["spec"]["sourceHydrator"] = json!({
            "drySource": {"repoURL": format!("file://{}", site.repo().display()), "path": name, "targetRevision": "ready"},
            "syncSource": {"repoURL": format!("file://{}", wet.display()), "targetBranch": "env/test", "path": format!("apps/{name}")},
        });
        site.create(&app);
        site.wait(&named(name), "{.status.sourceHydrator.currentOperation.phase}=Failed");
    }
    let refresh = || {
        for name in ["one", "two"] {
            site.control.kubectl(&[
                "annotate",
                "app",
                &named(name),
                "argocd.argoproj.io/hydrate=normal",
                "--overwrite",
            ]);
        }
    };
    let hydrated = |dry: &str, commits: &str| {
        refresh();
        for name in ["one", "two"] {
            site.wait(
                &named(name),
                &format!("{{.status.sourceHydrator.lastSuccessfulOperation.drySHA}}={dry}"),
            );
            let done = site.app(&named(name))["status"]["sourceHydrator"]["lastSuccessfulOperation"].clone();
            assert_eq!(done["hydratedSHA"], git(&wet, &["rev-parse", "env/test"]).as_str(), "{name}");
        }
        assert_eq!(git(&wet, &["rev-list", "--count", "env/test"]), commits);
    };
    site.git(&["branch", "ready"]);
    hydrated(&site.git(&["rev-parse", "ready"]), "1");
    let subject = git(&wet, &["log", "-1", "--format=%s", "env/test"]);
    assert!(subject.contains(&named("one")) && subject.contains(&named("two")), "{subject}");
    for name in ["one", "two"] {
        site.wait(&named(name), "{.status.sync.status}=Synced");
    }
    let both = [files("one", "2"), files("two", "2")].concat();
    let dry = commit(&both);
    site.git(&["branch", "--force", "ready"]);
    hydrated(&dry, "2");
    let root = git(&wet, &["show", "env/test:hydrator.metadata"]);
    assert!(root.contains(&dry), "{root}");
    assert!(git(&wet, &["show", "env/test:.gitattributes"]).contains("README.md linguist-generated=true"));

    // One of them cannot be rendered: neither is pushed, and each says why.
    let broken = commit(&[files("one", "3"), files("two", "{{ .Values.x")].concat());
    site.git(&["branch", "--force", "ready"]);
    refresh();
    for (name, words) in [("one", "cannot hydrate because application"), ("two", "map.yaml")] {
        site.until(words, || {
            let now = site.app(&named(name))["status"]["sourceHydrator"]["currentOperation"].clone();
            now["phase"] == "Failed"
                && now["drySHA"] == broken.as_str()
                && now["message"].to_string().contains(words)
        });
    }
    assert_eq!(git(&wet, &["rev-list", "--count", "env/test"]), "2");
    let dry = commit(&[files("one", "3"), files("two", "2")].concat());
    site.git(&["branch", "--force", "ready"]);
    hydrated(&dry, "3");
    let touched = git(&wet, &["show", "--format=", "--name-only", "env/test"]);
    assert!(touched.contains("apps/one") && !touched.contains("apps/two"), "{touched}");
}
