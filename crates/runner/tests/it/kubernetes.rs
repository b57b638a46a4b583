//! What only Kubernetes does to a step, on a real cluster.

use std::path::Path;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use slipway_runner::ExecutorChoice;
use slipway_testkit::{Kube, TEST_IMAGE};
use tokio_util::sync::CancellationToken;

use crate::contract::next_id;
use crate::crash::{kill, processes};
use crate::runner::{Process, config, kubernetes, kubernetes_config, namespace};
use crate::server::{Server, sh};

const BUILDER: &str = "localhost/slipway-test-builder:1";

fn pods(selector: &str) -> Vec<String> {
    let text =
        Kube::shared().kubectl(&["--namespace", namespace(), "get", "pods", "-l", selector, "-o", "name"]);
    text.lines().map(str::to_owned).collect()
}

async fn until(what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + slipway_testkit::PATIENCE;
    while !holds() {
        assert!(Instant::now() < end, "{what} did not happen");
        tokio::time::sleep(Duration::from_millis(100)).await;
    }
}

/// buildah of this machine, so that no registry is needed.
fn builder() -> &'static str {
    static MADE: OnceLock<()> = OnceLock::new();
    MADE.get_or_init(|| {
        let tree = tempfile::tempdir().unwrap();
        let script = r#"
            command -v buildah >/dev/null || { echo "buildah is needed: scripts/setup.sh test installs it" >&2; exit 1; }
            mkdir -p bin etc/containers tmp proc dev sys root var/tmp run usr/bin
            for program in buildah busybox newuidmap newgidmap; do
              path=$(command -v $program) || continue
              cp -L "$path" "bin/$program"
              { ldd "$path" 2>/dev/null || true; } | { grep -o '/[^ ]*' || true; } | while read -r library; do
                mkdir -p ".$(dirname "$library")" && cp -L "$library" ".$library"
              done
            done
            for applet in sh mkdir cat echo test rm ls id; do ln -s busybox bin/$applet; done
            cp /etc/containers/policy.json etc/containers/
            echo 'unqualified-search-registries = []' > etc/containers/registries.conf
            echo 'root:x:0:0:root:/root:/bin/sh' > etc/passwd
            echo 'root:x:0:' > etc/group
            echo 'root:1:65535' > etc/subuid
            echo 'root:1:65535' > etc/subgid
            echo 'hosts: files dns' > etc/nsswitch.conf
            chmod 1777 tmp var/tmp
        "#;
        sh(tree.path(), script);
        Kube::shared().image(tree.path(), BUILDER, &["/bin/sh"]);
    });
    BUILDER
}

fn registry() -> String {
    sh(Path::new("../.."), "NAME=test scripts/kube.sh registry").lines().last().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn an_image_is_built_without_privilege_pushed_and_run_in_by_a_later_step() {
    let (server, place) = (Server::start().await, tempfile::tempdir().unwrap());
    server.repository(
        "team/app",
        &[(
            "Dockerfile",
            "FROM scratch\nCOPY busybox /bin/busybox\nARG WORD\nRUN [\"/bin/busybox\", \"sh\", \"-c\", \"/bin/busybox echo made of $WORD > /made\"]\nENTRYPOINT [\"/bin/busybox\", \"cat\", \"/made\"]\n",
        )],
    );
    let address = registry();
    let mut kubernetes = kubernetes_config();
    kubernetes.builder_image = builder().to_owned();
    kubernetes.registry = Some(address.clone());
    kubernetes.insecure_registries = vec![address.clone()];
    let mut config = config(&server, place.path(), "kubernetes");
    config.executor = ExecutorChoice::Kubernetes(Box::new(kubernetes));
    let stop = CancellationToken::new();
    let runner = tokio::spawn(slipway_runner::run(config, stop.clone()));
    let (id, tag) = (next_id("image"), std::process::id());
    let yaml = r#"
version: '1.0'
steps:
  main_clone: {type: git-clone, repo: team/app}
  tool: {image: IMAGE, working_directory: '${{main_clone}}', commands: ['cp /bin/busybox .']}
  build:
    type: build
    image_name: team/app
    tag: 'TAG'
    working_directory: '${{main_clone}}'
    build_arguments: [WORD=layers]
  push: {type: push, candidate: '${{build}}', image_name: team/other, tags: ['TAG-two']}
  use: {image: 'localhost:5000/team/other:TAG-two'}
"#
    .replace("IMAGE", TEST_IMAGE)
    .replace("TAG", &tag.to_string());
    server.add(server.build(&id, &yaml));
    let record = server.finish(&id).await;
    assert_eq!(record.status(), "success", "{:#?} {:#?}", record.report, record.logs);
    assert!(record.log("use").contains("made of layers\n"), "{}", record.log("use"));
    let manifest = format!("http://{address}/v2/team/other/tags/list");
    assert!(sh(Path::new("/"), &format!("curl -sf {manifest}")).contains(&format!("{tag}-two")));
    stop.cancel();
    runner.await.unwrap().unwrap();
    until("the build's pods are gone", || pods(&format!("slipway.io/build={id}")).is_empty()).await;
}

/// The next build of a pipeline has the layers of the last one, without its names; a fork has its own.
#[tokio::test(flavor = "multi_thread")]
async fn layers_go_to_the_pipelines_next_build_and_a_forks_to_nobody() {
    let (server, place) = (Server::start().await, tempfile::tempdir().unwrap());
    let mut kubernetes = kubernetes_config();
    kubernetes.builder_image = builder().to_owned();
    let mut config = config(&server, place.path(), "kubernetes");
    config.executor = ExecutorChoice::Kubernetes(Box::new(kubernetes));
    let stop = CancellationToken::new();
    let runner = tokio::spawn(slipway_runner::run(config, stop.clone()));
    let yaml = r#"
version: '1.0'
steps:
  tool: {image: IMAGE, commands: ['cp /bin/busybox .', 'ls']}
  build:
    type: build
    image_name: team/layers
    tag: v1
    working_directory: /codefresh/volume
    dockerfile: {content: "FROM scratch\nCOPY busybox /bin/busybox\nRUN [\"/bin/busybox\", \"touch\", \"/made\"]\n"}
"#
    .replace("IMAGE", TEST_IMAGE);
    let build = async |fork: bool, fresh: bool| {
        let id = next_id("layers");
        let mut taken = server.build(&id, &yaml);
        taken.from_fork = fork;
        taken.options.no_cf_cache = fresh;
        server.add(taken);
        let record = server.finish(&id).await;
        assert_eq!(record.status(), "success", "{:#?} {:#?}", record.report, record.logs);
        // The server knows of the end a moment before the runner has left everything to the next build.
        until("the build has left its layers", || {
            let notes = std::fs::read_dir(place.path().join("volumes")).into_iter().flatten().flatten();
            notes.filter_map(|note| std::fs::read_to_string(note.path()).ok()).any(|text| text.contains(&id))
        })
        .await;
        record.log("build").contains("Using cache")
    };
    assert!(!build(true, false).await, "a fork finds nothing");
    assert!(!build(false, false).await, "and what it left, nobody finds");
    assert!(build(false, false).await, "a pipeline finds its own");
    assert!(!build(false, true).await, "unless it was asked for an image from nothing");
    stop.cancel();
    runner.await.unwrap().unwrap();
    let stores: Vec<_> = std::fs::read_dir(place.path().join("builds"))
        .unwrap()
        .filter(|build| build.as_ref().unwrap().path().join("images/vfs-images/images.json").exists())
        .collect();
    assert_eq!(stores.len(), 2, "one of the pipeline, one of the fork");
}

#[tokio::test]
async fn an_image_that_is_not_there_fails_its_step_with_what_to_do() {
    let harness = kubernetes();
    let id = next_id("pull");
    let yaml = "version: '1.0'\nsteps:\n  none: {image: 'localhost:5000/team/nowhere:1', commands: ['true']}\n  odd: {image: 'UPPER/case:1', commands: ['true']}\n";
    let yaml = format!("fail_fast: false\n{yaml}");
    registry();
    harness.server.add(harness.server.build(&id, &yaml));
    let record = harness.server.finish(&id).await;
    let message = record.step("none").message.unwrap_or_default();
    assert!(
        message.contains("localhost:5000/team/nowhere:1 cannot be pulled")
            && message.contains("--image-pull-secret"),
        "{message}"
    );
    let message = record.step("odd").message.unwrap_or_default();
    assert!(message.contains("`UPPER/case:1` is not the name of an image"), "{message}");
}

#[tokio::test]
async fn a_pod_that_somebody_deletes_is_an_interruption_and_the_step_runs_again() {
    let harness = kubernetes();
    let id = next_id("deleted");
    let yaml = "version: '1.0'\nsteps:\n  slow: {image: IMAGE, commands: ['echo $CF_CURRENT_ATTEMPT >> witness', echo begun, 'test $CF_CURRENT_ATTEMPT = 2 || sleep 600']}\n"
        .replace("IMAGE", &harness.image);
    harness.server.add(harness.server.build(&id, &yaml));
    harness.server.wait(&id, "a running step", |record| record.log("slow").contains("\nbegun\n")).await;
    let selector = format!("slipway.io/build={id}");
    Kube::shared().kubectl(&[
        "--namespace",
        namespace(),
        "delete",
        "pods",
        "-l",
        &selector,
        "--grace-period=1",
    ]);
    let record = harness.server.finish(&id).await;
    assert_eq!((record.status(), record.step("slow").attempt), ("success", 2), "{}", record.log("slow"));
    assert!(record.log("slow").contains("Attempt 1 was interrupted"), "{}", record.log("slow"));
}

#[tokio::test]
async fn pods_of_a_runner_that_lost_the_build_end_before_another_one_begins() {
    let (first, second) = (Server::start().await, Server::start().await);
    let (here, there) = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let id = next_id("fence");
    let yaml = "version: '1.0'\nsteps:\n  slow: {image: IMAGE, commands: [echo begun, 'sleep LONG']}\n"
        .replace("IMAGE", TEST_IMAGE);
    first.add(first.build(&id, &yaml.replace("LONG", "600")));
    let runner = Process::start(&first, &here.path().join("data"), "kubernetes");
    first.wait(&id, "a running step", |record| record.log("slow").contains("\nbegun\n")).await;
    // It is cut off from the server and from the cluster, and its lease has run out.
    runner.kill();
    kill(&processes(&["supervise", &id]));
    let before = pods(&format!("slipway.io/build={id}"));
    assert_eq!(before.len(), 1);
    second.add(second.build(&id, &yaml.replace("LONG", "0")));
    let _other = Process::start(&second, &there.path().join("data"), "kubernetes");
    let record = second.finish(&id).await;
    assert_eq!(record.status(), "success", "{}", record.log("slow"));
    assert!(!pods(&format!("slipway.io/build={id}")).contains(&before[0]), "the first runner's pod is gone");
}

#[tokio::test]
async fn what_an_earlier_life_of_a_runner_left_behind_is_removed_when_it_starts() {
    let (server, place) = (Server::start().await, tempfile::tempdir().unwrap());
    let data = place.path().join("data");
    let id = next_id("orphan");
    server.add(
        server.build(
            &id,
            &"version: '1.0'\nsteps:\n  slow: {image: IMAGE, commands: [echo begun, sleep 600]}\n"
                .replace("IMAGE", TEST_IMAGE),
        ),
    );
    let runner = Process::start(&server, &data, "kubernetes");
    server.wait(&id, "a running step", |record| record.log("slow").contains("\nbegun\n")).await;
    runner.kill();
    let selector = format!("slipway.io/build={id}");
    kill(&processes(&["supervise", &id]));
    // The machine came back without the build's folder: nobody else knows of the pod.
    std::fs::remove_dir_all(data.join("builds").join(&id)).unwrap();
    server.change(&id, |record| record.lost = true);
    assert_eq!(pods(&selector).len(), 1);
    let _runner = Process::start(&server, &data, "kubernetes");
    until("the orphan is removed", || pods(&selector).is_empty()).await;
    secrets_go(&selector).await;
}

#[tokio::test]
async fn no_pod_is_privileged_and_none_holds_a_secret_in_its_own_text() {
    let harness = kubernetes();
    let id = next_id("plain");
    let mut taken = harness.server.build(
        &id,
        &"version: '1.0'\nsteps:\n  slow: {image: IMAGE, commands: [echo begun, 'while ! test -e go; do sleep 0.1; done']}\n"
            .replace("IMAGE", &harness.image),
    );
    let variables = vec![crate::server::variable("TOKEN", "p0d-canary", true)];
    taken.variables = vec![slipway_api::agent::VariableLayer { name: "project".into(), variables }];
    harness.server.add(taken);
    harness.server.wait(&id, "a running step", |record| record.log("slow").contains("\nbegun\n")).await;
    let selector = format!("slipway.io/build={id}");
    let pod =
        Kube::shared().kubectl(&["--namespace", namespace(), "get", "pods", "-l", &selector, "-o", "json"]);
    std::fs::write(harness.data.join("builds").join(&id).join("volume/go"), "").unwrap();
    assert!(pod.contains("\"privileged\": false") && !pod.contains("\"privileged\": true"), "{pod}");
    assert!(pod.contains("\"automountServiceAccountToken\": false") && !pod.contains("p0d-canary"), "{pod}");
    assert_eq!(harness.server.finish(&id).await.status(), "success");
    secrets_go(&selector).await;
}

/// They go after the pods that they are for.
async fn secrets_go(selector: &str) {
    until("its secrets are gone", || {
        let left = ["--namespace", namespace(), "get", "secrets", "-l", selector, "-o", "name"];
        Kube::shared().kubectl(&left).is_empty()
    })
    .await;
}
