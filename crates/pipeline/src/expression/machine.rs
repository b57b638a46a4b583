//! Runs a program over a stack of values.

use serde_json::{Map, Value as Json};

use super::function::{self, arity};
use super::parser::{Binary, Code, Op, Unary};
use super::value::Value;
use super::{ExpressionError, Reference, STRING_BYTES_MAX};

pub(super) fn run(program: &[Op], scope: &Map<String, Json>) -> Result<bool, ExpressionError> {
    match result(program, scope)? {
        None => Ok(false),
        Some(Value::Object(_)) => {
            let reason =
                "the result is an object, which is neither true nor false; compare one of its members";
            Err(ExpressionError::new(1, reason))
        }
        Some(value) => Ok(value.is_truthy()),
    }
}

/// Nothing but true and false counts.
pub(super) fn run_strictly(program: &[Op], scope: &Map<String, Json>) -> Result<bool, ExpressionError> {
    let kind = match result(program, scope)? {
        Some(Value::Boolean(result)) => return Ok(result),
        Some(Value::String(_)) => "text",
        Some(Value::Number(_)) => "a number",
        Some(Value::Object(_)) => "an object",
        Some(Value::Null) | None => "nothing",
    };
    let reason = format!(
        "this is not a condition: the result is {kind}, not true or false; compare it with something"
    );
    Err(ExpressionError::new(1, reason))
}

fn result(program: &[Op], scope: &Map<String, Json>) -> Result<Option<Value>, ExpressionError> {
    let mut stack: Vec<Value> = Vec::new();
    for op in program {
        let fail = |reason: String| ExpressionError::new(op.column, reason);
        let value = match &op.code {
            Code::Push(value) => value.clone(),
            Code::Load(name) => load(scope, name).map_err(fail)?,
            Code::Member(name) => member(&pop(&mut stack), name).map_err(fail)?,
            Code::Unary(operator) => unary(*operator, &pop(&mut stack)).map_err(fail)?,
            Code::Binary(operator) => {
                let right = pop(&mut stack);
                let left = pop(&mut stack);
                binary(*operator, left, right).map_err(fail)?
            }
            Code::Call { name, arguments } => {
                let arguments = stack.split_off(stack.len().saturating_sub(*arguments));
                function::call(name, arguments, scope).map_err(fail)?
            }
        };
        if let Value::String(text) = &value
            && text.len() > STRING_BYTES_MAX
        {
            return Err(fail(format!("the text grows past {STRING_BYTES_MAX} bytes")));
        }
        stack.push(value);
    }
    Ok(stack.pop())
}

/// What can be said without values. Reads are listed with their member path.
pub(super) fn check(program: &[Op]) -> Result<Vec<Reference>, ExpressionError> {
    let mut references: Vec<Reference> = Vec::new();
    let mut loading = false;
    for op in program {
        match &op.code {
            Code::Load(name) => {
                references.push(Reference { column: op.column, path: vec![name.clone()] });
                loading = true;
                continue;
            }
            Code::Member(name) if loading => {
                if let Some(reference) = references.last_mut() {
                    reference.path.push(name.clone());
                }
                continue;
            }
            Code::Call { name, arguments } => match arity(name) {
                None => return Err(ExpressionError::new(op.column, function::unknown(name))),
                Some(wanted) if wanted != *arguments => {
                    return Err(ExpressionError::new(
                        op.column,
                        function::wrong_count(name, wanted, *arguments),
                    ));
                }
                Some(_) => {}
            },
            _ => {}
        }
        loading = false;
    }
    Ok(references)
}

fn pop(stack: &mut Vec<Value>) -> Value {
    stack.pop().expect("the parser emits an operand before every operator")
}

pub(super) fn load(scope: &Map<String, Json>, name: &str) -> Result<Value, String> {
    let json = scope
        .get(name)
        .ok_or_else(|| format!("there is no variable `{name}`; put quotes around text, or define it"))?;
    Value::from_json(json).ok_or_else(|| format!("`{name}` is a list, which the language cannot read"))
}

pub(super) fn member(object: &Value, name: &str) -> Result<Value, String> {
    // The only member a text has of its own in JavaScript that a dot can reach.
    if let (Value::String(text), "length") = (object, name) {
        return Ok(Value::Number(text.encode_utf16().count() as f64));
    }
    let Value::Object(members) = object else {
        return Err(format!("a {} has no member `{name}`", object.kind()));
    };
    let json = members.get(name).ok_or_else(|| format!("there is no member `{name}`"))?;
    Value::from_json(json).ok_or_else(|| format!("`{name}` is a list, which the language cannot read"))
}

fn unary(operator: Unary, value: &Value) -> Result<Value, String> {
    match (operator, value) {
        (Unary::Not, Value::Number(_) | Value::Boolean(_)) => Ok(Value::Boolean(!value.is_truthy())),
        (Unary::Minus, Value::Number(number)) => Ok(Value::Number(-number)),
        (Unary::Plus, Value::Number(number)) => Ok(Value::Number(*number)),
        (Unary::Not, _) => Err(format!("`!` takes a number or a boolean, not a {}", value.kind())),
        (_, _) => Err(format!("a sign takes a number, not a {}", value.kind())),
    }
}

fn binary(operator: Binary, left: Value, right: Value) -> Result<Value, String> {
    let mismatch = || {
        format!(
            "`{}` cannot work on a {} and a {}; convert with String(), Number() or Boolean()",
            operator.symbol(),
            left.kind(),
            right.kind()
        )
    };
    match operator {
        Binary::And | Binary::Or => match (&left, &right) {
            (Value::Boolean(a), Value::Boolean(b)) => {
                Ok(Value::Boolean(if operator == Binary::And { *a && *b } else { *a || *b }))
            }
            _ => Err(mismatch()),
        },
        Binary::Equal | Binary::NotEqual => {
            let equal = equal(&left, &right).ok_or_else(mismatch)?;
            Ok(Value::Boolean(equal == (operator == Binary::Equal)))
        }
        Binary::Less | Binary::Greater | Binary::LessEqual | Binary::GreaterEqual => {
            let order = match (&left, &right) {
                (Value::Number(a), Value::Number(b)) => a.partial_cmp(b),
                // JavaScript orders text by UTF-16 units, which differs from UTF-8 above U+FFFF.
                (Value::String(a), Value::String(b)) => Some(a.encode_utf16().cmp(b.encode_utf16())),
                _ => return Err(mismatch()),
            };
            Ok(Value::Boolean(order.is_some_and(|order| match operator {
                Binary::Less => order.is_lt(),
                Binary::Greater => order.is_gt(),
                Binary::LessEqual => order.is_le(),
                _ => order.is_ge(),
            })))
        }
        Binary::Add => match (&left, &right) {
            (Value::Number(a), Value::Number(b)) => Ok(Value::Number(a + b)),
            (Value::String(a), Value::String(b)) => Ok(Value::String(format!("{a}{b}"))),
            _ => Err(mismatch()),
        },
        Binary::Subtract | Binary::Multiply | Binary::Divide | Binary::Modulo => {
            let (Value::Number(a), Value::Number(b)) = (&left, &right) else {
                return Err(mismatch());
            };
            let (result, broken) = match operator {
                Binary::Subtract => (a - b, false),
                Binary::Multiply => (a * b, a * b == f64::INFINITY),
                Binary::Divide => (a / b, a / b == f64::INFINITY),
                _ => (a % b, (a % b).is_nan()),
            };
            if broken {
                Err(format!("`{}` has no finite result here", operator.symbol()))
            } else {
                Ok(Value::Number(result))
            }
        }
    }
}

/// `None` when the two kinds may not be compared.
fn equal(left: &Value, right: &Value) -> Option<bool> {
    match (left, right) {
        (Value::Number(a), Value::Number(b)) => Some(a == b),
        (Value::String(a), Value::String(b)) => Some(a == b),
        (Value::Boolean(a), Value::Boolean(b)) => Some(a == b),
        (Value::Object(a), Value::Object(b)) => Some(a == b),
        (Value::Null, Value::Null) => Some(true),
        (Value::Null, Value::String(_) | Value::Object(_))
        | (Value::String(_) | Value::Object(_), Value::Null) => Some(false),
        _ => None,
    }
}
