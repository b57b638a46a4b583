//! jq path expressions: the part of jq that names places in an object.
//!
//! Comes in: an expression and an object. Goes out: the object without what the expression names, as jq's `del` does.
//!
//! It has paths, iteration, `..`, `select` with conditions, `if`, `//` and the
//! functions that conditions need. It has no `def`, `reduce`, `env`, `input` or clock, and every step costs fuel, so
//! an expression that a stranger wrote can neither hang nor fill the process (GHSA-9m6p-x4h2-6frq).
//! What it does not know it refuses by name when it is read.

mod eval;
mod functions;
mod parse;

use serde_json::Value;

/// Why an expression cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum JqError {
    #[error("jq path expression `{expression}` cannot be read: {problem}")]
    Unreadable { expression: String, problem: String },
    #[error("{0}")]
    Failed(String),
    #[error("the expression needs too many steps")]
    TooMuchWork,
    #[error("the expression does not name a place in the object")]
    NotAPath,
}

/// An expression, read.
#[derive(Debug, Clone)]
pub struct JqPath(Filter);

#[derive(Debug, Clone)]
enum Filter {
    Identity,
    Recurse,
    Field(String),
    Index(Box<Filter>),
    Iterate,
    Try(Box<Filter>),
    Pipe(Box<Filter>, Box<Filter>),
    Comma(Box<Filter>, Box<Filter>),
    Alternative(Box<Filter>, Box<Filter>),
    And(Box<Filter>, Box<Filter>),
    Or(Box<Filter>, Box<Filter>),
    Binary(Operator, Box<Filter>, Box<Filter>),
    If(Box<Filter>, Box<Filter>, Box<Filter>),
    Literal(Value),
    List(Option<Box<Filter>>),
    Call(String, Vec<Filter>),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Operator {
    Equal,
    NotEqual,
    Less,
    LessOrEqual,
    Greater,
    GreaterOrEqual,
    Plus,
    Minus,
}

impl JqPath {
    /// Reads an expression.
    pub fn parse(expression: &str) -> Result<Self, JqError> {
        let unreadable =
            |problem: String| JqError::Unreadable { expression: expression.to_string(), problem };
        if expression.len() > 4096 {
            return Err(unreadable("it is longer than 4096 bytes".into()));
        }
        parse::parse(expression).map(Self).map_err(unreadable)
    }

    /// Takes out what the expression names. On an error the object is left as it is.
    pub fn delete_from(&self, object: &mut Value) -> Result<(), JqError> {
        let mut paths = eval::paths(&self.0, object)?;
        // Later elements of a list go first, or the indexes of the others would move.
        paths.sort();
        paths.dedup();
        for path in paths.iter().rev() {
            delete(object, path);
        }
        Ok(())
    }
}

/// One step of a path.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
enum Step {
    Field(String),
    Index(usize),
}

fn delete(object: &mut Value, path: &[Step]) {
    let Some((last, parents)) = path.split_last() else {
        *object = Value::Null;
        return;
    };
    let parent = parents.iter().try_fold(object, |value, step| match step {
        Step::Field(name) => value.get_mut(name),
        Step::Index(index) => value.get_mut(index),
    });
    match (parent, last) {
        (Some(Value::Object(map)), Step::Field(name)) => {
            map.remove(name);
        }
        (Some(Value::Array(list)), Step::Index(index)) if *index < list.len() => {
            list.remove(*index);
        }
        _ => {}
    }
}

#[cfg(test)]
mod tests;
