//! Attacks on a runner by whoever gives it builds, by the numbers of the threat list.

use slipway_api::agent::{PipelineSource, VariableLayer};
use slipway_runner::signing;
use tokio_util::sync::{CancellationToken, DropGuard};

use crate::contract::next_id;
use crate::runner::{config, host};
use crate::server::{Record, Server, variable};

/// A runner that trusts the people who have the key, and its server.
struct Wary {
    server: Server,
    key: String,
    _stop: DropGuard,
    _folder: tempfile::TempDir,
}

impl Wary {
    async fn start() -> Self {
        let (server, folder) = (Server::start().await, tempfile::tempdir().unwrap());
        let (key, public) = signing::new_key("team-2026").unwrap();
        let trust = folder.path().join("trusted.json");
        std::fs::write(&trust, public).unwrap();
        let mut config = config(&server, &folder.path().join("data"), "host");
        config.trust = Some(trust);
        let stop = CancellationToken::new();
        let stopped = stop.clone();
        tokio::spawn(async move { slipway_runner::run(config, stopped).await.unwrap() });
        Self { server, key, _stop: stop.drop_guard(), _folder: folder }
    }

    async fn run(&self, source: PipelineSource, types: &[String]) -> Record {
        let id = next_id("wary");
        let mut taken = self.server.build(&id, "");
        taken.source = source;
        self.server.add_with_types(taken, types);
        self.server.finish(&id).await
    }
}

const TEXT: &str = "version: '1.0'\nsteps:\n  say: {image: x, commands: ['echo did it']}\n";

#[tokio::test]
async fn k58_a_pipeline_that_the_control_plane_changed_is_not_run() {
    let wary = Wary::start().await;
    let signed = signing::sign(TEXT, &wary.key).unwrap();
    let inline = |yaml: &str| PipelineSource::Inline { yaml: yaml.to_owned() };
    // As it was written, and as the control plane keeps it: steps as JSON, the signature below.
    let mark = signed.lines().last().unwrap();
    let kept = format!(
        r#"{{"version":"1.0","steps":{{"say":{{"image":"x","commands":["echo did it"]}}}}}}{}"#,
        format_args!("\n{mark}\n")
    );
    for text in [&signed, &kept] {
        let record = wary.run(inline(text), &[]).await;
        assert_eq!(record.status(), "success", "{:#?}", record.logs);
        assert!(record.log("say").contains("\ndid it\n"));
        assert!(record.log("Initializing Process").contains("Signed with `team-2026`"));
    }
    let evil = signed.replace("did it", "evil");
    wary.server.repository("team/app", &[("good.yml", &signed), ("evil.yml", &evil), ("plain.yml", TEXT)]);
    let git = |path: &str| PipelineSource::Git { repo: "team/app".into(), path: path.into(), revision: None };
    assert_eq!(wary.run(git("good.yml"), &[]).await.status(), "success");
    let more = kept.replacen("}}}", "},\"more\":{\"image\":\"x\",\"commands\":[\"evil\"]}}}", 1);
    assert_ne!(more, kept);
    for (source, why) in [
        (inline(TEXT), "this one has no signature"),
        (inline(&evil), "not what was signed"),
        (inline(&more), "not what was signed"),
        (git("evil.yml"), "not what was signed"),
        (git("plain.yml"), "this one has no signature"),
    ] {
        let record = wary.run(source.clone(), &[]).await;
        assert_eq!(record.status(), "error", "{source:?}");
        let log = record.log("Initializing Process");
        assert!(log.contains(why), "{source:?}: {log}");
        assert!(record.log("say").is_empty(), "nothing of it ran");
    }
    // What a typed step is comes from the control plane too: it is not even asked.
    let typed = signing::sign("version: '1.0'\nsteps:\n  say: {type: team/say}\n", &wary.key).unwrap();
    let definition = r#"{"kind":"step-type","metadata":{"name":"team/say"},"spec":{"steps":{"a":{"image":"x","commands":["echo evil"]}}}}"#;
    let record = wary.run(inline(&typed), &[definition.to_owned()]).await;
    assert_eq!((record.status(), record.asked.len()), ("error", 0));
    assert!(!format!("{:?}", record.logs).contains("evil"), "{:#?}", record.logs);
}

/// A person may set `PATH` for steps of their own; what the runner runs itself, with its credentials, does not see it.
#[tokio::test]
async fn k48_variables_do_not_reach_what_the_runner_runs_itself() {
    let harness = host();
    harness.server.repository("team/k48", &[("file", "content\n")]);
    let id = next_id("attack");
    let mut taken = harness.server.build(
        &id,
        "version: '1.0'\nsteps:\n  main_clone: {type: git-clone, repo: team/k48, revision: main}\n  see: {image: x, commands: ['cat file', 'ls /codefresh/volume', 'echo $GIT_SSH_COMMAND']}\n  own: {image: x, commands: ['echo $CF_BUILD_ID']}\n",
    );
    let evil = "/codefresh/volume/evil; touch /codefresh/volume/evil-ran;";
    let names = [
        "PATH",
        "GIT_SSH_COMMAND",
        "GIT_ASKPASS",
        "GIT_PROXY_COMMAND",
        "GIT_EXEC_PATH",
        "DOCKER_HOST",
        "BASH_ENV",
        "GIT_CONFIG_COUNT",
        "CF_BUILD_ID",
        "CF_VOLUME_PATH",
    ];
    let value = |name: &str| if name == "PATH" { "/usr/bin:/bin".to_owned() } else { evil.to_owned() };
    let variables = names.iter().map(|name| variable(name, &value(name), false)).collect();
    taken.variables = vec![VariableLayer { name: "build-run".into(), variables }];
    harness.server.add(taken);
    let record = harness.server.finish(&id).await;
    assert_eq!(record.status(), "success", "{:#?}", record.logs);
    let see = record.log("see");
    assert!(see.contains("\ncontent\n") && see.contains("\n/codefresh/volume/evil;"), "{see}");
    assert!(!see.contains("evil-ran\n"), "{see}");
    assert!(
        record.log("own").contains(&format!("\n{id}\n")),
        "the build is who it is: {}",
        record.log("own")
    );
    let init = record.log("Initializing Process");
    assert!(init.contains("Not set:") && init.contains("CF_BUILD_ID"), "{init}");
}
