//! Functions by name: what they take, so that a wrong argument is refused as Go refuses it, and what they do.

use std::collections::BTreeMap;
use std::sync::OnceLock;

use crate::exec::Scope;
use crate::value::{IntType, Value};

/// What a parameter must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Type {
    /// `interface{}`.
    Any,
    /// `reflect.Value`: the built-in functions see a missing key as what it is.
    Reflect,
    Text,
    Int,
    Float,
    Bool,
    /// `map[string]interface{}`; nil is an empty one.
    Dict,
    Time,
}

impl Type {
    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Any => "interface {}",
            Self::Reflect => "reflect.Value",
            Self::Text => "string",
            Self::Int => "int",
            Self::Float => "float64",
            Self::Bool => "bool",
            Self::Dict => "map[string]interface {}",
            Self::Time => "time.Time",
        }
    }

    pub(crate) fn can_be_nil(self) -> bool {
        matches!(self, Self::Any | Self::Reflect | Self::Dict)
    }

    pub(crate) fn takes(self, value: &Value) -> bool {
        match self {
            Self::Any | Self::Reflect => true,
            Self::Text => matches!(value, Value::Text(_)),
            Self::Int => matches!(value, Value::Int(_, IntType::Int)),
            Self::Float => matches!(value, Value::Float(_)),
            Self::Bool => matches!(value, Value::Bool(_)),
            Self::Dict => matches!(value, Value::Map(map) if !map.of_text),
            Self::Time => matches!(value, Value::Time(_)),
        }
    }
}

/// The arguments are as the signature says; the error becomes `error calling <name>: …`.
pub(crate) type Body = fn(&mut Scope<'_>, &[Value]) -> Result<Value, String>;

#[derive(Clone)]
pub(crate) struct Function {
    pub(crate) name: &'static str,
    pub(crate) fixed: &'static [Type],
    /// The type of any number of further arguments.
    pub(crate) variadic: Option<Type>,
    pub(crate) body: Body,
}

/// A row of a table of functions: a fixed number of arguments.
pub(crate) const fn takes(name: &'static str, fixed: &'static [Type], body: Body) -> Function {
    Function { name, fixed, variadic: None, body }
}

/// A row of a table of functions: any number of arguments at the end.
pub(crate) const fn takes_more(
    name: &'static str,
    fixed: &'static [Type],
    more: Type,
    body: Body,
) -> Function {
    Function { name, fixed, variadic: Some(more), body }
}

/// The functions that a template may call.
#[derive(Clone)]
pub struct Functions {
    by_name: BTreeMap<&'static str, Function>,
}

impl Functions {
    /// Go's own.
    pub fn go() -> &'static Self {
        static GO: OnceLock<Functions> = OnceLock::new();
        GO.get_or_init(|| Self::of([crate::builtins::FUNCTIONS]))
    }

    /// Go's own, sprig's without `env`, `expandenv` and `getHostByName`, and those that ApplicationSets add.
    pub fn application_set() -> &'static Self {
        static ALL: OnceLock<Functions> = OnceLock::new();
        ALL.get_or_init(|| {
            let tables = [crate::builtins::FUNCTIONS].into_iter().chain(crate::sprig::tables());
            Self::of(tables.chain([crate::argo::FUNCTIONS]))
        })
    }

    /// What the templates of a chart may call: Go's own, sprig's as above, and Helm's `toYaml`, `include` and `required`.
    pub fn chart() -> &'static Self {
        static ALL: OnceLock<Functions> = OnceLock::new();
        ALL.get_or_init(|| {
            let tables = [crate::builtins::FUNCTIONS].into_iter().chain(crate::sprig::tables());
            Self::of(tables.chain([crate::argo::FUNCTIONS, crate::chart::FUNCTIONS]))
        })
    }

    /// Later tables win: sprig's `slice` stands where Go's was.
    fn of(tables: impl IntoIterator<Item = &'static [Function]>) -> Self {
        let all = tables.into_iter().flatten();
        Self { by_name: all.map(|function| (function.name, function.clone())).collect() }
    }

    pub(crate) fn find(&self, name: &str) -> Option<&Function> {
        self.by_name.get(name)
    }

    /// Every name, sorted.
    pub fn names(&self) -> impl Iterator<Item = &'static str> + '_ {
        self.by_name.keys().copied()
    }
}

/// Arguments whose type the signature has checked.
pub(crate) fn text(value: &Value) -> &str {
    match value {
        Value::Text(text) => text,
        _ => "",
    }
}

pub(crate) fn int(value: &Value) -> i64 {
    match value {
        Value::Int(value, _) => *value,
        _ => 0,
    }
}
