//! What we render is what upstream would: generated Applications, each also rendered by the programs themselves, run as
//! upstream runs them (`kustomize edit …` in place and `build`; `helm dependency build` and `template`), and compared
//! object by object. A failure of one must be a failure of the other.
//!
//! `SLIPWAY_RENDERINGS` says how many; a short form runs with the tests, the long one with `make oracle`.

use std::path::{Path, PathBuf};
use std::process::Command;

use serde_json::{Value, json};
use slipway_source::{Helm, HelmParameter, Kustomize, Renderer, SourceOptions};

use crate::render::request;
use crate::repo::Repo;

const SHORT: usize = 45;

struct Dice(u64);

impl Dice {
    fn of(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }

    fn is(&mut self, one_in: u64) -> bool {
        self.of(one_in) == 0
    }

    fn pick<'a>(&mut self, from: &[&'a str]) -> &'a str {
        from[self.of(from.len() as u64) as usize]
    }
}

const WEB: &str = "apiVersion: apps/v1\nkind: Deployment\nmetadata:\n  name: web\n  labels: {app: web}\nspec:\n  replicas: 1\n  selector: {matchLabels: {app: web}}\n  template:\n    metadata: {labels: {app: web}}\n    spec:\n      containers:\n      - {name: web, image: 'nginx:1.0'}\n      - {name: side, image: 'registry.example.com:5000/side@sha256:1111111111111111111111111111111111111111111111111111111111111111'}\n      initContainers: [{name: init, image: busybox}]\n      volumes: [{name: c, configMap: {name: conf}}]\n";
const SERVICE: &str = "apiVersion: v1\nkind: Service\nmetadata: {name: web, namespace: fixed}\nspec: {selector: {app: web}, ports: [{port: 80}]}\n";
const CRON: &str = "apiVersion: batch/v1\nkind: CronJob\nmetadata: {name: tick}\nspec:\n  schedule: '* * * * *'\n  jobTemplate: {spec: {template: {spec: {restartPolicy: Never, containers: [{name: t, image: 'nginx:1.0'}]}}}}\n";
const ROLE: &str = "apiVersion: rbac.authorization.k8s.io/v1\nkind: ClusterRoleBinding\nmetadata: {name: b}\nroleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}\nsubjects: [{kind: ServiceAccount, name: default, namespace: x}]\n";

/// The files of a kustomization, and options for it.
fn kustomization(dice: &mut Dice) -> (Vec<(String, String)>, Kustomize) {
    let mut lines = vec!["resources: [web.yaml, service.yaml, cron.yaml, role.yaml]".to_owned()];
    let mut files: Vec<(String, String)> = [
        ("web.yaml", WEB),
        ("service.yaml", SERVICE),
        ("cron.yaml", CRON),
        ("role.yaml", ROLE),
        ("patch.yaml", "apiVersion: apps/v1\nkind: Deployment\nmetadata: {name: web}\nspec: {replicas: 4}\n"),
        ("app.properties", "a=b\nc=d"),
        ("comp/kustomization.yaml", "apiVersion: kustomize.config.k8s.io/v1alpha1\nkind: Component\nresources: [pod.yaml]\ncommonAnnotations: {from: component}\n"),
        ("comp/pod.yaml", "apiVersion: v1\nkind: Pod\nmetadata: {name: extra}\nspec: {containers: [{name: e, image: 'nginx:1.0'}]}\n"),
        ("labels.yaml", "apiVersion: builtin\nkind: LabelTransformer\nmetadata: {name: l}\nlabels: {by: transformer}\nfieldSpecs: [{path: metadata/labels, create: true}]\n"),
    ]
    .map(|(path, text)| (path.to_owned(), text.to_owned()))
    .into();
    for (line, one_in) in [
        ("namePrefix: base-", 2),
        ("nameSuffix: -base", 3),
        ("namespace: base-ns", 3),
        ("commonLabels: {team: red, tier: web}", 3),
        ("labels: [{pairs: {zone: one}, includeSelectors: false}]", 4),
        ("commonAnnotations: {owner: base}", 3),
        (
            "images: [{name: nginx, newName: registry.example.com/team/nginx, newTag: '1.1'}, {name: busybox, newTag: '3'}]",
            2,
        ),
        (
            "images: [{name: nginx, digest: 'sha256:2222222222222222222222222222222222222222222222222222222222222222'}]",
            5,
        ),
        ("replicas: [{name: web, count: 3}]", 3),
        ("configMapGenerator: [{name: conf, files: [app.properties], literals: [x=y]}]", 2),
        ("secretGenerator: [{name: s, literals: [p=q]}]", 5),
        ("patches: [{path: patch.yaml}]", 3),
        ("patchesStrategicMerge: [patch.yaml]", 6),
        ("components: [comp]", 6),
        ("transformers: [labels.yaml]", 5),
        ("generatorOptions: {disableNameSuffixHash: true}", 4),
        ("buildMetadata: [managedByLabel]", 8),
    ] {
        let field = line.split(':').next().unwrap_or_default();
        if dice.is(one_in) && !lines.iter().any(|known| known.starts_with(field)) {
            lines.push(line.to_owned());
        }
    }
    let name = dice.pick(&["kustomization.yaml", "kustomization.yaml", "kustomization.yml", "Kustomization"]);
    files.push((name.to_owned(), format!("{}\n", lines.join("\n"))));
    let mut options = Kustomize::default();
    if dice.is(3) {
        options.name_prefix = dice.pick(&["app-", "-", "x"]).into();
    }
    if dice.is(3) {
        options.name_suffix = dice.pick(&["-suf", "y"]).into();
    }
    if dice.is(3) {
        options.namespace = dice.pick(&["app-ns", "base-ns"]).into();
    }
    if dice.is(2) {
        for _ in 0..=dice.of(2) {
            options.images.push(
                dice.pick(&[
                    "nginx:9.9",
                    "nginx=registry.example.com/team/nginx:9.9",
                    "nginx=other",
                    "busybox@sha256:3333333333333333333333333333333333333333333333333333333333333333",
                    "registry.example.com:5000/side=host:5000/side:v2",
                    "absent:1",
                    "nginx=x/y@sha256:4444444444444444444444444444444444444444444444444444444444444444",
                ])
                .into(),
            );
        }
    }
    if dice.is(3) {
        options.replicas = vec![(dice.pick(&["web", "absent"]).into(), dice.of(5) as i64)];
    }
    if dice.is(3) {
        let (name, value) = (dice.pick(&["team", "zone", "new"]), dice.pick(&["blue", "1", ""]));
        options.common_labels.insert(name.into(), value.into());
        options.force_common_labels = dice.is(2);
        options.label_without_selector = dice.is(3);
        options.label_include_templates = options.label_without_selector && dice.is(2);
    }
    if dice.is(3) {
        options.common_annotations.insert(dice.pick(&["owner", "link"]).into(), "https://x/y:1".into());
        options.force_common_annotations = dice.is(2);
    }
    if dice.is(4) {
        options.patches.push(
            json!({"target": {"kind": "Deployment"}, "patch": "- op: replace\n  path: /spec/replicas\n  value: 7\n"}),
        );
    }
    if dice.is(6) {
        options.patches.push(json!({"path": "patch.yaml"}));
    }
    if dice.is(4) {
        options.components.push("comp".into());
    }
    (files, options)
}

fn chart(dice: &mut Dice) -> (Vec<(String, String)>, Helm) {
    let map = "apiVersion: v1\nkind: ConfigMap\nmetadata:\n  name: {{ .Release.Name }}-{{ .Chart.Name }}\n  namespace: {{ .Release.Namespace }}\ndata:\n  color: {{ .Values.color | default \"none\" | quote }}\n  size: {{ .Values.size | default 1 | quote }}\n  list: {{ .Values.list | default list | toJson | quote }}\n  caps: {{ .Capabilities.KubeVersion.Version }}\n  has: {{ .Capabilities.APIVersions.Has \"example.org/v1\" | quote }}\n  text: |\n    {{- .Values.text | default \"t\" | nindent 4 }}";
    let hook = "apiVersion: batch/v1\nkind: Job\nmetadata:\n  name: hook\n  annotations: {helm.sh/hook: \"pre-install,post-upgrade\"}\nspec: {template: {spec: {restartPolicy: Never, containers: [{name: h, image: busybox}]}}}\n";
    let test = "apiVersion: v1\nkind: Pod\nmetadata: {name: probe, annotations: {helm.sh/hook: test}}\nspec: {containers: [{name: t, image: busybox}]}\n";
    let crd = "apiVersion: apiextensions.k8s.io/v1\nkind: CustomResourceDefinition\nmetadata: {name: ships.example.org}\nspec: {group: example.org, scope: Namespaced, names: {kind: Ship, plural: ships}, versions: [{name: v1, served: true, storage: true, schema: {openAPIV3Schema: {type: object}}}]}\n";
    let several = "{{- range $i, $e := until (int (.Values.count | default 2)) }}\n---\napiVersion: v1\nkind: Secret\nmetadata: {name: s{{ $i }}}\nstringData: {a: b}\n{{- end }}\n";
    let first_api = dice.is(2);
    let api = if first_api { "v1" } else { "v2" };
    let mut files = vec![
        ("values.yaml".to_owned(), "color: red\ndep: {color: green}\n".to_owned()),
        ("more.yaml".to_owned(), "color: blue\nsize: 3\ntext: |\n  a\n  b".to_owned()),
        ("templates/map.yaml".to_owned(), map.to_owned()),
    ];
    for (path, text, one_in) in [
        ("templates/hook.yaml", hook, 2),
        ("templates/tests/probe.yaml", test, 2),
        ("crds/ship.yaml", crd, 2),
        ("templates/several.yaml", several, 2),
        ("templates/NOTES.txt", "Hello {{ .Release.Name }}", 2),
        (
            "templates/list.yaml",
            "apiVersion: v1\nkind: List\nitems:\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: l1}}\n- {apiVersion: v1, kind: ConfigMap, metadata: {name: l2}}\n",
            4,
        ),
        ("templates/empty.yaml", "{{- if .Values.never }}\na: b\n{{- end }}\n", 4),
    ] {
        if dice.is(one_in) {
            files.push((path.to_owned(), text.to_owned()));
        }
    }
    let mut head = format!("apiVersion: {api}\nname: top\nversion: 1.2.3\nappVersion: '9'\n");
    if dice.is(2) {
        let alias = if dice.is(3) { ", alias: other" } else { "" };
        let condition = if dice.is(3) { ", condition: dep.enabled" } else { "" };
        let place = dice.pick(&["file://deps/dep", "file://../dep"]);
        let needs = format!(
            "dependencies:\n- {{name: dep, version: 0.1.0, repository: '{place}'{alias}{condition}}}\n"
        );
        if first_api {
            files.push(("requirements.yaml".to_owned(), needs));
        } else {
            head.push_str(&needs);
        }
        let at = if place.contains("..") { "../dep" } else { "deps/dep" };
        files.push((format!("{at}/Chart.yaml"), "apiVersion: v1\nname: dep\nversion: 0.1.0\n".to_owned()));
        files.push((format!("{at}/values.yaml"), "color: grey\n".to_owned()));
        files.push((format!("{at}/templates/map.yaml"), map.to_owned()));
    }
    files.push(("Chart.yaml".to_owned(), head));
    let mut options = Helm::default();
    if dice.is(2) {
        options.value_files.push("more.yaml".into());
    }
    if dice.is(2) {
        options.values = "size: 5\nlist: [a, 2]\n".into();
    }
    if dice.is(3) {
        options.values_object = Some(json!({"color": "gold", "dep": {"size": 8}}));
    }
    for (name, value, force) in [("color", "pink", false), ("size", "10", true), ("list", "{x,y}", false)] {
        if dice.is(4) {
            options.parameters.push(HelmParameter {
                name: name.into(),
                value: value.into(),
                force_string: force,
            });
        }
    }
    if dice.is(4) {
        options.release_name = "rel".into();
    }
    if dice.is(5) {
        options.namespace = "other".into();
    }
    options.skip_crds = dice.is(4);
    options.skip_tests = dice.is(4);
    if dice.is(5) {
        options.api_versions.push("example.org/v1".into());
    }
    if dice.is(5) {
        options.kube_version = "1.30.2".into();
    }
    (files, options)
}

fn run(tool: &Path, folder: &Path, words: &[String]) -> Result<Vec<u8>, String> {
    let home = folder.parent().unwrap_or(folder);
    let output = Command::new(tool)
        .args(words)
        .current_dir(folder)
        .env("HOME", home)
        .envs(["XDG_CACHE_HOME", "XDG_CONFIG_HOME", "XDG_DATA_HOME"].map(|name| (name, home)))
        .output()
        .expect("the tool runs");
    if output.status.success() {
        Ok(output.stdout)
    } else {
        Err(String::from_utf8_lossy(&output.stderr).into())
    }
}

fn words(text: &str) -> Vec<String> {
    text.split(' ').map(str::to_owned).collect()
}

/// As util/kustomize of upstream does it.
fn by_kustomize(folder: &Path, options: &Kustomize) -> Result<Vec<Value>, String> {
    let tool = slipway_testkit::tool("kustomize");
    let edit = |verb: &str, values: Vec<String>| {
        run(&tool, folder, &words(verb).into_iter().chain(values).collect::<Vec<_>>())
    };
    if !options.name_prefix.is_empty() {
        edit("edit set nameprefix --", vec![options.name_prefix.clone()])?;
    }
    if !options.name_suffix.is_empty() {
        edit("edit set namesuffix --", vec![options.name_suffix.clone()])?;
    }
    if !options.images.is_empty() {
        edit("edit set image", options.images.clone())?;
    }
    if !options.replicas.is_empty() {
        edit(
            "edit set replicas",
            options.replicas.iter().map(|(name, count)| format!("{name}={count}")).collect(),
        )?;
    }
    let pairs = |map: &std::collections::BTreeMap<String, String>| -> Vec<String> {
        map.iter().map(|(name, value)| format!("{name}:{value}")).collect()
    };
    if !options.common_labels.is_empty() {
        let mut verb = "edit add label".to_owned();
        for (on, flag) in [
            (options.force_common_labels, " --force"),
            (options.label_without_selector, " --without-selector"),
            (options.label_include_templates, " --include-templates"),
        ] {
            verb.push_str(if on { flag } else { "" });
        }
        edit(&verb, pairs(&options.common_labels))?;
    }
    if !options.common_annotations.is_empty() {
        let force = if options.force_common_annotations { " --force" } else { "" };
        edit(&format!("edit add annotation{force}"), pairs(&options.common_annotations))?;
    }
    if !options.namespace.is_empty() {
        edit("edit set namespace --", vec![options.namespace.clone()])?;
    }
    if !options.patches.is_empty() {
        let names = ["kustomization.yaml", "kustomization.yml", "Kustomization"];
        let file =
            names.iter().map(|name| folder.join(name)).find(|path| path.is_file()).expect("it is there");
        let text = std::fs::read_to_string(&file).expect("readable");
        let (mut known, _) = slipway_yaml::load_all_json(&text).expect("YAML").remove(0);
        let mut patches = known["patches"].as_array().cloned().unwrap_or_default();
        patches.extend(options.patches.iter().cloned());
        known["patches"] = patches.into();
        std::fs::write(&file, known.to_string()).expect("written");
    }
    if !options.components.is_empty() {
        edit("edit add component", options.components.clone())?;
    }
    run(&tool, folder, &["build".to_owned(), folder.display().to_string()]).map(|text| objects(&text))
}

/// As util/helm of upstream does it, with the values in files.
fn by_helm(folder: &Path, options: &Helm) -> Result<Vec<Value>, String> {
    let tool = slipway_testkit::tool("helm");
    let release = if options.release_name.is_empty() { "shop" } else { &options.release_name };
    let namespace = if options.namespace.is_empty() { "demo" } else { &options.namespace };
    let version = if options.kube_version.is_empty() { "1.34.0" } else { &options.kube_version };
    let mut all = words(&format!(
        "template . --name-template {release} --namespace {namespace} --kube-version {version}"
    ));
    for parameter in &options.parameters {
        let how = if parameter.force_string { "--set-string" } else { "--set" };
        all.extend([how.to_owned(), format!("{}={}", parameter.name, parameter.value)]);
    }
    for file in &options.value_files {
        all.extend(["--values".to_owned(), file.clone()]);
    }
    let inline =
        options.values_object.as_ref().map(Value::to_string).unwrap_or_else(|| options.values.clone());
    if !inline.is_empty() {
        let file = folder.parent().expect("a folder").join("inline-values.yaml");
        std::fs::write(&file, inline).expect("written");
        all.extend(["--values".to_owned(), file.display().to_string()]);
    }
    for api in &options.api_versions {
        all.extend(["--api-versions".to_owned(), api.clone()]);
    }
    for (on, flag) in [(!options.skip_crds, "--include-crds"), (options.skip_tests, "--skip-tests")] {
        all.extend(on.then(|| flag.to_owned()));
    }
    let mut printed = run(&tool, folder, &all);
    if printed.as_ref().is_err_and(|why| why.contains("dependency") || why.contains("dependencies")) {
        run(&tool, folder, &words("dependency build"))?;
        printed = run(&tool, folder, &all);
    }
    printed.map(|text| objects(&text))
}

/// What was printed, with lists opened, as kubectl reads it.
fn objects(text: &[u8]) -> Vec<Value> {
    let mut text = String::from_utf8_lossy(text).into_owned();
    if !text.ends_with('\n') {
        text.push('\n');
    }
    let documents = slipway_yaml::load_all_json(&text).expect("the tool prints YAML");
    let open = |(object, _): (Value, _)| match object["items"].as_array() {
        Some(items) if object["kind"].as_str().is_some_and(|kind| kind.ends_with("List")) => items.clone(),
        _ => vec![object],
    };
    documents.into_iter().flat_map(open).collect()
}

fn sorted(mut objects: Vec<Value>) -> Vec<Value> {
    objects.sort_by_key(|object| {
        let text = |path: &str| object.pointer(path).and_then(Value::as_str).unwrap_or_default().to_owned();
        (text("/kind"), text("/metadata/namespace"), text("/metadata/name"), object.to_string())
    });
    objects
}

enum Options {
    Kustomize(Kustomize),
    Helm(Helm),
}

struct Case {
    name: String,
    files: Vec<(String, String)>,
    options: Options,
}

/// The example repositories of the comparison with upstream, as they are and with options.
fn examples() -> Vec<Case> {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../e2e/oracle/examples");
    let mut cases = Vec::new();
    for (name, options) in [
        ("kustomize-guestbook", Options::Kustomize(Kustomize::default())),
        (
            "kustomize-guestbook",
            Options::Kustomize(Kustomize {
                name_prefix: "pre-".into(),
                name_suffix: "-suf".into(),
                ..Kustomize::default()
            }),
        ),
        ("helm-guestbook", Options::Helm(Helm::default())),
        (
            "helm-guestbook",
            Options::Helm(Helm { value_files: vec!["values-production.yaml".into()], ..Helm::default() }),
        ),
    ] {
        let mut files = Vec::new();
        read(&root.join(name), "", &mut files);
        assert!(!files.is_empty(), "{name} is gone");
        cases.push(Case { name: format!("example {name}"), files, options });
    }
    cases
}

/// An example repository with generated options; plain folders get a kustomization over their files.
fn example(dice: &mut Dice) -> (String, Vec<(String, String)>, Options) {
    let root = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../e2e/oracle/examples");
    let name = dice.pick(&[
        "kustomize-guestbook",
        "helm-guestbook",
        "apps",
        "guestbook",
        "sock-shop",
        "blue-green",
        "pre-post-sync",
        "sync-waves",
        "unknown-kind",
    ]);
    let mut files = Vec::new();
    read(&root.join(name), "", &mut files);
    assert!(!files.is_empty(), "{name} is gone");
    if matches!(name, "helm-guestbook" | "apps") {
        let (_, mut options) = chart(dice);
        options.value_files = options.value_files.iter().map(|_| "values-production.yaml".into()).collect();
        return (name.to_owned(), files, Options::Helm(options));
    }
    let (generated, options) = kustomization(dice);
    if name != "kustomize-guestbook" {
        let resources: Vec<&str> = files.iter().map(|(path, _)| path.as_str()).collect();
        let of_example = format!("resources: [{}]", resources.join(", "));
        let is_head = |path: &str| path.to_lowercase().starts_with("kustomization");
        let mut parts: Vec<(String, String)> =
            generated.into_iter().filter(|(path, _)| is_head(path) || !path.ends_with("web.yaml")).collect();
        for (_, text) in parts.iter_mut().filter(|(path, _)| is_head(path)) {
            *text =
                text.replacen("resources: [web.yaml, service.yaml, cron.yaml, role.yaml]", &of_example, 1);
        }
        files.extend(parts);
    }
    (name.to_owned(), files, Options::Kustomize(options))
}

fn read(folder: &Path, below: &str, files: &mut Vec<(String, String)>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let name = format!("{below}{}", entry.file_name().to_string_lossy());
        if entry.path().is_dir() {
            read(&entry.path(), &format!("{name}/"), files);
        } else if let Ok(text) = std::fs::read_to_string(entry.path()) {
            files.push((name, text));
        }
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_rendered_is_what_the_programs_render() {
    let count: usize =
        std::env::var("SLIPWAY_RENDERINGS").ok().and_then(|text| text.parse().ok()).unwrap_or(SHORT);
    let mut cases = examples();
    let mut dice = Dice(0x51ab_7f3d_9e37_79b9);
    for number in cases.len()..count {
        let (name, files, options) = match number % 3 {
            0 => {
                let (files, options) = kustomization(&mut dice);
                ("kustomization".to_owned(), files, Options::Kustomize(options))
            }
            1 => {
                let (files, options) = chart(&mut dice);
                ("chart".to_owned(), files, Options::Helm(options))
            }
            _ => example(&mut dice),
        };
        cases.push(Case { name: format!("{name} {number}"), files, options });
    }
    let repo = Repo::new();
    for (number, case) in cases.iter().enumerate() {
        for (path, text) in &case.files {
            let path = match path.strip_prefix("../") {
                Some(beside) => format!("case-{number}/{beside}"),
                None => format!("case-{number}/source/{path}"),
            };
            repo.write(&path, text);
        }
    }
    repo.commit("All of them");
    let renderer = repo.renderer();
    let (mut alike, mut refused, mut wrong) = (0, 0, Vec::new());
    for (number, case) in cases.iter().enumerate() {
        let ours = ours(&repo, &renderer, number, &case.options).await;
        // Upstream edits in place, so the work tree is read after ours was rendered from Git.
        let folder = repo.folder().join(format!("case-{number}/source"));
        let theirs = match &case.options {
            Options::Kustomize(options) => by_kustomize(&folder, options),
            Options::Helm(options) => by_helm(&folder, options),
        };
        match (ours, theirs) {
            (Ok(ours), Ok(theirs)) if sorted(ours.clone()) == sorted(theirs.clone()) => alike += 1,
            (Err(_), Err(_)) => refused += 1,
            (ours, theirs) => wrong.push(format!("{}:\nours {ours:#?}\ntheirs {theirs:#?}", case.name)),
        }
    }
    println!("{alike} of {} rendered alike, {refused} refused by both, {} differ", cases.len(), wrong.len());
    assert!(wrong.is_empty(), "{} of {} differ; the first:\n{}", wrong.len(), cases.len(), wrong[0]);
    assert!(alike * 2 > cases.len(), "too few cases render at all: {alike}");
}

async fn ours(
    repo: &Repo,
    renderer: &Renderer,
    number: usize,
    options: &Options,
) -> Result<Vec<Value>, String> {
    let options = match options {
        Options::Kustomize(options) => SourceOptions::Kustomize(Box::new(options.clone())),
        Options::Helm(options) => SourceOptions::Helm(Box::new(options.clone())),
    };
    let request = request(repo, renderer, &format!("case-{number}/source"), options).await;
    renderer.render(&request).await.map(|made| made.objects.clone()).map_err(|error| error.to_string())
}
