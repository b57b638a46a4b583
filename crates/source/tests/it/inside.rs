//! What each program sees that this room starts: the probe takes its place and tells.

use std::path::PathBuf;
use std::sync::Arc;

use slipway_model::Secret;
use slipway_source::{
    Credentials, GitCache, GitOptions, Keyring, Plugin, PluginSpec, RenderLimits, Renderer, Repository,
    Since, SourceOptions,
};
use slipway_testkit::inside::{Probe, Seen, again_in_place_of};

use crate::render::request;
use crate::repo::Repo;

async fn look(tool: &str, file: &str, content: &str) -> Seen {
    let repo = Repo::new();
    repo.write(file, content).commit("Something to render");
    let probe = Probe::named(tool);
    let renderer = repo.renderer_with(vec![probe.bin()]);
    let request = request(&repo, &renderer, "app", SourceOptions::Detect).await;
    let rendered = renderer.render(&request).await.expect("the probe is believed");
    Seen::in_object(&rendered.objects[0])
}

fn assert_renderer(seen: &Seen) {
    seen.assert_caged().assert_no_network().assert_own_user();
    assert_eq!(seen.number("pid"), 1, "{}", seen.0);
    // Beside its own folder and the probe's, /tmp is empty.
    assert_eq!(seen.texts("tmp").len(), 2, "{}", seen.0);
    let known =
        ["PATH", "HOME", "LC_ALL", "GOGC", "GOMEMLIMIT", "TMPDIR", "XDG_", "KUBECONFIG", "ARGOCD_", "KUBE_"];
    for pair in seen.texts("environment") {
        assert!(known.iter().any(|name| pair.starts_with(name)), "{pair}");
    }
}

#[tokio::test]
async fn helm_sees_its_workspace_and_nothing_else() {
    assert_renderer(&look("helm", "app/Chart.yaml", "apiVersion: v2\nname: c\nversion: 0.1.0\n").await);
}

#[tokio::test]
async fn kustomize_sees_its_workspace_and_nothing_else() {
    assert_renderer(&look("kustomize", "app/kustomization.yaml", "namePrefix: a-\n").await);
}

#[tokio::test]
async fn jsonnet_sees_its_workspace_and_nothing_else() {
    assert_renderer(&look("jsonnet", "app/main.jsonnet", "{}").await);
}

async fn look_as_plugin(sandbox: impl Fn(&Probe) -> String) -> (Seen, Probe) {
    let repo = Repo::new();
    repo.write("app/file", "x").commit("Something to render");
    let probe = Probe::named("maker");
    let spec = format!(
        "apiVersion: argoproj.io/v1alpha1\nkind: ConfigManagementPlugin\nmetadata: {{name: maker}}\nspec:\n  generate:\n    command: [{}]\n{}",
        probe.path().display(),
        sandbox(&probe)
    );
    let renderer = repo.renderer();
    renderer.set_plugins(vec![PluginSpec::parse(&spec).expect("a specification")]);
    let env = vec![("LD_PRELOAD".to_owned(), "/x".to_owned()), ("PATH=/x\nA".to_owned(), "b".to_owned())];
    let plugin = SourceOptions::Plugin(Plugin { name: "maker".into(), env, ..Plugin::default() });
    let request = request(&repo, &renderer, "app", plugin).await;
    let rendered = renderer.render(&request).await.expect("the probe is believed");
    (Seen::in_object(&rendered.objects[0]), probe)
}

#[tokio::test]
async fn a_plugin_sees_its_workspace_and_what_the_operator_wrote_down() {
    let (seen, _) = look_as_plugin(|_| String::new()).await;
    assert!(!seen.texts("environment").iter().any(|pair| pair.starts_with("LD_PRELOAD")), "{}", seen.0);
    seen.assert_caged().assert_no_network().assert_own_user();

    let (seen, probe) = look_as_plugin(|probe| {
        format!("  sandbox: {{network: true, read: [{}]}}\n", probe.canary().display())
    })
    .await;
    assert_eq!((seen.number("loopback"), seen.number("canary_read")), (0, 0), "{}", seen.0);
    assert_eq!(std::fs::read_to_string(probe.canary()).expect("there"), "CANARY");
}

/// What the operator allows a plugin is for what was pushed, not for files that somebody sends.
#[tokio::test]
async fn a_plugin_gets_nothing_of_the_machine_for_files_that_were_sent() {
    let repo = Repo::new();
    repo.write("app/file", "x").commit("Something to render");
    let probe = Probe::named("maker");
    let spec = format!(
        "apiVersion: argoproj.io/v1alpha1\nkind: ConfigManagementPlugin\nmetadata: {{name: maker}}\nspec:\n  generate:\n    command: [{}]\n  sandbox: {{network: true, read: [{}]}}\n",
        probe.path().display(),
        probe.canary().display()
    );
    let renderer = repo.renderer();
    renderer.set_plugins(vec![PluginSpec::parse(&spec).expect("a specification")]);
    let mut packed =
        tar::Builder::new(flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast()));
    let mut header = tar::Header::new_gnu();
    header.set_size(1);
    header.set_mode(0o644);
    packed.append_data(&mut header, "app/file", &b"x"[..]).expect("packed");
    let packed = packed.into_inner().and_then(|inner| inner.finish()).expect("packed");
    let files = slipway_source::Archive::of_folder(&packed).expect("opened");
    let plugin = SourceOptions::Plugin(Plugin { name: "maker".into(), ..Plugin::default() });
    let mut asked = request(&repo, &renderer, "app", plugin).await;
    asked.content = slipway_source::Content::Archive(Arc::new(files));
    let rendered = renderer.render(&asked).await.expect("the probe is believed");
    Seen::in_object(&rendered.objects[0]).assert_caged().assert_no_network().assert_own_user();
}

/// A cache of mirrors, a private repository in it, and the folder of its mirror.
struct Mirrors {
    folder: tempfile::TempDir,
    cache: Arc<GitCache>,
}

impl Mirrors {
    fn new() -> Self {
        let folder = tempfile::tempdir().expect("a folder can be made");
        let cache = GitCache::open(folder.path(), GitOptions::default()).expect("a cache");
        Self { folder, cache: Arc::new(cache) }
    }

    fn mirror(&self) -> PathBuf {
        let all = std::fs::read_dir(self.folder.path()).expect("readable").flatten();
        let is_mirror = |path: &PathBuf| path.is_dir() && !path.ends_with(".keys");
        all.map(|entry| entry.path()).find(is_mirror).expect("a mirror was made")
    }
}

fn private(url: &str) -> Repository {
    let credentials = Credentials {
        ssh_private_key: Some(Secret::new("KEY-OF-SSH".to_owned())),
        ..Credentials::basic("ada", Secret::new("hunter2-password".to_owned()))
    };
    Repository { url: url.to_owned(), credentials: Arc::new(credentials) }
}

#[tokio::test]
async fn git_fetches_in_a_cage_with_a_network_and_no_secret_that_others_see() {
    if again_in_place_of(
        "/usr/bin/git",
        "inside::git_fetches_in_a_cage_with_a_network_and_no_secret_that_others_see",
    ) {
        return;
    }
    let mirrors = Mirrors::new();
    let repo = private("https://127.0.0.1:1/x.git");
    mirrors.cache.resolve(&repo, "main", Since::now()).await.expect_err("the probe has no branches");
    let seen = Seen::in_folder(&mirrors.mirror());
    seen.assert_caged().assert_own_user();
    assert!(seen.texts("arguments").contains(&"ls-remote".to_owned()), "{}", seen.0);
    // `YWRhOmh1bnRlcjI` is how the pair begins in a header.
    seen.assert_nowhere("hunter2").assert_nowhere("YWRhOmh1bnRlcjI").assert_nowhere("KEY-OF-SSH");
    assert_eq!(seen.number("loopback"), 0, "it has to reach the repository: {}", seen.0);
    // The mirror, and the folder with its keys, which is gone with the command.
    assert!(seen.texts("tmp").len() <= 3, "{}", seen.0);
}

#[tokio::test]
async fn git_reads_objects_without_a_network_and_changes_nothing() {
    if again_in_place_of("/usr/bin/git", "inside::git_reads_objects_without_a_network_and_changes_nothing") {
        return;
    }
    let mirrors = Mirrors::new();
    let repo = private("https://127.0.0.1:1/x.git");
    let error =
        mirrors.cache.known(&repo, &"a".repeat(40)).await.expect_err("the probe has no objects").to_string();
    let report = &error[error.find('{').expect("a report")..=error.rfind('}').expect("a report")];
    let seen = Seen::in_output(report.as_bytes());
    assert!(seen.texts("arguments").contains(&"cat-file".to_owned()), "{}", seen.0);
    seen.assert_caged()
        .assert_no_network()
        .assert_own_user()
        .assert_nowhere("hunter2")
        .assert_nowhere("KEY-OF-SSH");
    // Left by `git init`, which may write; reading may not.
    let left = Seen::in_folder(&mirrors.mirror());
    assert!(left.texts("arguments").contains(&"init".to_owned()), "{}", left.0);
    left.assert_caged().assert_no_network().assert_own_user();
}

#[tokio::test]
async fn ssh_runs_in_the_cage_of_its_git() {
    if again_in_place_of("/usr/bin/ssh", "inside::ssh_runs_in_the_cage_of_its_git") {
        return;
    }
    let mirrors = Mirrors::new();
    let repo = private("ssh://git@127.0.0.1:1/x.git");
    mirrors.cache.resolve(&repo, "main", Since::now()).await.expect_err("the probe is no host");
    let seen = Seen::in_folder(&mirrors.mirror());
    seen.assert_caged().assert_own_user().assert_nowhere("hunter2").assert_nowhere("KEY-OF-SSH");
}

#[tokio::test]
async fn gpgv_sees_keys_and_text_and_nothing_else() {
    if again_in_place_of("/usr/bin/gpgv", "inside::gpgv_sees_keys_and_text_and_nothing_else") {
        return;
    }
    let repo = Repo::new();
    repo.write("a", "b").commit("First");
    let tree = repo.git(&["write-tree"]);
    let text = format!(
        "tree {tree}\nauthor a <a@b> 1 +0000\ncommitter a <a@b> 1 +0000\ngpgsig -----BEGIN PGP SIGNATURE-----\n \n abc\n -----END PGP SIGNATURE-----\n\nsigned\n"
    );
    std::fs::write(repo.folder().join("commit"), text).expect("written");
    let id = repo.git(&["hash-object", "-t", "commit", "-w", "commit"]);
    repo.git(&["update-ref", "refs/heads/main", &id]);
    let cache = repo.cache();
    let commit = cache.resolve(&repo.repository(), "main", Since::now()).await.expect("resolved");
    let keys = Keyring::from_armored([]);
    let signers = cache.signer(&repo.repository(), &commit, &[], &keys).await.expect("the probe is believed");
    let seen = Seen::in_fingerprint(&signers[0]);
    seen.assert_caged().assert_no_network().assert_own_user();
}

#[tokio::test]
async fn git_commits_and_pushes_in_a_cage() {
    use slipway_source::git::{Change, Credentials, Git, Identity, Remote};
    if again_in_place_of("/usr/bin/git", "inside::git_commits_and_pushes_in_a_cage") {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    let (files, scratch) = (folder.path().join("files"), folder.path().join("git"));
    for folder in [&files, &scratch] {
        std::fs::create_dir(folder).expect("made");
    }
    std::fs::write(files.join("a"), "b").expect("written");
    let credential = Credentials::basic("ada", Secret::new("hunter2-password".to_owned()));
    let remote = Remote::parse("https://127.0.0.1:1/x.git", Some(credential)).expect("an address");
    let identity = Identity { name: "a".into(), email: "a@b".into() };
    let change = Change {
        folder: files.clone(),
        add: vec!["a".into()],
        branch: Some("main".into()),
        message: "x".into(),
        author: identity,
        mark: None,
        scratch: scratch.clone(),
    };
    let _ = Git::new().caged(folder.path()).commit_and_push(&remote, &change).await;
    let seen = Seen::in_folder(if scratch.join("inside.json").exists() { &scratch } else { &files });
    seen.assert_caged().assert_nowhere("hunter2").assert_nowhere("YWRhOmh1bnRlcjI");
}

/// Two renders at once are two people.
#[tokio::test]
async fn two_renders_have_two_users() {
    let one = look("helm", "app/Chart.yaml", "apiVersion: v2\nname: c\nversion: 0.1.0\n").await;
    let two = look("helm", "app/Chart.yaml", "apiVersion: v2\nname: c\nversion: 0.1.0\n").await;
    assert_ne!(one.number("uid"), two.number("uid"));
}

impl Repo {
    fn renderer_with(&self, tools: Vec<PathBuf>) -> Renderer {
        Renderer::new(self.cache(), self.root.path().join("rendered"), RenderLimits::default())
            .expect("a renderer")
            .with_tools(tools)
    }
}
