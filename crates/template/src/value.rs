//! Values as Go has them: typed integers, float64, shared maps, and the difference between nothing and nil.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

use jiff::Zoned;

use crate::sprig::semver::Version;

/// Which of Go's integer types.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum IntType {
    Int,
    Int64,
    Uint8,
    Uint64,
    Month,
    Weekday,
}

/// The element type of a slice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Elem {
    Any,
    Text,
    Int,
    /// `[]interface{}`: what `chunk` gives.
    Lists,
}

#[derive(Clone)]
pub(crate) enum Value {
    /// Nothing at all: a key that is not there. Go's zero `reflect.Value`.
    Missing,
    /// An interface that holds nil: a key that is there and has no value.
    Nil,
    Bool(bool),
    Int(i64, IntType),
    Float(f64),
    Text(Rc<str>),
    List(List),
    Map(Map),
    Time(Rc<Zoned>),
    Version(Rc<Version>),
}

/// A slice. Nothing in a template changes one, so it is shared as it is.
#[derive(Clone)]
pub(crate) struct List {
    pub(crate) elem: Elem,
    pub(crate) items: Rc<Vec<Value>>,
    /// Lists in lists; bounded, because dropping one is recursive.
    pub(crate) depth: usize,
}

/// A map, shared by everybody who holds it.
#[derive(Clone)]
pub(crate) struct Map {
    /// `map[string]string`.
    pub(crate) of_text: bool,
    pub(crate) entries: Rc<RefCell<BTreeMap<String, Value>>>,
}

impl List {
    pub(crate) fn new(elem: Elem, items: Vec<Value>) -> Self {
        let deepest =
            items.iter().map(|item| if let Value::List(list) = item { list.depth } else { 0 }).max();
        Self { elem, depth: 1 + deepest.unwrap_or(0), items: Rc::new(items) }
    }

    pub(crate) fn texts(items: impl IntoIterator<Item = String>) -> Value {
        Value::List(Self::new(Elem::Text, items.into_iter().map(Value::from).collect()))
    }

    pub(crate) fn any(items: Vec<Value>) -> Value {
        Value::List(Self::new(Elem::Any, items))
    }
}

impl Map {
    /// The same map, not an equal one.
    pub(crate) fn is(&self, other: &Self) -> bool {
        Rc::ptr_eq(&self.entries, &other.entries)
    }

    pub(crate) fn get(&self, key: &str) -> Option<Value> {
        self.entries.borrow().get(key).cloned()
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.borrow().len()
    }

    /// Entries as they are now; the map may change while they are walked.
    pub(crate) fn snapshot(&self) -> Vec<(String, Value)> {
        self.entries.borrow().iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

impl From<String> for Value {
    fn from(text: String) -> Self {
        Self::Text(text.into())
    }
}

impl From<&str> for Value {
    fn from(text: &str) -> Self {
        Self::Text(text.into())
    }
}

impl From<bool> for Value {
    fn from(value: bool) -> Self {
        Self::Bool(value)
    }
}

impl Value {
    pub(crate) fn int(value: usize) -> Self {
        Self::Int(i64::try_from(value).unwrap_or(i64::MAX), IntType::Int)
    }

    pub(crate) fn int64(value: i64) -> Self {
        Self::Int(value, IntType::Int64)
    }

    pub(crate) fn is_nothing(&self) -> bool {
        matches!(self, Self::Missing | Self::Nil)
    }

    /// Inside a function there is only nil.
    pub(crate) fn or_nil(self) -> Self {
        if matches!(self, Self::Missing) { Self::Nil } else { self }
    }

    /// Out of an interface, nil becomes nothing.
    pub(crate) fn unboxed(self) -> Self {
        if matches!(self, Self::Nil) { Self::Missing } else { self }
    }

    pub(crate) fn is_true(&self) -> bool {
        match self {
            Self::Missing | Self::Nil => false,
            Self::Bool(value) => *value,
            Self::Int(value, _) => *value != 0,
            Self::Float(value) => *value != 0.0,
            Self::Text(text) => !text.is_empty(),
            Self::List(list) => !list.items.is_empty(),
            Self::Map(map) => map.len() > 0,
            Self::Time(_) | Self::Version(_) => true,
        }
    }

    /// What `%T` says.
    pub(crate) fn type_name(&self) -> &'static str {
        match self {
            Self::Missing | Self::Nil => "<nil>",
            Self::Bool(_) => "bool",
            Self::Int(_, IntType::Int) => "int",
            Self::Int(_, IntType::Int64) => "int64",
            Self::Int(_, IntType::Uint8) => "uint8",
            Self::Int(_, IntType::Uint64) => "uint64",
            Self::Int(_, IntType::Month) => "time.Month",
            Self::Int(_, IntType::Weekday) => "time.Weekday",
            Self::Float(_) => "float64",
            Self::Text(_) => "string",
            Self::List(list) => match list.elem {
                Elem::Any => "[]interface {}",
                Elem::Text => "[]string",
                Elem::Int => "[]int",
                Elem::Lists => "[][]interface {}",
            },
            Self::Map(map) if map.of_text => "map[string]string",
            Self::Map(_) => "map[string]interface {}",
            Self::Time(_) => "time.Time",
            Self::Version(_) => "*semver.Version",
        }
    }

    /// What `reflect.Kind` says.
    pub(crate) fn kind_name(&self) -> &'static str {
        match self {
            Self::Missing | Self::Nil => "invalid",
            Self::Int(_, IntType::Month | IntType::Weekday) => "int",
            Self::List(_) => "slice",
            Self::Map(_) => "map",
            Self::Time(_) => "struct",
            Self::Version(_) => "ptr",
            other => other.type_name(),
        }
    }
}
