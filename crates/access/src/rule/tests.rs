use slipway_model::{AccountId, UserId};

use super::*;
use crate::principal::TeamRef;
use crate::scope::Scopes;

fn team(number: u8) -> TeamId {
    TeamId::from_parts(u64::from(number), [0; 5])
}

fn person(role: Role, teams: &[(u8, &str)]) -> Principal {
    let teams = teams.iter().map(|(id, name)| TeamRef { id: team(*id), name: (*name).into() }).collect();
    let (name, email) = ("ada".into(), "ada@example.com".into());
    let who = Who::User { id: UserId::from_parts(1, [0; 5]), name, email, role, platform: false, teams };
    Principal { account: AccountId::from_parts(1, [0; 5]), who, scopes: Scopes::unlimited() }
}

fn rule(kind: &str, actions: &[&str], tags: &[&str]) -> Rule {
    Rule {
        id: RuleId::from_parts(1, [0; 5]),
        teams: vec![team(1)],
        kind: kind.into(),
        actions: actions.iter().map(|&action| action.into()).collect(),
        related: None,
        tags: tags.iter().map(|&tag| tag.into()).collect(),
        tag_match: TagMatch::Any,
        attributes: vec![],
    }
}

fn pipeline<'a>(tags: &[&'a str]) -> Entity<'a> {
    Entity { kind: "pipeline", name: "demo/build", tags: tags.to_vec(), ..Entity::default() }
}

#[test]
fn tags_decide_about_pipelines() {
    let ada = person(Role::User, &[(1, "devs")]);
    for (tags, tag_match, have, expected) in [
        (&["*"][..], TagMatch::Any, &[][..], true),
        (&["untagged"], TagMatch::Any, &[], true),
        (&["untagged"], TagMatch::Any, &["x"], false),
        (&["prod", "dev"], TagMatch::Any, &["dev"], true),
        (&["prod", "dev"], TagMatch::All, &["dev"], false),
        (&["prod", "dev"], TagMatch::All, &["dev", "prod", "other"], true),
        (&["prod"], TagMatch::Any, &["dev"], false),
        (&[], TagMatch::All, &["dev"], false),
    ] {
        let rules = [Rule { tag_match, ..rule("pipeline", &["run"], tags) }];
        let decision = decide_on(&ada, &rules, "run", &pipeline(have));
        assert_eq!(decision.allowed, expected, "{tags:?} {tag_match:?} {have:?}: {}", decision.reason);
    }
    // Without a rule a pipeline is closed; another action and another team get nothing.
    assert!(!decide_on(&ada, &[], "read", &pipeline(&[])).allowed);
    let rules = [rule("pipeline", &["run"], &["*"])];
    assert!(!decide_on(&ada, &rules, "delete", &pipeline(&[])).allowed);
    assert!(!decide_on(&person(Role::User, &[(2, "ops")]), &rules, "run", &pipeline(&[])).allowed);
    assert!(decide_on(&person(Role::Administrator, &[]), &[], "delete", &pipeline(&[])).allowed);
}

#[test]
fn a_pipeline_may_go_by_the_tags_of_its_project() {
    let ada = person(Role::User, &[(1, "devs")]);
    let rules = [Rule { related: Some("project".into()), ..rule("pipeline", &["run"], &["team-a"]) }];
    let inside = Entity { project_tags: vec!["team-a"], ..pipeline(&[]) };
    assert!(decide_on(&ada, &rules, "run", &inside).allowed);
    assert!(!decide_on(&ada, &rules, "run", &pipeline(&["team-a"])).allowed);
}

#[test]
fn an_untagged_git_context_is_open_until_it_has_a_tag() {
    let ada = person(Role::User, &[]);
    let context = |tags: &[&'static str]| Entity {
        kind: "git-context",
        name: "c",
        tags: tags.to_vec(),
        ..Entity::default()
    };
    assert!(decide_on(&ada, &[], "use", &context(&[])).allowed);
    assert!(!decide_on(&ada, &[], "use", &context(&["prod"])).allowed);
    assert!(looks_at(&[], &context(&[]), &context(&["x"])).is_some(), "and tagging it is no small thing");
}

#[test]
fn what_a_limited_key_may_is_decided_by_what_happens() {
    for (scope, action, kind, expected) in [
        ("usage:read", "VIEW", "gitopsApplications", false),
        ("gitops:read", "VIEW", "gitopsApplications", true),
        ("gitops:read", "SYNC", "gitopsApplications", false),
        ("*:read", "APP_ROLLBACK", "gitopsApplications", false),
        ("gitops", "APP_ROLLBACK", "gitopsApplications", true),
        ("context:read", "update", "shared-configuration", false),
        ("build", "run", "pipeline", true),
        ("build", "update", "pipeline", false),
        ("repos:read", "push", "gitRepository", false),
        ("repos", "push", "gitRepository", true),
    ] {
        let mut root = person(Role::Administrator, &[]);
        root.scopes = Scopes::parse(&[scope]).unwrap();
        let entity = Entity { kind, name: "x", ..Entity::default() };
        let decision = decide_on(&root, &[], action, &entity);
        assert_eq!(decision.allowed, expected, "{scope} {action} {kind}: {}", decision.reason);
    }
}

#[test]
fn a_repository_is_read_by_members_and_pushed_to_by_those_whom_a_rule_names() {
    let ada = person(Role::User, &[(1, "devs")]);
    let at = |attributes: &[(&str, &str)]| Entity {
        kind: "gitRepository",
        name: "demo/app",
        attributes: attributes.iter().map(|(name, value)| Attribute::new(name, *value)).collect(),
        ..Entity::default()
    };
    let main = at(&[("REPOSITORY", "demo/app"), ("BRANCH", "main")]);
    let wip = at(&[("REPOSITORY", "demo/app"), ("BRANCH", "wip/x")]);
    let tag = at(&[("REPOSITORY", "demo/app"), ("TAG", "wip/x")]);
    assert!(decide_on(&ada, &[], "read", &main).allowed, "read by every member");
    assert!(!decide_on(&ada, &[], "push", &main).allowed, "pushed to by nobody");
    assert!(decide_on(&person(Role::Administrator, &[]), &[], "push", &main).allowed);
    let rules = [Rule {
        attributes: vec![attribute("REPOSITORY", "", "demo/*"), attribute("BRANCH", "", "wip/*")],
        ..rule("gitRepository", &["push"], &[])
    }];
    assert!(lint(&rules[0]).is_empty(), "{:?}", lint(&rules[0]));
    assert!(decide_on(&ada, &rules, "push", &wip).allowed);
    assert!(!decide_on(&ada, &rules, "push", &main).allowed);
    assert!(!decide_on(&ada, &rules, "push", &tag).allowed, "a tag is no branch");
    assert!(decide_on(&ada, &rules, "read", &main).allowed, "a rule about pushing closes no reading");
}

#[test]
fn a_build_pushes_where_a_rule_names_its_pipeline_and_nowhere_else() {
    let id = slipway_model::BuildId::from_parts(1, [0; 5]);
    let build = Principal { who: Who::Build { id }, ..person(Role::User, &[]) };
    let at = |pipeline: &str, repository: &str| Entity {
        kind: "gitRepository",
        name: "demo/deploy",
        attributes: vec![
            Attribute::new("REPOSITORY", repository),
            Attribute::new("BRANCH", "main"),
            Attribute::new("PIPELINE", pipeline),
        ],
        ..Entity::default()
    };
    let teams = rule("gitRepository", &["push"], &[]);
    let pipelines = Rule {
        teams: vec![],
        attributes: vec![attribute("REPOSITORY", "", "demo/deploy"), attribute("PIPELINE", "", "demo/app")],
        ..teams.clone()
    };
    assert!(lint(&pipelines).is_empty(), "{:?}", lint(&pipelines));
    let asks = |rules: &[Rule], pipeline, repository| {
        decide_on(&build, rules, "push", &at(pipeline, repository)).allowed
    };
    assert!(!asks(&[], "demo/app", "demo/deploy"));
    assert!(!asks(std::slice::from_ref(&teams), "demo/app", "demo/deploy"), "a team's right is no build's");
    assert!(asks(std::slice::from_ref(&pipelines), "demo/app", "demo/deploy"));
    assert!(!asks(std::slice::from_ref(&pipelines), "demo/other", "demo/deploy"));
    assert!(!asks(std::slice::from_ref(&pipelines), "demo/app", "demo/app"));
    let ada = person(Role::User, &[(1, "devs")]);
    assert!(!decide_on(&ada, &[pipelines], "push", &at("demo/app", "demo/deploy")).allowed);
}

#[test]
fn a_rule_that_would_guard_nothing_is_refused() {
    let said = |rule: Rule| lint(&rule).into_iter().map(|problem| problem.0).collect::<Vec<_>>().join("; ");
    for kind in ["cluster", "chart", "workflows", "environments", "execution-context"] {
        assert!(said(rule(kind, &["read"], &["*"])).contains("no access rules apply to"), "{kind}");
    }
    for action in ["PROMOTE_TO", "TRIGGER_PROMOTION", "ROLLOUT_UNDO"] {
        let found = said(rule("gitopsApplications", &[action], &[]));
        assert!(found.contains("is not a valid action"), "{action}: {found}");
    }
    assert!(said(rule("pipeline", &["set-runtime-environment"], &["*"])).contains("is not a valid action"));
    for name in ["PRODUCT_NAME", "ENVIRONMENT_KIND", "BRANCH"] {
        let attributes = vec![attribute(name, "", "x")];
        let found = said(Rule { attributes, ..rule("gitopsApplications", &["SYNC"], &[]) });
        assert!(found.contains("nothing fills"), "{name}: {found}");
    }
}

#[test]
fn tags_that_a_rule_names_are_seen_to_change_and_others_are_not() {
    let rules = [
        rule("pipeline", &["run"], &["prod", "*"]),
        Rule { related: Some("project".into()), ..rule("pipeline", &["update"], &["dev"]) },
    ];
    let project = |tags: &[&'static str]| Entity {
        kind: "project",
        name: "p",
        tags: tags.to_vec(),
        ..Entity::default()
    };
    for (before, after, seen) in [
        (pipeline(&["x"]), pipeline(&["x", "prod"]), true),
        (pipeline(&["prod"]), pipeline(&[]), true),
        (pipeline(&["x"]), pipeline(&["y"]), false),
        (pipeline(&["prod", "x"]), pipeline(&["prod"]), false),
        // A tag of the project's is not one of the pipeline's.
        (pipeline(&[]), pipeline(&["dev"]), false),
        (pipeline(&[]), Entity { project_tags: vec!["dev"], ..pipeline(&[]) }, true),
        (project(&[]), project(&["dev"]), true),
        (project(&[]), project(&["prod"]), false),
    ] {
        assert_eq!(looks_at(&rules, &before, &after).is_some(), seen, "{before:?} {after:?}");
    }
    let untagged = [rule("pipeline", &["run"], &["untagged"])];
    assert!(looks_at(&untagged, &pipeline(&[]), &pipeline(&["x"])).is_some());
    assert!(looks_at(&untagged, &pipeline(&["y"]), &pipeline(&["x"])).is_none());
}

fn attribute(name: &str, key: &str, value: &str) -> Attribute {
    Attribute { name: name.into(), key: key.into(), value: value.into() }
}

fn app(attributes: Vec<Attribute>) -> Entity<'static> {
    Entity { kind: "gitopsApplications", name: "demo", attributes, ..Entity::default() }
}

#[test]
fn attributes_decide_about_applications_which_are_open_until_restricted() {
    let ada = person(Role::User, &[(1, "devs")]);
    let have = || {
        vec![
            attribute("RUNTIME", "", "local"),
            attribute("NAMESPACE", "", "prod-eu"),
            attribute("LABEL", "tier", "web"),
        ]
    };
    assert!(decide_on(&ada, &[], "SYNC", &app(have())).allowed, "open until a rule restricts it");
    for (wanted, expected) in [
        (vec![], true),
        (vec![attribute("NAMESPACE", "", "prod-*")], true),
        (vec![attribute("NAMESPACE", "", "dev"), attribute("NAMESPACE", "", "prod-eu")], true),
        (vec![attribute("NAMESPACE", "", "prod-eu"), attribute("RUNTIME", "", "other")], false),
        (vec![attribute("LABEL", "tier", "web")], true),
        (vec![attribute("LABEL", "team", "web")], false),
    ] {
        let rules = [Rule { attributes: wanted.clone(), ..rule("gitopsApplications", &["SYNC"], &[]) }];
        let decision = decide_on(&ada, &rules, "SYNC", &app(have()));
        assert_eq!(decision.allowed, expected, "{wanted:?}: {}", decision.reason);
    }
    // Restricted for the one action; SYNC brings REFRESH with it, and others stay open.
    let rules = [
        rule("gitopsApplications", &["SYNC"], &[]),
        Rule { teams: vec![team(9)], ..rule("gitopsApplications", &["REFRESH"], &[]) },
    ];
    assert!(decide_on(&ada, &rules, "REFRESH", &app(have())).allowed);
    let ops = person(Role::User, &[(2, "ops")]);
    assert!(!decide_on(&ops, &rules, "SYNC", &app(have())).allowed);
    assert!(!decide_on(&ops, &rules, "REFRESH", &app(have())).allowed);
    assert!(decide_on(&ops, &rules, "VIEW", &app(have())).allowed);
}

#[test]
fn a_star_stands_for_anything() {
    for (pattern, text, expected) in [
        ("a*c", "abc", true),
        ("a*c", "ac", true),
        ("a*c", "acd", false),
        ("*", "", true),
        ("*-eu", "prod-eu", true),
        ("a*b*c", "a-b-c", true),
        ("a*b*c", "a-c", false),
        ("abc", "abcd", false),
        ("*a", "aba", true),
    ] {
        assert_eq!(like(pattern, text), expected, "{pattern} {text}");
    }
}

#[test]
fn a_denial_says_who_what_why_and_what_to_do() {
    let decision = decide_on(
        &person(Role::User, &[(2, "ops")]),
        &[rule("pipeline", &["run"], &["prod"])],
        "run",
        &pipeline(&["dev"]),
    );
    assert_eq!(
        decision.reason,
        "ada (in `ops`) may not run pipeline `demo/build` (tags dev): the one rule that allows run on pipeline is for \
         another team or other entities; ask an Administrator of the account for a rule"
    );
}

#[test]
fn everything_wrong_with_a_rule_is_said_at_once() {
    let bad = Rule {
        teams: vec![],
        attributes: vec![attribute("LABEL", "", "x")],
        ..rule("pipeline", &["create", "fly"], &[])
    };
    let found: Vec<_> = lint(&bad).into_iter().map(|problem| problem.0).collect();
    assert_eq!(found.len(), 5, "{found:#?}");
    assert!(lint(&rule("pipeline", &["read", "run"], &["*"])).is_empty());
}
