//! What leaves the machine: a marker in each kind of thing, and a look at everything that was sent.

use slipway_api::agent::{PipelineSource, VariableLayer};

use crate::contract::next_id;
use crate::runner::harnesses;
use crate::server::variable;

/// Runs a build in which every kind of data has a marker of its own, on every executor.
#[tokio::test]
async fn only_logs_names_and_states_reach_the_control_plane() {
    for harness in harnesses() {
        let id = next_id("residency");
        let repo = format!("team/{id}");
        let yaml = r#"
version: '1.0'
steps:
  main_clone: {type: git-clone, repo: REPO, working_directory: /codefresh/volume}
  work:
    title: allowed-title-canary
    image: IMAGE
    working_directory: ${{main_clone}}
    environment: ['OWN=environment-canary', 'SLIPWAY_JUNIT=report.xml']
    commands:
      - cat source.txt > artifact.txt; cf_export EXPORTED=$(head -c 14 source.txt)
      - cat report-source.xml > report.xml
      - echo allowed-log-$(echo canary)
"#
        .replace("REPO", &repo)
        .replace("IMAGE", &harness.image);
        let report = "<testsuite><testcase name=\"allowed-case-canary\"><failure message=\"failure-canary\">trace-canary</failure></testcase></testsuite>";
        harness.server.repository(
            &repo,
            &[
                ("source.txt", "source-canary\n"),
                ("pipeline.yml", &format!("{yaml}# yaml-canary\n")),
                ("report-source.xml", report),
            ],
        );
        let mut taken = harness.server.build(&id, "");
        taken.source =
            PipelineSource::Git { repo: repo.clone(), path: "pipeline.yml".into(), revision: None };
        let variables =
            vec![variable("SECRET", "secret-canary", true), variable("PLAIN", "variable-canary", false)];
        taken.variables = vec![VariableLayer { name: "pipeline".into(), variables }];
        harness.server.add(taken);
        let record = harness.server.finish(&id).await;
        assert_eq!(
            record.status(),
            "success",
            "{}: {:#?} {:#?}",
            harness.executor,
            record.report,
            record.logs
        );
        let sent = &record.traffic;
        for kept in [
            "source-canary",
            "yaml-canary",
            "environment-canary",
            "variable-canary",
            "secret-canary",
            "failure-canary",
            "trace-canary",
            crate::server::GIT_PASSWORD,
        ] {
            assert!(!sent.contains(kept), "{}: {kept} left the machine", harness.executor);
        }
        // The test could not fail if nothing was sent at all.
        for allowed in ["allowed-title-canary", "allowed-log-canary", "allowed-case-canary"] {
            assert!(sent.contains(allowed), "{}: {allowed} did not arrive", harness.executor);
        }
    }
}
