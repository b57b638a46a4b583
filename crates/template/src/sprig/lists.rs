//! Lists. Every function makes a new one.

use crate::convert::to_int64;
use crate::exec::Scope;
use crate::format::too_deep;
use crate::functions::{
    Function,
    Type::{Any, Int},
    int, takes, takes_more,
};
use crate::sprig::defaults::is_empty;
use crate::value::{Elem, List, Value};

type Done<T> = Result<T, String>;

pub(crate) const FUNCTIONS: &[Function] = &[
    // What sprig panics over is an error either way: `name` and `mustName` do the same.
    takes("append", &[Any, Any], |_, a| push(&a[0], &a[1])),
    takes("mustAppend", &[Any, Any], |_, a| push(&a[0], &a[1])),
    takes("push", &[Any, Any], |_, a| push(&a[0], &a[1])),
    takes("mustPush", &[Any, Any], |_, a| push(&a[0], &a[1])),
    takes("prepend", &[Any, Any], prepend),
    takes("mustPrepend", &[Any, Any], prepend),
    takes("first", &[Any], first),
    takes("mustFirst", &[Any], first),
    takes("last", &[Any], last),
    takes("mustLast", &[Any], last),
    takes("rest", &[Any], rest),
    takes("mustRest", &[Any], rest),
    takes("initial", &[Any], initial),
    takes("mustInitial", &[Any], initial),
    takes("reverse", &[Any], reverse),
    takes("mustReverse", &[Any], reverse),
    takes("compact", &[Any], compact),
    takes("mustCompact", &[Any], compact),
    takes("uniq", &[Any], uniq),
    takes("mustUniq", &[Any], uniq),
    takes("has", &[Any, Any], has),
    takes("mustHas", &[Any, Any], has),
    takes("chunk", &[Int, Any], chunk),
    takes("mustChunk", &[Int, Any], chunk),
    takes("deepEqual", &[Any, Any], |s, a| Ok(Value::Bool(deep_equal(s, &a[0], &a[1], 0)?))),
    takes_more("list", &[], Any, |_, a| Ok(List::any(a.to_vec()))),
    takes_more("tuple", &[], Any, |_, a| Ok(List::any(a.to_vec()))),
    takes_more("without", &[Any], Any, without),
    takes_more("mustWithout", &[Any], Any, without),
    takes_more("slice", &[Any], Any, |_, a| slice(a)),
    takes_more("mustSlice", &[Any], Any, |_, a| slice(a)),
    takes_more("concat", &[], Any, |_, a| {
        let mut all = Vec::new();
        for list in a {
            match list {
                Value::List(list) => all.extend(list.items.iter().cloned()),
                other => return Err(format!("Cannot concat type {} as list", other.kind_name())),
            }
        }
        Ok(List::any(all))
    }),
];

fn prepend(_: &mut Scope<'_>, a: &[Value]) -> Done<Value> {
    let items = items(&a[0], "Cannot prepend on type")?;
    Ok(List::any([&a[1..2], items].concat()))
}

fn first(_: &mut Scope<'_>, a: &[Value]) -> Done<Value> {
    Ok(items(&a[0], "Cannot find first on type")?.first().cloned().unwrap_or(Value::Nil))
}

fn last(_: &mut Scope<'_>, a: &[Value]) -> Done<Value> {
    Ok(items(&a[0], "Cannot find last on type")?.last().cloned().unwrap_or(Value::Nil))
}

fn rest(_: &mut Scope<'_>, a: &[Value]) -> Done<Value> {
    let items = items(&a[0], "Cannot find rest on type")?;
    Ok(List::any(items.get(1..).unwrap_or_default().to_vec()))
}

fn initial(_: &mut Scope<'_>, a: &[Value]) -> Done<Value> {
    let items = items(&a[0], "Cannot find initial on type")?;
    Ok(List::any(items[..items.len().saturating_sub(1)].to_vec()))
}

fn reverse(_: &mut Scope<'_>, a: &[Value]) -> Done<Value> {
    Ok(List::any(items(&a[0], "Cannot find reverse on type")?.iter().rev().cloned().collect()))
}

fn compact(_: &mut Scope<'_>, a: &[Value]) -> Done<Value> {
    let items = items(&a[0], "Cannot compact on type")?;
    Ok(List::any(items.iter().filter(|item| !is_empty(item)).cloned().collect()))
}

fn uniq(scope: &mut Scope<'_>, a: &[Value]) -> Done<Value> {
    let mut seen: Vec<Value> = Vec::new();
    for item in items(&a[0], "Cannot find uniq on type")? {
        if !holds(scope, &seen, item)? {
            seen.push(item.clone());
        }
    }
    Ok(List::any(seen))
}

fn has(scope: &mut Scope<'_>, a: &[Value]) -> Done<Value> {
    if a[1].is_nothing() {
        return Ok(Value::Bool(false));
    }
    let items = items(&a[1], "Cannot find has on type")?;
    Ok(Value::Bool(holds(scope, items, &a[0])?))
}

fn chunk(_: &mut Scope<'_>, a: &[Value]) -> Done<Value> {
    let items = items(&a[1], "Cannot chunk type")?;
    let size = usize::try_from(int(&a[0])).unwrap_or(0);
    if size == 0 {
        return Err("the size of a chunk must be above zero".into());
    }
    let chunks = items.chunks(size).map(|chunk| List::any(chunk.to_vec())).collect();
    Ok(Value::List(List::new(Elem::Lists, chunks)))
}

fn items<'v>(value: &'v Value, problem: &str) -> Done<&'v [Value]> {
    match value {
        Value::List(list) => Ok(&list.items),
        Value::Missing | Value::Nil => {
            Err("runtime error: invalid memory address or nil pointer dereference".into())
        }
        other => Err(format!("{problem} {}", other.kind_name())),
    }
}

fn push(list: &Value, item: &Value) -> Done<Value> {
    let items = items(list, "Cannot push on type")?;
    Ok(List::any([items, std::slice::from_ref(item)].concat()))
}

fn without(scope: &mut Scope<'_>, arguments: &[Value]) -> Done<Value> {
    let mut kept = Vec::new();
    for item in items(&arguments[0], "Cannot find without on type")? {
        if !holds(scope, &arguments[1..], item)? {
            kept.push(item.clone());
        }
    }
    Ok(List::any(kept))
}

fn slice(arguments: &[Value]) -> Done<Value> {
    let Value::List(list) = &arguments[0] else {
        return Err(format!("list should be type of slice or array but {}", arguments[0].kind_name()));
    };
    let count = list.items.len();
    if count == 0 {
        return Ok(Value::Nil);
    }
    let start = arguments.get(1).map_or(0, to_int64);
    let end = arguments.get(2).map_or(count as i64, to_int64);
    if start < 0 || end > count as i64 || start > end {
        return Err("reflect.Value.Slice: slice index out of bounds".into());
    }
    Ok(Value::List(List::new(list.elem, list.items[start as usize..end as usize].to_vec())))
}

pub(crate) fn holds(scope: &mut Scope<'_>, items: &[Value], wanted: &Value) -> Done<bool> {
    for item in items {
        if deep_equal(scope, item, wanted, 0)? {
            return Ok(true);
        }
    }
    Ok(false)
}

/// reflect.DeepEqual: the types must be the same too.
pub(crate) fn deep_equal(scope: &mut Scope<'_>, a: &Value, b: &Value, depth: usize) -> Done<bool> {
    too_deep(depth)?;
    scope.step()?;
    if a.type_name() != b.type_name() {
        return Ok(false);
    }
    Ok(match (a, b) {
        (Value::Bool(a), Value::Bool(b)) => a == b,
        (Value::Int(a, _), Value::Int(b, _)) => a == b,
        (Value::Float(a), Value::Float(b)) => a == b,
        (Value::Text(a), Value::Text(b)) => a == b,
        (Value::Time(a), Value::Time(b)) => a == b,
        (Value::Version(a), Value::Version(b)) => a == b,
        (Value::List(a), Value::List(b)) => {
            if a.items.len() != b.items.len() {
                return Ok(false);
            }
            for (a, b) in a.items.iter().zip(b.items.iter()) {
                if !deep_equal(scope, a, b, depth + 1)? {
                    return Ok(false);
                }
            }
            true
        }
        (Value::Map(a), Value::Map(b)) => {
            if a.is(b) {
                return Ok(true);
            }
            if a.len() != b.len() {
                return Ok(false);
            }
            for ((key, a), (other, b)) in a.snapshot().iter().zip(b.snapshot().iter()) {
                if key != other || !deep_equal(scope, a, b, depth + 1)? {
                    return Ok(false);
                }
            }
            true
        }
        _ => true,
    })
}
