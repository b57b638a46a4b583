//! The walk over a pipeline: names, root, steps, hooks.

use std::collections::HashMap;
use std::sync::LazyLock;

use regex::Regex;
use slipway_yaml::{Node, NodeKind};

use crate::interpolate::{Piece, references};
use crate::lint::shape::{self, Problem, Shape};
use crate::lint::steps::{self, Setting};
use crate::lint::{Finding, LintOptions, Severity, Suggestion, suggest};
use crate::parse::KNOWN_TYPES;

const NAME_CHARS_MAX: usize = 150;

/// The only version of the language there is. A missing one is named with the other root fields.
pub(super) fn version(root: &Node) -> Option<Finding> {
    let (key, version) = root.entry("version")?;
    let text = match &version.kind {
        NodeKind::Null => return None,
        NodeKind::String(text) if text.is_empty() => return None,
        NodeKind::Number(number) if number.as_f64() == Some(0.0) => return None,
        NodeKind::Bool(false) => return None,
        NodeKind::Number(number) => match number.as_f64() {
            Some(1.0) => "1".to_owned(),
            _ => number.to_string(),
        },
        _ => version.key_text(),
    };
    if matches!(text.as_str(), "1" | "1.0") {
        return None;
    }
    let message = format!("Current version: {text} is invalid. please change version to 1.0");
    Some(Finding::error(message, key.span).key("version").hint("write `version: '1.0'`"))
}

pub(super) fn lint(root: &Node, options: &LintOptions, findings: &mut Vec<Finding>) {
    let mut lint = Lint { root, options, stages: stages(root), findings };
    lint.names();
    lint.root();
    lint.steps(root.get("steps"), None);
    lint.all_hooks();
}

fn stages(root: &Node) -> Vec<String> {
    let stages = root.get("stages").map(Node::items).unwrap_or_default();
    stages.iter().filter_map(|stage| stage.as_str().map(str::to_owned)).collect()
}

struct Lint<'a> {
    root: &'a Node,
    options: &'a LintOptions,
    stages: Vec<String>,
    findings: &'a mut Vec<Finding>,
}

/// Where a step stands in a hook: steps of hooks may do less.
#[derive(Clone, Copy)]
struct InHook;

impl Lint<'_> {
    fn names(&mut self) {
        let mut names = Vec::new();
        collect_names(self.root.get("steps"), &mut names);
        for (name, key) in &names {
            if name.contains(['.', '#', '$', '[', ']']) {
                let message = "step name cannot contain \".\", \"#\", \"$\", \"[\", or \"]\"";
                self.findings.push(Finding::error(message, key.span).area("steps").step(name));
            }
        }
        let mut first: HashMap<&str, &Node> = HashMap::new();
        for (name, key) in &names {
            if let Some(earlier) = first.get(name.as_str()) {
                let mut finding =
                    Finding::error("step name exist more than once", key.span).area("steps").step(name);
                if earlier.span.line > 0 {
                    finding = finding.hint(format!(
                        "the first one is at {}:{}; names are unique over the whole file, blocks included",
                        earlier.span.line, earlier.span.column
                    ));
                }
                self.findings.push(finding);
            } else {
                first.insert(name, key);
            }
        }
        let longest = names.iter().rev().max_by_key(|(name, _)| name.encode_utf16().count());
        if let Some((name, key)) = longest
            && name.encode_utf16().count() > NAME_CHARS_MAX
        {
            let message = format!("step name length is limited to {NAME_CHARS_MAX}");
            self.findings.push(Finding::error(message, key.span).area("steps").step(name));
        }
    }

    fn root(&mut self) {
        let shape = steps::root();
        let mut problems = Vec::new();
        shape::check(&shape, self.root, &mut Vec::new(), &mut problems);
        for problem in problems {
            let finding = self.explain(&problem, &shape, self.root, Severity::Error).area("workflow");
            self.findings.push(finding);
        }
    }

    /// Looks at the steps of a map; children of parallel blocks are looked at like any step.
    fn steps(&mut self, steps: Option<&Node>, hook: Option<InHook>) {
        let Some(steps) = steps else { return };
        for (key, written) in steps.entries() {
            self.one(&key.key_text(), written, hook);
        }
        if !self.options.deep {
            // The reference validator walks a list as a map from its indexes.
            for (index, written) in steps.items().iter().enumerate() {
                self.one(&index.to_string(), written, hook);
            }
        }
    }

    fn one(&mut self, name: &str, written: &Node, hook: Option<InHook>) {
        let step = lifted(written);
        if step.get("type").and_then(Node::as_str) == Some("parallel") {
            self.block(&step, hook);
        } else {
            self.step(&step, Some(name), hook);
        }
    }

    fn block(&mut self, block: &Node, hook: Option<InHook>) {
        let children = block.get("steps").filter(|children| !children.entries().is_empty());
        let Some(children) = children else {
            let message = "\"steps\" is required and must be an array of type steps";
            self.findings.push(Finding::error(message, block.span).area("steps"));
            return;
        };
        for (key, child) in children.entries() {
            if child.get("type").and_then(Node::as_str) == Some("pending-approval") {
                self.findings.push(
                    Finding::error("\"type\" can't be pending-approval", key.span)
                        .area("type")
                        .step(&key.key_text())
                        .key("type")
                        .hint("move the approval in front of the parallel block"),
                );
            }
        }
        if self.options.deep {
            self.steps(Some(children), hook);
            return;
        }
        for (key, child) in children.entries() {
            if child.get("type").and_then(Node::as_str) != Some("parallel") {
                self.step(child, Some(&key.key_text()), hook);
            }
        }
    }

    fn step(&mut self, step: &Node, name: Option<&str>, hook: Option<InHook>) {
        let type_node = step.get("type");
        let type_text = match type_node {
            None => "freestyle".to_owned(),
            Some(node) => match node.as_str() {
                Some("") => "freestyle".to_owned(),
                Some(text) => text.to_owned(),
                None if node.is_null() || node.as_bool() == Some(false) || node.as_number() == Some(0.0) => {
                    "freestyle".to_owned()
                }
                None => {
                    let finding =
                        Finding::error("\"type\" must be a string", node.span).area("steps").key("type");
                    self.push_for(finding, name);
                    return;
                }
            },
        };
        self.type_version(&type_text, step, name);
        let v2 = match self.root.get("build_version").and_then(Node::as_str) {
            Some(version) => version == "v2",
            None => self.options.build_v2,
        };
        let setting = Setting { stages: &self.stages, build_v2: v2, in_hook: hook.is_some() };
        let Some(shape) = steps::step(&type_text, &setting) else { return };
        let mut problems = Vec::new();
        shape::check(&shape, step, &mut Vec::new(), &mut problems);
        if self.options.tag_required && type_text == "build" && step.get("tag").is_none() {
            problems.push(Problem {
                path: vec!["tag".to_owned()],
                message: "\"tag\" is required".to_owned(),
                unknown_key: false,
                span: step.span,
            });
        }
        for problem in problems {
            let own_timeout = matches!(type_text.as_str(), "pending-approval" | "deploy");
            let soft = !own_timeout && problem.path == ["timeout"];
            let severity = if soft { Severity::Warning } else { Severity::Error };
            let mut finding = self.explain(&problem, &shape, step, severity).area("steps");
            if soft {
                finding = finding.hint(
                    "write a number and s, m or h, for example `30s` or `1.5h`; it is ignored otherwise",
                );
            }
            self.push_for(finding, name);
        }
    }

    fn push_for(&mut self, mut finding: Finding, name: Option<&str>) {
        finding.step = name.map(str::to_owned);
        self.findings.push(finding);
    }

    /// A plugin without a version takes whatever is newest on the day of the build.
    fn type_version(&mut self, raw: &str, step: &Node, name: Option<&str>) {
        static SEMVER: LazyLock<Regex> = LazyLock::new(|| {
            let number = r"(0|[1-9]\d*)";
            let part = r"(0|[1-9]\d*|\d*[a-zA-Z-][0-9a-zA-Z-]*)";
            let pattern = format!(
                r"^{number}\.{number}\.{number}(-{part}(\.{part})*)?(\+[0-9a-zA-Z-]+(\.[0-9a-zA-Z-]+)*)?$"
            );
            Regex::new(&pattern).expect("a constant")
        });
        let (base, version) = raw.split_once(':').unwrap_or((raw, ""));
        if has_reference(raw) || KNOWN_TYPES.contains(&raw) || KNOWN_TYPES.contains(&base) {
            return;
        }
        let span = step.get("type").map_or(step.span, |node| node.span);
        let finding = if version.is_empty() {
            Finding::warning(
                "Step version not specified. The latest version will be used, which may result in breaking changes.",
                span,
            )
        } else if !SEMVER.is_match(version) {
            Finding::warning(format!("Invalid semantic version \"{version}\" for step."), span)
        } else {
            return;
        };
        let mut finding = finding.area("steps").key("type").hint(format!("write `type: {base}:1.2.3`"));
        if let Some(meant) = KNOWN_TYPES.iter().find(|known| suggest::misspelt(base, known)) {
            finding.hint = Some(format!("did you mean `{meant}`? if not, write `type: {base}:1.2.3`"));
            finding.suggestion = Some(Suggestion { from: base.to_owned(), to: (*meant).to_owned() });
        }
        self.push_for(finding, name);
    }

    fn explain(&self, problem: &Problem, shape: &Shape, node: &Node, severity: Severity) -> Finding {
        let mut finding = Finding::new(severity, problem.message.clone(), problem.span);
        finding.key = Some(problem.path.join("."));
        if problem.unknown_key
            && let Some((wrong, parents)) = problem.path.split_last()
            && let Some(meant) = suggest::nearest(wrong, &suggest::known_names(shape, parents))
        {
            finding.message = format!("{}. Did you mean \"{meant}\"?", problem.message);
            finding.suggestion = Some(Suggestion { from: wrong.clone(), to: meant.to_owned() });
            return finding;
        }
        let path: Vec<&str> = problem.path.iter().map(String::as_str).collect();
        if !problem.unknown_key
            && let Some(value) = node.at(&path)
            && let NodeKind::String(_) | NodeKind::Number(_) = value.kind
            && !value.key_text().is_empty()
        {
            finding.message = format!("{}. Current value: {} ", problem.message, value.key_text());
        }
        // Steps that take any field say nothing of a misspelt one; that it is missing under its name is all that shows.
        if !problem.unknown_key
            && let Some((wanted, parents)) = path.split_last()
            && let Some(holder) = node.at(parents).filter(|holder| holder.get(wanted).is_none())
            && let Some((wrong, _)) =
                holder.entries().iter().find(|(key, _)| suggest::misspelt(&key.key_text(), wanted))
        {
            let wrong = wrong.key_text();
            finding = finding.hint(format!("did you mean `{wanted}` where `{wrong}` is written?"));
            finding.suggestion = Some(Suggestion { from: wrong, to: (*wanted).to_owned() });
        }
        finding
    }

    fn all_hooks(&mut self) {
        for (_, hook) in self.root.get("hooks").map(Node::entries).unwrap_or_default() {
            self.hook(hook);
        }
        for (key, step) in self.root.get("steps").map(Node::entries).unwrap_or_default() {
            let Some(hooks) = step.get("hooks") else { continue };
            for (_, hook) in hooks.entries() {
                self.hook(hook);
            }
            self.both_kinds(&key.key_text(), step, hooks);
        }
    }

    /// The older `on_*` keys beside `hooks` would say the same thing twice.
    fn both_kinds(&mut self, name: &str, step: &Node, hooks: &Node) {
        let old = ["on_success", "on_finish", "on_fail"];
        if !old.iter().any(|key| hooks.get(key).is_some()) {
            return;
        }
        for key in old {
            if let Some((place, _)) = step.entry(key) {
                let message = "Either old \"on_success/on_fail/on_finish\" or new \"hooks\" should be used";
                let finding = Finding::error(message, place.span).area("steps").step(name).key(key);
                self.findings.push(finding.hint(format!("move `{key}` into `hooks`")));
            }
        }
    }

    fn hook(&mut self, hook: &Node) {
        if hook.is_sequence() || hook.is_null() {
            return;
        }
        let (exec, steps) = (hook.get("exec"), hook.get("steps"));
        let notes = hook.get("metadata").is_some() || hook.get("annotations").is_some();
        if exec.is_some_and(Node::is_sequence) && !notes {
            return;
        }
        if exec.is_none() && steps.is_none() && notes {
            let frame = shape::object(vec![
                shape::may("metadata", steps::metadata()),
                shape::may("annotations", steps::annotations()),
            ]);
            self.frame(&frame, hook);
            return;
        }
        let frame = match (exec, steps) {
            (Some(exec), _) => {
                if let Some(inner) = exec.get("steps") {
                    self.steps(Some(inner), Some(InHook));
                    steps::hook_frame(steps::hook_steps())
                } else {
                    self.single_hook_step(exec);
                    let commands = shape::list(shape::text());
                    steps::hook_frame(Shape::Either(vec![commands, shape::any_object()]))
                }
            }
            (None, Some(inner)) => {
                self.steps(Some(inner), Some(InHook));
                steps::hook_steps()
            }
            (None, None) => {
                self.single_hook_step(hook);
                shape::any_object()
            }
        };
        self.frame(&frame, hook);
    }

    fn single_hook_step(&mut self, written: &Node) {
        // A list of commands beside annotations is checked with the frame; any other value that is no
        // step has been named with the frame already, and the reference validator names it again.
        if written.is_sequence() || (!written.is_mapping() && self.options.deep) {
            return;
        }
        let name = written.get("name").map(Node::key_text);
        self.step(&lifted(written), Some(name.as_deref().unwrap_or(UNNAMED)), Some(InHook));
    }

    fn frame(&mut self, frame: &Shape, hook: &Node) {
        let mut problems = Vec::new();
        shape::check(frame, hook, &mut Vec::new(), &mut problems);
        for problem in problems {
            let finding = self.explain(&problem, frame, hook, Severity::Error).area("steps");
            self.findings.push(finding);
        }
    }
}

/// What a hook's only step is called when it has no name.
pub(super) const UNNAMED: &str = "undefined";

pub(super) fn has_reference(text: &str) -> bool {
    references(text).iter().any(|piece| matches!(piece, Piece::Name(_)))
}

fn collect_names<'n>(steps: Option<&'n Node>, names: &mut Vec<(String, &'n Node)>) {
    for (key, step) in steps.map(Node::entries).unwrap_or_default() {
        names.push((key.key_text(), key));
        collect_names(step.get("steps"), names);
    }
}

/// A step with `arguments` among its own fields, where the validator looks for them. A plugin's
/// `timeout` stays its own.
pub(super) fn lifted(step: &Node) -> Node {
    let Some(arguments) = step.get("arguments").filter(|arguments| arguments.is_mapping()) else {
        return step.clone();
    };
    let type_name = step.get("type").and_then(Node::as_str).unwrap_or_default();
    let built_in = type_name.is_empty() || KNOWN_TYPES.contains(&type_name);
    let mut entries: Vec<(Node, Node)> =
        step.entries().iter().filter(|(key, _)| key.as_str() != Some("arguments")).cloned().collect();
    for (key, value) in arguments.entries() {
        if !built_in && key.as_str() == Some("timeout") {
            continue;
        }
        match entries.iter_mut().find(|(known, _)| known.key_text() == key.key_text()) {
            Some(known) => *known = (key.clone(), value.clone()),
            None => entries.push((key.clone(), value.clone())),
        }
    }
    Node::new(NodeKind::Mapping(entries), step.span)
}
