//! Tree and variables → value.

use std::cmp::Ordering;

use jiff::Timestamp;
use serde_json::{Map, Value, json};

use super::functions;
use super::values::{arithmetic, contains, equal, float, has, order};
use super::{Node, Others, UNKNOWN};

/// Nodes that may be looked at, predicates counted for each item.
const STEPS_MAX: usize = 100_000;

/// What all values on the way may weigh together, in bytes; it also counts what is only looked through.
const WEIGHT_MAX: usize = 64 << 20;
/// Lists of lists of lists: deeper ones could not even be let go of.
const VALUE_DEPTH_MAX: usize = 100;
/// What a function of a library and a pattern cost besides.
const CALL_WEIGHT: usize = 16 << 10;
const PATTERN_WEIGHT: usize = 256 << 10;

/// A value of an expression: JSON, or what the `time` functions give.
#[derive(Debug, Clone)]
pub(super) enum Thing {
    Json(Value),
    Time(Timestamp),
    Seconds(f64),
}

/// One evaluation.
pub(super) struct Run<'a> {
    vars: &'a Value,
    now: Timestamp,
    steps: usize,
    weight: usize,
    /// The last one: most texts are compared with the same.
    pattern: Option<(String, regex::Regex)>,
    item: Option<Value>,
    /// `#acc` of a reduction.
    sum: Option<Value>,
    /// A measurement is judged: see [`super::Expression::holds_for`].
    measuring: bool,
    /// What is not there is an error: see [`super::Expression::text_of_known`].
    others: Option<Others<'a>>,
}

impl<'a> Run<'a> {
    pub(super) fn new(vars: &'a Value, now: Timestamp) -> Self {
        Self {
            vars,
            now,
            steps: 0,
            weight: 0,
            pattern: None,
            item: None,
            sum: None,
            measuring: false,
            others: None,
        }
    }

    pub(super) fn strict(vars: &'a Value, now: Timestamp, others: Others<'a>) -> Self {
        Self { others: Some(others), ..Self::new(vars, now) }
    }

    pub(super) fn measuring(vars: &'a Value, now: Timestamp) -> Self {
        Self { measuring: true, ..Self::new(vars, now) }
    }

    pub(super) fn value(&mut self, node: &Node) -> Result<Thing, String> {
        self.steps += 1;
        if self.steps > STEPS_MAX {
            return Err("the expression takes too long".into());
        }
        let found = match self.place(node) {
            Some(found) => Thing::Json(found.clone()),
            None => self.computed(node)?,
        };
        if let Thing::Json(value) = &found {
            self.weigh(weight(value, 0)?)?;
        }
        Ok(found)
    }

    fn weigh(&mut self, weight: usize) -> Result<(), String> {
        self.weight = self.weight.saturating_add(weight);
        if self.weight > WEIGHT_MAX { Err("the expression takes too much memory".into()) } else { Ok(()) }
    }

    /// What a name or a way from one stands for, where it is: nothing around it is copied.
    fn place(&self, node: &Node) -> Option<&Value> {
        match node {
            Node::Name(name) => self.vars.get(name),
            Node::Item => self.item.as_ref(),
            Node::Sum => self.sum.as_ref(),
            Node::Member(of, name, _) => self.place(of)?.get(name),
            _ => None,
        }
    }

    /// Each kind in a function of its own: a tree is as deep as its stack, and only what is needed is on it.
    fn computed(&mut self, node: &Node) -> Result<Thing, String> {
        match node {
            Node::Literal(value) => Ok(Thing::Json(value.clone())),
            Node::List(items) => self.list(items),
            Node::Map(entries) => self.map(entries),
            Node::Name(name) => Err(format!("`{name}` {UNKNOWN}")),
            Node::Item => Err("`#` stands outside of a predicate".into()),
            Node::Sum => Err("`#acc` stands outside of a reduction".into()),
            Node::Member(of, name, optional) => self.member(of, name, *optional),
            Node::Index(of, index) => self.index(of, index),
            Node::Slice(of, from, to) => self.slice(of, from.as_deref(), to.as_deref()),
            Node::Call(function, arguments) => self.call(function, arguments),
            Node::Unary(operator, inner) => self.unary(operator, inner),
            Node::Binary(operator, left, right) => self.binary(operator, left, right),
            Node::Choice(condition, yes, no) => {
                if self.truth(condition)? {
                    self.value(yes)
                } else {
                    self.value(no)
                }
            }
        }
    }

    fn list(&mut self, items: &[Node]) -> Result<Thing, String> {
        let items: Result<Vec<Value>, String> = items.iter().map(|item| self.json(item)).collect();
        Ok(Thing::Json(Value::Array(items?)))
    }

    fn map(&mut self, entries: &[(String, Node)]) -> Result<Thing, String> {
        let entries: Result<Map<String, Value>, String> =
            entries.iter().map(|(key, value)| Ok((key.clone(), self.json(value)?))).collect();
        Ok(Thing::Json(Value::Object(entries?)))
    }

    /// What an Application does not have is nil, as its status grows with time.
    fn member(&mut self, of: &Node, name: &str, optional: bool) -> Result<Thing, String> {
        match self.value(of)? {
            Thing::Json(value) => match value.get(name) {
                None if self.others.is_some() && !optional => Err(format!("`{name}` {UNKNOWN}")),
                found => Ok(Thing::Json(found.cloned().unwrap_or_default())),
            },
            _ => Err(format!("a time has no `{name}`")),
        }
    }

    fn index(&mut self, of: &Node, index: &Node) -> Result<Thing, String> {
        let (of, index) = (self.json(of)?, self.json(index)?);
        let found = match &index {
            Value::String(key) => of.get(key),
            other => other.as_f64().and_then(|index| {
                // From the end.
                let length = of.as_array().map_or(0, Vec::len) as f64;
                let index = if index < 0.0 { index + length } else { index };
                of.get(index as usize).filter(|_| index >= 0.0)
            }),
        };
        if found.is_none() && self.measuring && !index.is_string() {
            return Err(format!("index out of range: there is no item {index}"));
        }
        if found.is_none() && self.others.is_some() && index.is_string() {
            return Err(format!("{index} {UNKNOWN}"));
        }
        Ok(Thing::Json(found.cloned().unwrap_or_default()))
    }

    fn slice(&mut self, of: &Node, from: Option<&Node>, to: Option<&Node>) -> Result<Thing, String> {
        let of = self.json(of)?;
        let from = from.map(|from| self.json(from)).transpose()?;
        let to = to.map(|to| self.json(to)).transpose()?;
        functions::slice(&of, from.as_ref(), to.as_ref()).map(Thing::Json)
    }

    fn unary(&mut self, operator: &str, inner: &Node) -> Result<Thing, String> {
        if operator == "!" {
            return Ok(Thing::Json(json!(!self.truth(inner)?)));
        }
        let value = self.json(inner)?;
        match value.as_i64().and_then(i64::checked_neg) {
            Some(whole) => Ok(Thing::Json(json!(whole))),
            None => Ok(Thing::Json(json!(-value.as_f64().ok_or_else(|| format!("{value} is no number"))?))),
        }
    }

    fn binary(&mut self, operator: &str, left: &Node, right: &Node) -> Result<Thing, String> {
        match operator {
            "&&" => return Ok(Thing::Json(json!(self.truth(left)? && self.truth(right)?))),
            "||" => return Ok(Thing::Json(json!(self.truth(left)? || self.truth(right)?))),
            "??" => {
                let value = match self.value(left) {
                    Err(why) if why.ends_with(UNKNOWN) && self.others.is_some() => Thing::Json(Value::Null),
                    value => value?,
                };
                return if matches!(value, Thing::Json(Value::Null)) { self.value(right) } else { Ok(value) };
            }
            _ => {}
        }
        let a = self.value(left)?;
        if matches!(operator, "in" | "not in")
            && let Some(all) = self.place(right)
        {
            // A list that is only named is not copied for each question.
            let (answer, looked_at) = (has(all, &a), all.as_array().map_or(0, Vec::len));
            self.weigh(looked_at.saturating_mul(size_of::<usize>()))?;
            return Ok(Thing::Json(json!(answer == (operator == "in"))));
        }
        let b = self.value(right)?;
        self.compared(operator, &a, &b)
    }

    fn compared(&mut self, operator: &str, a: &Thing, b: &Thing) -> Result<Thing, String> {
        if self.measuring
            && matches!(operator, "<" | "<=" | ">" | ">=")
            && let (Some(a), Some(b)) = (float(a), float(b))
        {
            // With what is no number every comparison is false.
            return Ok(Thing::Json(json!(match operator {
                "<" => a < b,
                "<=" => a <= b,
                ">" => a > b,
                _ => a >= b,
            })));
        }
        let answer = match operator {
            "==" => equal(a, b),
            "!=" => !equal(a, b),
            "<" | "<=" | ">" | ">=" => {
                let order = order(a, b).ok_or_else(|| format!("`{operator}` compares what has no order"))?;
                match operator {
                    "<" => order == Ordering::Less,
                    "<=" => order != Ordering::Greater,
                    ">" => order == Ordering::Greater,
                    _ => order != Ordering::Less,
                }
            }
            "in" => contains(b, a),
            "not in" => !contains(b, a),
            "contains" => contains(a, b),
            "startsWith" | "endsWith" | "matches" => {
                let (Thing::Json(Value::String(text)), Thing::Json(Value::String(part))) = (a, b) else {
                    return Err(format!("`{operator}` needs two texts"));
                };
                match operator {
                    "startsWith" => text.starts_with(part.as_str()),
                    "endsWith" => text.ends_with(part.as_str()),
                    _ => self.pattern(part)?.is_match(text),
                }
            }
            _ => return arithmetic(operator, a, b),
        };
        Ok(Thing::Json(json!(answer)))
    }

    fn pattern(&mut self, text: &str) -> Result<&regex::Regex, String> {
        if self.pattern.as_ref().is_none_or(|(known, _)| known != text) {
            self.weigh(PATTERN_WEIGHT)?;
            let regex = regex::RegexBuilder::new(text).size_limit(1 << 20).build();
            let regex = regex.map_err(|_| format!("`{text}` is not a pattern"))?;
            self.pattern = Some((text.to_owned(), regex));
        }
        Ok(&self.pattern.as_ref().expect("made just now").1)
    }

    fn call(&mut self, function: &Node, arguments: &[Node]) -> Result<Thing, String> {
        match function {
            Node::Name(name) => self.plain_call(name, arguments),
            Node::Member(of, name, _) => {
                if let Node::Name(group) = &**of
                    && self.vars.get(group).is_none_or(serde_json::Value::is_null)
                {
                    if let Some(others) = self.others.filter(|_| group != "time") {
                        let name = format!("{group}.{name}");
                        let values: Result<Vec<Value>, String> =
                            arguments.iter().map(|argument| self.json(argument)).collect();
                        self.weigh(CALL_WEIGHT)?;
                        return match others(&name, &values?) {
                            Some(answer) => answer.map(Thing::Json).map_err(|why| format!("{name}: {why}")),
                            None => Err(format!("there is no function {name} here")),
                        };
                    }
                    return match (group.as_str(), name.as_str()) {
                        ("time", "Now") => Ok(Thing::Time(self.now)),
                        ("time", "Parse") => {
                            let text = self.json(arguments.first().ok_or("time.Parse needs a text")?)?;
                            let time = text.as_str().and_then(|text| text.parse().ok());
                            time.map(Thing::Time).ok_or_else(|| format!("{text} is not a time"))
                        }
                        _ => Err(format!("there is no function {group}.{name} here")),
                    };
                }
                let of = self.value(of)?;
                let other = arguments.first().map(|argument| self.value(argument)).transpose()?;
                match (of, name.as_str(), other) {
                    (Thing::Time(a), "Sub", Some(Thing::Time(b))) => {
                        Ok(Thing::Seconds(a.duration_since(b).as_secs_f64()))
                    }
                    (Thing::Time(a), "After", Some(Thing::Time(b))) => Ok(Thing::Json(json!(a > b))),
                    (Thing::Time(a), "Before", Some(Thing::Time(b))) => Ok(Thing::Json(json!(a < b))),
                    (Thing::Time(a), "Unix", None) => Ok(Thing::Json(json!(a.as_second()))),
                    (Thing::Seconds(a), "Seconds", None) => Ok(Thing::Json(json!(a))),
                    (Thing::Seconds(a), "Minutes", None) => Ok(Thing::Json(json!(a / 60.0))),
                    (Thing::Seconds(a), "Hours", None) => Ok(Thing::Json(json!(a / 3600.0))),
                    (_, name, _) => Err(format!("there is no method {name} here")),
                }
            }
            _ => Err("only functions can be called".into()),
        }
    }

    fn plain_call(&mut self, name: &str, arguments: &[Node]) -> Result<Thing, String> {
        if name == "now" && arguments.is_empty() {
            return Ok(Thing::Time(self.now));
        }
        let first = arguments.first().ok_or_else(|| format!("{name}() needs an argument"))?;
        let of = self.json(first)?;
        if self.measuring
            && let Some(answer) = self.measured_call(name, &of, arguments.get(1))?
        {
            return Ok(Thing::Json(answer));
        }
        match (name, arguments.get(1)) {
            ("len", None) => Ok(Thing::Json(json!(match &of {
                Value::String(text) => text.chars().count(),
                Value::Array(items) => items.len(),
                Value::Object(entries) => entries.len(),
                _ => 0,
            }))),
            ("lower", None) => Ok(Thing::Json(json!(of.as_str().unwrap_or_default().to_lowercase()))),
            ("upper", None) => Ok(Thing::Json(json!(of.as_str().unwrap_or_default().to_uppercase()))),
            ("any" | "all" | "none" | "one" | "count" | "filter" | "map", Some(predicate)) => {
                let items = of.as_array().cloned().unwrap_or_default();
                let (mut kept, mut mapped) = (Vec::new(), Vec::new());
                let outer = self.item.take();
                for item in &items {
                    self.item = Some(item.clone());
                    if name == "map" {
                        mapped.push(self.json(predicate)?);
                    } else if self.truth(predicate)? {
                        kept.push(item.clone());
                    }
                }
                self.item = outer;
                Ok(Thing::Json(match name {
                    "any" => json!(!kept.is_empty()),
                    "all" => json!(kept.len() == items.len()),
                    "none" => json!(kept.is_empty()),
                    "one" => json!(kept.len() == 1),
                    "count" => json!(kept.len()),
                    "filter" => Value::Array(kept),
                    _ => Value::Array(mapped),
                }))
            }
            ("find" | "findIndex" | "reduce", Some(predicate)) => {
                let start = arguments.get(2).map(|start| self.json(start)).transpose()?;
                self.over_items(name, &of, predicate, start).map(Thing::Json)
            }
            _ => {
                let others: Result<Vec<Value>, String> =
                    arguments[1..].iter().map(|argument| self.json(argument)).collect();
                functions::call(name, &of, &others?).map(Thing::Json)
            }
        }
    }

    fn over_items(
        &mut self,
        name: &str,
        of: &Value,
        predicate: &Node,
        start: Option<Value>,
    ) -> Result<Value, String> {
        let items = of.as_array().cloned().unwrap_or_default();
        let (outer, sum) = (self.item.take(), self.sum.take());
        let mut answer = if name == "findIndex" { json!(-1) } else { Value::Null };
        if name == "reduce" {
            self.sum = start;
        }
        for (at, item) in items.into_iter().enumerate() {
            if name == "reduce" && self.sum.is_none() {
                self.sum = Some(item);
                continue;
            }
            self.item = Some(item.clone());
            if name == "reduce" {
                self.sum = Some(self.json(predicate)?);
            } else if self.truth(predicate)? {
                answer = if name == "find" { item } else { json!(at) };
                break;
            }
        }
        if name == "reduce" {
            answer = self.sum.take().unwrap_or_default();
        }
        (self.item, self.sum) = (outer, sum);
        Ok(answer)
    }

    /// Functions for measurements alone.
    fn measured_call(
        &mut self,
        name: &str,
        of: &Value,
        other: Option<&Node>,
    ) -> Result<Option<Value>, String> {
        let value = || float(&Thing::Json(of.clone()));
        let parsed = || of.as_str().and_then(|text| text.trim().parse::<f64>().ok()).or_else(|| of.as_f64());
        Ok(Some(match (name, other) {
            ("isNaN", None) => json!(value().ok_or_else(|| format!("{of} is no number"))?.is_nan()),
            ("isInf", None) => json!(value().ok_or_else(|| format!("{of} is no number"))?.is_infinite()),
            ("isNil", None) => json!(of.is_null()),
            ("asFloat", None) => json!(parsed().ok_or_else(|| format!("{of} is no number"))?),
            ("asInt", None) => {
                let whole = parsed().filter(|number| number.fract() == 0.0);
                json!(whole.ok_or_else(|| format!("{of} is no whole number"))? as i64)
            }
            ("default", Some(other)) => {
                if of.is_null() {
                    self.json(other)?
                } else {
                    of.clone()
                }
            }
            _ => return Ok(None),
        }))
    }

    fn truth(&mut self, node: &Node) -> Result<bool, String> {
        match self.value(node)? {
            Thing::Json(Value::Bool(answer)) => Ok(answer),
            Thing::Json(other) => Err(format!("{other} is neither true nor false")),
            _ => Err("a time is neither true nor false".into()),
        }
    }

    fn json(&mut self, node: &Node) -> Result<Value, String> {
        Ok(match self.value(node)? {
            Thing::Json(value) => value,
            Thing::Time(time) => json!(time.to_string()),
            Thing::Seconds(seconds) => json!(seconds),
        })
    }
}

/// How many bytes a value is, about; an error where it is too deep.
fn weight(value: &Value, depth: usize) -> Result<usize, String> {
    if depth > VALUE_DEPTH_MAX {
        return Err("a value is nested too deeply".into());
    }
    let inner: usize = match value {
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(|item| weight(item, depth + 1)).sum::<Result<usize, _>>()?,
        Value::Object(fields) => {
            let fields = fields.iter().map(|(name, field)| Ok(name.len() + weight(field, depth + 1)?));
            fields.sum::<Result<usize, String>>()?
        }
        _ => 0,
    };
    Ok(inner + size_of::<Value>())
}
