//! Rules of an account: which teams may do what to which entities.

use slipway_model::{RuleId, TeamId};

use crate::entity::{self, ATTRIBUTES, Attribute, Entity, Side, implies, side};
use crate::principal::{Principal, Role};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rule {
    pub id: RuleId,
    pub teams: Vec<TeamId>,
    pub kind: String,
    pub actions: Vec<String>,
    /// `project`: the tags are those of the pipeline's project.
    pub related: Option<String>,
    /// `*` is any entity, `untagged` one without tags.
    pub tags: Vec<String>,
    pub tag_match: TagMatch,
    /// The same name twice: either fits. Different names: each must fit. `*` in a value stands for anything.
    pub attributes: Vec<Attribute>,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum TagMatch {
    #[default]
    Any,
    All,
}

impl TagMatch {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Any => "any",
            Self::All => "all",
        }
    }

    pub fn parse(text: &str) -> Option<Self> {
        [Self::Any, Self::All].into_iter().find(|known| known.as_str() == text)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Decision {
    pub allowed: bool,
    /// A sentence for people, whichever way it went.
    pub reason: String,
    /// The rule that allowed it.
    pub rule: Option<RuleId>,
}

impl Decision {
    fn yes(reason: String, rule: Option<RuleId>) -> Self {
        Self { allowed: true, reason, rule }
    }
}

/// May this principal do `action` to this entity of its own account?
pub fn decide_on(principal: &Principal, rules: &[Rule], action: &str, entity: &Entity<'_>) -> Decision {
    let (who, kind, name) = (principal.display_name(), entity.kind, entity.name);
    let no = |reason: String| Decision { allowed: false, reason, rule: None };
    let Some(role) = principal.role() else {
        return no(format!("{who} is no person and no service account"));
    };
    let Some(side) = side(kind) else { return no(format!("there is no kind `{kind}`")) };
    if !entity::known_actions(kind).contains(&action) {
        let known = entity::known_actions(kind).join(", ");
        return no(format!("`{action}` is no action on {kind}: there are {known}"));
    }
    if role == Role::Administrator {
        return Decision::yes(format!("{who} is an Administrator, for whom rules are no limit"), None);
    }
    let about: Vec<_> = rules.iter().filter(|rule| rule.kind == kind).collect();
    let grants = |rule: &&&Rule| rule.actions.iter().any(|held| implies(held, action));
    let mine = |rule: &&&Rule| principal.teams().iter().any(|team| rule.teams.contains(&team.id));
    if let Some(rule) = about.iter().filter(grants).filter(mine).find(|rule| fits(rule, entity)) {
        let team = principal.teams().iter().find(|team| rule.teams.contains(&team.id));
        let team = team.map(|team| team.name.as_str()).unwrap_or_default();
        let reason = format!("a rule lets team `{team}` {action} {kind} {}", condition(rule));
        return Decision::yes(reason, Some(rule.id));
    }
    if side == Side::Attributes && !about.iter().any(|rule| rule.actions.iter().any(|named| named == action))
    {
        return Decision::yes(
            format!("no rule of the account restricts {action} on {kind}, so every member may"),
            None,
        );
    }
    if matches!(kind, "cluster" | "git-context")
        && entity.tags.is_empty()
        && !matches!(action, "create" | "delete")
    {
        return Decision::yes(
            format!("`{name}` has no tags, and an untagged {kind} is open to every member"),
            None,
        );
    }
    no(denial(principal, &about, action, entity))
}

fn denial(principal: &Principal, about: &[&Rule], action: &str, entity: &Entity<'_>) -> String {
    let (who, kind, name) = (principal.display_name(), entity.kind, entity.name);
    let teams: Vec<_> = principal.teams().iter().map(|team| format!("`{}`", team.name)).collect();
    let teams = if teams.is_empty() { "no team".to_owned() } else { teams.join(", ") };
    let tags =
        if entity.tags.is_empty() { "no tags".into() } else { format!("tags {}", entity.tags.join(", ")) };
    let granting = about.iter().filter(|rule| rule.actions.iter().any(|held| implies(held, action))).count();
    let rules = match granting {
        0 => format!("no rule of the account allows {action} on {kind}"),
        1 => format!("the one rule that allows {action} on {kind} is for another team or other entities"),
        count => {
            format!("the {count} rules that allow {action} on {kind} are for other teams or other entities")
        }
    };
    format!(
        "{who} (in {teams}) may not {action} {kind} `{name}` ({tags}): {rules}; ask an Administrator of the account for a rule"
    )
}

/// When a rule applies, in words.
fn condition(rule: &Rule) -> String {
    let of = rule.related.as_ref().map(|related| format!(" of the {related}")).unwrap_or_default();
    if !rule.attributes.is_empty() {
        let parts = rule.attributes.iter().map(|attribute| match attribute.key.as_str() {
            "" => format!("{} {}", attribute.name, attribute.value),
            key => format!("{} {key}={}", attribute.name, attribute.value),
        });
        return format!("where {}", parts.collect::<Vec<_>>().join(", "));
    }
    match rule.tags.as_slice() {
        [] => "of any kind".into(),
        tags if tags.iter().any(|tag| tag == "*") => "with any tag".into(),
        [one] if one == "untagged" => format!("without tags{of}"),
        tags => format!("with {} of the tags {}{of}", rule.tag_match.as_str(), tags.join(", ")),
    }
}

fn fits(rule: &Rule, entity: &Entity<'_>) -> bool {
    if side(&rule.kind) == Some(Side::Attributes) {
        return attributes_fit(&rule.attributes, &entity.attributes);
    }
    let tags = if rule.related.as_deref() == Some("project") { &entity.project_tags } else { &entity.tags };
    let has = |wanted: &String| match wanted.as_str() {
        "*" => true,
        "untagged" => tags.is_empty(),
        tag => tags.contains(&tag),
    };
    match rule.tag_match {
        TagMatch::Any => rule.tags.iter().any(has),
        TagMatch::All => !rule.tags.is_empty() && rule.tags.iter().all(has),
    }
}

fn attributes_fit(wanted: &[Attribute], have: &[Attribute]) -> bool {
    let same = |a: &Attribute, b: &Attribute| a.name == b.name && a.key == b.key;
    wanted.iter().all(|one| {
        wanted
            .iter()
            .filter(|other| same(one, other))
            .any(|either| have.iter().any(|held| same(either, held) && like(&either.value, &held.value)))
    })
}

/// `*` stands for anything.
fn like(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let first = parts.next().unwrap_or_default();
    let Some(mut rest) = text.strip_prefix(first) else { return false };
    let mut ended = true;
    for part in parts {
        ended = part.is_empty();
        match rest.find(part) {
            Some(at) => rest = &rest[at + part.len()..],
            None => return false,
        }
    }
    match pattern.rsplit_once('*') {
        None => rest.is_empty(),
        Some((_, last)) => ended || text.ends_with(last),
    }
}

/// One thing that is wrong with a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleProblem(pub String);

/// All that is wrong with a rule, before it is kept.
pub fn lint(rule: &Rule) -> Vec<RuleProblem> {
    let mut problems = Vec::new();
    let mut wrong = |text: String| problems.push(RuleProblem(text));
    let side = side(&rule.kind);
    if side.is_none() {
        let known: Vec<_> = entity::known_kinds().collect();
        wrong(format!("there is no kind `{}`: there are {}", rule.kind, known.join(", ")));
    }
    let known = entity::known_actions(&rule.kind);
    for action in rule.actions.iter().filter(|action| side.is_some() && !known.contains(&action.as_str())) {
        wrong(format!("`{action}` is no action on {}: there are {}", rule.kind, known.join(", ")));
    }
    if rule.actions.is_empty() {
        wrong("name at least one action".into());
    }
    if rule.actions.len() > 1 && rule.actions.iter().any(|action| action == "create") {
        wrong("`create` needs a rule of its own".into());
    }
    if rule.teams.is_empty() {
        wrong("name at least one team".into());
    }
    if side == Some(Side::Tags) && rule.tags.is_empty() {
        wrong("name tags, or `*` for any entity, or `untagged` for those without tags".into());
    }
    if side == Some(Side::Tags) && !rule.attributes.is_empty() {
        wrong(format!("{} goes by tags, not by attributes", rule.kind));
    }
    if rule.related.is_some() && (rule.kind != "pipeline" || rule.related.as_deref() != Some("project")) {
        wrong("relatedResource can only be `project`, and only for pipelines".into());
    }
    for attribute in &rule.attributes {
        if !ATTRIBUTES.contains(&attribute.name.as_str()) {
            wrong(format!("there is no attribute `{}`: there are {}", attribute.name, ATTRIBUTES.join(", ")));
        }
        if (attribute.name == "LABEL") == attribute.key.is_empty() {
            wrong(format!("attribute {}: LABEL and only LABEL has a key", attribute.name));
        }
        if attribute.value.is_empty() {
            wrong(format!("attribute {} needs a value", attribute.name));
        }
    }
    problems
}

#[cfg(test)]
mod tests {
    use slipway_model::{AccountId, UserId};

    use super::*;
    use crate::principal::{TeamRef, Who};
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
    fn an_untagged_cluster_is_open_until_it_has_a_tag() {
        let ada = person(Role::User, &[]);
        let cluster = |tags: &[&'static str]| Entity {
            kind: "cluster",
            name: "c",
            tags: tags.to_vec(),
            ..Entity::default()
        };
        assert!(decide_on(&ada, &[], "read", &cluster(&[])).allowed);
        assert!(!decide_on(&ada, &[], "read", &cluster(&["prod"])).allowed);
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
        assert_eq!(found.len(), 6, "{found:#?}");
        assert!(lint(&rule("pipeline", &["read", "run"], &["*"])).is_empty());
    }
}
