//! Our own advice, beyond what the reference validator says: conditions that cannot work, names that
//! do not exist, values from outside in places where they are code. Warnings, except for a matrix
//! that cannot be run.

use slipway_yaml::{Node, NodeKind, Span};

use crate::expand::CHILDREN_MAX;
use crate::expression::{self, JsRegex};
use crate::interpolate::{Piece, references};
use crate::lint::model::lifted;
use crate::lint::steps::TOLERANT;
use crate::lint::{Finding, Suggestion, nearest};
use crate::parse::KNOWN_TYPES;
use crate::pipeline::MAIN_CLONE;
use crate::unsupported::{self, Unsupported};
use crate::variables::is_untrusted;

pub(super) fn lint(root: &Node, findings: &mut Vec<Finding>) {
    let mut names = Vec::new();
    collect(root.get("steps"), &mut names);
    let mut advice =
        Advice { names, parallel: root.get("mode").and_then(Node::as_str) == Some("parallel"), findings };
    advice.criteria(root, None);
    advice.steps(root.get("steps"));
}

fn collect(steps: Option<&Node>, names: &mut Vec<String>) {
    for (key, step) in steps.map(Node::entries).unwrap_or_default() {
        names.push(key.key_text());
        collect(step.get("steps"), names);
    }
}

struct Advice<'a> {
    names: Vec<String>,
    parallel: bool,
    findings: &'a mut Vec<Finding>,
}

impl Advice<'_> {
    fn steps(&mut self, steps: Option<&Node>) {
        for (key, step) in steps.map(Node::entries).unwrap_or_default() {
            let name = key.key_text();
            self.when(&name, step);
            self.criteria(step, Some(&name));
            self.expansion(&name, step);
            self.shell(&name, step);
            self.unsupported(&name, step);
            if step.get("type").and_then(Node::as_str) == Some("parallel") {
                if let Some((place, _)) = step.entry("hooks") {
                    let finding = Finding::warning("hooks on a parallel step do not run", place.span);
                    self.add(finding.hint("put the hooks on the steps inside"), &name, "hooks");
                }
                self.steps(step.get("steps"));
            }
        }
    }

    fn add(&mut self, finding: Finding, step: &str, key: &str) {
        self.findings.push(finding.area("steps").step(step).key(key));
    }

    fn when(&mut self, name: &str, step: &Node) {
        let Some(when) = step.get("when") else { return };
        for kind in ["only", "ignore"] {
            for entry in when.at(&["branch", kind]).map(Node::items).unwrap_or_default() {
                if let Some(Err(reason)) = entry.as_str().and_then(JsRegex::literal) {
                    self.add(Finding::warning(reason, entry.span), name, "when.branch");
                }
            }
        }
        if let Some(condition) = when.get("condition") {
            self.condition(condition, Some(name), "when.condition");
        }
        let clause = when.get("steps");
        let lists = [clause, clause.and_then(|c| c.get("all")), clause.and_then(|c| c.get("any"))];
        for entry in lists.into_iter().flatten().flat_map(Node::items) {
            let Some(wanted) = entry.get("name") else { continue };
            self.step_exists(wanted, Some(name), "when.steps");
            if wanted.as_str() == Some(name) {
                let finding = Finding::warning("the step waits for itself and will never run", wanted.span);
                self.add(finding, name, "when.steps");
            }
        }
    }

    fn step_exists(&mut self, wanted: &Node, step: Option<&str>, key: &str) {
        let Some(text) = wanted.as_str() else { return };
        // The clone that comes with a linked repository need not be written down.
        if text == MAIN_CLONE || self.names.iter().any(|name| name == text) {
            return;
        }
        let mut finding =
            Finding::warning(format!("there is no step `{text}` in this file"), wanted.span).key(key);
        let known: Vec<&str> = self.names.iter().map(String::as_str).collect();
        if let Some(meant) = nearest(text, &known) {
            finding.suggestion = Some(Suggestion { from: text.to_owned(), to: meant.to_owned() });
            finding = finding.hint(format!("did you mean `{meant}`?"));
        }
        finding.step = step.map(str::to_owned);
        self.findings.push(finding.area("steps"));
    }

    fn criteria(&mut self, scope: &Node, step: Option<&str>) {
        let Some(criteria) = scope.get("success_criteria") else { return };
        if let Some(condition) = criteria.get("condition") {
            self.condition(condition, step, "success_criteria.condition");
        }
        let steps = criteria.get("steps");
        let lists = [steps, steps.and_then(|s| s.get("only")), steps.and_then(|s| s.get("ignore"))];
        for name in lists.into_iter().flatten().flat_map(Node::items) {
            self.step_exists(name, step, "success_criteria.steps");
        }
    }

    fn condition(&mut self, condition: &Node, step: Option<&str>, key: &str) {
        for list in ["all", "any"] {
            for (label, text) in condition.get(list).map(Node::entries).unwrap_or_default() {
                let Some(expression) = text.as_str() else { continue };
                let Err(error) = expression::check(&neutral(expression)) else { continue };
                let message = format!("condition `{}` will always be false, {error}", label.key_text());
                let mut finding = Finding::warning(message, text.span).area("steps").key(key);
                finding.step = step.map(str::to_owned);
                self.findings.push(finding);
            }
        }
    }

    fn expansion(&mut self, name: &str, step: &Node) {
        for kind in ["scale", "matrix"] {
            let Some((place, _)) = step.entry(kind) else { continue };
            // Only what could not be expanded is still here.
            let message = format!("`{kind}` has to give between 1 and {CHILDREN_MAX} children");
            self.add(Finding::error(message, place.span), name, kind);
        }
        let made = step.get("type").is_some_and(|node| node.span == step.span);
        if self.parallel && made && step.span.line > 0 {
            let message = "scale and matrix do not go together with `mode: parallel`";
            self.add(Finding::warning(message, step.span), name, "mode");
        }
    }

    /// Fields of the language that nothing here acts on.
    fn unsupported(&mut self, name: &str, step: &Node) {
        let type_name = step.get("type").and_then(Node::as_str).unwrap_or("freestyle");
        let no_map = step.entry("arguments").filter(|(_, arguments)| !arguments.is_mapping());
        if let Some((place, _)) = no_map.filter(|_| TOLERANT.contains(&type_name)) {
            let finding = Finding::warning("`arguments` is not a map and has no effect", place.span);
            self.add(finding.hint("remove it, or write the arguments as NAME: VALUE"), name, "arguments");
        }
        // Arguments of other types are their own.
        let built_in = KNOWN_TYPES.contains(&type_name);
        let fields_of = if built_in { lifted(step) } else { step.clone() };
        let fields = |known: &[Unsupported]| {
            known
                .iter()
                .filter_map(|known| Some((*known, fields_of.entry(known.field)?.0.span)))
                .collect::<Vec<(Unsupported, Span)>>()
        };
        for (known, place) in fields(if type_name == "build" { unsupported::BUILD } else { &[] }) {
            let message = format!("`{}` is not supported: runners refuse this step", known.field);
            self.add(Finding::warning(message, place).hint(known.instead), name, known.field);
        }
        for (known, place) in fields(unsupported::WITHOUT_EFFECT) {
            let message = format!("`{}` is not supported and has no effect", known.field);
            self.add(Finding::warning(message, place).hint(known.instead), name, known.field);
        }
    }

    /// Text that somebody outside chose, put into a command as text.
    fn shell(&mut self, name: &str, step: &Node) {
        let step = lifted(step);
        for command in step.get("commands").map(Node::items).unwrap_or_default() {
            let NodeKind::String(text) = &command.kind else { continue };
            for piece in references(text) {
                let Piece::Name(variable) = piece else { continue };
                if is_untrusted(variable) {
                    let message = format!(
                        "`${{{{{variable}}}}}` is text from outside; here it becomes part of a command"
                    );
                    let finding = Finding::warning(message, command.span);
                    self.add(
                        finding.hint(format!("write \"${variable}\" and let the shell read it")),
                        name,
                        "commands",
                    );
                    break;
                }
            }
        }
    }
}

/// The expression with every reference replaced by something of the same kind: a word inside quotes,
/// a value outside.
fn neutral(expression: &str) -> String {
    let mut out = String::new();
    let mut quote: Option<char> = None;
    for piece in references(expression) {
        match piece {
            Piece::Literal(text) => {
                let mut escaped = false;
                for c in text.chars() {
                    match (quote, c) {
                        (Some(_), _) if escaped => escaped = false,
                        (Some(_), '\\') => escaped = true,
                        (Some(open), c) if c == open => quote = None,
                        (None, '"' | '\'') => quote = Some(c),
                        _ => {}
                    }
                }
                out.push_str(text);
            }
            Piece::Name(_) => out.push_str("value"),
        }
    }
    out
}
