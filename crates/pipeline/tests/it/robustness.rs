//! Broken and hostile files: always findings, never a panic, never long.

use slipway_pipeline::{BuildStatus, Pipeline, StepStatus};

use crate::simulation::{Disturbance, mix, run};

const EVERY_FEATURE: &str = include_str!("../../fixtures/every-feature.yml");

#[test]
fn a_file_with_every_feature_is_clean_and_runs() {
    let (pipeline, findings) = Pipeline::parse(EVERY_FEATURE);
    // The language has a little more than runners act on; that is said, and nothing else.
    let (unsupported, others): (Vec<_>, Vec<_>) =
        findings.into_iter().partition(|finding| finding.message.contains("is not supported"));
    assert_eq!(others, []);
    assert!(unsupported.iter().all(|finding| !finding.is_error() && finding.line > 0), "{unsupported:#?}");
    let end = run(&pipeline.expect("parses"), &|_, _| StepStatus::Success, Disturbance::default());
    assert_eq!(end.status, BuildStatus::Success);
    assert_eq!(end.steps.get("browsers_4").map(|(status, _)| *status), Some(StepStatus::Success));
    assert_eq!(
        end.steps.get("ask").map(|(status, _)| *status),
        Some(StepStatus::Skipped),
        "no branch is known"
    );
}

#[test]
fn damaged_files_give_findings_or_run() {
    let characters: Vec<char> = EVERY_FEATURE.chars().collect();
    let junk: Vec<char> = "{}[]:'\"#&*!|>-?%@`\t\n \u{0}é0".chars().collect();
    for seed in 0..400 {
        let mut text = characters.clone();
        for draw in 0..1 + mix(seed, 0) % 4 {
            let at = mix(seed, draw * 3 + 1) as usize % text.len();
            match mix(seed, draw * 3 + 2) % 3 {
                0 => drop(text.remove(at)),
                1 => text[at] = junk[mix(seed, draw * 3 + 3) as usize % junk.len()],
                _ => {
                    let end = (at + 1 + mix(seed, draw * 3 + 3) as usize % 60).min(text.len());
                    text.drain(at..end);
                }
            }
        }
        let text: String = text.into_iter().collect();
        let (pipeline, findings) = Pipeline::parse(&text);
        match pipeline {
            Some(pipeline) => drop(run(&pipeline, &|_, _| StepStatus::Success, Disturbance::default())),
            None => assert!(findings.iter().any(|finding| finding.is_error()), "{text}"),
        }
    }
}

#[test]
fn three_hundred_dependent_steps_run_to_the_end() {
    let mut text = String::from("version: '1.0'\nmode: parallel\nsteps:\n");
    for index in 0..300 {
        text.push_str(&format!("  s{index}:\n    image: x\n"));
        if index > 0 {
            text.push_str(&format!("    when: {{steps: [{{name: s{}}}]}}\n", index - 1));
        }
    }
    let (pipeline, findings) = Pipeline::parse(&text);
    // The language has a little more than runners act on; that is said, and nothing else.
    let (unsupported, others): (Vec<_>, Vec<_>) =
        findings.into_iter().partition(|finding| finding.message.contains("is not supported"));
    assert_eq!(others, []);
    assert!(unsupported.iter().all(|finding| !finding.is_error() && finding.line > 0), "{unsupported:#?}");
    let end = run(&pipeline.expect("parses"), &|_, _| StepStatus::Success, Disturbance::default());
    assert_eq!(end.steps.len(), 300);
}
