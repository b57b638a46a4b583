//! Dictionaries: shared, so `set` and `merge` change the one they are given.

use std::collections::BTreeMap;

use crate::exec::Scope;
use crate::format::too_deep;
use crate::functions::{
    Function,
    Type::{Any, Dict, Text},
    takes, takes_more, text,
};
use crate::sprig::defaults::is_empty;
use crate::value::{List, Map, Value};

type Done<T> = Result<T, String>;

pub(crate) const FUNCTIONS: &[Function] = &[
    takes_more("dict", &[], Any, |s, a| {
        let mut entries = Vec::with_capacity(a.len() / 2);
        for pair in a.chunks(2) {
            entries.push((s.text_of(&pair[0])?, pair.get(1).cloned().unwrap_or_else(|| "".into())));
        }
        Ok(s.map_of(entries))
    }),
    takes("get", &[Dict, Text], |_, a| {
        Ok(map(&a[0]).and_then(|map| map.get(text(&a[1]))).unwrap_or_else(|| "".into()))
    }),
    takes("set", &[Dict, Text, Any], |_, a| match map(&a[0]) {
        Some(map) => {
            map.entries.borrow_mut().insert(text(&a[1]).to_owned(), a[2].clone());
            Ok(a[0].clone())
        }
        None => Err("assignment to entry in nil map".into()),
    }),
    takes("unset", &[Dict, Text], |_, a| {
        if let Some(map) = map(&a[0]) {
            map.entries.borrow_mut().remove(text(&a[1]));
        }
        Ok(a[0].clone())
    }),
    takes("hasKey", &[Dict, Text], |_, a| {
        Ok(Value::Bool(map(&a[0]).is_some_and(|map| map.get(text(&a[1])).is_some())))
    }),
    takes_more("pluck", &[Text], Dict, |_, a| {
        let found = a[1..].iter().filter_map(|dict| map(dict)?.get(text(&a[0])));
        Ok(List::any(found.collect()))
    }),
    // Go's maps have no order; ours are sorted, so the same data gives the same text.
    takes_more("keys", &[], Dict, |_, a| {
        let keys = a.iter().filter_map(map).flat_map(|map| map.snapshot());
        Ok(List::texts(keys.map(|(key, _)| key)))
    }),
    takes("values", &[Dict], |_, a| {
        let entries = map(&a[0]).map(Map::snapshot).unwrap_or_default();
        Ok(List::any(entries.into_iter().map(|(_, value)| value).collect()))
    }),
    takes_more("pick", &[Dict], Text, |s, a| {
        let entries = map(&a[0]).map(Map::snapshot).unwrap_or_default();
        let wanted = |key: &str| a[1..].iter().any(|name| text(name) == key);
        Ok(s.map_of(entries.into_iter().filter(|(key, _)| wanted(key))))
    }),
    takes_more("omit", &[Dict], Text, |s, a| {
        let entries = map(&a[0]).map(Map::snapshot).unwrap_or_default();
        let unwanted = |key: &str| a[1..].iter().any(|name| text(name) == key);
        Ok(s.map_of(entries.into_iter().filter(|(key, _)| !unwanted(key))))
    }),
    takes_more("merge", &[Dict], Dict, |s, a| merge_all(s, a, false)),
    takes_more("mustMerge", &[Dict], Dict, |s, a| merge_all(s, a, false)),
    takes_more("mergeOverwrite", &[Dict], Dict, |s, a| merge_all(s, a, true)),
    takes_more("mustMergeOverwrite", &[Dict], Dict, |s, a| merge_all(s, a, true)),
    takes("deepCopy", &[Any], |s, a| deep_copy(s, &a[0], 0)),
    takes("mustDeepCopy", &[Any], |s, a| deep_copy(s, &a[0], 0)),
    takes_more("dig", &[], Any, |_, a| dig(a)),
];

fn map(value: &Value) -> Option<&Map> {
    match value {
        Value::Map(map) => Some(map),
        _ => None,
    }
}

fn merge_all(scope: &mut Scope<'_>, arguments: &[Value], overwrite: bool) -> Done<Value> {
    let target = match &arguments[0] {
        Value::Map(target) => target.clone(),
        // mergo fills a nil map by making one.
        _ => scope.new_map(false),
    };
    for source in arguments[1..].iter().filter_map(map) {
        merge(scope, &target, source, overwrite, 0)?;
    }
    Ok(Value::Map(target))
}

/// mergo's rules: maps are merged into each other, an empty value gives way, the first wins unless overwriting.
fn merge(scope: &mut Scope<'_>, target: &Map, source: &Map, overwrite: bool, depth: usize) -> Done<()> {
    too_deep(depth)?;
    if target.is(source) {
        return Ok(());
    }
    for (key, value) in source.snapshot() {
        scope.step()?;
        let known = target.get(&key);
        match (&known, &value) {
            (Some(Value::Map(inner)), Value::Map(value)) if inner.len() > 0 => {
                merge(scope, inner, value, overwrite, depth + 1)?;
            }
            (_, Value::Nil | Value::Missing) => {
                if overwrite {
                    target.entries.borrow_mut().insert(key, Value::Nil);
                }
            }
            _ => {
                if overwrite || known.as_ref().is_none_or(is_empty) {
                    target.entries.borrow_mut().insert(key, value);
                }
            }
        }
    }
    Ok(())
}

fn deep_copy(scope: &mut Scope<'_>, value: &Value, depth: usize) -> Done<Value> {
    too_deep(depth)?;
    scope.step()?;
    Ok(match value {
        Value::List(list) => {
            let items: Done<Vec<Value>> =
                list.items.iter().map(|item| deep_copy(scope, item, depth + 1)).collect();
            Value::List(List::new(list.elem, items?))
        }
        Value::Map(map) => {
            let mut entries = BTreeMap::new();
            for (key, value) in map.snapshot() {
                scope.charge(key.len())?;
                entries.insert(key, deep_copy(scope, &value, depth + 1)?);
            }
            let copy = scope.new_map(map.of_text);
            *copy.entries.borrow_mut() = entries;
            Value::Map(copy)
        }
        other => other.clone(),
    })
}

fn dig(arguments: &[Value]) -> Done<Value> {
    let [keys @ .., default, dict] = arguments else {
        return Err("dig needs at least three arguments".into());
    };
    if keys.is_empty() {
        return Err("dig needs at least three arguments".into());
    }
    let wrong = |value: &Value, wanted: &str| {
        let found = if value.is_nothing() { "nil" } else { value.type_name() };
        format!("interface conversion: interface {{}} is {found}, not {wanted}")
    };
    let mut at = dict.clone();
    for key in keys {
        if !matches!(key, Value::Text(_)) {
            return Err(wrong(key, "string"));
        }
    }
    for key in keys {
        let Value::Map(map) = &at else { return Err(wrong(&at, "map[string]interface {}")) };
        if map.of_text {
            return Err(wrong(&at, "map[string]interface {}"));
        }
        match map.get(text(key)) {
            Some(next) => at = next,
            None => return Ok(default.clone()),
        }
    }
    Ok(at)
}
