//! Rules of an account: which teams may do what to which entities.

use slipway_model::{RuleId, TeamId};

use crate::entity::{self, Attribute, Entity, Side, implies};
use crate::policy::lacks_scope;
use crate::principal::{Principal, Role, Who};

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

/// May this principal do `action` to this entity of its own account, with the key that it came with?
pub fn decide_on(principal: &Principal, rules: &[Rule], action: &str, entity: &Entity<'_>) -> Decision {
    let (who, kind, name) = (principal.display_name(), entity.kind, entity.name);
    let no = |reason: String| Decision { allowed: false, reason, rule: None };
    if kind == "gitRepository" && matches!(principal.who, Who::Build { .. }) {
        return decide_for_build(rules, action, entity);
    }
    let Some(role) = principal.role() else {
        return no(format!("{who} is no person and no service account"));
    };
    if entity::kind(kind).is_none() {
        return no(format!("there is no kind `{kind}`"));
    }
    let Some(asked) = entity::action(kind, action) else {
        let known = entity::known_actions(kind).join(", ");
        return no(format!("`{action}` is no action on {kind}: there are {known}"));
    };
    // Before the role: also an Administrator's key may what it says and no more.
    if let Some(reason) = asked.scope.and_then(|(resource, verb)| lacks_scope(principal, resource, verb)) {
        return no(reason);
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
    if asked.open && !about.iter().any(|rule| rule.actions.iter().any(|named| named == action)) {
        return Decision::yes(
            format!("no rule of the account restricts {action} on {kind}, so every member may"),
            None,
        );
    }
    if kind == "git-context" && entity.tags.is_empty() && !matches!(action, "create" | "delete") {
        return Decision::yes(
            format!("`{name}` has no tags, and an untagged {kind} is open to every member"),
            None,
        );
    }
    no(denial(principal, &about, action, entity))
}

/// A build may with repositories what rules say of its pipeline, which is an attribute of the question.
fn decide_for_build(rules: &[Rule], action: &str, entity: &Entity<'_>) -> Decision {
    let name = entity.name;
    let no = |reason: String| Decision { allowed: false, reason, rule: None };
    let Some(asked) = entity::action(entity.kind, action) else {
        return no(format!("`{action}` is no action on {}", entity.kind));
    };
    let about: Vec<_> = rules.iter().filter(|rule| rule.kind == entity.kind).collect();
    let names = |rule: &&&Rule| rule.actions.iter().any(|named| named == action);
    let of_pipelines = |rule: &&&Rule| rule.attributes.iter().any(|attribute| attribute.name == "PIPELINE");
    if let Some(rule) = about.iter().filter(names).filter(of_pipelines).find(|rule| fits(rule, entity)) {
        return Decision::yes(format!("a rule lets builds {action} {}", condition(rule)), Some(rule.id));
    }
    if asked.open && !about.iter().any(|rule| names(&rule)) {
        return Decision::yes(format!("no rule of the account restricts {action}"), None);
    }
    let pipeline = entity.attributes.iter().find(|attribute| attribute.name == "PIPELINE");
    let pipeline = pipeline.map(|attribute| attribute.value.as_str()).unwrap_or_default();
    no(format!(
        "builds of pipeline `{pipeline}` may not {action} `{name}`: no rule of the account lets them; an Administrator makes one with `slipway repos allow {name} --pipeline {pipeline}`"
    ))
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
    if entity::kind(&rule.kind).is_some_and(|kind| kind.side == Side::Attributes) {
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
pub fn like(pattern: &str, text: &str) -> bool {
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

/// Whether a rule of the account decides by something that differs between the two: whoever changes an entity from one
/// to the other changes who may what with it. `None` when no rule does; otherwise what it is that rules look at.
pub fn looks_at(rules: &[Rule], before: &Entity<'_>, after: &Entity<'_>) -> Option<String> {
    let about = |kind: &str, related: Option<&str>| {
        let mine = move |rule: &&Rule| rule.kind == kind && rule.related.as_deref() == related;
        rules.iter().filter(mine).flat_map(|rule| &rule.tags).map(String::as_str).collect::<Vec<_>>()
    };
    let mut pairs = vec![(about(before.kind, None), &before.tags, &after.tags)];
    match before.kind {
        "pipeline" => {
            pairs.push((about("pipeline", Some("project")), &before.project_tags, &after.project_tags));
        }
        // What is tagged here, rules about its pipelines may look at too.
        "project" => pairs.push((about("pipeline", Some("project")), &before.tags, &after.tags)),
        // Without any rule: an untagged one is open to everybody.
        "git-context" => pairs.push((vec!["untagged"], &before.tags, &after.tags)),
        _ => {}
    }
    pairs.into_iter().find_map(|(named, before, after)| {
        if named.contains(&"untagged") && before.is_empty() != after.is_empty() {
            return Some("whether it has tags".to_owned());
        }
        let moved = |tag: &&&str| before.contains(*tag) != after.contains(*tag);
        named.iter().find(moved).map(|tag| format!("the tag `{tag}`"))
    })
}

/// One thing that is wrong with a rule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RuleProblem(pub String);

/// All that is wrong with a rule, before it is kept.
pub fn lint(rule: &Rule) -> Vec<RuleProblem> {
    let mut problems = Vec::new();
    let mut wrong = |text: String| problems.push(RuleProblem(text));
    let side = entity::kind(&rule.kind).map(|kind| kind.side);
    if side.is_none() {
        let known: Vec<_> = entity::known_kinds().collect();
        let why =
            if entity::guards_nothing(&rule.kind) { "no access rules apply to" } else { "there is no kind" };
        wrong(format!("{why} `{}`: there are rules about {}", rule.kind, known.join(", ")));
    }
    let known = entity::known_actions(&rule.kind);
    let has = |name: &str| rule.attributes.iter().any(|attribute| attribute.name == name);
    for action in rule.actions.iter().filter(|action| side.is_some() && !known.contains(&action.as_str())) {
        wrong(format!("`{action}` is not a valid action on {}: use one of {}", rule.kind, known.join(", ")));
    }
    if rule.actions.is_empty() {
        wrong("name at least one action".into());
    }
    if rule.actions.len() > 1 && rule.actions.iter().any(|action| action == "create") {
        wrong("`create` needs a rule of its own".into());
    }
    // A rule that lets builds push is about their pipelines and nobody's teams.
    if rule.teams.is_empty() && !has("PIPELINE") {
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
    if rule.kind == "gitRepository" {
        if (has("BRANCH") || has("TAG")) && rule.actions.iter().any(|action| action != "push") {
            wrong("BRANCH and TAG are for `push`: who reads a repository reads all of it".into());
        }
        if has("BRANCH") && has("TAG") {
            wrong("no reference is a branch and a tag: make a rule for each".into());
        }
        if has("PIPELINE") && !rule.teams.is_empty() {
            wrong("PIPELINE says whose builds may: leave the teams out, or make a rule for each".into());
        }
    }
    let known = entity::known_attributes(&rule.kind);
    for attribute in rule.attributes.iter().filter(|_| side == Some(Side::Attributes)) {
        if !known.contains(&attribute.name.as_str()) {
            wrong(format!(
                "nothing fills the attribute `{}` of {}: there are {}",
                attribute.name,
                rule.kind,
                known.join(", ")
            ));
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
mod tests;
