//! Health rules for well-known custom resources, written in our own small language (`crates/gitops/health/*.rules`).
//!
//! A file names groups and kinds and lists verdicts; the first verdict whose expression holds is the answer.
//!
//! ```text
//! group cert-manager.io
//! kind Certificate
//!   Progressing if @Issuing=True          # a condition of that type with that status
//!   Degraded    if @Ready=False:Denied    # and that reason
//!   Healthy     if status.phase = Done|Ready and #status.nodes >= 1
//!   Progressing "waiting for {metadata.name}"
//! ```
//!
//! | written | holds when |
//! |---|---|
//! | `@Type`, `@Type=A\|B`, `@Type!=A`, `@Type=A:Reason` | such a condition stands in `status.conditions` (inside an element: in its `conditions`) |
//! | `path`, `not path`, `empty path` | the value is there and not false; is missing, null or empty |
//! | `path = a\|b`, `!=`, `~ glob`, `<` `<=` `>` `>=` | compared with a word, `"text"`, number, `$path`, `#path` (a length), `$a minus $b` |
//! | `list.0`, `list.last` | the element of a list |
//! | `path?0` | the value, or 0 where there is none |
//! | `any path [..]`, `all path [..]`, `count path [..] = 2` | for elements of a list or values of a map; inside, paths start at the element and `^path` at the object |
//! | `and`, `or`, `not`, `( )` | as always |
//! | `each path` … `end` | the verdicts in between are tried on each element in turn |
//!
//! Without a text the message is that of the condition that was found.

mod eval;
mod files;
mod parse;

use super::{Health, HealthCode};
use crate::object;
use serde_json::Value;
use slipway_dialect::glob;
use std::collections::BTreeMap;
use std::sync::OnceLock;

/// One verdict or a loop of verdicts.
#[derive(Debug, Clone)]
enum Rule {
    Verdict { status: HealthCode, when: Expression, message: Option<String> },
    Each { path: Path, rules: Vec<Rule> },
}

/// What decides a verdict.
#[derive(Debug, Clone)]
enum Expression {
    Always,
    Not(Box<Expression>),
    All(Vec<Expression>),
    Any(Vec<Expression>),
    Condition { kind: String, statuses: Vec<String>, negated: bool, reasons: Vec<String> },
    Present(Path),
    Empty(Path),
    Compare { left: Operand, operator: Operator, right: Vec<Operand> },
    AnyOf { path: Path, inner: Box<Expression> },
    AllOf { path: Path, inner: Box<Expression> },
    Count { path: Path, inner: Box<Expression>, operator: Operator, right: Operand },
}

#[derive(Debug, Clone)]
enum Operand {
    Path(Path),
    Length(Path),
    Literal(String),
    Minus(Box<Operand>, Box<Operand>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Like,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
}

/// A path of field names, from the object or the element at hand.
#[derive(Debug, Clone)]
struct Path {
    from_root: bool,
    fields: Vec<String>,
    default: Option<f64>,
}

/// All rules, by group and kind.
#[derive(Debug, Default)]
struct RuleSet {
    exact: BTreeMap<(String, String), Vec<Rule>>,
    /// Group or kind with a `*`.
    patterns: Vec<(String, String, Vec<Rule>)>,
}

impl RuleSet {
    fn find(&self, group: &str, kind: &str) -> Option<&[Rule]> {
        let exact = self.exact.get(&(group.to_string(), kind.to_string())).map(Vec::as_slice);
        // No pattern is about the kinds of Kubernetes itself, of which there are most.
        exact.or_else(|| {
            if !group.contains('.') {
                return None;
            }
            self.patterns
                .iter()
                .find(|(g, k, _)| glob::matches(g, group) && glob::matches(k, kind))
                .map(|(_, _, rules)| rules.as_slice())
        })
    }
}

/// The rules that are built in. They are part of the program: one that cannot be read is a defect, and a test reads all.
fn built_in() -> &'static RuleSet {
    static RULES: OnceLock<RuleSet> = OnceLock::new();
    RULES.get_or_init(|| {
        let mut set = RuleSet::default();
        for (name, text) in files::FILES {
            if let Err(error) = parse::parse_into(&mut set, text) {
                panic!("health rules {name}: {error}");
            }
        }
        set
    })
}

/// The verdict of a rule file on an object; None if no file is about its kind.
pub(super) fn assess(object: &Value) -> Option<Health> {
    let rules = built_in().find(object::group(object), object::kind(object))?;
    let health = eval::run(rules, object)
        .unwrap_or_else(|| Health::new(HealthCode::Unknown, "no rule for this kind knows such a status"));
    Some(health)
}

#[cfg(test)]
mod tests;
