//! `lookup` of charts on the real Kubernetes: a generated password is kept, and a chart sees what its project permits.

use serde_json::{Value, json};

use crate::site::{Site, automated};

const CHART: &str = "apiVersion: v2\nname: c\nversion: 0.1.0\n";

fn secret() -> String {
    "{{- $old := lookup \"v1\" \"Secret\" .Release.Namespace (printf \"%s-pw\" .Release.Name) }}\napiVersion: v1\nkind: Secret\n\
     metadata: {name: {{ .Release.Name }}-pw}\ndata: {password: {{ dig \"data\" \"password\" (randAlphaNum 24 | b64enc) $old }}}\n"
        .to_owned()
}

fn map(lookup: &str) -> String {
    format!(
        "{{{{- $found := {lookup} }}}}\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: {{{{ .Release.Name }}}}-map}}\n\
         data: {{note: {{{{ .Values.note | quote }}}}, found: {{{{ dig \"data\" \"color\" \"nothing\" $found | quote }}}}}}\n"
    )
}

fn settings(site: &Site<'_>) -> Value {
    json!({"apiVersion": "v1", "kind": "ConfigMap", "metadata": {"name": "argocd-cm", "namespace": site.control.name()},
        "data": {"helm.lookup.enabled": "true"}})
}

fn looking(mut app: Value, project: &str) -> Value {
    app["metadata"]["annotations"] = json!({"slipway.io/helm-lookup": "true"});
    app["spec"]["project"] = json!(project);
    app
}

fn refresh(site: &Site<'_>, name: &str) {
    site.control.kubectl(&["annotate", "app", name, "argocd.argoproj.io/refresh=normal", "--overwrite"]);
}

#[test]
fn a_generated_password_is_kept_by_lookup_and_what_is_looked_up_is_followed() {
    let site = Site::new(&[
        ("chart/Chart.yaml", CHART.into()),
        ("chart/values.yaml", "note: one\n".into()),
        ("chart/templates/secret.yaml", secret()),
        ("chart/templates/map.yaml", map("lookup \"v1\" \"ConfigMap\" .Release.Namespace \"colors\"")),
    ]);
    let target = site.target.name().to_owned();
    let (keeps, plain) = (format!("keeps-{target}"), format!("plain-{target}"));

    // An operator has to permit it.
    site.create(&looking(site.application(&keeps, "chart", automated()), "default"));
    site.until("the refusal", || {
        site.app(&keeps)["status"]["conditions"].to_string().contains("helm.lookup.enabled")
    });
    site.create(&settings(&site));
    site.create(&site.application(&plain, "chart", automated()));
    let password = |name: &str| {
        let secret = format!("{name}-pw");
        site.target.kubectl(&["get", "secret", &secret, "-o", "jsonpath={.data.password}"])
    };
    let found = |name: &str| {
        site.target.kubectl(&["get", "configmap", &format!("{name}-map"), "-o", "jsonpath={.data.found}"])
    };
    for name in [&keeps, &plain] {
        site.wait(name, "{.status.sync.status}=Synced");
        assert_eq!(found(name), "nothing");
    }
    let before = (password(&keeps), password(&plain));
    assert_eq!(before.0.len(), 32, "24 letters in base64");

    // The next commit is rendered anew: Argo CD's way makes a new password, the other one finds its own.
    let second = site.commit(&[("chart/values.yaml", "note: two\n".into())]);
    for name in [&keeps, &plain] {
        refresh(&site, name);
        site.wait(name, &format!("{{.status.operationState.syncResult.revision}}={second}"));
        site.wait(name, "{.status.operationState.phase}=Succeeded");
        site.wait(name, "{.status.sync.status}=Synced");
    }
    assert_eq!(password(&keeps), before.0);
    assert_ne!(password(&plain), before.1);

    // Looked at again without a new commit, nothing is to be done.
    let syncs = site.app(&keeps)["status"]["history"].as_array().map(Vec::len);
    refresh(&site, &keeps);
    site.until("the look", || {
        site.app(&keeps)["metadata"]["annotations"]["argocd.argoproj.io/refresh"].is_null()
    });
    let app = site.app(&keeps);
    assert_eq!(app["status"]["sync"]["status"], "Synced");
    assert_eq!(app["status"]["history"].as_array().map(Vec::len), syncs);

    // What a chart looked up has come, changed and gone: it is noticed, without a commit and without a refresh.
    for color in ["blue", "green"] {
        site.target.apply(&format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: colors}}\ndata: {{color: {color}}}\n"
        ));
        site.until(color, || found(&keeps) == color);
    }
    let resources = site.app(&keeps)["status"]["resources"].to_string();
    assert!(!resources.contains("colors"), "what is looked up is not the Application's: {resources}");
    site.target.kubectl(&["delete", "configmap", "colors"]);
    site.until("nothing", || found(&keeps) == "nothing");
    assert_eq!(password(&keeps), before.0);
    assert_eq!(found(&plain), "nothing");
}

#[test]
fn a_chart_looks_up_what_its_project_permits_and_nothing_else() {
    let map_of = |arguments: &str| map(&format!("lookup {arguments}"));
    let mut site = Site::quiet(&[]);
    let (target, control) = (site.target.name().to_owned(), site.control.name().to_owned());
    let cases = [
        ("own", map_of("\"v1\" \"ConfigMap\" .Release.Namespace \"colors\""), "default", Ok("blue")),
        (
            "elsewhere",
            map_of("\"v1\" \"ConfigMap\" \"kube-system\" \"x\""),
            "narrow",
            Err("namespace 'kube-system'"),
        ),
        (
            "kind",
            map_of("\"v1\" \"Secret\" .Release.Namespace \"x\""),
            "narrow",
            Err("does not permit Secret"),
        ),
        (
            "cluster",
            map_of("\"v1\" \"Namespace\" \"\" \"default\""),
            "narrow",
            Err("does not permit Namespace"),
        ),
        ("named", map_of(&format!("\"v1\" \"Namespace\" \"\" \"{target}\"")), "narrow", Ok("nothing")),
        (
            "engine",
            map_of(&format!("\"v1\" \"Secret\" \"{control}\" \"x\"")),
            "default",
            Err("does not permit Secret"),
        ),
        ("absent", map_of("\"v1\" \"ConfigMap\" .Release.Namespace \"absent\""), "narrow", Ok("nothing")),
        (
            "all",
            "{{- $all := lookup \"v1\" \"ConfigMap\" \"\" \"\" }}{{ $names := dict }}\n\
             {{- range $all.items }}{{ $_ := set $names .metadata.namespace \"x\" }}{{ end }}\n\
             apiVersion: v1\nkind: ConfigMap\nmetadata: {name: {{ .Release.Name }}-map}\n\
             data: {found: {{ keys $names | join \",\" | quote }}}\n"
                .to_owned(),
            "narrow",
            Ok(target.as_str()),
        ),
    ];
    let mut files = Vec::new();
    for (name, template, ..) in &cases {
        files.push((format!("{name}/Chart.yaml"), CHART.to_owned()));
        files.push((format!("{name}/values.yaml"), "note: x\n".to_owned()));
        files.push((format!("{name}/templates/map.yaml"), template.clone()));
    }
    let files: Vec<(&str, String)> = files.iter().map(|(path, text)| (path.as_str(), text.clone())).collect();
    site.commit(&files);
    site.start(|_| {});
    site.create(&settings(&site));
    site.target.apply("apiVersion: v1\nkind: ConfigMap\nmetadata: {name: colors}\ndata: {color: blue}\n");
    site.create(&json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "AppProject",
        "metadata": {"name": "narrow", "namespace": control},
        "spec": {"sourceRepos": ["*"], "destinations": [{"server": "*", "namespace": target}],
            "clusterResourceWhitelist": [{"group": "", "kind": "Namespace", "name": target}],
            "namespaceResourceBlacklist": [{"group": "", "kind": "Secret"}]}}));
    for (name, _, project, expected) in cases {
        let app = format!("{name}-{target}");
        site.create(&looking(site.application(&app, name, automated()), project));
        match expected {
            Ok(word) => {
                site.wait(&app, "{.status.sync.status}=Synced");
                let map = format!("{app}-map");
                let found = site.target.kubectl(&["get", "configmap", &map, "-o", "jsonpath={.data.found}"]);
                assert_eq!(found, word, "{name}");
            }
            Err(words) => site.until(words, || {
                let said = site.app(&app)["status"]["conditions"].to_string();
                said.contains("ComparisonError") && said.contains(words) && said.contains("map.yaml:1:")
            }),
        }
    }
}
