//! What the runner is given: every field resolved, every default applied.

use serde_json::json;
use slipway_pipeline::plan::{Outcome, apply, finish};
use slipway_pipeline::spec::{Dockerfile, Shell, WorkingDirectory};
use slipway_pipeline::variables::Layer;
use slipway_pipeline::{Action, BuildState, Pipeline, StepKind, StepSpec, StepStatus, plan};

fn state() -> BuildState {
    let mut state = BuildState::default();
    state.variables.set(Layer::System, "CF_BRANCH_TAG_NORMALIZED", "Feature_X");
    state.variables.set(Layer::System, "CF_REVISION", "abc");
    state.variables.set(Layer::Pipeline, "NAME", "app");
    state.variables.set(Layer::Pipeline, "ON", "true");
    state
}

/// Starts every step in order, each ending well, and gives the work each was given.
fn specs(text: &str) -> Vec<StepSpec> {
    let (pipeline, findings) = Pipeline::parse(text);
    let pipeline = pipeline.unwrap_or_else(|| panic!("{findings:#?}"));
    let mut state = state();
    let mut specs = Vec::new();
    loop {
        let made = plan(&pipeline, &state);
        if made.finished.is_some() {
            return specs;
        }
        for action in &made.actions {
            apply(&mut state, action).expect("fits");
            if let Action::Start { step, attempt, spec } | Action::RunHook { step, attempt, spec, .. } =
                action
            {
                let mut outcome = Outcome::new(StepStatus::Success);
                if matches!(spec.kind, StepKind::GitClone(_)) {
                    outcome.working_directory = Some(format!("/codefresh/volume/{step}"));
                }
                if let StepKind::Build(build) = &spec.kind {
                    outcome.members.insert("imageName".to_owned(), build.image_name.clone());
                    outcome.members.insert("imageTagName".to_owned(), build.tags[0].clone());
                }
                specs.push((**spec).clone());
                finish(&pipeline, &mut state, step, *attempt, outcome).expect("ends");
            }
        }
    }
}

#[test]
fn a_whole_pipeline_resolves() {
    let specs = specs(
        "version: '1.0'\nstages: [s]\nsteps:\n  main_clone: {type: git-clone, repo: 'o/${{NAME}}', git: github, depth: 1, use_proxy: '${{ON}}'}\n  \
         image:\n    type: build\n    title: Build ${{NAME}}\n    stage: s\n    arguments:\n      image_name: o/${{NAME}}\n      tags: ['${{CF_REVISION}}']\n      \
         dockerfile: {content: FROM x}\n      secrets: ['id=a,src=b']\n    working_directory: ./sub/../dir\n  \
         test: {image: '${{image}}', commands: [make], shell: bash, working_directory: '${{main_clone}}', volumes: ['./a:/b']}\n  \
         tool: {image: x, cmd: 'run \"two words\" $x', entry_point: [a, b], working_directory: IMAGE_WORK_DIR}\n  \
         push: {type: push, candidate: '${{image}}', registry: r}\n  \
         commit:\n    type: git-commit:1.0.0\n    arguments: {repo: o/gitops, commit_message: 'bump to ${{CF_REVISION}}', add: [.]}\n",
    );
    let names: Vec<&str> = specs.iter().map(|spec| spec.name.as_str()).collect();
    assert_eq!(names, ["main_clone", "image", "test", "tool", "push", "commit"]);

    let StepKind::GitClone(clone) = &specs[0].kind else { panic!("{:?}", specs[0]) };
    assert_eq!((clone.repo.as_str(), clone.depth, clone.use_proxy), ("o/app", Some(1), true));
    assert_eq!(specs[0].working_directory, WorkingDirectory::Volume);

    let StepKind::Build(build) = &specs[1].kind else { panic!("{:?}", specs[1]) };
    assert_eq!(specs[1].title, "Build app");
    assert_eq!((build.image_name.as_str(), build.tags.as_slice()), ("o/app", ["abc".to_owned()].as_slice()));
    assert_eq!(build.dockerfile, Dockerfile::Content("FROM x".to_owned()));
    assert!(build.buildkit, "secrets need it");
    assert_eq!(specs[1].working_directory, WorkingDirectory::UnderVolume("main_clone/dir".to_owned()));

    let StepKind::Freestyle(test) = &specs[2].kind else { panic!("{:?}", specs[2]) };
    assert_eq!((test.image.as_str(), test.shell), ("o/app:abc", Shell::Bash));
    assert_eq!(test.environment.get("CF_STEP_NAME").map(String::as_str), Some("test"));
    assert_eq!(specs[2].working_directory, WorkingDirectory::UnderVolume("main_clone".to_owned()));

    let StepKind::Freestyle(tool) = &specs[3].kind else { panic!("{:?}", specs[3]) };
    assert_eq!(tool.cmd.as_deref(), Some(["run", "two words", "$x"].map(str::to_owned).as_slice()));
    assert_eq!(specs[3].working_directory, WorkingDirectory::Image);

    let StepKind::Push(push) = &specs[4].kind else { panic!("{:?}", specs[4]) };
    assert_eq!(
        (push.candidate.as_str(), push.tags.as_slice()),
        ("o/app:abc", ["latest".to_owned()].as_slice())
    );

    let StepKind::Typed(commit) = &specs[5].kind else { panic!("{:?}", specs[5]) };
    assert_eq!((commit.type_name.as_str(), commit.version.as_deref()), ("git-commit", Some("1.0.0")));
    assert_eq!(commit.arguments, json!({"repo": "o/gitops", "commit_message": "bump to abc", "add": ["."]}));
    assert_eq!(specs[5].working_directory, WorkingDirectory::Volume, "plugins start in the volume");
}

#[test]
fn a_build_without_a_tag_takes_the_branch_in_lower_case() {
    let specs = specs(
        "version: '1.0'\nsteps:\n  a: {type: build, image_name: x}\n  b: {type: build, image_name: x, tag: Keep, tag_policy: original}\n",
    );
    let tags: Vec<_> = specs
        .iter()
        .map(|spec| match &spec.kind {
            StepKind::Build(build) => build.tags.clone(),
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(tags, [["feature_x".to_owned()], ["Keep".to_owned()]]);
}

#[test]
fn a_directory_cannot_leave_the_volume() {
    let specs = specs(
        "version: '1.0'\nsteps:\n  a: {image: x, working_directory: ../../../etc}\n  b: {image: x, working_directory: /opt/../srv}\n",
    );
    assert_eq!(specs[0].working_directory, WorkingDirectory::Volume);
    assert_eq!(specs[1].working_directory, WorkingDirectory::Absolute("/srv".to_owned()));
}

#[test]
fn the_clone_of_a_linked_repository_comes_first() {
    let (pipeline, _) = Pipeline::parse("version: '1.0'\nsteps:\n  a: {image: x}\n");
    let pipeline = pipeline.expect("parses").with_main_clone("o/r", Some("main"), None);
    let names: Vec<&str> = pipeline.leaves().iter().map(|step| step.name.as_str()).collect();
    assert_eq!(names, ["main_clone", "a"]);
    assert_eq!(pipeline.clone().with_main_clone("x/y", None, None), pipeline, "never twice");
}

#[test]
fn specs_and_plans_survive_json() {
    let (pipeline, _) = Pipeline::parse("version: '1.0'\nsteps:\n  a: {type: build, image_name: x}\n");
    let made = plan(&pipeline.expect("parses"), &state());
    let text = serde_json::to_string(&made).expect("serialises");
    let back: slipway_pipeline::Plan = serde_json::from_str(&text).expect("reads back");
    assert_eq!(back, made);
}

#[test]
fn a_cache_is_one_or_several_with_variables_resolved() {
    let specs = specs(
        "version: '1.0'\nsteps:\n  one: {image: x, commands: [a], cache: {key: 'npm-${{NAME}}', files: [lock], paths: [deps], restore_keys: ['npm-']}}\n  \
         two: {image: x, commands: [a], cache: [{key: a, paths: ['${{NAME}}/deps']}, {key: b, paths: [c]}]}\n",
    );
    let caches = |at: usize| match &specs[at].kind {
        StepKind::Freestyle(freestyle) => freestyle.cache.clone(),
        other => panic!("{other:?}"),
    };
    let one = &caches(0)[0];
    assert_eq!(
        (one.key.as_str(), &one.files[..], &one.paths[..]),
        ("npm-app", &["lock".into()][..], &["deps".into()][..])
    );
    assert_eq!(one.restore_keys, ["npm-"]);
    let keys: Vec<_> = caches(1).into_iter().map(|cache| (cache.key, cache.paths)).collect();
    assert_eq!(keys, [("a".into(), vec!["app/deps".into()]), ("b".into(), vec!["c".into()])]);
}

#[test]
fn a_cache_without_a_key_or_paths_is_found_by_the_linter() {
    for wrong in
        ["{paths: [a]}", "{key: k}", "{key: k, paths: []}", "{key: k, paths: [a], path: b}", "[]", "npm"]
    {
        let text =
            format!("version: '1.0'\nsteps:\n  s:\n    image: x\n    commands: [a]\n    cache: {wrong}\n");
        let (pipeline, findings) = Pipeline::parse(&text);
        assert!(pipeline.is_none(), "{wrong}: {findings:#?}");
        assert!(findings.iter().any(|finding| finding.line == 6), "{wrong}: {findings:#?}");
    }
}
