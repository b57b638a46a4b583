//! Running jq expressions, each step for a unit of fuel.

use super::{Filter, JqError, Operator, Step, functions};
use serde_json::Value;
use std::borrow::Cow;
use std::cell::Cell;
use std::cmp::Ordering;

/// Enough for `..` over a very large object, little enough to end at once.
const FUEL: u32 = 400_000;

/// A value and, while it is still a place in the object, its path.
#[derive(Debug, Clone)]
pub(super) struct Node<'v> {
    pub(super) value: Cow<'v, Value>,
    pub(super) path: Option<Vec<Step>>,
}

impl<'v> Node<'v> {
    /// A value that is no place.
    pub(super) fn computed(value: Value) -> Self {
        Self { value: Cow::Owned(value), path: None }
    }

    fn child(&self, step: Step, value: Cow<'v, Value>) -> Self {
        let path = self.path.as_ref().map(|path| {
            let mut path = path.clone();
            path.push(step);
            path
        });
        Self { value, path }
    }
}

pub(super) type Nodes<'v> = Result<Vec<Node<'v>>, JqError>;

pub(super) struct Machine {
    fuel: Cell<u32>,
}

/// The places that an expression names.
pub(super) fn paths(filter: &Filter, object: &Value) -> Result<Vec<Vec<Step>>, JqError> {
    let machine = Machine { fuel: Cell::new(FUEL) };
    let root = Node { value: Cow::Borrowed(object), path: Some(Vec::new()) };
    machine.run(filter, &root)?.into_iter().map(|node| node.path.ok_or(JqError::NotAPath)).collect()
}

fn failed(message: impl Into<String>) -> JqError {
    JqError::Failed(message.into())
}

impl Machine {
    pub(super) fn spend(&self, units: usize) -> Result<(), JqError> {
        let left = self.fuel.get().checked_sub(units.max(1) as u32).ok_or(JqError::TooMuchWork)?;
        self.fuel.set(left);
        Ok(())
    }

    /// All outputs of a filter for one input.
    pub(super) fn run<'v>(&self, filter: &Filter, input: &Node<'v>) -> Nodes<'v> {
        self.spend(1)?;
        match filter {
            Filter::Identity => Ok(vec![input.clone()]),
            Filter::Recurse => {
                let mut all = Vec::new();
                self.recurse(input, &mut all)?;
                Ok(all)
            }
            Filter::Field(name) => Ok(vec![self.field(input, name)?]),
            Filter::Index(index) => self.index(input, index),
            Filter::Iterate => self.iterate(input),
            Filter::Try(inner) => match self.run(inner, input) {
                Err(JqError::Failed(_)) => Ok(Vec::new()),
                other => other,
            },
            Filter::Pipe(first, second) => self.each(first, input, |node| self.run(second, &node)),
            Filter::Comma(first, second) => {
                let mut all = self.run(first, input)?;
                all.extend(self.run(second, input)?);
                Ok(all)
            }
            Filter::Alternative(first, second) => {
                let good: Vec<Node<'v>> = match self.run(first, input) {
                    Ok(nodes) => nodes.into_iter().filter(|node| is_true(&node.value)).collect(),
                    Err(JqError::Failed(_)) => Vec::new(),
                    Err(other) => return Err(other),
                };
                if good.is_empty() { self.run(second, input) } else { Ok(good) }
            }
            Filter::And(first, second) => self.each(first, input, |node| {
                if !is_true(&node.value) {
                    return Ok(vec![Node::computed(false.into())]);
                }
                self.each(second, input, |node| Ok(vec![Node::computed(is_true(&node.value).into())]))
            }),
            Filter::Or(first, second) => self.each(first, input, |node| {
                if is_true(&node.value) {
                    return Ok(vec![Node::computed(true.into())]);
                }
                self.each(second, input, |node| Ok(vec![Node::computed(is_true(&node.value).into())]))
            }),
            Filter::Binary(operator, left, right) => self.each(right, input, |right| {
                self.each(left, input, |left| {
                    Ok(vec![Node::computed(binary(*operator, &left.value, &right.value)?)])
                })
            }),
            Filter::If(when, then, otherwise) => self.each(when, input, |node| {
                self.run(if is_true(&node.value) { then } else { otherwise }, input)
            }),
            Filter::Literal(value) => Ok(vec![Node::computed(value.clone())]),
            Filter::List(None) => Ok(vec![Node::computed(Value::Array(Vec::new()))]),
            Filter::List(Some(inner)) => {
                let items = self.run(inner, input)?.into_iter().map(|node| node.value.into_owned()).collect();
                Ok(vec![Node::computed(Value::Array(items))])
            }
            Filter::Call(name, arguments) => functions::call(self, name, arguments, input),
        }
    }

    /// Runs a filter and then something on each output.
    pub(super) fn each<'v>(
        &self,
        filter: &Filter,
        input: &Node<'v>,
        mut then: impl FnMut(Node<'v>) -> Nodes<'v>,
    ) -> Nodes<'v> {
        let mut all = Vec::new();
        for node in self.run(filter, input)? {
            let outputs = then(node)?;
            self.spend(outputs.len())?;
            all.extend(outputs);
        }
        Ok(all)
    }

    pub(super) fn recurse<'v>(&self, node: &Node<'v>, all: &mut Vec<Node<'v>>) -> Result<(), JqError> {
        self.spend(1)?;
        all.push(node.clone());
        if node.value.is_object() || node.value.is_array() {
            for child in self.iterate(node)? {
                self.recurse(&child, all)?;
            }
        }
        Ok(())
    }

    pub(super) fn iterate<'v>(&self, node: &Node<'v>) -> Nodes<'v> {
        let children: Vec<Node<'v>> = match &node.value {
            Cow::Borrowed(Value::Object(map)) => map
                .iter()
                .map(|(name, value)| node.child(Step::Field(name.clone()), Cow::Borrowed(value)))
                .collect(),
            Cow::Borrowed(Value::Array(list)) => list
                .iter()
                .enumerate()
                .map(|(index, value)| node.child(Step::Index(index), Cow::Borrowed(value)))
                .collect(),
            Cow::Owned(Value::Object(map)) => map
                .iter()
                .map(|(name, value)| node.child(Step::Field(name.clone()), Cow::Owned(value.clone())))
                .collect(),
            Cow::Owned(Value::Array(list)) => list
                .iter()
                .enumerate()
                .map(|(index, value)| node.child(Step::Index(index), Cow::Owned(value.clone())))
                .collect(),
            other => return Err(failed(format!("cannot iterate over {}", type_name(other)))),
        };
        self.spend(children.len())?;
        Ok(children)
    }

    fn field<'v>(&self, node: &Node<'v>, name: &str) -> Result<Node<'v>, JqError> {
        let value = match &node.value {
            Cow::Borrowed(Value::Object(map)) => map.get(name).map_or(Cow::Owned(Value::Null), Cow::Borrowed),
            Cow::Owned(Value::Object(map)) => Cow::Owned(map.get(name).cloned().unwrap_or_default()),
            other if other.is_null() => Cow::Owned(Value::Null),
            other => return Err(failed(format!("cannot index {} with \"{name}\"", type_name(other)))),
        };
        Ok(node.child(Step::Field(name.to_string()), value))
    }

    fn index<'v>(&self, node: &Node<'v>, index: &Filter) -> Nodes<'v> {
        self.each(index, node, |key| match key.value.as_ref() {
            Value::String(name) => Ok(vec![self.field(node, name)?]),
            Value::Number(number) => {
                let wanted = number.as_f64().unwrap_or(0.0).floor() as i64;
                let Some(list) = node.value.as_array() else {
                    return if node.value.is_null() {
                        Ok(vec![Node::computed(Value::Null)])
                    } else {
                        Err(failed(format!("cannot index {} with a number", type_name(&node.value))))
                    };
                };
                let at = if wanted < 0 { wanted + list.len() as i64 } else { wanted };
                let at = usize::try_from(at).unwrap_or(usize::MAX);
                let value = match &node.value {
                    Cow::Borrowed(Value::Array(list)) => {
                        list.get(at).map_or(Cow::Owned(Value::Null), Cow::Borrowed)
                    }
                    _ => Cow::Owned(list.get(at).cloned().unwrap_or_default()),
                };
                Ok(vec![node.child(Step::Index(at), value)])
            }
            other => Err(failed(format!("cannot index with {}", type_name(other)))),
        })
    }
}

/// In jq only `false` and `null` are not true.
pub(super) fn is_true(value: &Value) -> bool {
    !(value.is_null() || value.as_bool() == Some(false))
}

pub(super) fn type_name(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    }
}

fn binary(operator: Operator, left: &Value, right: &Value) -> Result<Value, JqError> {
    let order = || compare(left, right);
    Ok(match operator {
        Operator::Equal => order().is_eq().into(),
        Operator::NotEqual => order().is_ne().into(),
        Operator::Less => order().is_lt().into(),
        Operator::LessOrEqual => order().is_le().into(),
        Operator::Greater => order().is_gt().into(),
        Operator::GreaterOrEqual => order().is_ge().into(),
        Operator::Plus | Operator::Minus => arithmetic(operator, left, right)?,
    })
}

fn arithmetic(operator: Operator, left: &Value, right: &Value) -> Result<Value, JqError> {
    match (operator, left, right) {
        (Operator::Plus, Value::Null, other) | (Operator::Plus, other, Value::Null) => Ok(other.clone()),
        (Operator::Plus, Value::String(a), Value::String(b)) if a.len() + b.len() < 1 << 16 => {
            Ok(format!("{a}{b}").into())
        }
        (_, Value::Number(a), Value::Number(b)) => {
            let (a, b) = (a.as_f64().unwrap_or(0.0), b.as_f64().unwrap_or(0.0));
            Ok(number(if operator == Operator::Plus { a + b } else { a - b }))
        }
        _ => Err(failed(format!("cannot calculate with {} and {}", type_name(left), type_name(right)))),
    }
}

pub(super) fn number(value: f64) -> Value {
    if value.fract() == 0.0 && value.abs() < 9e15 {
        return (value as i64).into();
    }
    serde_json::Number::from_f64(value).map_or(Value::Null, Value::Number)
}

/// jq's order: null, false, true, numbers, strings, arrays, objects.
pub(super) fn compare(left: &Value, right: &Value) -> Ordering {
    let rank = |value: &Value| match value {
        Value::Null => 0,
        Value::Bool(false) => 1,
        Value::Bool(true) => 2,
        Value::Number(_) => 3,
        Value::String(_) => 4,
        Value::Array(_) => 5,
        Value::Object(_) => 6,
    };
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => {
            a.as_f64().partial_cmp(&b.as_f64()).unwrap_or(Ordering::Equal)
        }
        (Value::String(a), Value::String(b)) => a.cmp(b),
        (Value::Array(a), Value::Array(b)) => {
            a.iter().zip(b).map(|(a, b)| compare(a, b)).find(|o| o.is_ne()).unwrap_or(a.len().cmp(&b.len()))
        }
        (Value::Object(a), Value::Object(b)) => a.keys().cmp(b.keys()).then_with(|| {
            a.values()
                .zip(b.values())
                .map(|(a, b)| compare(a, b))
                .find(|o| o.is_ne())
                .unwrap_or(Ordering::Equal)
        }),
        _ => rank(left).cmp(&rank(right)),
    }
}
