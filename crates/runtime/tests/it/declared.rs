//! Applications created, edited and deleted in Git through the app-proxy, against a real Gitea: everything that can be wrong is
//! said before anything is committed, and the commit is its asker's.

use serde_json::{Value, json};
use slipway_testkit::gitea;

use crate::control_plane::ControlPlane;
use crate::git_tokens::Door;
use crate::world::{World, config_map};

struct Scene {
    world: World,
    plane: ControlPlane,
    door: Door,
    host: String,
    ada: String,
    email: String,
    token: String,
}

impl Scene {
    async fn new() -> Self {
        let server = tokio::task::block_in_place(gitea::shared);
        let ada = server.name("ada");
        let email = tokio::task::block_in_place(|| server.user(&ada));
        let token = tokio::task::block_in_place(|| server.token(&ada));
        tokio::task::block_in_place(|| server.repo(&ada, "config"));
        let keep = json!({"message": "Something to keep", "branch": "main",
            "content": base64::Engine::encode(&base64::engine::general_purpose::STANDARD, config_map("keep", "1"))});
        let path = format!("/repos/{ada}/config/contents/apps/keep.yaml");
        let (status, said) = server.api_as(&token, "POST", &path, Some(keep));
        assert_eq!(status, 201, "{said}");
        let world = World::new().await;
        let (plane, client) = ControlPlane::start().await;
        world.commit(&[("app/a.yaml", &config_map("a", "1"))]);
        let host = server.url();
        let creds = json!({"metadata": {"labels": {"argocd.argoproj.io/secret-type": "repo-creds"}},
            "stringData": {"url": host}});
        world.make("v1", "Secret", "argocd", "the-gitea", creds).await;
        let narrow = json!({"spec": {"sourceRepos": ["https://only.example.com/*"],
            "destinations": [{"server": "https://kubernetes.default.svc", "namespace": "narrow"}]}});
        world.make("argoproj.io/v1alpha1", "AppProject", "argocd", "narrow", narrow).await;
        // Who syncs what is declared: the folder `apps` of the repository.
        let spec = json!({"project": "default", "destination": {"server": "https://kubernetes.default.svc",
            "namespace": "argocd"}, "source": {"repoURL": format!("{host}/{ada}/config.git"), "path": "apps",
            "targetRevision": "main"}, "syncPolicy": {"automated": {"prune": true}}});
        world
            .make("argoproj.io/v1alpha1", "Application", "argocd", "git-source", json!({"spec": spec}))
            .await;
        let mut config = world.config();
        config.server = Some(client);
        let door = Door::open(world.start_with(config)).await;
        plane.until("git-source", |app| !app.sync_status.as_str().is_empty()).await;
        let register = json!({"provider": "gitea", "host": host, "token": token});
        let (status, said) = door.post("user", "git-register", &register).await;
        assert_eq!(status, 200, "{said}");
        Self { world, plane, door, host, ada, email, token }
    }

    fn application(&self, name: &str) -> Value {
        json!({"apiVersion": "argoproj.io/v1alpha1", "kind": "Application", "metadata": {"name": name},
            "spec": {"project": "default",
                "source": {"repoURL": self.world.url(), "path": "app", "targetRevision": "main"},
                "destination": {"server": "https://kubernetes.default.svc", "namespace": "shop"},
                "syncPolicy": {"automated": {}, "syncOptions": ["CreateNamespace=true"]}}})
    }

    fn body(&self, file: &str, application: Option<Value>) -> Value {
        let repository = format!("{}/config", self.ada);
        let mut body = json!({"provider": "gitea", "host": self.host, "repository": repository,
            "branch": "main", "file": file});
        if let Some(application) = application {
            body["application"] = application;
        }
        body
    }

    async fn ask(&self, who: &str, name: &str, what: &str, body: &Value) -> (u16, Value) {
        self.door.post(who, &format!("../applications/argocd/{name}/{what}"), body).await
    }

    fn commits(&self) -> usize {
        let path = format!("/repos/{}/config/commits", self.ada);
        let (_, all) = gitea::shared().api_as(&self.token, "GET", &path, None);
        all.as_array().map_or(0, Vec::len)
    }
}

/// The places that an answer names.
fn places(said: &Value) -> Vec<String> {
    let details = said["details"].as_array().into_iter().flatten();
    details.map(|detail| detail["path"].as_str().unwrap_or_default().to_owned()).collect()
}

/// A repository of packaged charts that has `web` 1.0.0.
async fn charts_with_one() -> String {
    let index = "apiVersion: v1\nentries:\n  web:\n  - apiVersion: v2\n    name: web\n    version: 1.0.0\n    urls: [web-1.0.0.tgz]\n";
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let url = format!("http://{}", listener.local_addr().expect("an address"));
    let router = axum::Router::new().route("/index.yaml", axum::routing::get(move || async move { index }));
    tokio::spawn(async move { axum::serve(listener, router).await });
    url
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn everything_that_is_wrong_with_an_application_is_said_before_any_commit() {
    let scene = Scene::new().await;
    let before = tokio::task::block_in_place(|| scene.commits());
    let good = scene.application("new");
    let wrong = |change: &dyn Fn(&mut Value)| {
        let mut app = good.clone();
        change(&mut app);
        app
    };
    let charts = format!("http://127.0.0.1:1/{}", scene.ada);
    let packaged = charts_with_one().await;
    let absent = format!("{}/{}/absent.git", scene.host, scene.ada);
    let cases: Vec<(&str, Value, &str, &str)> = vec![
        (
            "repository",
            wrong(&|app| app["spec"]["source"]["repoURL"] = absent.clone().into()),
            "spec.source.repoURL",
            "absent",
        ),
        (
            "branch",
            wrong(&|app| app["spec"]["source"]["targetRevision"] = "nope".into()),
            "spec.source.targetRevision",
            "no branch, tag or commit `nope`",
        ),
        (
            "path",
            wrong(&|app| app["spec"]["source"]["path"] = "nowhere".into()),
            "spec.source.path",
            "path `nowhere` is not in the repository",
        ),
        (
            "a file",
            wrong(&|app| app["spec"]["source"]["path"] = "app/a.yaml".into()),
            "spec.source.path",
            "is a file",
        ),
        (
            "no path",
            wrong(&|app| {
                app["spec"]["source"].as_object_mut().unwrap().remove("path");
            }),
            "spec.source.path",
            "is missing",
        ),
        (
            "cluster",
            wrong(&|app| app["spec"]["destination"]["server"] = "https://nowhere".into()),
            "spec.destination",
            "`https://nowhere` is not known here",
        ),
        ("project", wrong(&|app| app["spec"]["project"] = "absent".into()), "spec.project", "absent"),
        (
            "namespace",
            wrong(&|app| app["spec"]["destination"]["namespace"] = "No_Name".into()),
            "spec.destination.namespace",
            "is no namespace",
        ),
        (
            "a repository that the project does not permit",
            wrong(&|app| {
                app["spec"]["project"] = "narrow".into();
                app["spec"]["destination"]["namespace"] = "narrow".into();
            }),
            "spec.source.repoURL",
            "does not permit",
        ),
        (
            "a chart's repository",
            wrong(&|app| {
                app["spec"]["source"] = json!({"repoURL": charts, "chart": "web", "targetRevision": "1.0.0"})
            }),
            "spec.source.repoURL",
            "127.0.0.1:1",
        ),
        (
            "chart",
            wrong(&|app| {
                app["spec"]["source"] =
                    json!({"repoURL": packaged, "chart": "wbe", "targetRevision": "1.0.0"})
            }),
            "spec.source.chart",
            "wbe",
        ),
        (
            "chart version",
            wrong(&|app| {
                app["spec"]["source"] =
                    json!({"repoURL": packaged, "chart": "web", "targetRevision": "9.9.9"})
            }),
            "spec.source.targetRevision",
            "9.9.9",
        ),
        (
            "a range of chart versions",
            wrong(&|app| {
                app["spec"]["source"] =
                    json!({"repoURL": packaged, "chart": "web", "targetRevision": ">=2.0.0"})
            }),
            "spec.source.targetRevision",
            ">=2.0.0",
        ),
        (
            "a field",
            wrong(&|app| app["spec"]["syncPolicy"]["automatic"] = json!({})),
            "spec.syncPolicy.automatic",
            "no such field",
        ),
        (
            "another name",
            wrong(&|app| app["metadata"]["name"] = "other".into()),
            "metadata.name",
            "`other` is not `new`",
        ),
        (
            "another namespace",
            wrong(&|app| app["metadata"]["namespace"] = "team".into()),
            "metadata.namespace",
            "`team` is not `argocd`",
        ),
    ];
    let mut sentences = std::collections::BTreeSet::new();
    for (what, app, place, words) in &cases {
        let (status, said) =
            scene.ask("user", "new", "create", &scene.body("apps/new.yaml", Some(app.clone()))).await;
        assert_eq!((status, &said["name"]), (422, &json!("INVALID_APPLICATION")), "{what}: {said}");
        assert_eq!(places(&said), [*place], "{what}: {said}");
        let sentence = said["details"][0]["message"].as_str().unwrap().to_owned();
        assert!(sentence.contains(words), "{what}: {sentence}");
        assert!(sentences.insert(sentence), "{what} has a sentence of its own");
    }
    // All at once.
    let all = wrong(&|app| {
        app["spec"]["source"]["path"] = "nowhere".into();
        app["spec"]["destination"]["server"] = "https://nowhere".into();
        app["spec"]["destination"]["namespace"] = "No_Name".into();
        app["spec"]["oops"] = 1.into();
    });
    let (_, said) = scene.ask("user", "new", "create", &scene.body("apps/new.yaml", Some(all))).await;
    let mut found = places(&said);
    found.sort();
    assert_eq!(found, ["spec.destination", "spec.destination.namespace", "spec.oops", "spec.source.path"]);
    // One that is there, and one in a namespace that nobody looks after.
    let (_, said) = scene
        .ask(
            "user",
            "git-source",
            "create",
            &scene.body("apps/x.yaml", Some(scene.application("git-source"))),
        )
        .await;
    assert!(said["message"].as_str().unwrap().contains("already"), "{said}");
    let (_, said) = scene
        .door
        .post(
            "user",
            "../applications/elsewhere/new/create",
            &scene.body("apps/new.yaml", Some(good.clone())),
        )
        .await;
    assert!(places(&said).contains(&"metadata.namespace".to_owned()), "{said}");
    // Nobody's pass, one that only looks, no token of one's own, and bodies that are none.
    let body = scene.body("apps/new.yaml", Some(good.clone()));
    assert_eq!(scene.ask("nobody", "new", "create", &body).await.0, 401);
    assert_eq!(scene.ask("read", "new", "create", &body).await.0, 403);
    let (status, said) = scene.ask("user.bob", "new", "create", &body).await;
    assert_eq!((status, &said["name"]), (409, &json!("NO_GIT_TOKEN")), "{said}");
    for wrong in
        [Value::Null, json!({"status": {}}), json!({"spec": null}), json!({"metadata": {"uid": "x"}})]
    {
        let (status, said) =
            scene.ask("user", "new", "create", &scene.body("apps/new.yaml", Some(wrong.clone()))).await;
        assert_eq!((status, &said["name"]), (422, &json!("BAD_REQUEST")), "{wrong}: {said}");
    }
    for file in ["../x.yaml", ".git/config", "a//b"] {
        let (status, said) = scene.ask("user", "new", "create", &scene.body(file, Some(good.clone()))).await;
        assert_eq!(status, 422, "{file}: {said}");
    }
    // A dry run commits nothing either.
    let mut dry = body.clone();
    dry["dryRun"] = true.into();
    let (status, said) = scene.ask("user", "new", "create", &dry).await;
    assert_eq!((status, &said["outcome"]), (200, &json!("valid")), "{said}");
    assert_eq!(said["syncedBy"], json!(["argocd/git-source"]), "{said}");
    assert_eq!(tokio::task::block_in_place(|| scene.commits()), before, "nothing was committed");
    assert!(scene.world.app("new").await.is_null(), "nothing was made");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn an_application_is_created_edited_and_deleted_by_commits_of_its_asker() {
    let scene = Scene::new().await;
    let server = gitea::shared();
    let (status, made) = scene
        .ask("user", "new", "create", &scene.body("apps/new.yaml", Some(scene.application("new"))))
        .await;
    assert_eq!((status, &made["outcome"]), (200, &json!("committed")), "{made}");
    let commit = made["commit"].as_str().unwrap().to_owned();
    let path = format!("/repos/{}/config/git/commits/{commit}", scene.ada);
    let (_, seen) = server.api_as(&scene.token, "GET", &path, None);
    for who in ["author", "committer"] {
        assert_eq!(seen["commit"][who]["email"], json!(scene.email), "{who}: {seen}");
    }
    // Whoever syncs that folder was asked to look, and makes it.
    scene.world.until("new", "made", |app| app["spec"]["project"] == "default").await;
    scene.plane.until("new", |app| app.sync_status == "Synced").await;

    let (status, said) = scene
        .ask("user", "other", "create", &scene.body("apps/new.yaml", Some(scene.application("other"))))
        .await;
    assert_eq!((status, &said["name"]), (409, &json!("FILE_EXISTS")), "{said}");
    // An edit is judged as it would be, and changes what it names.
    let patch = |patch: Value| scene.body("apps/new.yaml", Some(patch));
    let wrong = patch(json!({"spec": {"source": {"targetRevision": "nope"}}}));
    let (status, said) = scene.ask("user", "new", "edit", &wrong).await;
    assert_eq!((status, places(&said)), (422, vec!["spec.source.targetRevision".to_owned()]), "{said}");
    let label = patch(json!({"metadata": {"labels": {"team": "a"}}}));
    let (status, edited) = scene.ask("user", "new", "edit", &label).await;
    assert_eq!((status, &edited["outcome"]), (200, &json!("committed")), "{edited}");
    scene.world.until("new", "labelled", |app| app["metadata"]["labels"]["team"] == "a").await;
    let (_, again) = scene.ask("user", "new", "edit", &label).await;
    assert_eq!(again["outcome"], json!("no-change"), "{again}");
    // Who looked at an older commit hears that others changed the same.
    let mut late = patch(json!({"metadata": {"labels": {"team": "b"}}}));
    late["base"] = commit.as_str().into();
    let (status, said) = scene.ask("user", "new", "edit", &late).await;
    assert_eq!((status, &said["name"]), (409, &json!("CONFLICT")), "{said}");
    // What is not there.
    for (name, file) in [("other", "apps/new.yaml"), ("new", "apps/none.yaml")] {
        for what in ["edit", "delete"] {
            let body = scene.body(file, (what == "edit").then(|| json!({"spec": {"project": "default"}})));
            let (status, said) = scene.ask("user", name, what, &body).await;
            assert_eq!(
                (status, &said["name"]),
                (404, &json!("NOT_DECLARED")),
                "{what} {name} {file}: {said}"
            );
        }
    }
    let mut branch = scene.body("apps/new.yaml", None);
    branch["branch"] = "nope".into();
    assert_eq!(scene.ask("user", "new", "delete", &branch).await.0, 404);
    let empty = json!({"name": "empty", "auto_init": false, "default_branch": "main"});
    server.api("POST", &format!("/admin/users/{}/repos", scene.ada), Some(empty));
    let mut nothing = scene.body("apps/new.yaml", None);
    nothing["repository"] = format!("{}/empty", scene.ada).into();
    let (status, said) = scene.ask("user", "new", "delete", &nothing).await;
    assert_eq!((status, &said["name"]), (409, &json!("EMPTY_REPOSITORY")), "{said}");
    let mut first = scene.body("apps/first.yaml", Some(scene.application("first")));
    first["repository"] = nothing["repository"].clone();
    let (status, said) = scene.ask("user", "first", "create", &first).await;
    assert_eq!((status, &said["outcome"]), (200, &json!("first-commit")), "{said}");
    assert!(said["warnings"].to_string().contains("seen to sync"), "{said}");
    // A protected branch is its own answer, and Git stays as it was.
    let rule = json!({"branch_name": "main", "enable_push": false});
    server.api("POST", &format!("/repos/{}/config/branch_protections", scene.ada), Some(rule));
    let (status, said) = scene.ask("user", "new", "delete", &scene.body("apps/new.yaml", None)).await;
    assert_eq!((status, &said["name"]), (403, &json!("PROTECTED_BRANCH")), "{said}");
    server.api("DELETE", &format!("/repos/{}/config/branch_protections/main", scene.ada), None);
    let (status, gone) = scene.ask("user", "new", "delete", &scene.body("apps/new.yaml", None)).await;
    assert_eq!((status, &gone["outcome"]), (200, &json!("committed")), "{gone}");
    assert!(gone["warnings"].to_string().contains("stays"), "{gone}");
    scene.world.until("new", "gone", Value::is_null).await;

    // The platform heard where it goes and whose it is, and nothing else of it.
    let heard = serde_json::to_string(&scene.plane.asked()).expect("JSON");
    assert!(heard.contains("\"declares\"") && heard.contains("https://kubernetes.default.svc"), "{heard}");
    assert!(!heard.contains("CreateNamespace") && !heard.contains(&scene.token), "{heard}");
}
