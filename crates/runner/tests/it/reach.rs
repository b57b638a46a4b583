//! A step is never more than its container: a test for each tool and door, on every executor that this machine has.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use slipway_api::agent::{TakenBuild, VariableLayer};

use crate::contract::next_id;
use crate::runner::{Harness, Process, docker, harnesses, host, podman};
use crate::server::{GIT_PASSWORD, Record, Server, variable};

const SECRET: &str = "s3cr3t-deploy-key-of-prod";
/// Of the test that looks at everybody's arguments.
const ARGUED: &str = "s3cr3t-that-nobody-prints";

/// Runs a pipeline with variables; `IMAGE` in it becomes an image that is there.
async fn run(harness: &Harness, yaml: &str, variables: &[(&str, &str, bool)]) -> Record {
    run_with(harness, yaml, variables, |_| {}).await
}

async fn run_with(
    harness: &Harness,
    yaml: &str,
    variables: &[(&str, &str, bool)],
    change: impl FnOnce(&mut TakenBuild),
) -> Record {
    let id = next_id("reach");
    let mut taken = harness.server.build(&id, &yaml.replace("IMAGE", &harness.image));
    let variables = variables.iter().map(|(name, value, secret)| variable(name, value, *secret)).collect();
    taken.variables = vec![VariableLayer { name: "pipeline".into(), variables }];
    change(&mut taken);
    harness.server.add(taken);
    harness.server.finish(&id).await
}

/// A folder of this machine with something in it that no step may see.
struct Victim(tempfile::TempDir);

impl Victim {
    fn new() -> Self {
        let folder = tempfile::tempdir().unwrap();
        std::fs::write(folder.path().join("secret.txt"), "VICTIM-OF-THE-HOST").unwrap();
        Self(folder)
    }

    fn path(&self) -> &Path {
        self.0.path()
    }

    fn is_untouched(&self) -> bool {
        let names: BTreeSet<_> =
            std::fs::read_dir(self.path()).unwrap().flatten().map(|entry| entry.file_name()).collect();
        names.len() == 1
            && std::fs::read_to_string(self.path().join("secret.txt")).unwrap() == "VICTIM-OF-THE-HOST"
    }
}

#[tokio::test]
async fn c1_a_volume_is_a_folder_of_the_volume_and_nothing_else() {
    let victim = Victim::new();
    let host_path = victim.path().display();
    let hostile = [
        format!("x:/mnt/o:O,upperdir={host_path},workdir=/var/tmp"),
        format!("{host_path}:/m"),
        format!("x:/m,src={host_path}"),
        "../../..:/m".to_owned(),
        "x:/m:z".to_owned(),
        "x:/m\n--privileged".to_owned(),
        "x:/proc".to_owned(),
        "x:/codefresh/bin".to_owned(),
        "x:/".to_owned(),
    ];
    let step = |number: usize| {
        format!(
            "  v{number}: {{image: IMAGE, fail_fast: false, volumes: ['${{{{S{number}}}}}:${{{{T{number}}}}}'], commands: ['cat /m/secret.txt /mnt/o/secret.txt; echo RAN']}}\n"
        )
    };
    let steps: String = (0..hostile.len()).map(step).collect();
    let composed = "  composed:\n    type: composition\n    fail_fast: false\n    composition: {version: '2', services: {one: {image: IMAGE, command: [sleep, '1'], volumes: ['${{S0}}:${{T0}}']}}}\n    composition_candidates: {two: {image: IMAGE, command: [echo, RAN], volumes: ['${{S1}}:${{T1}}']}}\n";
    let parts: Vec<(String, &str)> = hostile
        .iter()
        .enumerate()
        .flat_map(|(number, text)| {
            let (source, target) = text.split_once(':').unwrap();
            [(format!("S{number}"), source), (format!("T{number}"), target)]
        })
        .collect();
    let variables: Vec<(&str, &str, bool)> =
        parts.iter().map(|(name, text)| (name.as_str(), *text, false)).collect();
    for harness in harnesses() {
        let yaml = format!("version: '1.0'\nsteps:\n{steps}{composed}");
        let record = run(harness, &yaml, &variables).await;
        for (number, text) in hostile.iter().enumerate() {
            let step = record.step(&format!("v{number}"));
            let why = step.message.unwrap_or_default();
            assert_eq!(step.status, "error", "{} {text}", harness.executor);
            assert!(why.contains("cannot be mounted"), "{} {text}: {why}", harness.executor);
        }
        let why = record.step("composed").message.unwrap_or_default();
        assert!(
            why.contains("of service `one`") && why.contains("of service `two`"),
            "{}: {why}",
            harness.executor
        );
        assert!(!record.traffic.contains("VICTIM-OF"), "{}", harness.executor);
        // What can be known before is told before anything runs.
        let written = format!("version: '1.0'\nsteps:\n  v: {{image: IMAGE, volumes: ['{}']}}\n", hostile[0]);
        let record = run(harness, &written, &[]).await;
        assert!(record.log("Initializing Process").contains("line 3, column"), "{:#?}", record.logs);
    }
    assert!(victim.is_untouched());
}

#[tokio::test]
async fn volumes_are_mounted_where_they_are_wanted_and_read_only_is() {
    for harness in harnesses().into_iter().filter(|harness| harness.executor != "host") {
        let yaml = r#"
version: '1.0'
steps:
  make: {image: IMAGE, commands: ['mkdir -p data/sub', 'echo here > data/sub/file', 'ln -s data link']}
  read:
    image: IMAGE
    volumes: ['data/sub:/m', './data:/n:ro', 'link/sub:/l', 'new:/new', '.:/all:ro', '${{CF_VOLUME_NAME}}:${{CF_VOLUME_PATH}}']
    commands:
      - cat /m/file /n/sub/file /l/file /all/data/sub/file
      - echo more > /m/more; echo fresh > /new/file
      - if touch /n/x 2>/dev/null; then echo WROTE; fi
      - if touch /all/x 2>/dev/null; then echo WROTE; fi
      - cat data/sub/more new/file
"#;
        let record = run(harness, yaml, &[]).await;
        let log = record.log("read");
        assert_eq!(record.status(), "success", "{}: {log} {:#?}", harness.executor, record.report);
        assert_eq!(log.matches("here\n").count(), 4, "{}: {log}", harness.executor);
        assert!(log.contains("more\nfresh\n") && !log.contains("WROTE\n"), "{}: {log}", harness.executor);
        assert_nothing_mounted(&harness.data);
    }
}

/// What was mounted for steps is gone with them.
fn assert_nothing_mounted(data: &Path) {
    let until = std::time::Instant::now() + slipway_testkit::PATIENCE;
    loop {
        let mounts = std::fs::read_to_string("/proc/self/mountinfo").unwrap();
        let place = data.canonicalize().unwrap().join("builds");
        let left: Vec<&str> = mounts
            .lines()
            .filter(|line| {
                line.split(' ').nth(4).is_some_and(|point| Path::new(point).starts_with(&place))
                    && line.contains("/mounts/")
            })
            .collect();
        if left.is_empty() {
            return;
        }
        assert!(std::time::Instant::now() < until, "{left:?}");
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Short in the suite; `SLIPWAY_RACE_ROUNDS=50` for a night.
fn rounds() -> u32 {
    std::env::var("SLIPWAY_RACE_ROUNDS").ok().and_then(|count| count.parse().ok()).unwrap_or(2)
}

#[tokio::test]
async fn c3_a_folder_that_is_swapped_for_a_link_is_never_mounted() {
    let victim = Victim::new();
    for harness in harnesses().into_iter().filter(|harness| harness.executor != "host") {
        for _ in 0..rounds() {
            let steps: String = (0..5)
                .map(|number| {
                    format!(
                        "  v{number}:\n    image: IMAGE\n    volumes: ['sw/x:/m', 'sw/x:/n:ro']\n    commands: ['ls /m /n; cat /m/secret.txt /n/secret.txt; true']\n    fail_fast: false\n    when: {{steps: [{{name: late, on: [success]}}]}}\n"
                    )
                })
                .collect();
            let yaml = format!(
                r#"version: '1.0'
mode: parallel
steps:
  racer:
    image: IMAGE
    commands:
      - |-
        mkdir -p sw; cd sw; rm -rf x; touch ../go; i=0
        while [ ! -e ../stop ] && [ $i -lt 1500 ]; do
          i=$((i+1)); rm -f x; mkdir -p x; sleep 0.015; rm -rf x 2>/dev/null; ln -s {victim} x 2>/dev/null; sleep 0.015
        done
        rm -f x; true
  late: {{image: IMAGE, commands: ['while [ ! -e go ]; do :; done']}}
  last:
    image: IMAGE
    commands: ['touch stop']
    when: {{condition: {{all: {{over: 'true'}}}}, steps: {{all: [{{name: v0, on: [finished]}}, {{name: v1, on: [finished]}}, {{name: v2, on: [finished]}}, {{name: v3, on: [finished]}}, {{name: v4, on: [finished]}}]}}}}
{steps}"#,
                victim = victim.path().display()
            );
            let record = run(harness, &yaml, &[]).await;
            assert!(!record.traffic.contains("VICTIM-OF"), "{}: {:#?}", harness.executor, record.logs);
            assert!(!record.log("racer").is_empty(), "the race was one: {:#?}", record.logs);
        }
    }
    assert!(victim.is_untouched());
}

/// Both attacks on a clone: a filter that git would run with the credential in its environment, and as whom.
#[tokio::test]
async fn c2_a_step_that_races_a_clone_wins_neither_its_credential_nor_its_rights() {
    for harness in harnesses() {
        let app = next_id("team/raced");
        let files: Vec<(String, String)> =
            (0..200).map(|number| (format!("f{number}"), "x\n".repeat(50))).collect();
        let files: Vec<(&str, &str)> =
            files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect();
        harness.server.repository(&app, &files);
        let folder = app.rsplit('/').next().unwrap();
        for again in 0..rounds() {
            let yaml = r#"version: '1.0'
mode: parallel
steps:
  racer:
    image: IMAGE
    commands:
      - |-
        set +e
        V=/codefresh/volume; D=$V/FOLDER; rm -f $V/go $V/over
        [ AGAIN = 0 ] && rm -rf $D
        cat > $V/p.sh <<'X'
        ( id; env; grep -E 'Cap|NoNew|Seccomp:' /proc/self/status ) > /codefresh/volume/stolen 2>&1
        X
        cat > $V/cfg <<'X'
        [filter "x"]
          smudge = "sh /codefresh/volume/p.sh; cat"
          clean = "sh /codefresh/volume/p.sh; cat"
        [core]
          fsmonitor = "sh /codefresh/volume/p.sh"
          hooksPath = /codefresh/volume/hooks
        X
        mkdir -p $V/hooks; cat $V/p.sh > $V/hooks/post-checkout; chmod 755 $V/hooks/post-checkout 2>/dev/null
        touch $V/go; i=0
        while [ ! -e $V/over ] && [ $i -lt 200000 ]; do
          i=$((i+1))
          if [ -f $D/.git/config ] && [ ! -f $D/.git/info/attributes ]; then
            cat $V/cfg >> $D/.git/config; mkdir -p $D/.git/info; echo '* filter=x' > $D/.git/info/attributes
          fi
          [ -f $V/stolen ] && break
        done
        if [ -f $V/stolen ]; then echo STOLEN; cat $V/stolen; fi
  late: {image: IMAGE, commands: ['while [ ! -e go ]; do :; done']}
  again: {type: git-clone, repo: APP, revision: main, when: {steps: [{name: late, on: [success]}]}}
  commit:
    type: git-commit
    fail_fast: false
    arguments: {repo: APP, working_directory: FOLDER, commit_message: raced}
    when: {steps: [{name: again, on: [finished]}]}
  over: {image: IMAGE, commands: ['touch over'], when: {steps: [{name: commit, on: [finished]}]}}
"#
            .replace("FOLDER", folder)
            .replace("APP", &app)
            .replace("AGAIN", &again.to_string());
            let record = run_with(harness, &yaml, &[], |taken| {
                taken.pipeline_name = format!("demo/{folder}");
                taken.options.reset_volume = false;
            })
            .await;
            let log = record.log("racer");
            assert!(!log.contains("STOLEN\n") && !log.contains(GIT_PASSWORD), "{}: {log}", harness.executor);
            assert_eq!(record.step("again").status, "success", "{}: {:#?}", harness.executor, record.logs);
        }
    }
}

#[tokio::test]
async fn m1_names_of_variables_mean_nothing_to_an_engine() {
    for harness in harnesses() {
        let hostile = ["SLIP*\nCLOUD*\nX=1", "*=a\nb", "*", "PATH*", "A B=1", "-x=1", "=1", "A\0B=1"];
        for text in hostile {
            let yaml =
                "version: '1.0'\nsteps:\n  s: {image: IMAGE, environment: ['${{E}}'], commands: ['env']}\n";
            let record = run(harness, yaml, &[("E", text, false)]).await;
            let step = record.step("s");
            let why = step.message.unwrap_or_default();
            assert_eq!(step.status, "error", "{} {text:?}: {}", harness.executor, record.log("s"));
            assert!(why.contains("is not the name of a variable"), "{} {text:?}: {why}", harness.executor);
        }
    }
}

#[tokio::test]
async fn values_arrive_as_they_are_by_every_way() {
    let long = "x".repeat(70_000);
    for harness in harnesses() {
        let odd = "# \"a\" 'b' $HOME ${X} * \\n \\ =";
        let yaml = r#"
version: '1.0'
steps:
  script:
    image: IMAGE
    environment: ['OWN=${{ODD}}']
    commands: ['printf "<%s>\n" "$OWN" "$ODD" "$LINES_" "$LD_LIBRARY_PATH" "$BLANK"', 'echo ${#LONG}']
  entry: {image: IMAGE, entry_point: [sh, -c], cmd: ['printf "<%s>\n" "$ODD" "$LINES_" "$BLANK"; echo ${#LONG}']}
"#;
        let variables = [
            ("ODD", odd, false),
            ("LINES_", "one\n*\nPATH\nX=2", false),
            ("LD_LIBRARY_PATH", "/nowhere\n/else", false),
            ("LONG", long.as_str(), false),
            ("BLANK", "  padded  ", false),
        ];
        let record = run(harness, yaml, &variables).await;
        assert_eq!(record.status(), "success", "{}: {:#?}", harness.executor, record.logs);
        let expect = format!("<{odd}>\n<{odd}>\n<one\n*\nPATH\nX=2>\n</nowhere\n/else>\n<  padded  >\n");
        let (script, entry) = (record.log("script"), record.log("entry"));
        assert!(script.contains(&expect) && script.contains("\n70000\n"), "{}: {script}", harness.executor);
        let expect = format!("<{odd}>\n<one\n*\nPATH\nX=2>\n<  padded  >\n70000\n");
        assert!(entry.contains(&expect), "{}: {entry}", harness.executor);
    }
}

#[tokio::test]
async fn m1_nothing_of_the_runners_environment_flows_on() {
    let canary = "canary-in-the-runners-environment";
    let mut executors = vec!["host"];
    executors.extend(podman().map(|_| "podman"));
    executors.extend(docker().map(|_| "docker"));
    for executor in executors {
        let place = tempfile::tempdir().unwrap();
        let data = place.path().join("data");
        std::fs::create_dir(&data).unwrap();
        let server = Server::start().await;
        let names =
            ["SLIPWAY_RUNNER_TOKEN", "CLOUD_KEY", "HTTPS_PROXY", "ftp_proxy", "GIT_SSH_COMMAND", "LC_CANARY"];
        let _runner = Process::start_with(&server, &data, executor, &names.map(|name| (name, canary)));
        let image = "localhost/slipway-runner-test:3";
        let app = next_id("team/env");
        server.repository(&app, &[("a", "b")]);
        let yaml = r#"
version: '1.0'
steps:
  look: {image: IMAGE, commands: ['env', 'cat /proc/1/environ 2>/dev/null || true', 'for p in /proc/[0-9]*; do cat $p/environ 2>/dev/null || true; done']}
  entry: {image: IMAGE, entry_point: [env], fail_fast: false}
  built:
    type: build
    image_name: slipway-test/env
    tag: canary
    working_directory: /codefresh/volume
    fail_fast: false
    build_arguments: [CLOUD_KEY, SLIPWAY_RUNNER_TOKEN]
    dockerfile: {content: "FROM IMAGE\nARG CLOUD_KEY\nARG SLIPWAY_RUNNER_TOKEN\nRUN [\"/usr/bin/env\"]\n"}
"#
        .replace("IMAGE", image)
        .replace("APP", &app);
        let id = next_id("canary");
        server.add(server.build(&id, &yaml));
        let record = server.finish(&id).await;
        assert_eq!(record.step("look").status, "success", "{executor}: {:#?}", record.logs);
        assert!(record.log("look").contains("CF_BUILD_ID="), "{executor}: {}", record.log("look"));
        assert!(
            executor == "host" || record.step("built").status == "success",
            "{executor}: {}",
            record.log("built")
        );
        assert!(!record.traffic.contains(canary), "{executor}: {:#?}", record.logs);
    }
}

/// Everything that another user of the machine reads of processes, again and again.
struct Onlooker {
    stop: Arc<AtomicBool>,
    thread: std::thread::JoinHandle<BTreeSet<String>>,
}

impl Onlooker {
    fn start(words: &[&str]) -> Self {
        let words: Vec<String> = words.iter().map(|word| (*word).to_owned()).collect();
        let stop = Arc::new(AtomicBool::new(false));
        let over = stop.clone();
        let thread = std::thread::spawn(move || {
            let mut seen = BTreeSet::new();
            while !over.load(Ordering::Relaxed) {
                for entry in std::fs::read_dir("/proc").unwrap().flatten() {
                    let Ok(bytes) = std::fs::read(entry.path().join("cmdline")) else { continue };
                    let line = String::from_utf8_lossy(&bytes).replace('\0', " ");
                    if words.iter().any(|word| line.contains(word)) {
                        seen.insert(line);
                    }
                }
                std::thread::sleep(Duration::from_millis(1));
            }
            seen
        });
        Self { stop, thread }
    }

    fn seen(self) -> BTreeSet<String> {
        self.stop.store(true, Ordering::Relaxed);
        self.thread.join().unwrap()
    }
}

#[tokio::test]
async fn m7_secrets_are_in_no_argument() {
    let key = format!("-----BEGIN-----\n{ARGUED}-in-lines\n-----END-----");
    for harness in harnesses() {
        let app = next_id("team/argued");
        harness.server.repository(&app, &[("a", "b")]);
        let yaml = r#"
version: '1.0'
steps:
  clone: {type: git-clone, repo: APP}
  run: {image: IMAGE, environment: ['MINE=${{KEY}}'], commands: ['sleep 1', 'test -n "$MINE$LINES_"']}
  entry: {image: IMAGE, entry_point: [sleep], cmd: ['1']}
  composed:
    type: composition
    fail_fast: false
    composition: {version: '2', services: {one: {image: IMAGE, entrypoint: [sleep], command: ['2'], environment: {MINE: '${{KEY}}'}}}}
    composition_candidates: {two: {image: IMAGE, entrypoint: [sleep], command: ['1'], environment: {MINE: '${{KEY}}'}}}
  built:
    type: build
    image_name: slipway-test/argued
    tag: one
    working_directory: '${{clone}}'
    fail_fast: false
    disable_push: true
    build_arguments: ['S=${{KEY}}', 'VERSION=7', 'PLAIN=${{LINES_}}']
    dockerfile: {content: "FROM IMAGE\nARG S\nARG VERSION\nARG PLAIN\nRUN [\"/usr/bin/sleep\", \"1\"]\nRUN test ${#S} = 25 && test $VERSION = 7 && echo $PLAIN > /p && grep -q in-lines /p && echo ALL-THERE\n"}
  commit:
    type: git-commit
    arguments: {repo: APP, working_directory: '${{clone}}', commit_message: 'no secret'}
"#
        .replace("APP", &app);
        let onlooker = Onlooker::start(&[ARGUED, GIT_PASSWORD, "YnVpbGQ6"]);
        let record = run(harness, &yaml, &[("KEY", ARGUED, true), ("LINES_", &key, true)]).await;
        let seen = onlooker.seen();
        assert!(seen.is_empty(), "{}: {seen:#?}", harness.executor);
        if matches!(harness.executor, "podman" | "docker") {
            assert_eq!(record.status(), "success", "{}: {:#?}", harness.executor, record.logs);
            assert!(record.log("built").contains("ALL-THERE"), "{}", record.log("built"));
        }
        assert!(!record.traffic.contains(ARGUED), "{}", harness.executor);
    }
}

#[tokio::test]
async fn m6_what_a_step_says_about_itself_has_no_secret_in_it() {
    for harness in harnesses() {
        let yaml = r#"
version: '1.0'
steps:
  volume: {image: IMAGE, volumes: ['../../${{KEY}}:/x'], commands: ['true'], fail_fast: false}
  image: {image: 'dir:/${{KEY}}', commands: ['true'], fail_fast: false}
  name: {image: IMAGE, environment: ['${{KEY}} =1'], commands: ['true'], fail_fast: false}
  directory: {image: IMAGE, working_directory: '/codefresh/volume/../${{KEY}}', commands: ['true'], fail_fast: false}
  type: {type: 'no-such-${{KEY}}', fail_fast: false}
  clone: {type: git-clone, repo: 'team/${{KEY}}', fail_fast: false}
  title: {title: 'with ${{KEY}}', image: IMAGE, commands: ['true']}
  built: {type: build, image_name: 'x-${{KEY}}', tag: t, working_directory: './${{KEY}}', fail_fast: false}
"#;
        let record = run(harness, yaml, &[("KEY", SECRET, true)]).await;
        assert!(!record.traffic.contains(SECRET), "{}: {:#?}", harness.executor, record.report);
        let message = record.step("volume").message.unwrap_or_default();
        assert!(message.contains("*****"), "{}: {message}", harness.executor);
    }
}

#[tokio::test]
async fn l8_images_are_names_and_say_nothing_about_files() {
    let victim = Victim::new();
    let there = victim.path().join("secret.txt");
    for harness in harnesses() {
        for transport in
            ["dir:", "docker-archive:", "oci:", "oci-archive:", "containers-storage:", "", "docker-daemon:"]
        {
            let mut said = BTreeSet::new();
            for path in [there.clone(), PathBuf::from("/nowhere/at/all")] {
                let image = format!("{transport}{}", path.display());
                let yaml = "version: '1.0'\nsteps:\n  s: {image: '${{I}}', commands: ['true']}\n";
                let record = run(harness, yaml, &[("I", &image, false)]).await;
                let why = record.step("s").message.unwrap_or_default();
                assert!(why.contains("is not the name of an image"), "{} {image}: {why}", harness.executor);
                said.insert(why.replace(&image, "IT"));
            }
            assert_eq!(said.len(), 1, "{}: {said:?}", harness.executor);
        }
        if harness.executor != "podman" {
            continue;
        }
        // In a Dockerfile too, however it is put together.
        for text in [
            "FROM dir:PATH",
            "ARG X=di\\nFROM ${X}r:PATH",
            "FROM IMAGE\\nCOPY --from=docker-archive:PATH / /x",
        ] {
            let text = text.replace("PATH", &there.display().to_string());
            let yaml = format!(
                "version: '1.0'\nsteps:\n  s: {{type: build, image_name: x, tag: y, working_directory: /codefresh/volume, dockerfile: {{content: \"{text}\\n\"}}}}\n"
            );
            let record = run(harness, &yaml, &[]).await;
            let why = record.step("s").message.unwrap_or_default();
            assert!(
                why.contains("of the Dockerfile: ") && why.contains("is not the name of an image"),
                "{text}: {why}"
            );
        }
    }
}

#[tokio::test]
async fn flags_in_the_place_of_images_tags_and_targets_are_refused() {
    for harness in harnesses().into_iter().filter(|harness| matches!(harness.executor, "podman" | "docker")) {
        let yaml = r#"
version: '1.0'
steps:
  push: {type: push, candidate: '${{FLAG}}', registry: localhost:1, tag: x, fail_fast: false}
  tag: {type: push-tag, image_name: '--help', tags: [x], fail_fast: false}
  tagged: {type: build, image_name: x, tag: 'a --x', working_directory: /codefresh/volume, fail_fast: false}
  target: {type: build, image_name: x, tag: a, target: 'a,b=c d', working_directory: /codefresh/volume, fail_fast: false}
  readiness:
    image: IMAGE
    fail_fast: false
    services: {composition: {one: {image: IMAGE}}, readiness: {image: '${{FLAG}}', commands: ['true']}}
    commands: ['true']
"#;
        let record = run(harness, yaml, &[("FLAG", "--privileged", false)]).await;
        for step in ["push", "tag", "tagged", "readiness"] {
            let why = record.step(step).message.unwrap_or_default();
            assert!(why.contains("is not the name of an image"), "{} {step}: {why}", harness.executor);
        }
        let why = record.step("target").message.unwrap_or_default();
        assert!(why.contains("is no target"), "{}: {why}", harness.executor);
    }
}

#[tokio::test]
async fn what_an_image_is_built_from_is_never_a_file_of_the_machine() {
    let victim = Victim::new();
    for harness in [podman(), docker()].into_iter().flatten() {
        let yaml = r#"
version: '1.0'
steps:
  plant:
    image: IMAGE
    commands:
      - mkdir -p app other
      - ln -s VICTIM/secret.txt app/stolen; ln -s VICTIM outer; ln -s VICTIM/secret.txt other/Dockerfile
      - ln -s VICTIM/secret.txt app/.dockerignore
      - 'echo "FROM IMAGE" > app/Dockerfile; echo "COPY . /in" >> app/Dockerfile; echo "RUN [\"/usr/bin/cat\", \"/in/stolen\"]" >> app/Dockerfile'
  link: {type: build, image_name: slipway-test/x, tag: y, working_directory: /codefresh/volume/app, fail_fast: false, disable_push: true}
  out: {type: build, image_name: slipway-test/x, tag: y, working_directory: /codefresh/volume/outer, fail_fast: false}
  recipe: {type: build, image_name: slipway-test/x, tag: y, working_directory: /codefresh/volume/other, fail_fast: false}
  named: {type: build, image_name: slipway-test/x, tag: y, working_directory: /codefresh/volume/app, dockerfile: ../outer/secret.txt, fail_fast: false}
"#
        .replace("VICTIM", &victim.path().display().to_string());
        let record = run(harness, &yaml, &[]).await;
        assert!(!record.traffic.contains("VICTIM-OF"), "{}: {:#?}", harness.executor, record.logs);
        for step in ["link", "out", "recipe", "named"] {
            assert_eq!(
                record.step(step).status,
                "error",
                "{} {step}: {}",
                harness.executor,
                record.log(step)
            );
        }
        assert!(record.log("out").contains("leaves the volume"), "{}", record.log("out"));
    }
    assert!(victim.is_untouched());
}

#[tokio::test]
async fn an_image_is_built_from_the_volume_as_it_is() {
    for harness in [podman(), docker()].into_iter().flatten() {
        let yaml = r#"
version: '1.0'
steps:
  make:
    image: IMAGE
    commands:
      - mkdir -p app/deep; echo text > app/deep/file; ln -s deep/file app/link; echo left > app/left
      - echo left > app/.dockerignore
      - 'echo "FROM IMAGE" > app/Recipe; echo "COPY . /in" >> app/Recipe; echo "RUN [\"/usr/bin/sh\", \"-c\", \"cat /in/deep/file /in/link; ls /in\"]" >> app/Recipe'
  built: {type: build, image_name: slipway-test/x, tag: y, working_directory: /codefresh/volume/app, dockerfile: Recipe, no_cache: true, disable_push: true}
"#;
        let record = run(harness, yaml, &[]).await;
        let log = record.log("built");
        assert_eq!(record.status(), "success", "{}: {log}", harness.executor);
        assert!(log.contains("text\ntext\n") && !log.contains("\nleft\n"), "{}: {log}", harness.executor);
    }
}

#[tokio::test]
async fn a_link_in_a_kept_volume_makes_the_runner_write_nowhere_else() {
    let victim = Victim::new();
    for harness in harnesses() {
        let target = victim.path().join("secret.txt").display().to_string();
        for step in [
            format!("rm -f cf_export; ln -s {target} cf_export"),
            "rm -rf cf_export; mkdir -p cf_export/x".into(),
        ] {
            let name = next_id("demo/kept");
            for command in [step.as_str(), "cf_export A=1"] {
                let yaml =
                    format!("version: '1.0'\nsteps:\n  s: {{image: IMAGE, commands: ['{command}']}}\n");
                let record = run_with(harness, &yaml, &[], |taken| {
                    taken.pipeline_name = name.clone();
                    taken.options.reset_volume = false;
                })
                .await;
                assert_eq!(record.status(), "success", "{}: {:#?}", harness.executor, record.logs);
            }
        }
        assert!(victim.is_untouched(), "{}", harness.executor);
    }
}

#[tokio::test]
async fn a_text_that_came_with_a_run_finds_nothing_and_leaves_nothing() {
    let harness = host();
    let name = next_id("default/yaml");
    let yaml = "version: '1.0'\nsteps:\n  s: {image: x, commands: ['ls', 'touch of-$CF_BUILD_ID']}\n";
    let run = async |own_text: bool| {
        let record = run_with(harness, yaml, &[], |taken| {
            taken.pipeline_name = name.clone();
            taken.options.reset_volume = false;
            taken.own_text = own_text;
        })
        .await;
        assert_eq!(record.status(), "success", "{:#?}", record.logs);
        record.log("s").matches("of-").count() - record.log("s").matches("of-$CF").count()
    };
    assert_eq!(run(false).await, 0);
    assert_eq!(run(true).await, 0, "the pipeline's volume is not for a text of somebody's own");
    assert_eq!(run(true).await, 0, "nor is that of another such text");
    assert_eq!(run(false).await, 1, "and the pipeline has its own again");
}

#[tokio::test]
async fn a_clone_into_a_used_folder_is_the_new_tree_and_what_git_ignores() {
    for harness in harnesses() {
        let app = next_id("team/used");
        let bare = harness.server.repository(
            &app,
            &[
                (".gitignore", "*.o\n/node_modules/\n"),
                ("a", "1\n"),
                ("d/x", "1\n"),
                ("gone", "1\n"),
                ("link/file", "1\n"),
            ],
        );
        let folder = app.rsplit('/').next().unwrap();
        let clone = format!("{{type: git-clone, repo: {app}}}");
        let first = format!(
            "version: '1.0'\nsteps:\n  clone: {clone}\n  use: {{image: IMAGE, working_directory: '/codefresh/volume/{folder}', commands: ['mkdir -p node_modules/m sub', 'touch node_modules/m/i d/y.o sub/z.o sub/z junk', 'echo changed > a', 'echo evil >> .git/config']}}\n"
        );
        let second = format!(
            "version: '1.0'\nsteps:\n  clone: {clone}\n  look: {{image: IMAGE, working_directory: '/codefresh/volume/{folder}', commands: ['ls -R', 'cat a d/x', 'cat .git/config', 'ls -ldn a']}}\n"
        );
        let run = async |yaml: &str| {
            run_with(harness, yaml, &[], |taken| {
                taken.pipeline_name = format!("demo/{folder}");
                taken.options.reset_volume = false;
            })
            .await
        };
        assert_eq!(run(&first).await.status(), "success", "{}", harness.executor);
        let work = tempfile::tempdir().unwrap();
        crate::server::sh(
            work.path(),
            &format!(
                "git clone -q {} . && echo 2 > a && echo 2 > d/x && git rm -q gone && git rm -rq link && ln -s d link && git add -A && git commit -qm next && git push -q",
                bare.display()
            ),
        );
        let record = run(&second).await;
        let log = record.log("look");
        assert_eq!(record.status(), "success", "{}: {:#?}", harness.executor, record.logs);
        for (there, name) in [
            (true, "\ni\n"),
            (true, "y.o\n"),
            (true, "z.o\n"),
            (false, "\nz\n"),
            (false, "junk"),
            (false, "gone"),
            (false, "evil"),
        ] {
            assert_eq!(log.contains(name), there, "{} {name}: {log}", harness.executor);
        }
        assert!(log.contains("\n2\n2\n"), "{}: {log}", harness.executor);
        let owner = if harness.executor == "host" { " 61100 61100 " } else { " 0 0 " };
        // Versions of `ls` differ in how many blanks they like.
        let words = log.split_whitespace().collect::<Vec<_>>().join(" ");
        assert!(words.contains(owner), "{}: {log}", harness.executor);
    }
}

/// A Git host that takes connections and never answers: what asks it can be looked at meanwhile.
fn silent_host() -> (std::net::TcpListener, String) {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/team/{}.git", listener.local_addr().unwrap(), next_id("silent"));
    (listener, url)
}

/// A process of the machine with these words in its arguments.
fn find_process(words: &[&str]) -> Option<PathBuf> {
    std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path()).find(|path| {
        let line = std::fs::read(path.join("cmdline")).unwrap_or_default();
        let line = String::from_utf8_lossy(&line).replace('\0', " ");
        words.iter().all(|word| line.contains(word))
    })
}

fn status_of(process: &Path, name: &str) -> String {
    let text = std::fs::read_to_string(process.join("status")).unwrap_or_default();
    let line = text.lines().find_map(|line| line.strip_prefix(&format!("{name}:")));
    line.unwrap_or_default().split_whitespace().next().unwrap_or_default().to_owned()
}

#[tokio::test]
async fn git_of_a_step_is_nobody_and_sees_nothing() {
    for harness in harnesses() {
        for step in [
            "{type: git-clone, repo: 'URL'}",
            "{type: git-commit, arguments: {repo: 'URL', working_directory: ., commit_message: x}}",
        ] {
            let (_listener, url) = silent_host();
            let yaml = format!(
                "version: '1.0'\nsteps:\n  before: {{image: IMAGE, commands: ['touch seen']}}\n  git: {}\n",
                step.replace("URL", &url)
            )
            .replace("IMAGE", &harness.image);
            let id = next_id("inside");
            harness.server.add(harness.server.build(&id, &yaml));
            let until = std::time::Instant::now() + slipway_testkit::PATIENCE;
            let process = loop {
                if let Some(found) = find_process(&["ls-remote", &url]) {
                    break found;
                }
                assert!(std::time::Instant::now() < until, "{}: git does not ask", harness.executor);
                tokio::time::sleep(Duration::from_millis(10)).await;
            };
            for (name, expect) in [
                ("Uid", "61100"),
                ("Gid", "61100"),
                ("CapEff", "0000000000000000"),
                ("CapPrm", "0000000000000000"),
                ("CapBnd", "0000000000000000"),
                ("NoNewPrivs", "1"),
                ("Seccomp", "2"),
            ] {
                assert_eq!(status_of(&process, name), expect, "{} {step} {name}", harness.executor);
            }
            let mounts = std::fs::read_to_string(process.join("mountinfo")).unwrap();
            assert!(!mounts.contains("/codefresh/volume"), "{}: {mounts}", harness.executor);
            let seen = |path: &str| process.join("root").join(path.trim_start_matches('/')).exists();
            assert!(!seen("/codefresh/volume/seen") && !seen("/root/.ssh"), "{}", harness.executor);
            assert!(!seen(&harness.data.display().to_string()), "{}", harness.executor);
            let environment = std::fs::read(process.join("environ")).unwrap();
            let names: BTreeSet<String> = environment
                .split(|byte| *byte == 0)
                .filter_map(|pair| Some(String::from_utf8_lossy(pair).split_once('=')?.0.to_owned()))
                .filter(|name| !name.starts_with("GIT_"))
                .collect();
            // Where programs and the authorities of the network are.
            let known = ["HOME", "LC_ALL", "PATH", "SSL_CERT_DIR", "SSL_CERT_FILE", "CURL_CA_BUNDLE"]
                .map(str::to_owned);
            assert!(names.iter().all(|name| known.contains(name)), "{}: {names:?}", harness.executor);
            harness.server.change(&id, |record| record.terminate = true);
            assert_eq!(harness.server.finish(&id).await.status(), "terminated", "{}", harness.executor);
        }
    }
}

#[tokio::test]
async fn a_step_looks_at_itself_and_finds_a_container() {
    const LOOK: &str = "grep -E \"^(Uid|CapEff|CapBnd|NoNewPrivs|Seccomp):\" /proc/self/status";
    const ADMINISTRATOR: u64 = (1 << 21) | (1 << 19) | (1 << 16) | (1 << 17) | (1 << 39);
    for harness in harnesses() {
        let yaml = format!(
            "version: '1.0'\nsteps:\n  look: {{image: IMAGE, commands: ['{LOOK}', 'cat /proc/self/mountinfo']}}\n  built: {{type: build, image_name: slipway-test/look, tag: y, no_cache: true, working_directory: /codefresh/volume, disable_push: true, fail_fast: false, dockerfile: {{content: \"FROM IMAGE\\nRUN [\\\"/usr/bin/grep\\\", \\\"-E\\\", \\\"^(Uid|CapEff|CapBnd|NoNewPrivs|Seccomp):\\\", \\\"/proc/self/status\\\"]\\n\"}}}}\n"
        );
        let record = run(harness, &yaml, &[]).await;
        let mut logs = vec![record.log("look")];
        if matches!(harness.executor, "podman" | "docker") {
            assert_eq!(
                record.step("built").status,
                "success",
                "{}: {}",
                harness.executor,
                record.log("built")
            );
            logs.push(record.log("built"));
        }
        for log in logs {
            let value = |name: &str| {
                let line = log.lines().find_map(|line| line.strip_prefix(&format!("{name}:\t")));
                line.unwrap_or_else(|| panic!("{} {name}: {log}", harness.executor)).to_owned()
            };
            for set in ["CapEff", "CapBnd"] {
                let rights = u64::from_str_radix(&value(set), 16).unwrap();
                assert_eq!(rights & ADMINISTRATOR, 0, "{} {set}: {log}", harness.executor);
            }
            assert_eq!(value("Seccomp"), "2", "{}: {log}", harness.executor);
        }
        if harness.executor == "host" {
            let log = record.log("look");
            assert!(log.contains("Uid:\t61100") && log.contains("CapBnd:\t0000000000000000"), "{log}");
            assert!(log.contains("NoNewPrivs:\t1"), "{log}");
        }
        let mounts = record.log("look");
        assert!(!mounts.contains("/taken.json") && !mounts.contains("podman.sock"), "{mounts}");
    }
}

#[tokio::test]
async fn a_step_on_the_host_makes_no_calls_that_win_rights() {
    let yaml = r#"
version: '1.0'
steps:
  try:
    image: x
    commands:
      - |-
        set +e
        unshare -U true 2>/dev/null && echo WON-user
        unshare -m true 2>/dev/null && echo WON-mount
        mount -t tmpfs none /tmp 2>/dev/null && echo WON-tmpfs
        python3 -c 'import ctypes; print("WON-ptrace" if ctypes.CDLL(None).ptrace(0,0,0,0) == 0 else "no")' 2>/dev/null
        python3 -c 'import ctypes; print("WON-keyctl" if ctypes.CDLL(None).syscall(250,0,-3,1) >= 0 else "no")' 2>/dev/null
        python3 -c 'import threading; t = threading.Thread(target=lambda: print("threads work")); t.start(); t.join()'
        echo end
"#;
    let record = run(host(), yaml, &[]).await;
    let log = record.log("try");
    assert!(!log.contains("\nWON-") && log.contains("\nend\n") && log.contains("threads work\n"), "{log}");
}

#[tokio::test]
async fn files_that_the_runner_reads_are_never_reached_through_a_link() {
    let victim = Victim::new();
    for harness in harnesses() {
        let yaml = r#"
version: '1.0'
steps:
  plant:
    image: IMAGE
    environment: ['SLIPWAY_JUNIT=report.xml out/*.xml']
    commands:
      - mkdir -p app; ln -s VICTIM/secret.txt report.xml; ln -s VICTIM out; ln -s VICTIM/secret.txt compose.yml
      - ln -s VICTIM/secret.txt note; ln -s VICTIM/secret.txt env_vars_to_export; ln -s VICTIM work
    hooks: {on_success: {annotations: {set: [{annotations: [{a: 'file:note'}, {b: 'file:out/secret.txt'}]}]}}}
  compose: {type: composition, composition: ./compose.yml, composition_candidates: {x: {image: IMAGE}}, fail_fast: false}
  work: {image: IMAGE, working_directory: /codefresh/volume/work/new, commands: ['pwd'], fail_fast: false}
  cached: {image: IMAGE, cache: {key: 'k', paths: [/codefresh/volume/out], files: [/codefresh/volume/note]}, commands: ['true'], fail_fast: false}
  commit: {type: git-commit, arguments: {repo: team/none, working_directory: work, commit_message: x}, fail_fast: false}
"#
        .replace("VICTIM", &victim.path().display().to_string());
        let record = run(harness, &yaml, &[]).await;
        assert!(!record.traffic.contains("VICTIM-OF"), "{}: {:#?}", harness.executor, record.logs);
        for step in ["compose", "work", "commit"] {
            assert_eq!(
                record.step(step).status,
                "error",
                "{} {step}: {}",
                harness.executor,
                record.log(step)
            );
        }
    }
    assert!(victim.is_untouched());
}
