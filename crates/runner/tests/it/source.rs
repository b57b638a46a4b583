//! Pipelines, clones and commits over real Git.

use slipway_api::agent::{PipelineSource, TriggerCommit};

use crate::contract::next_id;
use crate::runner::{docker, harnesses, host, podman};
use crate::server::sh;

#[tokio::test]
async fn a_commit_is_cloned_changed_and_pushed_to_another_repository() {
    for harness in harnesses() {
        let server = &harness.server;
        let (app, deploy) = (next_id("team/app"), next_id("team/deploy"));
        let yaml = r#"
version: '1.0'
steps:
  main_clone: {type: git-clone, repo: APP, revision: '${{CF_REVISION}}'}
  test: {image: IMAGE, commands: ["cat version.txt", "cf_export VERSION=$(cat version.txt)"]}
  clone_deploy: {type: git-clone, repo: DEPLOY}
  edit: {image: IMAGE, working_directory: '${{clone_deploy}}', commands: ["echo version=$VERSION > values.txt"]}
  deploy:
    type: git-commit
    arguments:
      repo: DEPLOY
      git: builtin
      working_directory: ${{clone_deploy}}
      commit_message: Deploy ${{VERSION}} of ${{CF_SHORT_REVISION}}
      git_user_name: Demo
      git_user_email: demo@example.org
      add: values.txt
"#
        .replace("APP", &app)
        .replace("DEPLOY", &deploy)
        .replace("IMAGE", &harness.image);
        let bare = server.repository(&app, &[("version.txt", "7\n"), ("ci/codefresh.yml", &yaml)]);
        let target = server.repository(&deploy, &[("values.txt", "version=6\n")]);
        let sha = sh(&bare, "git rev-parse main");
        let id = next_id("git");
        let mut taken = server.build(&id, "");
        taken.source =
            PipelineSource::Git { repo: app.clone(), path: "./ci/codefresh.yml".into(), revision: None };
        taken.commit = Some(TriggerCommit {
            repo: app.clone(),
            branch: "main".into(),
            sha: sha.clone(),
            author: "Ada".into(),
            message: "First\n\nwith $(touch /tmp/x) and \"quotes\"".into(),
            trigger_name: "push".into(),
            ..TriggerCommit::default()
        });
        // A later commit breaks the file; the build is of the first one.
        let work = tempfile::tempdir().unwrap();
        sh(
            work.path(),
            &format!(
                "git clone -q {} . && echo '{{' > ci/codefresh.yml && git commit -qam Break && git push -q",
                bare.display()
            ),
        );
        server.add(taken);
        let record = server.finish(&id).await;
        assert_eq!(record.status(), "success", "{}: {:#?}", harness.executor, record.logs);
        assert!(
            record.log("Initializing Process").contains(&format!("Read ci/codefresh.yml of {app} at {sha}"))
        );
        assert!(record.log("main_clone").contains("Cloning http://"), "{}", record.log("main_clone"));
        assert_eq!(sh(&target, "git show main:values.txt"), "version=7");
        let message = sh(&target, "git log -1 --format=%an/%ae%n%B main");
        assert_eq!(
            message,
            format!("Demo/demo@example.org\nDeploy 7 of {}\n\nSlipway-Build: {id}/deploy", &sha[..7])
        );
        assert!(record.log("deploy").contains("Pushed "), "{}", record.log("deploy"));
    }
}

#[tokio::test]
async fn every_finding_of_the_linter_is_in_the_first_log() {
    let server = &host().server;
    let id = next_id("lint");
    server.add(server.build(&id, "version: '1.0'\nsteps:\n  a: {image: x\n"));
    let record = server.finish(&id).await;
    assert_eq!(record.status(), "error");
    let init = record.step("Initializing Process");
    assert_eq!(init.status, "error");
    assert!(record.log("Initializing Process").contains("line "), "{}", record.log("Initializing Process"));
    assert!(record.report.unwrap().message.unwrap().contains("the pipeline has 1 error"));
}

#[tokio::test]
async fn a_repository_that_is_not_there_is_named_in_the_error() {
    let server = &host().server;
    let id = next_id("missing");
    let mut taken = server.build(&id, "");
    taken.source =
        PipelineSource::Git { repo: "team/nobody".into(), path: "codefresh.yml".into(), revision: None };
    server.add(taken);
    let record = server.finish(&id).await;
    assert_eq!(record.status(), "error");
    assert_eq!(
        record.report.unwrap().message.as_deref(),
        Some("team/nobody is not there, or the credential may not see it: check the name")
    );
    let id = next_id("missing");
    server.add(server.build(
        &id,
        "version: '1.0'\nsteps:\n  clone: {type: git-clone, repo: team/nobody, revision: main}\n",
    ));
    let record = server.finish(&id).await;
    let message = record.step("clone").message.unwrap();
    assert!(message.starts_with("team/nobody is not there"), "{message}");
}

#[tokio::test]
async fn a_build_without_a_trigger_learns_its_revision_from_the_main_clone() {
    let server = &host().server;
    let app = next_id("team/manual");
    let bare = server.repository(&app, &[("a.txt", "a\n")]);
    let id = next_id("manual");
    let yaml = format!(
        "version: '1.0'\nsteps:\n  main_clone: {{type: git-clone, repo: {app}}}\n  show: {{image: x, commands: ['echo $CF_BRANCH $CF_REVISION', pwd]}}\n"
    );
    server.add(server.build(&id, &yaml));
    let record = server.finish(&id).await;
    let sha = sh(&bare, "git rev-parse main");
    let log = record.log("show");
    assert!(log.contains(&format!("main {sha}\n")), "{log}");
    assert!(log.ends_with(&format!("/codefresh/volume/{}\n", app.rsplit('/').next().unwrap())), "{log}");
}

#[tokio::test]
async fn images_are_built_with_an_engine_and_refused_without_one() {
    let yaml = r#"
version: '1.0'
steps:
  image:
    type: build
    image_name: slipway-test-build
    tag: ID
    dockerfile: {content: "FROM BASE\nARG WHO\nRUN echo built for $WHO > /who"}
    build_arguments: ["WHO=${{CF_PIPELINE_NAME}}"]
  use: {image: '${{image}}', commands: ["cat /who", "echo ${{image.imageName}}:${{image.imageTagName}} ${{image.imageId}}"]}
"#;
    for harness in podman().into_iter().chain(docker()) {
        let id = next_id("image");
        harness
            .server
            .add(harness.server.build(&id, &yaml.replace("BASE", &harness.image).replace("ID", &id)));
        let record = harness.server.finish(&id).await;
        assert_eq!(record.status(), "success", "{}: {:#?}", harness.executor, record.logs);
        let log = record.log("use");
        assert!(log.contains("\nbuilt for demo/test\n"), "{log}");
        assert!(log.contains(&format!("localhost/slipway-test-build:{id} sha256:")), "{log}");
        sh(
            std::path::Path::new("/"),
            &format!("{} rmi -f localhost/slipway-test-build:{id}", harness.executor),
        );
    }
    let id = next_id("image");
    host().server.add(host().server.build(&id, yaml));
    let record = host().server.finish(&id).await;
    let message = record.step("image").message.unwrap();
    assert!(message.contains("needs a container engine to build an image"), "{message}");
    assert!(record.log("image").contains(&message));
}

/// A web server that is busy at first; what it has besides the pipeline is nothing, and too much.
async fn web() -> String {
    use std::sync::atomic::{AtomicUsize, Ordering};
    let asked = std::sync::Arc::new(AtomicUsize::new(0));
    let text = "version: '1.0'\nsteps:\n  say: {image: x, commands: ['echo from the web']}\n";
    let pipeline = move || {
        let first = asked.fetch_add(1, Ordering::SeqCst) == 0;
        async move { if first { Err(axum::http::StatusCode::SERVICE_UNAVAILABLE) } else { Ok(text) } }
    };
    let app = axum::Router::new()
        .route("/ci.yml", axum::routing::get(pipeline))
        .route("/huge.yml", axum::routing::get(|| async { "# ".repeat(1 << 20) }));
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
    url
}

#[tokio::test]
async fn a_pipeline_at_an_address_is_read_by_the_runner_also_when_it_has_to_come_again() {
    let (server, web) = (&host().server, web().await);
    for (path, status, said) in [
        ("/ci.yml", "success", "Read http"),
        ("/none.yml", "error", "answered 404 Not Found: is the address right and public?"),
        ("/huge.yml", "error", "is larger than a pipeline may be"),
    ] {
        let id = next_id("url");
        let mut taken = server.build(&id, "");
        taken.source = PipelineSource::Url { url: format!("{web}{path}") };
        server.add(taken);
        let record = server.finish(&id).await;
        let log = record.log("Initializing Process");
        assert_eq!(record.status(), status, "{path}: {log}");
        assert!(log.contains(said), "{path}: {log}");
        assert_eq!(record.log("say").contains("\nfrom the web\n"), status == "success");
    }
}
