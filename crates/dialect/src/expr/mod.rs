//! Expressions: the part of expr-lang that conditions are written in (`app.status.health.status == 'Degraded'`).
//!
//! Comes in: a text, variables as JSON, and the time. Goes out: true or false, or a text, or why not. No loop, no assignment:
//! what it costs grows with its own length and the lists it looks at, and both have a limit.

mod evaluate;
mod functions;
mod parse;
mod values;

use jiff::Timestamp;
use serde_json::Value;

use evaluate::{Run, Thing};

/// A text longer than this is no condition.
const TEXT_MAX: usize = 8 << 10;

/// A text that was read.
pub struct Expression {
    root: Node,
}

#[derive(Debug)]
enum Node {
    Literal(Value),
    List(Vec<Node>),
    Map(Vec<(String, Node)>),
    Name(String),
    /// `#` of a predicate.
    Item,
    /// `#acc`: what a reduction has so far.
    Sum,
    /// `?.` (true) and `.`: they differ only where what is not there is an error.
    Member(Box<Node>, String, bool),
    Index(Box<Node>, Box<Node>),
    Slice(Box<Node>, Option<Box<Node>>, Option<Box<Node>>),
    Call(Box<Node>, Vec<Node>),
    Unary(&'static str, Box<Node>),
    Binary(&'static str, Box<Node>, Box<Node>),
    Choice(Box<Node>, Box<Node>, Box<Node>),
}

impl Expression {
    /// Says what is wrong with the text.
    pub fn parse(text: &str) -> Result<Self, String> {
        if text.len() > TEXT_MAX {
            return Err(format!("an expression may have {TEXT_MAX} bytes"));
        }
        parse::parse(text).map(|root| Self { root })
    }

    /// For a condition; anything but true and false is an error.
    pub fn is_true(&self, vars: &Value, now: Timestamp) -> Result<bool, String> {
        match Run::new(vars, now).value(&self.root)? {
            Thing::Json(Value::Bool(answer)) => Ok(answer),
            _ => Err("the condition is neither true nor false".into()),
        }
    }

    /// Whether a measurement is as a condition wants it: `result` is the answer, and there are functions for what may be wrong with it.
    /// Numbers that JSON does not have are the texts `NaN`, `+Inf` and `-Inf`; what is not in a list is an error, not nil.
    pub fn holds_for(&self, result: &Value, now: Timestamp) -> Result<bool, String> {
        let vars = serde_json::json!({"result": result});
        match Run::measuring(&vars, now).value(&self.root)? {
            Thing::Json(Value::Bool(answer)) => Ok(answer),
            Thing::Json(other) => Err(format!("expected bool, but got {other}")),
            _ => Err("expected bool, but got a time".into()),
        }
    }

    /// The value as people write it; nothing is the empty text.
    pub fn text(&self, vars: &Value, now: Timestamp) -> Result<String, String> {
        Run::new(vars, now).value(&self.root).map(shown)
    }

    /// The same for values that become known one after the other: what is not there yet is an error that ends with [`UNKNOWN`], unless the
    /// author asked (`?.`, `??`). `others` has the functions of a library, by `library.function` and arguments.
    pub fn text_of_known(&self, vars: &Value, now: Timestamp, others: Others<'_>) -> Result<String, String> {
        Run::strict(vars, now, others).value(&self.root).map(shown)
    }
}

/// Functions that this room does not have: `None` where there is no such function.
pub type Others<'a> = &'a dyn Fn(&str, &[Value]) -> Option<Result<Value, String>>;

/// How the sentence about a name ends that nobody knows.
pub const UNKNOWN: &str = "is not known here";

fn shown(thing: Thing) -> String {
    match thing {
        Thing::Json(Value::String(text)) => text,
        Thing::Json(Value::Null) => String::new(),
        Thing::Json(other) => functions::printed(&other),
        Thing::Time(time) => time.to_string(),
        Thing::Seconds(seconds) => seconds.to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn conditions_as_people_write_them() {
        let vars = json!({"app": {
            "metadata": {"name": "shop", "labels": {"team": "blue"}},
            "status": {"health": {"status": "Degraded"}, "sync": {"status": "Synced"},
                "operationState": {"phase": "Running", "startedAt": "2026-01-01T00:00:00Z"},
                "conditions": [{"type": "SyncError", "message": "no"}]}}});
        let now: Timestamp = "2026-01-01T00:06:00Z".parse().expect("a time");
        for (text, expected) in [
            ("app.status.operationState.phase in ['Running']", true),
            ("app.status.operationState.phase in ['Error', 'Failed']", false),
            ("app.status.operationState.phase not in ['Error']", true),
            (
                "app.status.operationState != nil and app.status.operationState.phase in ['Running'] && app.status.health.status == 'Degraded'",
                true,
            ),
            ("app.status.nothing.at.all == nil", true),
            ("app.status?.operationState?.finishedAt == nil", true),
            ("time.Now().Sub(time.Parse(app.status.operationState.startedAt)).Minutes() >= 5", true),
            ("time.Now().Sub(time.Parse(app.status.operationState.startedAt)).Hours() > 1", false),
            ("any(app.status.conditions, {#.type == 'SyncError'})", true),
            ("all(app.status.conditions, {.type endsWith 'Warning'})", false),
            ("len(app.status.conditions) == 1 and not (app.metadata.name startsWith 'x')", true),
            ("app.metadata.labels['team'] == \"blue\" ? true : false", true),
            ("app.metadata.name matches '^sh.p$' || false", true),
            ("(app.status.missing ?? 'x') == 'x'", true),
            ("1 + 2 * 3 == 7", true),
        ] {
            let parsed = Expression::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(parsed.is_true(&vars, now), Ok(expected), "{text}");
        }
        let once = Expression::parse("app.metadata.name + '!'").expect("readable");
        assert_eq!(once.text(&vars, now), Ok("shop!".to_owned()));
    }

    #[test]
    fn values_are_computed_and_what_is_not_known_yet_is_an_error() {
        let vars = json!({"inputs": {"parameters": {"n": "3", "list": "[1, 2, 3]", "name": "shop"}}, "item": {"a-b": "x"}});
        let others = |name: &str, arguments: &[Value]| {
            (name == "sprig.twice").then(|| Ok(json!(arguments[0].as_str().unwrap_or_default().repeat(2))))
        };
        let text = |text: &str| {
            Expression::parse(text).and_then(|one| one.text_of_known(&vars, Timestamp::UNIX_EPOCH, &others))
        };
        for (expression, wanted) in [
            ("asInt(inputs.parameters.n) + 1", "4"),
            ("asInt(inputs.parameters.n) * 2 - 1", "5"),
            ("7 / 2", "3.5"),
            ("6 / 2", "3"),
            ("7 % 4", "3"),
            ("2 ** 10", "1024"),
            ("asFloat('1.5') + 1", "2.5"),
            ("string(3) + 'x'", "3x"),
            ("toJson({a: 1, 'b': [1, 2]})", r#"{"a":1,"b":[1,2]}"#),
            ("jsonpath(inputs.parameters.list, '$[1]')", "2"),
            ("fromJSON(inputs.parameters.list)[0:2]", "[1,2]"),
            ("fromJSON(inputs.parameters.list) | map({# * 2}) | filter({# > 2})", "[4,6]"),
            ("reduce([1, 2, 3], #acc + #)", "6"),
            ("sum([1, 2, 3])", "6"),
            ("join(split('a,b,c', ','), '-')", "a-b-c"),
            ("trim('  x ') + upper('y') + replace('aba', 'a', 'c')", "xYcbc"),
            ("first([1, 2]) + last([3, 4]) + max(1, 9) + min([2, 1])", "15"),
            ("len(1..5)", "5"),
            ("'b' in ['a', 'b'] ? 'yes' : 'no'", "yes"),
            ("item['a-b']", "x"),
            ("inputs.parameters?.nobody", ""),
            ("inputs.parameters.nobody ?? 'default'", "default"),
            ("keys({b: 1, a: 2})", r#"["a","b"]"#),
            ("sprig.twice(inputs.parameters.name)", "shopshop"),
            ("inputs.parameters.name[1:]", "hop"),
            ("[1, 2, 3][-1]", "3"),
            ("[1, 2, 3][-4] ?? 'none'", "none"),
            ("uniq([1, 'a', 1, 'a', [2], [2]])", r#"[1,"a",[2]]"#),
            ("sort([3, 1, 2])", "[1,2,3]"),
            ("toBase64('a') + fromBase64('Yg==')", "YQ==b"),
        ] {
            assert_eq!(text(expression), Ok(wanted.to_owned()), "{expression}");
        }
        for expression in [
            "inputs.parameters.nobody",
            "inputs['nobody']",
            "nobody.at.all",
            "inputs.parameters.nobody + 'x'",
        ] {
            let error = text(expression).expect_err("it is not known");
            assert!(error.ends_with(UNKNOWN), "{expression}: {error}");
        }
        for expression in
            ["sprig.nobody('x')", "asInt('x')", "fromJSON('{')", "repeat('x', 100000000)", "1..100000000"]
        {
            assert!(text(expression).is_err(), "{expression}");
        }
    }

    #[test]
    fn a_measurement_is_judged_and_what_is_missing_is_an_error() {
        let now = Timestamp::UNIX_EPOCH;
        let holds =
            |text: &str, result: Value| Expression::parse(text).and_then(|one| one.holds_for(&result, now));
        for (text, result, wanted) in [
            ("result[0] >= 0.95", json!([0.97]), true),
            ("result[0] >= 0.95", json!([0.5]), false),
            ("result[0] >= 0.95", json!(["NaN"]), false),
            ("result[0] < 0.95", json!(["NaN"]), false),
            ("isNaN(result[0]) || result[0] > 1", json!(["NaN"]), true),
            ("isInf(result[0])", json!(["+Inf"]), true),
            ("result[0] > 1", json!(["+Inf"]), true),
            ("len(result) == 0 || result[0] > 1", json!([]), true),
            ("all(result, # > 0.5)", json!([0.6, 0.7]), true),
            ("all(result, {# > 0.5})", json!([0.6, 0.4]), false),
            ("default(result, 0) < 0.05", json!(null), true),
            ("isNil(result)", json!(null), true),
            ("asFloat(result) > 1.5", json!("1.7"), true),
            ("asInt(result) == 3", json!("3"), true),
            ("result.status == 'ok' && result.count >= 10", json!({"status": "ok", "count": 11}), true),
            ("result == 'true'", json!("true"), true),
            ("result", json!(true), true),
        ] {
            assert_eq!(holds(text, result.clone()), Ok(wanted), "{text} of {result}");
        }
        for (text, result) in [
            ("result[0] >= 0.95", json!([])),
            ("result[0] >= 0.95", json!(null)),
            ("result >= 0.95", json!("abc")),
            ("result", json!(1)),
            ("asInt(result) > 1", json!("x")),
            ("nobody(result)", json!(1)),
        ] {
            assert!(holds(text, result.clone()).is_err(), "{text} of {result}");
        }
    }

    #[test]
    fn what_is_wrong_or_hostile_ends_with_a_sentence() {
        let now = Timestamp::UNIX_EPOCH;
        for text in ["", "a ==", "'open", "(((", "app.", "any(app)", "1 @ 2"] {
            let outcome = Expression::parse(text).and_then(|e| e.is_true(&json!({"app": {}}), now));
            assert!(outcome.is_err(), "{text}");
        }
        assert!(Expression::parse(&"(".repeat(5_000)).is_err());
        assert!(Expression::parse(&"!".repeat(5_000)).is_err());
        // Trees that would be deeper than a stack.
        for text in [
            "1+".repeat(4_000) + "1",
            "a".to_owned() + &".a".repeat(4_000),
            "a".to_owned() + &"[0]".repeat(2_500),
        ] {
            assert!(Expression::parse(&text).is_err(), "{}", text.len());
        }
        let longest = "1+".repeat(99) + "1";
        assert_eq!(Expression::parse(&longest).and_then(|one| one.text(&json!({}), now)), Ok("100".into()));
        // Values that would be larger than a machine, or deeper than a stack.
        let big = json!({"text": "x".repeat(1 << 20), "list": vec!["y"; 9_000]});
        for text in [
            "map(1..9000, {text})",
            "reduce(1..100, concat(#acc, #acc), [1])",
            "replace(text, 'x', text)",
            "join(list, text)",
            "reduce(1..9000, [#acc], 1)",
            "filter(list, {# in list})",
            "map(1..9000, {'a' matches string(#)})",
        ] {
            let outcome = Expression::parse(text).and_then(|one| one.text(&big, now));
            assert!(outcome.is_err(), "{text}: {outcome:?}");
        }
        // What is only named costs what it is, not what stands around it.
        let named = Expression::parse("len(filter(list, {# == one.two}))").expect("readable");
        let vars = json!({"list": vec!["y"; 5_000], "one": {"two": "y", "text": "x".repeat(1 << 20)}});
        assert_eq!(named.text(&vars, now), Ok("5000".into()));
        let many = json!({"l": vec![0; 1_000]});
        let nested = Expression::parse("all(l, {all(l, {all(l, {true})})})").expect("readable");
        assert!(nested.is_true(&many, now).is_err(), "it is ended");
    }
}
