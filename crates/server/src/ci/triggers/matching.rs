//! Does this event fire that trigger? Pure: two values in, yes or a sentence that says why not out.

use slipway_api::pipeline::{GitTrigger, TriggerSettings};
use slipway_model::RepoEvent;
use slipway_pipeline::expression::JsRegex;

use slipway_dialect::path_glob;

const SKIP_MARKS: [&str; 5] = ["[skip ci]", "[ci skip]", "[no ci]", "[skip codefresh]", "[codefresh skip]"];

/// The commit's author asked for no build.
pub(crate) fn is_skipped(event: &RepoEvent) -> bool {
    SKIP_MARKS.iter().any(|mark| event.message.contains(mark))
}

/// A regular expression as users of branch filters write it.
pub(crate) enum Pattern {
    Fits(JsRegex),
    /// `/^(?!X).*/`: everything but X, the one kind of look-ahead that pages of the published product write.
    FitsNot(JsRegex),
}

impl Pattern {
    /// `/regex/flags`, or a bare regular expression.
    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        if let Some((inside, ignore_case)) = everything_but(text) {
            return JsRegex::new(&format!("^(?:{inside})"), ignore_case).map(Self::FitsNot);
        }
        JsRegex::literal(text).unwrap_or_else(|| JsRegex::new(text, false)).map(Self::Fits)
    }

    pub(crate) fn fits(&self, text: &str) -> bool {
        match self {
            Self::Fits(regex) => regex.is_match(text),
            Self::FitsNot(regex) => !regex.is_match(text),
        }
    }
}

/// The inside of `^(?!inside).*`, and whether case is ignored.
fn everything_but(text: &str) -> Option<(&str, bool)> {
    let (body, flags) = text.strip_prefix('/').and_then(|rest| rest.rsplit_once('/')).unwrap_or((text, ""));
    let rest = body.strip_prefix("^(?!").or_else(|| body.strip_prefix("^((?!"))?;
    let mut depth = 1;
    for (at, c) in rest.char_indices() {
        match c {
            '(' => depth += 1,
            ')' => depth -= 1,
            _ => {}
        }
        if depth == 0 {
            let after = rest[at + 1..].trim_start_matches(')');
            let whole = matches!(after, ".*" | ".*$" | ".+" | ".+$" | ".)*$" | "");
            return whole.then_some((&rest[..at], flags.contains('i')));
        }
    }
    None
}

fn fits(pattern: Option<&str>, text: &str) -> bool {
    let pattern = pattern.filter(|pattern| !pattern.is_empty());
    pattern.is_none_or(|pattern| Pattern::parse(pattern).is_ok_and(|pattern| pattern.fits(text)))
}

/// `Err` says why it does not fire.
pub(crate) fn fires(trigger: &GitTrigger, event: &RepoEvent) -> Result<(), String> {
    let settings = trigger.settings()?;
    if trigger.disabled {
        return Err("the trigger is disabled".into());
    }
    if trigger.kind != "git" {
        return Err(format!("its type is `{}`", trigger.kind));
    }
    if trigger.context().unwrap_or_default() != event.context {
        return Err("it watches another Git provider".into());
    }
    // Literally, never as a pattern.
    if !trigger.repo.eq_ignore_ascii_case(&event.repo) {
        return Err(format!("it watches `{}`, this is `{}`", trigger.repo, event.repo));
    }
    if !wanted(trigger, &settings, event) {
        let events = event.events.join(", ");
        return Err(format!("it is for {}, this is {events}", trigger.events.join(", ")));
    }
    if !fits(trigger.branch_regex.as_deref(), &event.branch) {
        return Err(format!(
            "branch `{}` does not match `{}`",
            event.branch,
            trigger.branch_regex.as_deref().unwrap_or_default()
        ));
    }
    if let Some(pull_request) = &event.pull_request {
        let target = settings.pull_request_target_branch_regex.as_deref();
        if !fits(target, &pull_request.target) {
            return Err(format!(
                "the target branch `{}` does not match `{}`",
                pull_request.target,
                target.unwrap_or_default()
            ));
        }
        if pull_request.is_fork && settings.pull_request_allow_fork_events != Some(true) {
            return Err("it is a pull request from a fork, which the trigger does not allow".into());
        }
    }
    if let Some(comment) = &event.comment
        && !fits(settings.comment_regex.as_deref(), &comment.text)
    {
        return Err("the comment does not match the trigger's commentRegex".into());
    }
    changed(&settings, event)
}

fn wanted(trigger: &GitTrigger, settings: &TriggerSettings, event: &RepoEvent) -> bool {
    let waits = |name: &str| trigger.events.iter().any(|wanted| wanted == name);
    // A comment of somebody unknown counts as any comment when the trigger says so.
    let unrestricted = event.comment.is_some()
        && settings.skip_comment_author_association_validation == Some(true)
        && waits("pullrequest.commentAdded");
    unrestricted || event.events.iter().any(|name| waits(name))
}

/// How the reason begins when nobody says which files changed.
pub(crate) const UNKNOWN_FILES: &str = "it is not known which files changed";

/// A trigger that looks at files is not started by guess. Only where there is nothing to compare with (a new branch, a tag,
/// a release) everything counts as changed.
fn changed(settings: &TriggerSettings, event: &RepoEvent) -> Result<(), String> {
    let Some(glob) = settings.modified_files_glob.as_deref().filter(|glob| !glob.trim().is_empty()) else {
        return Ok(());
    };
    let Some(paths) = &event.changed_paths else {
        let all_new =
            ["push.newBranch", "push.tags"].iter().any(|name| event.events.iter().any(|event| event == name));
        if all_new || event.release.is_some() {
            return Ok(());
        }
        return Err(format!(
            "{UNKNOWN_FILES}, and the trigger asks for `{glob}`: the provider did not say; start the build manually, or remove modifiedFilesGlob from the trigger"
        ));
    };
    let compiled = path_glob::compile(glob)?;
    if paths.iter().any(|path| compiled.matches(path)) {
        Ok(())
    } else {
        Err(format!("none of the {} changed files matches `{glob}`", paths.len()))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use slipway_model::{Comment, PullRequestEvent};

    use super::*;

    fn trigger(value: Value) -> GitTrigger {
        let mut whole = json!({"name": "t", "type": "git", "repo": "demo/app", "events": ["push.heads"]});
        whole.as_object_mut().unwrap().extend(value.as_object().unwrap().clone());
        serde_json::from_value(whole).unwrap()
    }

    fn push(branch: &str) -> RepoEvent {
        RepoEvent {
            repo: "demo/app".into(),
            events: vec!["push".into(), "push.heads".into()],
            branch: branch.into(),
            ..RepoEvent::default()
        }
    }

    #[test]
    fn a_trigger_waits_for_its_repository_its_event_and_its_branch() {
        let heads = trigger(json!({"branchRegex": "/^(main|release-.*)$/i"}));
        for (branch, expected) in [("main", true), ("Release-1", true), ("feature", false), ("main2", false)]
        {
            assert_eq!(fires(&heads, &push(branch)).is_ok(), expected, "{branch}");
        }
        let other = RepoEvent { repo: "demo/apps".into(), ..push("main") };
        assert!(fires(&heads, &other).unwrap_err().contains("demo/apps"));
        let elsewhere = RepoEvent { context: "gitea".into(), ..push("main") };
        assert!(fires(&heads, &elsewhere).is_err());
        assert!(fires(&trigger(json!({"context": "gitea"})), &elsewhere).is_ok());
        let tag = RepoEvent { events: vec!["push".into(), "push.tags".into()], ..push("main") };
        assert!(fires(&heads, &tag).is_err(), "a tag named as a branch is no branch");
        assert!(fires(&trigger(json!({"events": ["push"]})), &tag).is_ok());
        assert!(fires(&trigger(json!({"disabled": true})), &push("main")).is_err());
        assert!(fires(&trigger(json!({"branchRegex": "/(/"})), &push("main")).is_err());
    }

    #[test]
    fn everything_but_some_branches_is_understood_without_backtracking() {
        let but = trigger(json!({"branchRegex": "/^(?!(main|dev)$).*/gi"}));
        for (branch, expected) in [("main", false), ("DEV", false), ("main-2", true), ("feature", true)] {
            assert_eq!(fires(&but, &push(branch)).is_ok(), expected, "{branch}");
        }
        assert!(Pattern::parse("/(?<=a)b/").is_err());
        assert!(Pattern::parse("/(a+)+$/").is_ok(), "linear here");
    }

    #[test]
    fn files_decide_when_they_are_known() {
        let docs = trigger(json!({"modifiedFilesGlob": "{docs/**,*.md}"}));
        let with = |paths: &[&str]| RepoEvent {
            changed_paths: Some(paths.iter().map(|&path| path.to_owned()).collect()),
            ..push("main")
        };
        assert!(fires(&docs, &with(&["src/a.rs", "docs/x/y"])).is_ok());
        assert!(fires(&docs, &with(&["src/a.rs"])).unwrap_err().contains("none of the 1"));
        let unknown = fires(&docs, &push("main")).unwrap_err();
        assert!(unknown.contains("modifiedFilesGlob"), "unknown files do not pass in silence: {unknown}");
    }

    #[test]
    fn forks_targets_and_comments_are_looked_at() {
        let event = |fork: bool, target: &str| RepoEvent {
            events: vec!["pullrequest".into(), "pullrequest.opened".into()],
            pull_request: Some(PullRequestEvent {
                is_fork: fork,
                target: target.into(),
                ..PullRequestEvent::default()
            }),
            ..push("feature")
        };
        let closed =
            trigger(json!({"events": ["pullrequest.opened"], "pullRequestTargetBranchRegex": "/^main$/"}));
        assert!(fires(&closed, &event(false, "main")).is_ok());
        assert!(fires(&closed, &event(false, "dev")).is_err());
        assert!(fires(&closed, &event(true, "main")).unwrap_err().contains("fork"));
        let open = trigger(json!({"events": ["pullrequest"], "pullRequestAllowForkEvents": true}));
        assert!(fires(&open, &event(true, "main")).is_ok());

        let comment = |text: &str| RepoEvent {
            events: vec!["pullrequest.commentAddedUnrestricted".into()],
            comment: Some(Comment { text: text.into(), ..Comment::default() }),
            ..event(false, "main")
        };
        let ask = json!({"events": ["pullrequest.commentAdded"], "commentRegex": "/^\\/test/"});
        assert!(
            fires(&trigger(ask.clone()), &comment("/test")).is_err(),
            "nobody says that they belong here"
        );
        let mut anybody = ask;
        anybody["skipCommentAuthorAssociationValidation"] = true.into();
        assert!(fires(&trigger(anybody.clone()), &comment("/test please")).is_ok());
        assert!(fires(&trigger(anybody), &comment("please /test")).is_err());
    }

    #[test]
    fn a_commit_can_ask_for_no_build() {
        assert!(is_skipped(&RepoEvent { message: "Typo [skip ci]".into(), ..push("main") }));
        assert!(!is_skipped(&push("main")));
    }
}
