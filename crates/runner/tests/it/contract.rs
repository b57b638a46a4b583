//! What every executor owes a pipeline, run on each that this machine has.

use std::sync::atomic::{AtomicU64, Ordering};

use slipway_api::agent::{TakenBuild, VariableLayer};

use crate::runner::{Harness, harnesses};
use crate::server::{Record, Server, variable};

pub fn next_id(prefix: &str) -> String {
    static COUNT: AtomicU64 = AtomicU64::new(0);
    // What a run that was killed has left behind must not bear the names of this one.
    format!("{prefix}{}x{}", std::process::id(), COUNT.fetch_add(1, Ordering::Relaxed))
}

/// Runs a pipeline on one executor; `IMAGE` in it becomes an image that is there.
async fn run_with(harness: &Harness, yaml: &str, change: impl FnOnce(&mut TakenBuild)) -> Record {
    let id = next_id("contract");
    let mut taken = harness.server.build(&id, &yaml.replace("IMAGE", &harness.image));
    change(&mut taken);
    harness.server.add(taken);
    harness.server.finish(&id).await
}

async fn run(harness: &Harness, yaml: &str) -> Record {
    run_with(harness, yaml, |_| {}).await
}

#[tokio::test]
async fn commands_run_in_one_shell_and_their_output_is_in_order() {
    for harness in harnesses() {
        let record = run(
            harness,
            r#"
version: '1.0'
steps:
  say:
    image: IMAGE
    commands:
      - X=from-an-earlier-command
      - echo "out $X"
      - echo err >&2
      - echo last
"#,
        )
        .await;
        let log = record.log("say");
        assert_eq!(record.status(), "success", "{}: {log}", harness.executor);
        let order: Vec<_> = log.lines().filter(|line| !line.starts_with("Executing")).skip(1).collect();
        assert_eq!(order, ["out from-an-earlier-command", "err", "last"], "{}: {log}", harness.executor);
        assert_eq!(record.step("say").exit_code, Some(0));
        assert!(record.log("Initializing Process").contains("runner test"));
    }
}

#[tokio::test]
async fn a_failing_command_ends_the_step_and_the_build_with_its_code() {
    for harness in harnesses() {
        let record = run(
            harness,
            r#"
version: '1.0'
steps:
  fails: {image: IMAGE, commands: ["echo before", "sh -c 'exit 7'", "echo never"]}
  later: {image: IMAGE, commands: ["echo never"]}
"#,
        )
        .await;
        assert_eq!(record.status(), "error", "{}", harness.executor);
        let step = record.step("fails");
        assert_eq!((step.status.as_str(), step.exit_code), ("error", Some(7)), "{}", harness.executor);
        assert_eq!(step.message.as_deref(), Some("its command ended with exit code 7"));
        assert!(
            !record.log("fails").contains("\nnever")
                && record.log("later").is_empty() | record.log("later").contains("skipped")
        );
    }
}

#[tokio::test]
async fn variables_reach_the_step_whatever_is_in_them() {
    for harness in harnesses() {
        let record = run_with(
            harness,
            r#"
version: '1.0'
steps:
  show:
    image: IMAGE
    environment: ["OWN=own value", "PLAIN=overridden"]
    commands:
      - printf '<%s>\n' "$PLAIN" "$OWN" "$QUOTES" "$LINES" "$EMPTY" "$CI" "$CF_BUILD_ID" "$CF_VOLUME_PATH" "$CF_PIPELINE_NAME" "$SLIPWAY_EXECUTOR"
      - echo "in yaml ${{PLAIN}} ${{NOBODY}}"
"#,
            |taken| {
                taken.variables = vec![
                    VariableLayer { name: "project".into(), variables: vec![variable("PLAIN", "weak", false)] },
                    VariableLayer {
                        name: "pipeline".into(),
                        variables: vec![
                            variable("PLAIN", "strong", false),
                            variable("QUOTES", r#"it's "so" $HOME `x` \n"#, false),
                            variable("LINES", "one\ntwo=2\n#three", false),
                            variable("EMPTY", "", false),
                        ],
                    },
                ];
            },
        )
        .await;
        let id = record.taken.as_ref().unwrap().id.clone();
        let log = record.log("show");
        let expect = format!(
            "<overridden>\n<own value>\n<it's \"so\" $HOME `x` \\n>\n<one\ntwo=2\n#three>\n<>\n<true>\n<{id}>\n</codefresh/volume>\n<demo/test>\n<{}>\n",
            harness.executor
        );
        assert!(log.contains(&expect), "{}: {log}", harness.executor);
        assert!(log.contains("in yaml strong ${{NOBODY}}\n") || log.contains("in yaml strong "), "{log}");
    }
}

#[tokio::test]
async fn steps_share_the_volume_and_exported_variables() {
    for harness in harnesses() {
        let record = run(
            harness,
            r#"
version: '1.0'
steps:
  first:
    image: IMAGE
    working_directory: /codefresh/volume/deep/er
    commands:
      - echo text > file
      - cf_export VERSION=1.2.3 "SENTENCE=with blanks"
      - cf_export --mask TOKEN=t0p-s3cret
      - echo DIRECT=yes >> /codefresh/volume/env_vars_to_export
  second:
    image: IMAGE
    commands:
      - cat deep/er/file
      - echo "$VERSION/$SENTENCE/$DIRECT/$TOKEN/${{VERSION}}"
      - ls -a /codefresh/volume
  third:
    image: IMAGE
    working_directory: ${{first}}
    commands: [pwd]
"#,
        )
        .await;
        let log = record.log("second");
        assert_eq!(record.status(), "success", "{log}");
        assert!(log.contains("\ntext\n"), "{}: {log}", harness.executor);
        assert!(log.contains("\n1.2.3/with blanks/yes/*****/1.2.3\n"), "{}: {log}", harness.executor);
        assert!(!log.contains("env_vars_to_export"), "{log}");
        assert!(record.log("third").contains("\n/codefresh/volume/deep/er\n"), "{}", record.log("third"));
        assert!(!record.logs["second"].contains("t0p-s3cret"));
    }
}

#[tokio::test]
async fn a_step_without_commands_runs_its_entry_point() {
    for harness in harnesses() {
        let record = run(
            harness,
            r#"
version: '1.0'
steps:
  entry: {image: IMAGE, entry_point: [sh, -c], cmd: ["echo entry $CI; exit 3"], fail_fast: false}
  next: {image: IMAGE, commands: [echo next]}
"#,
        )
        .await;
        assert_eq!(record.step("entry").exit_code, Some(3), "{}", record.log("entry"));
        assert!(record.log("entry").contains("entry true\n"), "{}", record.log("entry"));
        assert!(record.log("next").contains("\nnext\n"));
    }
}

#[tokio::test]
async fn system_variables_say_who_started_it_and_link_to_the_page_of_the_build() {
    let harness = crate::runner::host();
    let yaml = r#"
version: '1.0'
steps:
  show:
    image: x
    commands: ['echo "<$CF_BUILD_URL> <$CF_BUILD_INITIATOR> <$CF_BUILD_TRIGGER> <$CF_BASE_BRANCH> <$CF_PULL_REQUEST_TARGET> <$CF_KUBECONFIG_PATH>"']
"#;
    let run = async |initiator: Option<&str>, event: &str| {
        let id = next_id("system");
        let mut taken = harness.server.build(&id, yaml);
        taken.initiator = initiator.map(str::to_owned);
        taken.commit = Some(slipway_api::agent::TriggerCommit {
            repo: "team/app".into(),
            branch: "topic".into(),
            sha: "0123456789abcdef".into(),
            author: "ada".into(),
            event: event.into(),
            pull_request: Some(slipway_api::agent::PullRequest {
                target: "main".into(),
                ..Default::default()
            }),
            ..Default::default()
        });
        harness.server.add(taken);
        let log = harness.server.finish(&id).await.log("show").to_owned();
        log.replace(&format!("{}/builds/{id}", harness.server.url), "URL")
    };
    let log = run(None, "pullrequest.opened").await;
    assert!(log.contains("<URL> <ada> <webhook> <main> <main> <>"), "{log}");
    let log = run(Some("grace"), "").await;
    assert!(
        log.contains("<URL> <grace> <build> <main> <main> <>"),
        "by hand, for the commit of a trigger: {log}"
    );
}

#[tokio::test]
async fn a_build_that_asks_for_what_is_not_supported_is_refused_and_its_secrets_reach_it() {
    for harness in harnesses() {
        let name = next_id("options");
        let record = run(
            harness,
            &r#"
version: '1.0'
steps:
  signed:
    type: build
    image_name: NAME
    disable_push: true
    fail_fast: false
    cosign: {sign: true}
    provider: {type: gcb}
    dockerfile: {content: "FROM IMAGE"}
  token: {image: IMAGE, commands: ['mkdir -p keys; printf b00k-of-secrets > keys/token']}
  secret:
    type: build
    image_name: NAME
    disable_push: true
    fail_fast: false
    secrets: ['id=token,src=keys/token']
    working_directory: /codefresh/volume
    dockerfile: {content: "FROM IMAGE\nRUN --mount=type=secret,id=token [\"/usr/bin/sh\", \"-c\", \"wc -c < /run/secrets/token\"]\n"}
  elsewhere:
    type: build
    image_name: NAME
    disable_push: true
    fail_fast: false
    secrets: [{id: token, src: /etc/passwd}]
    dockerfile: {content: "FROM IMAGE"}
"#
            .replace("NAME", &name),
        )
        .await;
        let signed = record.step("signed");
        let why = signed.message.clone().unwrap_or_default();
        assert_eq!(signed.status, "error", "{}: {why}", harness.executor);
        assert!(why.contains("`cosign`") && why.contains("`provider`"), "{}: {why}", harness.executor);
        let log = record.log("secret");
        if harness.executor == "podman" {
            assert_eq!(record.step("secret").status, "success", "{log}");
            assert!(log.contains("\n15\n"), "{log}");
            let why = record.step("elsewhere").message.unwrap_or_default();
            assert!(why.contains("/etc/passwd is not a file of the build's volume"), "{why}");
            let _ = std::process::Command::new("podman").args(["rmi", "--force", &name]).output();
        } else if matches!(harness.executor, "host" | "kubernetes") {
            assert_eq!(record.step("secret").status, "error", "{}: {log}", harness.executor);
        } else {
            // With a builder that has no secrets the engine says so; without them it never succeeds.
            assert!(record.step("secret").status == "error" || log.contains("15"), "{log}");
        }
    }
}

/// A number of seconds that no other process sleeps for: it is how one is found.
fn mark(beginning: &str, harness: &Harness) -> String {
    let executor: u32 = harness.executor.bytes().map(u32::from).sum();
    format!("{beginning}{}{executor}", std::process::id())
}

#[tokio::test]
async fn a_timeout_ends_the_step_and_everything_it_started() {
    for harness in harnesses() {
        let mark = mark("3141", harness);
        let yaml = r#"
version: '1.0'
steps:
  slow:
    image: IMAGE
    timeout: 2s
    commands:
      - sleep MARK & sleep MARK
"#
        .replace("MARK", &mark);
        let record = run(harness, &yaml).await;
        let step = record.step("slow");
        assert_eq!((record.status(), step.status.as_str()), ("error", "error"));
        assert!(step.message.as_deref().unwrap_or_default().contains("timeout"), "{step:?}");
        assert_no_process(&format!("sleep {mark}"));
    }
}

#[tokio::test]
async fn terminating_a_build_stops_its_steps_and_starts_no_more() {
    for harness in harnesses() {
        let id = next_id("terminate");
        let mark = mark("2718", harness);
        let yaml = r#"
version: '1.0'
steps:
  slow: {image: IMAGE, commands: ["echo running", "sleep MARK"]}
  never: {image: IMAGE, commands: ["echo never"]}
"#
        .replace("IMAGE", &harness.image)
        .replace("MARK", &mark);
        harness.server.add(harness.server.build(&id, &yaml));
        harness.server.wait(&id, "a running step", |record| record.log("slow").contains("\nrunning\n")).await;
        harness.server.change(&id, |record| record.terminate = true);
        let record = harness.server.finish(&id).await;
        assert_eq!(record.status(), "terminated", "{}", harness.executor);
        assert_eq!(record.step("slow").status, "terminated");
        assert_eq!(record.step("never").status, "terminated");
        assert_no_process(&format!("sleep {mark}"));
    }
}

#[tokio::test]
async fn what_a_step_leaves_running_is_gone_when_it_ends() {
    for harness in harnesses() {
        let mark = mark("1618", harness);
        let yaml = r#"
version: '1.0'
steps:
  leaves: {image: IMAGE, commands: ["(sleep MARK >/dev/null 2>&1 &)", "echo done"]}
"#
        .replace("MARK", &mark);
        let record = run(harness, &yaml).await;
        assert_eq!(record.status(), "success", "{}", record.log("leaves"));
        assert_no_process(&format!("sleep {mark}"));
    }
}

#[tokio::test]
async fn a_long_log_arrives_whole_and_in_order() {
    for harness in harnesses() {
        // On a node this is more than a container's log may hold.
        let lines = 400_000;
        let yaml = format!("version: '1.0'\nsteps:\n  long: {{image: IMAGE, commands: ['seq 1 {lines}']}}\n");
        let record = run(harness, &yaml).await;
        let numbers: Vec<u64> = record.log("long").lines().filter_map(|line| line.parse().ok()).collect();
        assert!(numbers.iter().copied().eq(1..=lines), "{}: {} lines", harness.executor, numbers.len());
    }
}

#[tokio::test]
async fn parallel_steps_and_retries_work_as_the_planner_says() {
    for harness in harnesses() {
        let record = run(
            harness,
            r#"
version: '1.0'
steps:
  both:
    type: parallel
    steps:
      left: {image: IMAGE, commands: ["touch left", "for i in $(seq 1 100); do if test -e right; then exit 0; fi; sleep 0.1; done; exit 1"]}
      right: {image: IMAGE, commands: ["touch right", "for i in $(seq 1 100); do if test -e left; then exit 0; fi; sleep 0.1; done; exit 1"]}
  flaky:
    image: IMAGE
    retry: {maxAttempts: 3, delay: 0.2}
    commands: ["echo attempt $CF_CURRENT_ATTEMPT of $CF_MAX_ATTEMPTS", "test $CF_CURRENT_ATTEMPT = 2"]
  here:
    image: IMAGE
    when: {condition: {all: {engine: '"${{SLIPWAY_EXECUTOR}}" == "host"'}}}
    commands: [echo here]
"#,
        )
        .await;
        assert_eq!(record.status(), "success", "{:#?} {:#?}", record.report, record.logs);
        assert_eq!(record.step("flaky").attempt, 2);
        let log = record.log("flaky");
        assert!(
            log.contains("attempt 1 of 3") && log.contains("attempt 2 of 3") && !log.contains("attempt 3"),
            "{log}"
        );
        let expected = if harness.executor == "host" { "success" } else { "skipped" };
        assert_eq!(record.step("here").status, expected);
    }
}

#[tokio::test]
async fn secrets_leave_the_machine_in_no_form() {
    let key = "-----BEGIN KEY-----\nMIIEvQIBADANBgkqhkiG9w0BAQEFAASC\n-----END KEY-----\n";
    for harness in harnesses() {
        let record = run_with(
            harness,
            r#"
version: '1.0'
steps:
  leaks:
    image: IMAGE
    commands:
      - echo "plain $TOKEN ${{TOKEN}}"
      - for part in s3cr et-va lue; do printf '%s' "$part"; sleep 0.1; done; echo
      - printf '%s' "$TOKEN" | base64
      - printf 'user:%s' "$TOKEN" | base64
      - echo "$KEY"
      - echo "$KEY" | base64
      - exit 1
"#,
            |taken| {
                let variables = vec![variable("TOKEN", "s3cret-value", true), variable("KEY", key, true)];
                taken.variables = vec![VariableLayer { name: "pipeline".into(), variables }];
            },
        )
        .await;
        let (log, sent) = (record.log("leaks"), &record.traffic);
        assert!(log.contains("plain ***** *****\n"), "{log}");
        for secret in [
            "s3cret-value",
            "czNjcmV0LXZhbHVl",
            "MIIEvQIBADANBg",
            "TUlJRXZRSUJBREFOQm",
            crate::server::GIT_PASSWORD,
        ] {
            assert!(!sent.contains(secret), "{}: {secret} in {log}", harness.executor);
        }
    }
}

#[tokio::test]
async fn a_step_waits_for_somebody_and_takes_nobodys_place_meanwhile() {
    let (server, place) = (Server::start().await, tempfile::tempdir().unwrap());
    let mut config = crate::runner::config(&server, place.path(), "host");
    config.capacity = 1;
    tokio::spawn(slipway_runner::run(config, tokio_util::sync::CancellationToken::new()));
    let yaml = r#"
version: '1.0'
steps:
  ask: {type: pending-approval, fail_fast: false}
  tell: {image: x, commands: ['echo "by ${{steps.ask.authEntity.name}}, ${{steps.ask.result}}"']}
"#;
    let (first, second) = (next_id("asks"), next_id("asks"));
    server.add(server.build(&first, yaml));
    server.wait(&first, "the question", |record| record.status() == "pending-approval").await;
    // The only place of the runner is free for others while somebody thinks.
    server.add(server.build(&second, "version: '1.0'\nsteps:\n  s: {image: x, commands: ['true']}\n"));
    assert_eq!(server.finish(&second).await.status(), "success");
    let answer = slipway_api::agent::ApprovalDecision {
        build: first.clone(),
        step: "ask".into(),
        approved: true,
        by: "Ada".into(),
        by_kind: "user".into(),
        reason: Some("it looks good".into()),
        at_ms: 1,
    };
    server.change(&first, |record| record.decisions.push(answer));
    let record = server.finish(&first).await;
    assert_eq!(record.status(), "success", "{:#?} {:#?}", record.report, record.logs);
    assert_eq!(record.step("ask").status, "approved");
    assert!(record.log("ask").contains("approved by Ada: it looks good"), "{}", record.log("ask"));
    assert!(record.log("tell").contains("by Ada"), "{}", record.log("tell"));
}

#[tokio::test]
async fn a_denied_step_fails_the_build_with_who_and_why() {
    let harness = crate::runner::host();
    let id = next_id("denied");
    let yaml = "version: '1.0'\nsteps:\n  ask: {type: pending-approval}\n  never: {image: x, commands: ['echo never']}\n";
    let mut taken = harness.server.build(&id, yaml);
    // Answered before this runner took the build.
    taken.decisions = vec![slipway_api::agent::ApprovalDecision {
        build: id.clone(),
        step: "ask".into(),
        by: "Ada".into(),
        by_kind: "user".into(),
        reason: Some("not today".into()),
        ..Default::default()
    }];
    harness.server.add(taken);
    let record =
        harness.server.wait(&id, "its end", |record| matches!(record.status(), "error" | "denied")).await;
    assert_eq!(record.step("ask").status, "denied");
    assert_eq!(record.step("ask").message.as_deref(), Some("denied by Ada: not today"));
}

#[tokio::test]
async fn a_pipelines_volume_is_kept_for_its_next_build_and_a_forks_never_meets_it() {
    let harness = crate::runner::host();
    let yaml = "version: '1.0'\nsteps:\n  s: {image: x, commands: ['cat seen 2>/dev/null || true', 'echo $CF_BUILD_ID >> seen']}\n";
    let run = async |fork: Option<&str>| {
        let id = next_id("volume");
        let mut taken = harness.server.build(&id, yaml);
        taken.pipeline_name = "demo/volume".into();
        taken.options.reset_volume = false;
        taken.from_fork = fork.is_some();
        taken.commit = fork.map(|repo| slipway_api::agent::TriggerCommit {
            pull_request: Some(slipway_api::agent::PullRequest {
                head_repo: repo.into(),
                is_fork: true,
                ..Default::default()
            }),
            ..Default::default()
        });
        harness.server.add(taken);
        let record = harness.server.finish(&id).await;
        assert_eq!(record.status(), "success", "{:#?}", record.logs);
        let seen =
            record.log("s").lines().filter(|line| line.starts_with("volume")).map(str::to_owned).collect();
        (id, seen)
    };
    let (first, seen): (String, Vec<String>) = run(None).await;
    assert!(seen.is_empty(), "{seen:?}");
    let (fork, seen) = run(Some("eve/app")).await;
    assert!(seen.is_empty(), "{seen:?}");
    let (second, seen) = run(None).await;
    assert_eq!(seen, std::slice::from_ref(&first));
    assert_eq!(run(Some("eve/app")).await.1, [fork]);
    assert_eq!(run(Some("mallory/app")).await.1, Vec::<String>::new());
    assert_eq!(run(None).await.1, [first, second]);
}

#[tokio::test]
async fn test_reports_are_counted_where_they_are_and_stay_there() {
    let harness = crate::runner::host();
    let id = next_id("junit");
    let yaml = r#"
version: '1.0'
steps:
  tests:
    image: x
    working_directory: /codefresh/volume/app
    environment: ['SLIPWAY_JUNIT=out/*.xml']
    commands:
      - mkdir -p out
      - echo '<testsuite><testcase classname="A" name="good"/><testcase classname="A" name="bad t0ken-canary"><failure>residency-canary</failure></testcase></testsuite>' > out/a.xml
"#
    .replace("- echo '", "- set +x; echo '");
    let mut taken =
        harness.server.build(&id, &yaml.replace("residency-canary", "$(printf 'residency-%s' canary)"));
    let variables = vec![variable("TOKEN", "t0ken-canary", true)];
    taken.variables = vec![VariableLayer { name: "project".into(), variables }];
    harness.server.add(taken);
    let record = harness.server.finish(&id).await;
    let tests = record.step("tests").tests.expect("there are counts");
    assert_eq!((tests.passed, tests.failed, tests.skipped), (1, 1, 0));
    assert_eq!(tests.failed_cases, ["A.bad *****"]);
    assert!(record.log("tests").contains("Tests: 1 passed, 1 failed, 0 skipped"), "{}", record.log("tests"));
}

#[tokio::test]
async fn services_run_beside_a_step_under_their_names() {
    for harness in harnesses().into_iter().filter(|harness| harness.executor == "kubernetes") {
        let record = run(
            harness,
            r#"
version: '1.0'
steps:
  tests:
    image: IMAGE
    services:
      composition:
        web_one:
          image: IMAGE
          command: sh -c 'echo hello from the service > /tmp/index.html; httpd -f -p 8099 -h /tmp'
      readiness:
        image: IMAGE
        periodSeconds: 1
        failureThreshold: 30
        commands: ['curl -sf http://web_one:8099/']
    commands: ['curl -sf http://web_one:8099/']
  compose:
    type: composition
    composition:
      version: '2'
      services:
        web: {image: IMAGE, command: [sh, -c, 'echo composed ${WORD} > /tmp/index.html; httpd -f -p 8098 -h /tmp']}
    composition_candidates:
      test:
        image: IMAGE
        command: sh -c 'for i in 1 2 3 4 5 6 7 8 9 10; do curl -sf http://web:8098/ && exit 4; sleep 1; done'
    composition_variables: [WORD=together]
    fail_fast: false
"#,
        )
        .await;
        assert!(
            record.log("tests").contains(
                "
hello from the service
"
            ),
            "{}: {:#?} {:#?}",
            harness.executor,
            record.report,
            record.logs
        );
        assert!(
            record.log("compose").contains(
                "composed together
"
            ),
            "{}",
            record.log("compose")
        );
        assert_eq!(record.step("compose").exit_code, Some(4), "the candidate decides");
    }
}

#[tokio::test]
async fn services_of_the_whole_build_start_once_and_end_with_it() {
    for harness in harnesses() {
        let mark = mark("8", harness);
        let yaml = r#"
version: '1.0'
services:
  name: shared
  composition:
    web_one:
      image: IMAGE
      entrypoint: [sh, -c]
      command: ['echo started >> /marks/starts; sleep MARK']
      volumes: ['./marks:/marks']
  readiness: {image: IMAGE, periodSeconds: 1, failureThreshold: 60, commands: ['test -s /codefresh/volume/marks/starts']}
  setup: {image: IMAGE, commands: ['echo set-up >> /codefresh/volume/marks/setups']}
steps:
  one: {image: IMAGE, services: [shared], commands: ['cat marks/starts marks/setups', 'cat /etc/hosts']}
  two: {image: IMAGE, services: [web_one], commands: ['cat marks/starts marks/setups']}
  three: {image: IMAGE, services: [nobody], commands: ['true'], fail_fast: false}
"#
        .replace("MARK", &mark);
        let record = run(harness, &yaml).await;
        if harness.executor == "host" {
            let why = record.step("one").message.unwrap_or_default();
            assert!(why.contains("web_one") && why.contains("install podman"), "{why}");
            continue;
        }
        for step in ["one", "two"] {
            let log = record.log(step);
            let lines = |word: &str| log.lines().filter(|line| *line == word).count();
            assert_eq!(
                (lines("started"), lines("set-up")),
                (1, 1),
                "{} {step}: {:#?} {:#?}",
                harness.executor,
                record.report,
                record.logs
            );
        }
        assert!(record.log("one").contains("web_one"), "it has a name: {}", record.log("one"));
        let why = record.step("three").message.unwrap_or_default();
        assert!(why.contains("`nobody`") && why.contains("shared, web_one"), "{why}");
        assert_no_process(&format!("sleep {mark}"));
    }
}

#[tokio::test]
async fn all_candidates_of_a_composition_have_to_succeed() {
    for harness in harnesses().into_iter().filter(|harness| harness.executor != "host") {
        let record = run(
            harness,
            r#"
version: '1.0'
steps:
  good:
    type: composition
    composition: {version: '3', services: {idle: {image: IMAGE, entrypoint: [sh, -c], command: ['sleep 600']}}}
    composition_candidates:
      first: {image: IMAGE, entrypoint: [sh, -c], command: ['echo from the first']}
      second: {image: IMAGE, entrypoint: [sh, -c], command: ['sleep 1; echo from the second']}
  bad:
    type: composition
    fail_fast: false
    composition: {version: '3', services: {idle: {image: IMAGE, entrypoint: [sh, -c], command: ['sleep 600']}}}
    composition_candidates:
      first: {image: IMAGE, entrypoint: [sh, -c], command: ['true']}
      second: {image: IMAGE, entrypoint: [sh, -c], command: ['echo second gives up; exit 5']}
"#,
        )
        .await;
        let log = record.log("good");
        assert_eq!(record.step("good").status, "success", "{}: {log}", harness.executor);
        assert!(log.contains("from the first") && log.contains("from the second"), "{log}");
        let bad = record.step("bad");
        assert_eq!(
            (bad.status.as_str(), bad.exit_code),
            ("error", Some(5)),
            "{}: {}",
            harness.executor,
            record.log("bad")
        );
        assert!(record.log("bad").contains("second gives up"), "{}", record.log("bad"));
    }
}

#[tokio::test]
async fn annotations_go_out_with_the_report_and_secrets_do_not() {
    let harness = crate::runner::host();
    let id = next_id("annotate");
    let yaml = r#"
version: '1.0'
hooks:
  on_finish:
    annotations:
      set: [{entity_type: pipeline, annotations: [{last: '${{CF_BUILD_ID}}'}]}]
steps:
  measure:
    image: x
    commands: ['echo 93% > coverage.txt', 'cf_export SCORE=7']
    hooks:
      on_success:
        annotations:
          set:
            - annotations: [{coverage: 'file:coverage.txt'}, {score: '${{SCORE}}'}, {leak: '${{TOKEN}}'}, {fine: {evaluate: '1 < 2'}}]
            - {entity_type: pipeline, entity_id: demo/other, annotations: [mine]}
"#;
    let mut taken = harness.server.build(&id, yaml);
    let variables = vec![variable("TOKEN", "t0ken-canary", true)];
    taken.variables = vec![VariableLayer { name: "project".into(), variables }];
    harness.server.add(taken);
    let record = harness.server.finish(&id).await;
    let told: Vec<String> = record
        .report
        .as_ref()
        .unwrap()
        .annotations
        .iter()
        .map(|change| {
            let value = change.value.as_ref().map(ToString::to_string).unwrap_or_default();
            format!("{} {} {}={value}", change.entity_type, change.entity_id, change.key)
        })
        .collect();
    let own = |text: &str| format!("build {id} {text}");
    let expected = [
        own(r#"coverage="93%""#),
        own(r#"score="7""#),
        own(r#"leak="*****""#),
        own("fine=true"),
        format!(r#"pipeline demo/test last="{id}""#),
    ];
    assert_eq!(told, expected, "{:#?}", record.logs);
    assert!(!record.traffic.contains("t0ken-canary"));
    assert!(record.log("measure").contains("demo/other is none of them"), "{}", record.log("measure"));
}

fn assert_no_process(words: &str) {
    let until = std::time::Instant::now() + slipway_testkit::PATIENCE;
    loop {
        let found: Vec<String> = std::fs::read_dir("/proc")
            .unwrap()
            .flatten()
            .filter_map(|entry| std::fs::read(entry.path().join("cmdline")).ok())
            .map(|bytes| String::from_utf8_lossy(&bytes).replace('\0', " ").trim().to_owned())
            .filter(|line| line == words)
            .collect();
        if found.is_empty() {
            return;
        }
        assert!(std::time::Instant::now() < until, "still running: {found:?}");
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
}
