//! A YAML tree → [`Pipeline`]. Shape errors are the linter's business: a field that is not what it
//! should be is left out here, and [`Pipeline::parse`] gives no pipeline when the linter found errors.

use serde_json::{Map, Value};
use slipway_yaml::Node;

use crate::expand::expand;
use crate::lint::{Finding, LintOptions, lint_text};
use crate::pipeline::{
    Condition, Dependency, Hooks, Mode, Pipeline, Scope, Step, StepsClause, SuccessCriteria, When,
};

/// Types whose `arguments` belong to the step itself; for all others they belong to the plugin.
pub const KNOWN_TYPES: [&str; 16] = [
    "git-clone",
    "build",
    "deploy",
    "composition",
    "launch-composition",
    "parallel",
    "push",
    "travis",
    "simple_travis",
    "integration-test",
    "push-tag",
    "pending-approval",
    "services",
    "freestyle",
    "freestyle-ssh",
    "github-action",
];

/// The old spellings that are still read.
pub(crate) const RENAMES: [(&str, &str); 7] = [
    ("fail-fast", "fail_fast"),
    ("working-directory", "working_directory"),
    ("image-name", "image_name"),
    ("build-arguments", "build_arguments"),
    ("tag-policy", "tag_policy"),
    ("composition-candidates", "composition_candidates"),
    ("composition-variables", "composition_variables"),
];

impl Pipeline {
    /// Reads a pipeline file. The findings hold everything the linter says; there is a pipeline
    /// only when none of them is an error.
    pub fn parse(text: &str) -> (Option<Self>, Vec<Finding>) {
        Self::parse_with(text, &LintOptions::default())
    }

    pub fn parse_with(text: &str, options: &LintOptions) -> (Option<Self>, Vec<Finding>) {
        let (root, findings) = lint_text(text, options);
        if findings.iter().any(Finding::is_error) {
            return (None, findings);
        }
        (root.map(|root| Self::from_node(&root)), findings)
    }

    /// Builds the value from a tree that the linter accepted.
    pub fn from_node(root: &Node) -> Self {
        let root = expand(root);
        Self {
            version: root.get("version").map(Node::key_text).unwrap_or_default(),
            stages: strings(root.get("stages")),
            build_version: text(root.get("build_version")),
            services: root.get("services").map(Node::to_json),
            hooks: hooks(root.get("hooks")),
            scope: scope(&root),
        }
    }
}

fn scope(node: &Node) -> Scope {
    Scope {
        mode: match node.get("mode").and_then(Node::as_str) {
            Some("parallel") => Mode::Parallel,
            _ => Mode::Sequential,
        },
        fail_fast: node.get("fail_fast").or_else(|| node.get("fail-fast")).map(Node::to_json),
        strict_fail_fast: node.get("strict_fail_fast").map(Node::to_json),
        success_criteria: node.get("success_criteria").map(success_criteria),
        steps: node
            .get("steps")
            .map(|steps| steps.entries().iter().map(|(name, step)| self::step(name, step)).collect())
            .unwrap_or_default(),
    }
}

fn step(name: &Node, node: &Node) -> Step {
    let raw_type = node.get("type").and_then(Node::as_str).unwrap_or("freestyle");
    let (type_name, type_version) = split_type(raw_type);
    let mut fields = lifted(node, &type_name);
    let parallel = type_name == "parallel" || (node.get("type").is_none() && node.get("steps").is_some());
    let children = parallel.then(|| {
        let mut children = scope(node);
        children.mode = Mode::Parallel;
        Box::new(children)
    });
    let mut take = |key: &str| fields.remove(key);
    let as_text = |value: Option<Value>| value.and_then(|value| value.as_str().map(str::to_owned));
    let step = Step {
        name: name.key_text(),
        title: as_text(take("title")),
        stage: as_text(take("stage")),
        fail_fast: take("fail_fast"),
        strict_fail_fast: take("strict_fail_fast"),
        retry: take("retry"),
        timeout: take("timeout").filter(|value| !value.is_null()),
        when: node.get("when").map(when),
        hooks: step_hooks(node),
        children,
        line: name.span.line,
        type_name: if parallel { "parallel".to_owned() } else { type_name },
        type_version,
        fields: Map::new(),
    };
    for used in ["type", "when", "hooks", "on_success", "on_fail", "on_finish", "steps", "success_criteria"] {
        fields.remove(used);
    }
    Step { fields, ..step }
}

/// `type: name:1.2.3`; the version is everything after the first colon.
pub(crate) fn split_type(raw: &str) -> (String, Option<String>) {
    match raw.split_once(':') {
        Some((name, version)) => (name.to_owned(), Some(version.to_owned()).filter(|v| !v.is_empty())),
        None => (raw.to_owned(), None),
    }
}

/// The fields of a step with old spellings replaced; for built-in types `arguments` joins them.
fn lifted(node: &Node, type_name: &str) -> Map<String, Value> {
    let mut fields = Map::new();
    let mut put = |key: String, value: Value| {
        let key = RENAMES.iter().find(|(old, _)| *old == key).map_or(key, |(_, new)| (*new).to_owned());
        fields.insert(key, value);
    };
    for (key, value) in node.entries() {
        put(key.key_text(), value.to_json());
    }
    if KNOWN_TYPES.contains(&type_name)
        && let Some(arguments) = node.get("arguments")
    {
        for (key, value) in arguments.entries() {
            put(key.key_text(), value.to_json());
        }
        fields.remove("arguments");
    }
    fields
}

fn when(node: &Node) -> When {
    let branch = node.get("branch");
    let list = |key: &str| branch.and_then(|branch| branch.get(key)).map(|names| strings(Some(names)));
    When {
        branch_only: list("only"),
        branch_ignore: list("ignore"),
        condition: node.get("condition").map(condition),
        steps: node.get("steps").map(steps_clause),
    }
}

fn condition(node: &Node) -> Condition {
    let named = |key: &str| {
        let entries = node.get(key).map(Node::entries).unwrap_or_default();
        entries.iter().map(|(name, expression)| (name.key_text(), expression.key_text())).collect()
    };
    Condition { all: named("all"), any: named("any") }
}

fn steps_clause(node: &Node) -> StepsClause {
    let list = |node: &Node| {
        node.items()
            .iter()
            .map(|item| Dependency {
                name: item.get("name").map(Node::key_text).unwrap_or_default(),
                on: strings(item.get("on")),
            })
            .collect()
    };
    match node.get("any") {
        Some(any) => StepsClause::Any(list(any)),
        None => StepsClause::All(list(node.get("all").unwrap_or(node))),
    }
}

fn success_criteria(node: &Node) -> SuccessCriteria {
    let steps = node.get("steps");
    let list = |key: &str| steps.and_then(|steps| steps.get(key)).map(|names| strings(Some(names)));
    SuccessCriteria {
        only: steps
            .filter(|steps| steps.is_sequence())
            .map(|names| strings(Some(names)))
            .or_else(|| list("only")),
        ignore: list("ignore"),
        condition: node.get("condition").map(condition),
    }
}

fn hooks(node: Option<&Node>) -> Hooks {
    let at = |key: &str| node.and_then(|node| node.get(key)).map(hook);
    Hooks {
        on_elected: at("on_elected"),
        on_success: at("on_success"),
        on_fail: at("on_fail"),
        on_finish: at("on_finish"),
    }
}

/// A step's hooks; the older `on_success`, `on_fail`, `on_finish` beside `hooks` carry annotations only.
fn step_hooks(node: &Node) -> Hooks {
    let mut hooks = hooks(node.get("hooks"));
    let old = |key: &str| node.get(key).map(hook);
    hooks.on_success = hooks.on_success.or_else(|| old("on_success"));
    hooks.on_fail = hooks.on_fail.or_else(|| old("on_fail"));
    hooks.on_finish = hooks.on_finish.or_else(|| old("on_finish"));
    hooks
}

/// The four forms of a hook, all brought to the last: a list of commands, one step, `exec` with
/// annotations, several steps.
fn hook(node: &Node) -> Scope {
    let mut result = match node.get("exec") {
        Some(exec) if exec.get("steps").is_some() => scope(exec),
        Some(exec) => single(exec),
        None if node.get("steps").is_some() => scope(node),
        None if node.is_sequence() => single(node),
        None if node.get("annotations").is_some() || node.get("metadata").is_some() => Scope::default(),
        None => single(node),
    };
    let annotations = node.get("annotations").map(Node::to_json);
    let metadata = node.get("metadata").map(Node::to_json);
    if annotations.is_some() || metadata.is_some() {
        let mut fields = Map::new();
        fields.insert("annotations".to_owned(), annotations.unwrap_or_default());
        fields.insert("metadata".to_owned(), metadata.unwrap_or_default());
        // A written step cannot contain `#`, so a second try cannot meet one.
        let taken = result.steps.iter().any(|step| step.name == "annotate");
        result.steps.push(Step {
            name: if taken { "annotate#" } else { "annotate" }.to_owned(),
            type_name: ANNOTATE_TYPE.to_owned(),
            fields,
            line: node.span.line,
            ..Step::default()
        });
    }
    result
}

/// A type of our own for what a hook says beside its commands; a file cannot name it.
pub(crate) const ANNOTATE_TYPE: &str = "_annotate";

fn single(node: &Node) -> Scope {
    let mut step = if node.is_sequence() {
        let mut fields = Map::new();
        fields.insert("commands".to_owned(), node.to_json());
        Step { type_name: "freestyle".to_owned(), fields, line: node.span.line, ..Step::default() }
    } else {
        self::step(node, node)
    };
    step.name = node.get("name").map_or_else(|| "exec".to_owned(), Node::key_text).replace('.', "_");
    if step.type_name == "freestyle" && !step.fields.contains_key("image") {
        step.fields.insert("image".to_owned(), Value::String(HOOK_IMAGE.to_owned()));
    }
    Scope { steps: vec![step], ..Scope::default() }
}

/// What a hook's commands run in when it names no image.
const HOOK_IMAGE: &str = "alpine";

fn text(node: Option<&Node>) -> Option<String> {
    node.and_then(Node::as_str).map(str::to_owned)
}

fn strings(node: Option<&Node>) -> Vec<String> {
    node.map(|node| node.items().iter().map(Node::key_text).collect()).unwrap_or_default()
}
