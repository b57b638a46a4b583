//! The small JSONPath of printer columns and `scale` paths: names, quoted names, indexes, `[*]` and equality filters.

use serde_json::Value;

#[derive(Debug, PartialEq)]
enum Step {
    Field(String),
    Index(i64),
    All,
    /// `?(@.path=="text")`
    Equals(Vec<String>, String),
}

/// All values that a path such as `.status.conditions[?(@.type=="Ready")].status` finds.
pub fn find<'a>(value: &'a Value, path: &str) -> Vec<&'a Value> {
    let Some(steps) = parse(path) else { return Vec::new() };
    let mut here = vec![value];
    for step in &steps {
        here = here.into_iter().flat_map(|value| advance(value, step)).collect();
    }
    here
}

fn advance<'a>(value: &'a Value, step: &Step) -> Vec<&'a Value> {
    match step {
        Step::Field(name) => value.get(name).into_iter().collect(),
        Step::Index(index) => {
            let Some(list) = value.as_array() else { return Vec::new() };
            let at = if *index < 0 { list.len() as i64 + index } else { *index };
            usize::try_from(at).ok().and_then(|at| list.get(at)).into_iter().collect()
        }
        Step::All => match value {
            Value::Array(list) => list.iter().collect(),
            Value::Object(map) => map.values().collect(),
            _ => Vec::new(),
        },
        Step::Equals(path, wanted) => {
            let matches = |item: &&Value| {
                let found = path.iter().try_fold(*item, |v, name| v.get(name));
                found.is_some_and(|v| v.as_str().map_or_else(|| v.to_string(), str::to_owned) == *wanted)
            };
            value.as_array().into_iter().flatten().filter(matches).collect()
        }
    }
}

fn parse(path: &str) -> Option<Vec<Step>> {
    let mut rest = path.trim().trim_start_matches('{').trim_end_matches('}').trim_start_matches('$');
    let mut steps = Vec::new();
    while !rest.is_empty() {
        if let Some(inner) = rest.strip_prefix('[') {
            let end = closing(inner)?;
            steps.push(bracket(&inner[..end])?);
            rest = &inner[end + 1..];
        } else {
            let (name, tail) = field(rest.strip_prefix('.').unwrap_or(rest));
            match name.as_str() {
                "" => {}
                "*" => steps.push(Step::All),
                _ => steps.push(Step::Field(name)),
            }
            rest = tail;
        }
    }
    Some(steps)
}

/// A name ends at a dot or bracket; a backslash takes the next character as it is (`.metadata.labels.a\.b`).
fn field(text: &str) -> (String, &str) {
    let mut name = String::new();
    let mut chars = text.char_indices();
    while let Some((index, c)) = chars.next() {
        match c {
            '\\' => name.extend(chars.next().map(|(_, c)| c)),
            '.' | '[' => return (name, &text[index..]),
            _ => name.push(c),
        }
    }
    (name, "")
}

fn closing(text: &str) -> Option<usize> {
    let mut quote = None;
    let mut depth = 0;
    for (index, c) in text.char_indices() {
        match (quote, c) {
            (Some(q), c) if q == c => quote = None,
            (Some(_), _) => {}
            (None, '"' | '\'') => quote = Some(c),
            (None, '[') => depth += 1,
            (None, ']') if depth == 0 => return Some(index),
            (None, ']') => depth -= 1,
            _ => {}
        }
    }
    None
}

fn bracket(inner: &str) -> Option<Step> {
    let inner = inner.trim();
    if inner == "*" {
        return Some(Step::All);
    }
    if let Ok(index) = inner.parse() {
        return Some(Step::Index(index));
    }
    if let Some(filter) = inner.strip_prefix("?(") {
        let (left, right) = filter.strip_suffix(')')?.split_once("==")?;
        let path =
            left.trim().trim_start_matches('@').split('.').filter(|s| !s.is_empty()).map(str::to_owned);
        return Some(Step::Equals(path.collect(), unquote(right)));
    }
    Some(Step::Field(unquote(inner)))
}

fn unquote(text: &str) -> String {
    text.trim().trim_matches(['"', '\'']).to_owned()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn printer_columns_find_what_they_name() {
        let value = json!({"a": {"b.c": 1, "list": [{"type": "Ready", "status": "True"}, {"type": "X", "status": "False"}]}});
        let check = |path: &str, expected: serde_json::Value| {
            assert_eq!(json!(find(&value, path)), expected, "{path}");
        };
        check(".a.list[0].type", json!(["Ready"]));
        check(".a.list[-1].type", json!(["X"]));
        check(".a.list[*].status", json!(["True", "False"]));
        check(".a.list[?(@.type==\"X\")].status", json!(["False"]));
        check(".a['b.c']", json!([1]));
        check(r".a.b\.c", json!([1]));
        check(".a.missing", json!([]));
    }
}
