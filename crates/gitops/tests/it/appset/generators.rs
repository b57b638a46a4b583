use std::cell::RefCell;

use serde_json::{Value, json};
use slipway_gitops::appset::{Answer, Decisions, Need, PullRequest, RepositoryEntry};

use super::{Tree, cluster, message, names, nobody, printing, set, settle};

fn tree() -> Tree {
    Tree::from([
        ("README.md", "x"),
        ("apps/web/deployment.yaml", "x"),
        ("apps/api/v1/deployment.yaml", "x"),
        ("apps/.hidden/x.yaml", "x"),
        (".github/workflows/x.yaml", "x"),
        ("charts/db/Chart.yaml", "x"),
        (
            "clusters/eu/prod/config.json",
            "{\"name\": \"eu-prod\", \"size\": 3, \"nested\": {\"region\": \"eu\"}}",
        ),
        ("clusters/us/config.yaml", "- name: us-1\n  size: 1000000\n- name: us-2\n"),
    ])
}

fn in_tree(expression: &str, git: Value) -> Vec<String> {
    let mut block = json!({"repoURL": "https://git.example/x", "revision": "main"});
    for (key, value) in git.as_object().expect("fields") {
        block[key] = value.clone();
    }
    names(&settle(&printing(expression, json!([{"git": block}])), vec![], &tree(), &nobody))
}

#[test]
fn a_list_gives_its_elements_in_both_languages() {
    let old = set(json!({"generators": [{"list": {"elements": [
        {"name": "a", "values": {"x": "1"}}, {"name": "b"}]}}]}));
    let generation = settle(&old, vec![], &Tree::new(), &nobody);
    assert_eq!(names(&generation), ["a", "b"]);
    let application = &generation.outcome.as_ref().expect("generated").applications[0];
    assert_eq!(application["spec"]["source"]["path"], "a");
    assert_eq!(application["metadata"]["finalizers"], json!(["resources-finalizer.argocd.argoproj.io"]));
    let new = printing(
        "{{.name}}-{{.num}}-{{.deep.x}}",
        json!([{"list": {"elements": [{"name": "a", "num": 1000000, "deep": {"x": true}}],
            "elementsYaml": "- {name: b, num: 2, deep: {x: z}}\n"}}]),
    );
    assert_eq!(names(&settle(&new, vec![], &Tree::new(), &nobody)), ["a-1e+06-true", "b-2-z"]);
}

#[test]
fn without_go_templates_only_texts_are_allowed_and_unknown_keys_stay() {
    let odd = set(json!({"generators": [{"list": {"elements": [{"name": 1}]}}]}));
    assert!(
        message(&settle(&odd, vec![], &Tree::new(), &nobody)).contains("list.elements[0].name is not a text")
    );
    let unknown = set(json!({"generators": [{"list": {"elements": [{"name": "a"}]}}], "template": {
        "metadata": {"name": "{{name}}", "annotations": {"x-{{name}}": "{{unknown}}"}}, "spec": {}}}));
    let generation = settle(&unknown, vec![], &Tree::new(), &nobody);
    let application = &generation.outcome.as_ref().expect("generated").applications[0];
    assert_eq!(application["metadata"]["annotations"], json!({"x-a": "{{unknown}}"}));
}

#[test]
fn clusters_come_from_secrets_and_the_local_one_is_always_there() {
    let clusters = || {
        vec![
            cluster("eu_West", "https://eu", &[("env", "prod"), ("region", "eu")]),
            cluster("us", "https://us", &[("env", "dev")]),
        ]
    };
    let all = printing("{{.nameNormalized}}", json!([{"clusters": {}}]));
    assert_eq!(names(&settle(&all, clusters(), &Tree::new(), &nobody)), ["eu-west", "us", "in-cluster"]);
    let local = vec![cluster("here", "https://kubernetes.default.svc", &[])];
    assert_eq!(names(&settle(&all, local, &Tree::new(), &nobody)), ["here"]);
    let some = printing(
        "{{.name}}-{{.metadata.labels.env}}-{{.values.size}}",
        json!([{"clusters": {"selector": {"matchExpressions": [
            {"key": "env", "operator": "In", "values": ["prod", "test"]}]},
            "values": {"size": "{{.metadata.labels.region | upper}}"}}}]),
    );
    assert_eq!(names(&settle(&some, clusters(), &Tree::new(), &nobody)), ["eu_West-prod-EU"]);
    let flat =
        printing("{{len .clusters}}-{{(index .clusters 1).name}}", json!([{"clusters": {"flatList": true}}]));
    assert_eq!(names(&settle(&flat, clusters(), &Tree::new(), &nobody)), ["3-us"]);
    let mut old = set(json!({"generators": [{"clusters": {"selector": {"matchLabels": {"env": "prod"}},
        "values": {"r": "{{metadata.labels.region}}"}}}]}));
    old.spec.template.metadata.name = "{{name}}-{{metadata.labels.env}}-{{values.r}}".into();
    assert_eq!(names(&settle(&old, clusters(), &Tree::new(), &nobody)), ["eu_West-prod-eu"]);
}

#[test]
fn folders_of_a_repository_become_parameters() {
    assert_eq!(in_tree("{{.path.basename}}", json!({"directories": [{"path": "apps/*"}]})), ["api", "web"]);
    assert_eq!(
        in_tree(
            "{{.path.path}}|{{index .path.segments 0}}|{{len .path.segments}}",
            json!({"directories": [{"path": "*/*"}, {"path": "apps/web", "exclude": true}]})
        ),
        ["apps/api|apps|2", "charts/db|charts|2", "clusters/eu|clusters|2", "clusters/us|clusters|2"]
    );
    assert_eq!(
        in_tree("{{.my.path.path}}", json!({"directories": [{"path": "charts"}], "pathParamPrefix": "my"})),
        ["charts"]
    );
    let mut old = set(json!({"generators": [{"git": {"repoURL": "r", "revision": "HEAD",
        "directories": [{"path": "apps/*/*"}], "values": {"v": "{{path[1]}}"}}}]}));
    old.spec.template.metadata.name = "{{path}}|{{path.basename}}|{{path[1]}}|{{values.v}}".into();
    assert_eq!(names(&settle(&old, vec![], &tree(), &nobody)), ["apps/api/v1|v1|api|api"]);
}

#[test]
fn files_of_a_repository_become_parameters() {
    assert_eq!(
        in_tree(
            "{{.name}}|{{.path.basename}}|{{.path.filename}}|{{.path.filenameNormalized}}",
            json!({"files": [{"path": "clusters/**/config.*"}]})
        ),
        [
            "eu-prod|prod|config.json|config.json",
            "us-1|us|config.yaml|config.yaml",
            "us-2|us|config.yaml|config.yaml"
        ]
    );
    assert_eq!(
        in_tree(
            "{{.name}}",
            json!({"files": [{"path": "clusters"}, {"path": "clusters/us/*", "exclude": true}]})
        ),
        ["eu-prod"]
    );
    let mut old = set(json!({"generators": [{"git": {"repoURL": "r", "revision": "HEAD",
        "files": [{"path": "clusters/*/config.json"}]}}]}));
    old.spec.template.metadata.name = "{{name}}-{{size}}-{{nested.region}}-{{path.basename}}".into();
    assert_eq!(names(&settle(&old, vec![], &tree(), &nobody)), ["eu-prod-3-eu-prod"]);
}

#[test]
fn a_file_that_is_no_object_is_named() {
    let odd = printing(
        "x",
        json!([{"git": {"repoURL": "https://git.example/x", "revision": "main",
        "files": [{"path": "README.md"}]}}]),
    );
    let text = message(&settle(&odd, vec![], &tree(), &nobody));
    assert!(
        text.contains("unable to process file 'README.md' from repository 'https://git.example/x'"),
        "{text}"
    );
}

#[test]
fn a_matrix_pairs_and_fills_the_second_with_the_first() {
    let asked = RefCell::new(Vec::new());
    let other = |need: &Need| {
        let Need::GitTree { repo_url, revision } = need else { return nobody(need) };
        asked.borrow_mut().push(format!("{repo_url}@{revision}"));
        Ok(Answer::Tree { commit: "c0ffee".into(), paths: vec![format!("{revision}/app/x.yaml")] })
    };
    let matrix = printing(
        "{{.name}}-{{.path.path}}-{{.values.v}}+{{.values.w}}",
        json!([{"matrix": {"generators": [
            {"list": {"elements": [{"name": "a", "branch": "main"}, {"name": "b", "branch": "dev"}]}},
            {"git": {"repoURL": "https://git.example/{{.name}}", "revision": "{{.branch}}",
                "directories": [{"path": "*/app"}], "values": {"v": "{{.name}}", "w": "{{.path.basename}}"}}},
        ]}}]),
    );
    let generation = settle(&matrix, vec![], &Tree::new(), &other);
    assert_eq!(names(&generation), ["a-main/app-a+app", "b-dev/app-b+app"]);
    assert_eq!(*asked.borrow(), ["https://git.example/a@main", "https://git.example/b@dev"]);
    let old = set(json!({"generators": [{"matrix": {"generators": [
        {"list": {"elements": [{"name": "a", "x": "1"}]}}, {"list": {"elements": [{"name": "b"}]}}]}}]}));
    assert!(message(&settle(&old, vec![], &Tree::new(), &nobody)).contains("found duplicate key name"));
}

#[test]
fn combinations_have_rules() {
    let list = json!({"list": {"elements": [{"name": "a"}]}});
    let within = |generator: Value| {
        message(&settle(&printing("x", json!([generator])), vec![], &Tree::new(), &nobody))
    };
    assert!(within(json!({"matrix": {"generators": [list]}})).contains("exactly two generators and has 1"));
    assert!(within(json!({"merge": {"generators": [list, list]}})).contains("no merge keys"));
    assert!(
        within(json!({"merge": {"generators": [list], "mergeKeys": ["name"]}})).contains("less than two")
    );
    let twice = json!({"list": {"elements": [{"name": "a"}, {"name": "a"}]}});
    assert!(
        within(json!({"merge": {"generators": [twice, list], "mergeKeys": ["name"]}})).contains("not unique")
    );
    let once = json!({"matrix": {"generators": [list, list]}});
    let deep = json!({"matrix": {"generators": [json!({"matrix": {"generators": [once, list]}}), list]}});
    assert!(within(deep).contains("nested too deep"));
    assert!(within(json!({"lists": {}})).contains("there is no generator called lists"));
    assert!(within(json!({})).contains("a generator is empty"));
    assert!(within(json!({"git": {"repoURL": "x"}})).contains("directories or files"));
}

#[test]
fn a_merge_lays_sets_over_each_other() {
    let merge = printing(
        "{{.name}}-{{.size}}-{{.deep.a}}{{.deep.b}}",
        json!([{"merge": {"mergeKeys": ["name"], "generators": [
            {"list": {"elements": [{"name": "a", "size": "1", "deep": {"a": 1, "b": 1}}, {"name": "b", "size": "1", "deep": {"a": 1, "b": 1}}]}},
            {"list": {"elements": [{"name": "b", "size": "2", "deep": {"b": 2}}, {"name": "c", "size": "3"}]}},
        ]}}]),
    );
    assert_eq!(names(&settle(&merge, vec![], &Tree::new(), &nobody)), ["a-1-11", "b-2-12"]);
}

#[test]
fn a_selector_takes_some_of_what_a_generator_gives() {
    let some = printing(
        "{{.name}}",
        json!([{"list": {"elements": [
            {"name": "a", "kind": {"of": "web"}, "n": 1}, {"name": "b", "kind": {"of": "db"}, "n": 2}]},
            "selector": {"matchLabels": {"kind.of": "web"}, "matchExpressions": [{"key": "n", "operator": "In", "values": ["1", "2"]}]}}]),
    );
    assert_eq!(names(&settle(&some, vec![], &Tree::new(), &nobody)), ["a"]);
}

#[test]
fn a_generator_may_have_its_own_template() {
    let own = set(json!({"generators": [
        {"list": {"elements": [{"name": "a"}], "template": {
            "metadata": {"labels": {"own": "yes"}}, "spec": {"project": "", "source": {"path": "own/{{name}}"}}}}},
        {"list": {"elements": [{"name": "b"}]}}]}));
    let generation = settle(&own, vec![], &Tree::new(), &nobody);
    let all = &generation.outcome.as_ref().expect("generated").applications;
    assert_eq!(all[0]["spec"]["source"], json!({"repoURL": "https://git.example/x", "path": "own/a"}));
    assert_eq!(all[0]["spec"]["project"], "default");
    assert_eq!(all[0]["metadata"]["labels"], json!({"own": "yes"}));
    assert_eq!(all[1]["spec"]["source"]["path"], "b");
}

#[test]
fn pull_requests_repositories_plugins_and_decisions_are_asked_for() {
    let other = |need: &Need| match need {
        Need::PullRequests { provider } => {
            assert_eq!(*provider, json!({"github": {"owner": "o", "repo": "r"}, "filters": []}));
            Ok(Answer::PullRequests(vec![PullRequest {
                number: 7,
                title: "Say hello".into(),
                branch: "feature/Add_a thing".into(),
                target_branch: "main".into(),
                head_sha: "0123456789abcdef".into(),
                author: "me".into(),
                labels: vec!["preview".into()],
            }]))
        }
        Need::Repositories { .. } => Ok(Answer::Repositories(vec![RepositoryEntry {
            organization: "o".into(),
            repository: "r".into(),
            repository_id: json!(12),
            url: "https://git.example/o/r".into(),
            branch: "release/1.0".into(),
            sha: "0123456789".into(),
            labels: vec!["a".into(), "b".into()],
        }])),
        Need::Plugin { config_map, parameters } => {
            assert_eq!((config_map.as_str(), parameters), ("plug", &json!({"x": 1})));
            Ok(Answer::Parameters(vec![json!({"k": {"deep": "v"}}).as_object().expect("a map").clone()]))
        }
        Need::Decisions { config_map, name, .. } => {
            assert_eq!((config_map.as_str(), name.as_str()), ("placement", "p"));
            Ok(Answer::Decisions(Decisions {
                status_list_key: "decisions".into(),
                match_key: "clusterName".into(),
                resources: vec![json!({"status": {"decisions": [
                    {"clusterName": "staging", "score": 5}, {"clusterName": "unknown"}]}})],
            }))
        }
        need => nobody(need),
    };
    let run = |expression: &str, generator: Value| {
        let clusters = vec![cluster("staging", "https://staging", &[])];
        names(&settle(&printing(expression, json!([generator])), clusters, &Tree::new(), &other))
    };
    let pull = json!({"pullRequest": {"github": {"owner": "o", "repo": "r"}, "filters": [], "requeueAfterSeconds": 5,
        "values": {"x": "{{.number}}"}}});
    assert_eq!(
        run(
            "{{.number}}|{{.branch_slug}}|{{.head_short_sha}}|{{.head_short_sha_7}}|{{index .labels 0}}|{{.values.x}}",
            pull
        ),
        ["7|feature-add-a-thing|01234567|0123456|preview|7"]
    );
    assert_eq!(
        run(
            "{{.repository}}|{{.branchNormalized}}|{{.short_sha}}|{{.labels}}|{{.repository_id}}",
            json!({"scmProvider": {"gitea": {"owner": "o"}}})
        ),
        ["r|release-1.0|01234567|a,b|12"]
    );
    let plugin = json!({"plugin": {"configMapRef": {"name": "plug"}, "input": {"parameters": {"x": 1}}, "values": {"y": "{{.k.deep}}!"}}});
    assert_eq!(run("{{.k.deep}}|{{.generator.input.parameters.x}}|{{.values.y}}", plugin), ["v|1|v!"]);
    let decision =
        json!({"clusterDecisionResource": {"configMapRef": "placement", "name": "p", "values": {"z": "1"}}});
    assert_eq!(
        run("{{.name}}|{{.server}}|{{.score}}|{{.values.z}}", decision),
        ["staging|https://staging|5|1"]
    );
}

#[test]
fn a_repository_that_is_gone_may_be_allowed() {
    let gone = |_: &Need| Ok(Answer::RepositoryNotFound("o/r is not there".into()));
    let of = |go_on: bool| {
        let generator = json!([{"pullRequest": {"github": {"owner": "o", "repo": "r"}, "continueOnRepoNotFoundError": go_on}}]);
        settle(&printing("x", generator), vec![], &Tree::new(), &gone)
    };
    assert_eq!(names(&of(true)), Vec::<String>::new());
    assert!(message(&of(false)).contains("o/r is not there"));
}

#[test]
fn all_faults_are_said_at_once_with_their_place() {
    let faulty = printing(
        "{{.name}}{{.missing.x.y}}{{fail \"no\"}}",
        json!([{"list": {"elements": [{"name": "a"}]}}, {"list": {"elements": [5]}}]),
    );
    let text = message(&settle(&faulty, vec![], &Tree::new(), &nobody));
    assert!(text.contains("error calling fail: no") && text.contains("base:1:27:"), "{text}");
    assert!(text.contains("list.elements[0] must be an object"), "{text}");
    let mut strict = printing("{{.nam}}", json!([{"list": {"elements": [{"name": "a"}]}}]));
    strict.spec.go_template_options = vec!["missingkey=error".into()];
    let text = message(&settle(&strict, vec![], &Tree::new(), &nobody));
    assert!(text.contains("map has no entry for key \"nam\""), "{text}");
}

#[test]
fn a_patch_changes_anything_but_the_project() {
    let mut patched = printing("{{.name}}", json!([{"list": {"elements": [{"name": "a", "prune": true}]}}]));
    patched.spec.template_patch = Some(
        "metadata:\n  finalizers: [x]\n  annotations: {a: b}\nspec:\n  project: other\n  {{- if .prune }}\n  syncPolicy: {automated: {prune: true}}\n  {{- end }}\n  destination: {name: null, server: https://kubernetes.default.svc}\n"
            .into(),
    );
    let generation = settle(&patched, vec![], &Tree::new(), &nobody);
    let application = &generation.outcome.as_ref().expect("generated").applications[0];
    assert_eq!(application["spec"]["project"], "", "the project of the template");
    assert_eq!(application["spec"]["syncPolicy"], json!({"automated": {"prune": true}}));
    assert_eq!(application["spec"]["destination"], json!({"server": "https://kubernetes.default.svc"}));
    assert_eq!(application["metadata"]["finalizers"], json!(["resources-finalizer.argocd.argoproj.io", "x"]));
    patched.spec.template_patch = Some("a: b: c".into());
    assert!(
        message(&settle(&patched, vec![], &Tree::new(), &nobody)).contains("templatePatch is not valid YAML")
    );
}
