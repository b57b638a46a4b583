//! Repositories that try to make the real tools read, fetch or run something else. Each refusal says where; whatever is
//! not refused finds nothing.

use std::net::TcpListener;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use serde_json::json;
use slipway_source::{
    Directory, GitCache, GitOptions, Helm, HelmParameter, Jsonnet, JsonnetVariable, Kustomize, KustomizeTool,
    RenderError, RenderRequest, Repository, Since, SourceOptions,
};

use crate::render::request;
use crate::repo::Repo;

const CANARY: &str = "CANARY-7f3a";

/// A file, a repository and a server of this machine that nobody may get at.
struct Target {
    folder: tempfile::TempDir,
    port: u16,
    calls: Arc<AtomicUsize>,
}

impl Target {
    fn new() -> Self {
        use std::io::{Read, Write};
        use std::os::unix::fs::PermissionsExt;
        let folder = tempfile::Builder::new().prefix("target-").tempdir().expect("a folder");
        // Open to everybody: only the cage stands in the way.
        std::fs::set_permissions(folder.path(), PermissionsExt::from_mode(0o755)).expect("a mode");
        std::fs::write(folder.path().join("agents.json"), CANARY).expect("a file");
        let map = format!(
            "apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: stolen}}\ndata: {{word: {CANARY}}}\n"
        );
        std::fs::write(folder.path().join("map.yaml"), &map).expect("a file");
        std::fs::write(folder.path().join("kustomization.yaml"), "resources: [map.yaml]\n").expect("a file");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let calls = Arc::new(AtomicUsize::new(0));
        let counted = calls.clone();
        std::thread::spawn(move || {
            for caller in listener.incoming().flatten() {
                counted.fetch_add(1, Ordering::SeqCst);
                let mut caller = caller;
                let _ = caller.read(&mut [0; 1024]);
                let head =
                    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\nconnection: close\r\n\r\n", map.len());
                let _ = caller.write_all(format!("{head}{map}").as_bytes());
            }
        });
        Self { folder, port, calls }
    }

    fn file(&self) -> String {
        self.folder.path().join("agents.json").display().to_string()
    }

    fn base(&self) -> String {
        self.folder.path().display().to_string()
    }

    fn url(&self) -> String {
        format!("http://127.0.0.1:{}/latest/meta-data", self.port)
    }

    /// `{file}`, `{base}`, `{url}` and `{port}` of a text.
    fn fill(&self, text: &str) -> String {
        text.replace("{file}", &self.file())
            .replace("{base}", &self.base())
            .replace("{url}", &self.url())
            .replace("{port}", &self.port.to_string())
    }
}

async fn render(repo: &Repo, path: &str, options: SourceOptions) -> Result<String, RenderError> {
    let renderer = repo.renderer();
    let request = request(repo, &renderer, path, options).await;
    renderer.render(&request).await.map(|made| serde_json::to_string(&made.objects).expect("plain data"))
}

/// Nothing of the target came out or was called; gives what was said instead.
#[track_caller]
fn held(target: &Target, what: &str, outcome: Result<String, RenderError>) -> String {
    let said = outcome.unwrap_or_else(|error| error.to_string());
    assert!(!said.contains(CANARY), "{what}: {said}");
    assert!(!said.contains("root:x:0"), "{what}: {said}");
    assert_eq!(target.calls.load(Ordering::SeqCst), 0, "{what} called: {said}");
    said
}

fn chart(repo: &Repo, template: &str) {
    repo.write("chart/Chart.yaml", "apiVersion: v2\nname: c\nversion: 0.1.0\n")
        .write("chart/values.yaml", "word: none\n")
        .write("chart/templates/map.yaml", template);
}

const PRINT: &str =
    "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: m}\ndata: {values: {{ toJson .Values | quote }}}\n";

fn helm(options: Helm) -> SourceOptions {
    SourceOptions::Helm(Box::new(options))
}

fn parameter(name: &str, value: &str) -> HelmParameter {
    HelmParameter { name: name.into(), value: value.into(), force_string: false }
}

#[tokio::test]
async fn names_of_helm_parameters_are_names() {
    let target = Target::new();
    let repo = Repo::new();
    chart(&repo, PRINT);
    repo.commit("A chart");
    for name in [
        "leak={file},x",
        "leak={file}",
        "a\\\\,leak={file},x",
        "x,leak={url}",
        "leak={file}\n",
        "a\\",
        "",
        "a[0]={file},b",
        "\u{0}",
    ] {
        let name = target.fill(name);
        let options = Helm { file_parameters: vec![(name.clone(), "values.yaml".into())], ..Helm::default() };
        let said = held(&target, &name, render(&repo, "chart", helm(options)).await);
        assert!(said.contains("is not a name"), "{name}: {said}");
        let options = Helm { parameters: vec![parameter(&name, "v")], ..Helm::default() };
        let said = held(&target, &name, render(&repo, "chart", helm(options)).await);
        assert!(said.contains("is not a name"), "{name}: {said}");
    }
}

#[tokio::test]
async fn options_of_helm_stay_inside_of_the_chart() {
    let target = Target::new();
    let (file, url) = (target.file(), target.url());
    let plain = Helm::default;
    for (what, options) in [
        ("a value of a file", Helm { file_parameters: vec![("a".into(), file.clone())], ..plain() }),
        (
            "a way up",
            Helm { file_parameters: vec![("a".into(), format!("../../../../../..{file}"))], ..plain() },
        ),
        ("an address", Helm { file_parameters: vec![("a".into(), url.clone())], ..plain() }),
        ("a value file", Helm { value_files: vec![file.clone()], ..plain() }),
        ("a value file by address", Helm { value_files: vec![url.clone()], ..plain() }),
        ("two value files in one", Helm { value_files: vec![format!("v.yaml,{file}")], ..plain() }),
        (
            "an assignment by value",
            Helm { parameters: vec![parameter("a", &format!("x,b={file}"))], ..plain() },
        ),
        ("a list", Helm { parameters: vec![parameter("a", &format!("{{x}},b={file}"))], ..plain() }),
        ("a release", Helm { release_name: format!("--post-renderer={file}"), ..plain() }),
        ("a namespace", Helm { namespace: format!("--kubeconfig={file}"), ..plain() }),
        ("a version", Helm { kube_version: format!("1.30 --set-file=a={file}"), ..plain() }),
        ("an API", Helm { api_versions: vec![format!("v1,--set-file,a={file}")], ..plain() }),
        ("values", Helm { values: format!("post-renderer: {file}\nset-file: a={file}\n"), ..plain() }),
    ] {
        let repo = Repo::new();
        chart(&repo, PRINT);
        // A path with a comma really is there, and helm would read two from it.
        repo.write(&format!("chart/v.yaml,{file}"), "a: 1\n")
            .write("chart/v.yaml", "a: 2\n")
            .commit("A chart");
        let said = held(&target, what, render(&repo, "chart", helm(options)).await);
        if what == "two value files in one" {
            assert!(said.contains(r#"\"a\":1"#), "the one file that was named is read: {said}");
        }
    }
}

#[tokio::test]
async fn parameters_mean_what_helm_means_by_them() {
    let repo = Repo::new();
    chart(&repo, PRINT);
    const INLINE: &str = "list: [{a: 1}, {a: 2}]\ngone: 1\n";
    repo.write("chart/conf.txt", "k=v,w\n\"q\" \\ {x}").write("inline.yaml", INLINE).commit("A chart");
    let forced = |name: &str, value: &str| HelmParameter { force_string: true, ..parameter(name, value) };
    let options = Helm {
        value_files: vec!["values.yaml".into()],
        values: INLINE.into(),
        parameters: vec![
            parameter("list[1].a", "x,y"),
            parameter("big", "10000000"),
            parameter("on", "true"),
            parameter("gone", "null"),
            parameter("many", "{a,b}"),
            parameter("dotted\\.key", "d"),
            parameter("octal", "0755"),
            parameter("empty", ""),
            parameter("slash", "a\\\\b"),
            parameter("deep.a.b[2]", "x y"),
            forced("id", "12"),
            forced("flag", "false"),
            forced("words", "{a,1}"),
        ],
        file_parameters: vec![("file.conf".into(), "conf.txt".into())],
        ..Helm::default()
    };
    let made = render(&repo, "chart", helm(options)).await.expect("rendered");
    let objects: serde_json::Value = serde_json::from_str(&made).expect("plain data");
    let values: serde_json::Value =
        serde_json::from_str(objects[0]["data"]["values"].as_str().expect("a text")).expect("plain data");
    // The same as helm makes of them on its command line.
    let output = std::process::Command::new(slipway_testkit::tool("helm"))
        .args([
            "template",
            "shop",
            "chart",
            "--values",
            "inline.yaml",
            "--set",
            "list[1].a=x\\,y,big=10000000,on=true",
        ])
        .args(["--set", "gone=null", "--set", "many={a,b}", "--set", "dotted\\.key=d,octal=0755,empty="])
        .args(["--set", "slash=a\\\\b,deep.a.b[2]=x y", "--set-string", "id=12,flag=false,words={a,1}"])
        .args(["--set-file", "file.conf=chart/conf.txt"])
        .current_dir(repo.folder())
        .output()
        .expect("helm runs");
    let said = String::from_utf8_lossy(&output.stdout);
    let line = said.lines().find_map(|line| line.strip_prefix("data: {values: ")).expect("a line of values");
    let text: String = serde_json::from_str(&line[..line.len() - 1]).expect("a text");
    assert_eq!(values, serde_json::from_str::<serde_json::Value>(&text).expect("plain data"));
    assert_eq!(values["list"], json!([{"a": 1}, {"a": "x,y"}]));
    assert_eq!(values["file"]["conf"], "k=v,w\n\"q\" \\ {x}");
}

#[tokio::test]
async fn a_chart_reads_and_reaches_nothing_but_itself() {
    let target = Target::new();
    for (what, template) in [
        ("a file of the machine", "{{ .Files.Get \"{file}\" }}"),
        ("a file above", "{{ .Files.Get \"../../../../../..{file}\" }}"),
        ("all files", "{{ range $p, $b := .Files.Glob \"/**\" }}{{ $b | toString }}{{ end }}"),
        ("the environment", "{{ env \"PATH\" }}{{ expandenv \"$HOME\" }}"),
        ("a name of the network", "{{ getHostByName \"localhost\" }}"),
        ("the cluster", "{{ (lookup \"v1\" \"Secret\" \"kube-system\" \"x\") | toJson }}"),
        ("a template of a file", "{{ tpl (.Files.Get \"{file}\") . }}"),
    ] {
        let repo = Repo::new();
        let template = target.fill(template);
        chart(
            &repo,
            &format!("apiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m}}\ndata:\n  word: '{template}'\n"),
        );
        repo.commit("A chart");
        held(&target, what, render(&repo, "chart", SourceOptions::Detect).await);
    }
    for (what, path, link) in [
        ("a template that is a link", "chart/templates/x.yaml", target.file()),
        ("values that are a link", "chart/link.yaml", target.file()),
        ("a link to a folder", "chart/charts", target.base()),
        ("a schema that is a link", "chart/values.schema.json", target.file()),
        ("a link upwards", "chart/crds", "../../../../../../../../etc".to_owned()),
    ] {
        let repo = Repo::new();
        chart(
            &repo,
            "word: {{ .Files.Get \"link.yaml\" }}{{ range $p, $b := .Files.Glob \"charts/**\" }}{{ $b }}{{ end }}",
        );
        repo.link(path, &link).commit("A link");
        held(&target, what, render(&repo, "chart", SourceOptions::Detect).await);
    }
    for (what, files) in [
        ("a schema elsewhere", vec![("chart/values.schema.json", r#"{"$ref": "{url}"}"#)]),
        ("a schema in a file", vec![("chart/values.schema.json", r#"{"$ref": "file://{file}"}"#)]),
        (
            "a dependency elsewhere",
            vec![(
                "chart/Chart.yaml",
                "apiVersion: v2\nname: c\nversion: 0.1.0\ndependencies: [{name: d, version: 1.0.0, repository: '{url}'}]\n",
            )],
        ),
        (
            "a dependency of the machine",
            vec![(
                "chart/Chart.yaml",
                "apiVersion: v2\nname: c\nversion: 0.1.0\ndependencies: [{name: d, version: 1.0.0, repository: 'file://{base}'}]\n",
            )],
        ),
        (
            "a dependency by way up",
            vec![(
                "chart/Chart.yaml",
                "apiVersion: v2\nname: c\nversion: 0.1.0\ndependencies: [{name: d, version: 1.0.0, repository: 'file://../../../../../..{base}'}]\n",
            )],
        ),
        (
            "a plugin of helm",
            vec![(
                "plugins/x/plugin.yaml",
                "name: x\ncommand: 'cat {file}'\ndownloaders: [{command: x, protocols: [x]}]\n",
            )],
        ),
    ] {
        let repo = Repo::new();
        chart(&repo, PRINT);
        for (path, content) in files {
            repo.write(path, &target.fill(content));
        }
        repo.commit("A chart");
        held(&target, what, render(&repo, "chart", SourceOptions::Detect).await);
    }
}

#[tokio::test]
async fn a_kustomization_fetches_nothing_however_it_is_written() {
    let target = Target::new();
    std::process::Command::new("git")
        .args(["-c", "user.name=a", "-c", "user.email=a@b", "-C", &target.base(), "init", "-q", "-b", "main"])
        .status()
        .expect("git runs");
    for arguments in [vec!["add", "-A"], vec!["commit", "-q", "-m", "x"]] {
        let status = std::process::Command::new("git")
            .args(["-c", "user.name=a", "-c", "user.email=a@b", "-C", &target.base()])
            .args(arguments)
            .status();
        assert!(status.expect("git runs").success());
    }
    // What is refused in words, with its line.
    for text in [
        "configMapGenerator: [{name: ssrf, files: ['meta={url}']}]",
        "configMapGenerator: [{name: ssrf, envs: ['{url}']}]",
        "configMapGenerator: [{name: ssrf, env: '{url}'}]",
        "secretGenerator: [{name: ssrf, files: ['{url}']}]",
        "ConfigMapGenerator: [{Name: ssrf, FILES: ['meta={url}']}]",
        "Resources: ['file://{base}?ref=main']",
        "re\u{17f}ources: ['file://{base}?ref=main']",
        "resources: ['file://{base}?ref=main']",
        "resources: ['{url}']",
        "resources: ['git::file://{base}']",
        "resources: ['git@127.0.0.1:{port}/x']",
        "resources: ['ssh://-oProxyCommand=x/y']",
        "resources: ['{base}']",
        "resources: ['../../../../../..{base}']",
        "<<: {resources: ['file://{base}?ref=main']}",
        "bases: ['file://{base}?ref=main']",
        "components: ['file://{base}?ref=main']",
        "crds: ['{url}']",
        "configurations: ['{url}']",
        "openapi: {path: '{url}'}",
        "OpenAPI: {Path: '{url}'}",
        "patches: [{path: '{url}'}]",
        "patches: [{PATH: '{url}'}]",
        "patchesStrategicMerge: ['{url}']",
        "patchesJson6902: [{target: {version: v1, kind: ConfigMap, name: a}, path: '{url}'}]",
        "replacements: [{path: '{url}'}]",
        "generators: ['{url}']",
        "Generators: ['gen.yaml']",
        "Transformers: ['gen.yaml']",
        "VALIDATORS: ['gen.yaml']",
        "helmCharts: [{name: x, repo: '{url}'}]",
        "HelmCharts: [{name: x, repo: '{url}'}]",
        "helmChartInflationGenerator: [{chartName: x, chartRepoUrl: '{url}'}]",
    ] {
        let repo = Repo::new();
        repo.write("k/kustomization.yaml", &format!("namePrefix: a-\n{}\n", target.fill(text)))
            .write("k/gen.yaml", "apiVersion: builtin\nkind: ConfigMapGenerator\nmetadata: {name: g, annotations: {config.kubernetes.io/function: 'exec: {path: /bin/cat}'}}\nliterals: [a=b]\n")
            .commit("A kustomization");
        let said = held(&target, text, render(&repo, "k", SourceOptions::Detect).await);
        assert!(said.contains("kustomization.yaml:2:"), "{text}: {said}");
    }
    // What kustomize itself is left to judge: there is nothing for it to find.
    for text in [
        "configMapGenerator: [{name: x, files: ['{file}']}]",
        "configMapGenerator: [{name: x, files: ['a=../../../../../..{file}']}]",
        "configMapGenerator: [{name: x, files: ['a=link']}]",
        "secretGenerator: [{name: x, envs: ['/proc/self/environ']}]",
        "resources: [link]",
        "patches: [{path: link}]",
        "patches: [{path: '{file}'}]",
        "openapi: {path: '{file}'}",
        "replacements: [{path: '{file}'}]",
        "configurations: ['{file}']",
        "crds: ['{file}']",
        "helmGlobals: {chartHome: '{base}', configHome: '{base}'}",
    ] {
        let repo = Repo::new();
        repo.write("k/kustomization.yaml", &format!("namePrefix: a-\n{}\n", target.fill(text)));
        if text.contains("link") {
            repo.link("k/link", &target.file());
        }
        repo.commit("A kustomization");
        held(&target, text, render(&repo, "k", SourceOptions::Detect).await);
    }
}

#[tokio::test]
async fn options_of_kustomize_and_charts_in_it_fetch_nothing() {
    let target = Target::new();
    let (file, url) = (target.file(), target.url());
    for (what, options) in [
        ("a patch", Kustomize { patches: vec![json!({"path": url})], ..Kustomize::default() }),
        ("a patch in capitals", Kustomize { patches: vec![json!({"Path": url})], ..Kustomize::default() }),
        (
            "a patch of the machine",
            Kustomize { patches: vec![json!({"PATH": file})], ..Kustomize::default() },
        ),
        ("a component", Kustomize { components: vec![url.clone()], ..Kustomize::default() }),
        (
            "a component above",
            Kustomize { components: vec![format!("../../..{}", target.base())], ..Kustomize::default() },
        ),
        ("an image", Kustomize { images: vec![format!("a={url}")], ..Kustomize::default() }),
        ("a prefix", Kustomize { name_prefix: format!("x\nresources: ['{url}']"), ..Kustomize::default() }),
    ] {
        let repo = Repo::new();
        repo.write("k/kustomization.yaml", "configMapGenerator: [{name: m, literals: [a=b]}]\n")
            .commit("A base");
        let outcome = render(&repo, "k", SourceOptions::Kustomize(Box::new(options))).await;
        held(&target, what, outcome);
    }
    for (what, charts) in [
        ("a chart elsewhere", "helmCharts: [{name: c, repo: '{url}'}]"),
        ("a chart elsewhere in capitals", "helmCharts: [{Name: c, Repo: '{url}'}]"),
        ("values of the machine", "helmCharts: [{name: c, valuesFile: '{file}'}]"),
        ("values elsewhere", "helmCharts: [{name: c, additionalValuesFiles: ['{url}']}]"),
        ("a home of charts", "helmGlobals: {chartHome: '{base}'}\nhelmCharts: [{name: c}]"),
        ("a home of settings", "helmGlobals: {ConfigHome: '{base}'}\nhelmCharts: [{name: c}]"),
        ("a chart above", "helmCharts: [{name: '../../c'}]"),
    ] {
        let repo = Repo::new();
        repo.write("k/charts/c/Chart.yaml", "apiVersion: v2\nname: c\nversion: 0.1.0\n")
            .write("k/charts/c/templates/m.yaml", PRINT)
            .write("k/kustomization.yaml", &format!("{}\n", target.fill(charts)))
            .commit("Charts");
        let renderer = repo.renderer();
        let tool = KustomizeTool { build_options: vec!["--enable-helm".into()], ..KustomizeTool::default() };
        let asked =
            RenderRequest { kustomize: tool, ..request(&repo, &renderer, "k", SourceOptions::Detect).await };
        let outcome = renderer.render(&asked).await.map(|made| json!(made.objects).to_string());
        held(&target, what, outcome);
    }
}

#[tokio::test]
async fn jsonnet_imports_nothing_of_the_machine() {
    let target = Target::new();
    let map = |value: &str| {
        format!("{{apiVersion: 'v1', kind: 'ConfigMap', metadata: {{name: 'm'}}, data: {{w: {value}}}}}")
    };
    for (what, main, other) in [
        ("another ending", map("import 'evil.txt'"), "importstr '{file}'"),
        (
            "another ending, read first",
            map("(importstr 'evil.txt') + import 'evil.txt'"),
            "importstr '{file}'",
        ),
        ("after a text block", "local a = |||\n  x ||| y\n|||; ".to_owned() + &map("importstr '{file}'"), ""),
        (
            "a text block inside of one",
            "local a = |||\n    |||\n  '\n|||; ".to_owned() + &map("importstr '{file}' + \"'\""),
            "",
        ),
        ("a text block on one line", "local a = ||| x |||; ".to_owned() + &map("importstr '{file}'"), ""),
        ("a path", map("importstr '{file}'"), ""),
        ("a way up", map("importstr '../../../../../../..{file}'"), ""),
        ("bytes", map("std.toString(importbin '{file}')"), ""),
        ("a computed path", map("importstr ('/etc/' + 'passwd')"), ""),
        ("an escaped path", map("importstr '\\u002fetc/passwd'"), ""),
        ("an address", map("importstr '{url}'"), ""),
        ("the process", map("importstr '/proc/self/environ'"), ""),
        ("a device", map("importstr '/dev/stdin'"), ""),
        ("a name of itself", map("std.extVar('HOME')"), ""),
        ("a comment that ends", "/* */ ".to_owned() + &map("importstr /* x */ '{file}'"), ""),
        ("a verbatim text", map("importstr @'{file}'"), ""),
    ] {
        let repo = Repo::new();
        repo.write("app/main.jsonnet", &target.fill(&main))
            .write("app/evil.txt", &target.fill(other))
            .commit("A program");
        let said = held(&target, what, render(&repo, "app", SourceOptions::Detect).await);
        if what.starts_with("another ending") {
            assert!(said.contains("outside of the repository"), "{what}: {said}");
        }
    }
    // A link that is imported, variables that are programs, names of variables with more in them.
    let repo = Repo::new();
    repo.write("app/main.jsonnet", &map("importstr 'link'"))
        .link("app/link", &target.file())
        .commit("A link");
    held(&target, "a link", render(&repo, "app", SourceOptions::Detect).await);
    for (what, name, value) in [
        ("a variable that imports", "a", "importstr '{file}'"),
        ("a variable with an ending text block", "a", "|||\n  x ||| y\n||| + importstr '{file}'"),
        ("a name with a value", "a={file}", "1"),
        ("a name that is an option", "--ext-str-file", "'a={file}'"),
        ("a name with a line", "a\nb", "1"),
    ] {
        let variable = |code| JsonnetVariable { name: target.fill(name), value: target.fill(value), code };
        for (external, code) in [(true, true), (false, true), (true, false)] {
            let mut jsonnet = Jsonnet::default();
            if external { &mut jsonnet.external } else { &mut jsonnet.arguments }.push(variable(code));
            let repo = Repo::new();
            let main = if external {
                map("std.toString(std.extVar('a'))")
            } else {
                format!("function(a) {}", map("std.toString(a)"))
            };
            repo.write("app/main.jsonnet", &main).commit("A program");
            let options = SourceOptions::Directory(Directory { jsonnet, ..Directory::default() });
            let outcome = render(&repo, "app", options).await;
            if code || name != "a" {
                held(&target, what, outcome);
            }
        }
    }
    let library = Jsonnet { libraries: vec![target.base()], ..Jsonnet::default() };
    let repo = Repo::new();
    repo.write("app/main.jsonnet", &map("importstr 'agents.json'")).commit("A library");
    let options = SourceOptions::Directory(Directory { jsonnet: library, ..Directory::default() });
    held(&target, "a library", render(&repo, "app", options).await);
}

fn mirrors(folder: &tempfile::TempDir) -> GitCache {
    GitCache::open(folder.path(), GitOptions::default()).expect("a cache")
}

#[tokio::test]
async fn addresses_of_repositories_run_and_read_nothing() {
    let target = Target::new();
    let folder = tempfile::tempdir().expect("a folder");
    let cache = mirrors(&folder);
    let mark = target.folder.path().join("mark");
    for url in [
        "ext::sh -c touch% {mark}",
        "ext::sh",
        "fd::17/x",
        "--upload-pack=touch {mark}",
        "-u{mark}",
        "file://{base}",
        "{base}",
        "../{base}",
        "ssh://-oProxyCommand=touch%20{mark}/x",
        "ssh://git@-oProxyCommand=x/y",
        "-oProxyCommand=touch:x",
        "git@-oProxyCommand=touch:x",
        "git@host:-x",
        "https://user:password@127.0.0.1/x",
        "transport::x",
        "",
        "https://127.0.0.1:1/x\n[core]",
    ] {
        let url = target.fill(url).replace("{mark}", &mark.display().to_string());
        let error =
            cache.resolve(&Repository::public(url.clone()), "main", Since::now()).await.expect_err(&url);
        assert!(matches!(error, slipway_source::GitError::BadUrl { .. }), "{url}: {error}");
    }
    for revision in
        ["--upload-pack=touch {mark}", "-x", "a..b", "a b", "main\n", "refs/heads/-x\u{0}", "@{-1}"]
    {
        let repo = Repository::public("http://127.0.0.1:1/x");
        cache.resolve(&repo, revision, Since::now()).await.expect_err(revision);
    }
    assert!(!mark.exists(), "something was run");
}

/// What a hostile mirror holds is still only read: hooks, filters, settings and submodules of it start nothing.
#[tokio::test]
async fn settings_inside_of_a_repository_run_nothing() {
    let target = Target::new();
    let mark = target.folder.path().join("mark");
    let touch = format!("touch {}", mark.display());
    let repo = Repo::new();
    repo.write(".gitattributes", "* filter=x diff=x merge=x\n*.yaml filter=lfs\n")
        .write(".gitmodules", &format!("[submodule \"x\"]\n\tpath = x\n\turl = ext::sh -c {touch}\n"))
        .write(".lfsconfig", &format!("[lfs]\n\turl = {}\n", target.url()))
        .write("app/a.yaml", "apiVersion: v1\nkind: ConfigMap\nmetadata: {name: a}\n")
        .write(".git/hooks/post-update", &format!("#!/bin/sh\n{touch}\n"))
        .write(".git/hooks/reference-transaction", &format!("#!/bin/sh\n{touch}\n"));
    repo.git(&["config", "filter.x.smudge", &touch]);
    repo.git(&["config", "core.fsmonitor", &touch]);
    repo.git(&["config", "uploadpack.packObjectsHook", &touch]);
    repo.git(&[
        "-c",
        "core.hooksPath=/dev/null",
        "-c",
        "core.fsmonitor=false",
        "-c",
        "filter.x.clean=cat",
        "add",
        "-A",
    ]);
    repo.git(&["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "commit", "-q", "-m", "x"]);
    std::fs::remove_file(&mark).ok();
    let said = held(&target, "settings", render(&repo, "app", SourceOptions::Detect).await);
    assert!(said.contains("\"name\":\"a\""), "{said}");
    assert!(!mark.exists(), "something was run");
    // A submodule with a command in it is not even fetched.
    repo.write(".gitmodules", &format!("[submodule \"x\"]\n\tpath = x\n\turl = y\n\tupdate = !{touch}\n"));
    let quiet = ["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "-c", "filter.x.clean=cat"];
    repo.git(&[&quiet[..], &["add", "-A"]].concat());
    repo.git(&[&quiet[..], &["commit", "-q", "-m", "y"]].concat());
    std::fs::remove_file(&mark).ok();
    let refused = repo.cache().resolve(&repo.repository(), "main", Since::now()).await.expect_err("refused");
    assert!(refused.to_string().contains("gitmodulesUpdate"), "{refused}");
    assert!(!mark.exists(), "something was run");
}

/// The mirror of a repository of this machine is ours, every other one belongs to a user of its own.
#[tokio::test]
async fn keys_of_a_fetch_are_gone_with_it() {
    let folder = tempfile::tempdir().expect("a folder");
    let left = folder.path().join(".keys/git-left");
    std::fs::create_dir_all(&left).expect("made");
    let cache = mirrors(&folder);
    assert!(!left.exists(), "what a killed process left");
    let credentials = slipway_source::Credentials {
        ssh_private_key: Some(slipway_model::Secret::new("key".to_owned())),
        ..slipway_source::Credentials::default()
    };
    let repo = Repository { url: "ssh://git@127.0.0.1:1/x".to_owned(), credentials: Arc::new(credentials) };
    cache.resolve(&repo, "main", Since::now()).await.expect_err("nobody is there");
    let keys = folder.path().join(".keys");
    assert_eq!(std::fs::read_dir(&keys).expect("readable").count(), 0, "a folder with keys was left");
    let mode = std::os::unix::fs::MetadataExt::mode(&std::fs::metadata(&keys).expect("there"));
    assert_eq!(mode & 0o777, 0o700);
    let all = std::fs::read_dir(folder.path()).expect("readable").flatten().map(|entry| entry.path());
    let mirror: PathBuf = all.into_iter().find(|path| path.is_dir() && *path != keys).expect("a mirror");
    let owner = std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(&mirror).expect("there"));
    assert!(owner > 50_000, "{owner}");
}
