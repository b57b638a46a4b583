//! What `{{…}}` may name, and texts in which it is put in place.
//!
//! In: values by their names (`inputs.parameters.message`), and a tree that may hold tags. Out: the tree with the values in it. The tree
//! was read before: a value is text inside of a text, whatever it holds, and can never change the shape of what it is put into.
//! A name that nobody knows stays as it is: it may be known later.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde_json::{Map, Value};
use slipway_dialect::expr::{Expression, UNKNOWN};

/// Longer texts do not come out of a substitution: a value that is put in place a thousand times is no accident.
const TEXT_MAX: usize = 4 << 20;

/// Tags inside of tags: a name of a name of a name is no accident.
const TAGS_DEPTH_MAX: usize = 16;

/// Values by name.
#[derive(Debug, Clone, Default)]
pub struct Scope {
    values: BTreeMap<String, Value>,
}

impl Scope {
    pub fn set(&mut self, name: impl Into<String>, value: impl Into<Value>) {
        self.values.insert(name.into(), value.into());
    }

    pub fn get(&self, name: &str) -> Option<&Value> {
        self.values.get(name)
    }

    pub fn contains(&self, name: &str) -> bool {
        self.values.contains_key(name)
    }

    /// Everything of the other as well.
    pub fn extend(&mut self, other: &Scope) {
        self.values.extend(other.values.iter().map(|(name, value)| (name.clone(), value.clone())));
    }

    /// A value as text: texts as they are, anything else as JSON.
    pub fn text(&self, name: &str) -> Option<String> {
        self.values.get(name).map(text_of)
    }

    /// The same names as a tree, for expressions: `inputs.parameters.message` is `message` of `parameters` of `inputs`.
    pub(crate) fn tree(&self) -> Value {
        let mut root = Value::Object(Map::new());
        // What is short comes first: `inputs.parameters` is a list as JSON, and a tree where something is below it.
        for (name, value) in &self.values {
            let mut at = &mut root;
            for part in name.split('.') {
                if !at.is_object() {
                    *at = Value::Object(Map::new());
                }
                at = at.as_object_mut().expect("made just now").entry(part).or_insert(Value::Null);
            }
            if !at.is_object() {
                *at = value.clone();
            }
        }
        root
    }

    /// Puts every known value in its place, in names of fields too.
    pub fn fill(&self, value: &Value, now: Timestamp) -> Result<Value, String> {
        Filler::new(self, now).value(value)
    }

    /// The same, and the tags that nobody knows: what a value holds is none of them.
    pub(crate) fn fill_known(&self, value: &Value, now: Timestamp) -> Result<(Value, Vec<String>), String> {
        let mut filler = Filler::new(self, now);
        let value = filler.value(value)?;
        Ok((value, filler.unknown))
    }

    pub fn fill_text(&self, text: &str, now: Timestamp) -> Result<String, String> {
        Filler::new(self, now).text(text)
    }

    /// A text whose tags have to be known.
    pub(crate) fn fill_whole_text(&self, text: &str, now: Timestamp) -> Result<String, String> {
        let mut filler = Filler::new(self, now);
        let filled = filler.text(text)?;
        match filler.unknown.first() {
            None => Ok(filled),
            Some(tag) => Err(format!("failed to resolve {tag}")),
        }
    }

    /// The value of an expression, as text.
    pub fn evaluate(&self, expression: &str, now: Timestamp) -> Result<String, String> {
        let others = |name: &str, arguments: &[Value]| crate::sprig::call(name, arguments, now);
        Expression::parse(expression)?.text_of_known(&self.tree(), now, &others)
    }

    /// Whether an expression holds.
    pub fn holds(&self, expression: &str, now: Timestamp) -> Result<bool, String> {
        match self.evaluate(expression, now)?.as_str() {
            "true" => Ok(true),
            "false" => Ok(false),
            other => Err(format!("`{expression}` is neither true nor false, but `{other}`")),
        }
    }
}

pub fn text_of(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

struct Filler<'a> {
    scope: &'a Scope,
    /// Made when the first expression needs it.
    tree: Option<Value>,
    now: Timestamp,
    depth: usize,
    /// `{{NAME}}` of those that stayed as they were.
    unknown: Vec<String>,
}

impl<'a> Filler<'a> {
    fn new(scope: &'a Scope, now: Timestamp) -> Self {
        Self { scope, tree: None, now, depth: 0, unknown: Vec::new() }
    }

    fn value(&mut self, value: &Value) -> Result<Value, String> {
        Ok(match value {
            Value::String(text) if text.contains("{{") => Value::String(self.text(text)?),
            Value::Array(items) => {
                Value::Array(items.iter().map(|item| self.value(item)).collect::<Result<_, _>>()?)
            }
            Value::Object(fields) => {
                let mut filled = Map::new();
                for (name, value) in fields {
                    let name = if name.contains("{{") { self.text(name)? } else { name.clone() };
                    filled.insert(name, self.value(value)?);
                }
                Value::Object(filled)
            }
            other => other.clone(),
        })
    }

    /// From the inside: a tag may hold another one (`{{inputs.parameters.{{item}}}}`).
    fn text(&mut self, text: &str) -> Result<String, String> {
        let mut done = String::new();
        let mut rest = text;
        while let Some(start) = rest.find("{{") {
            done.push_str(&rest[..start]);
            rest = &rest[start..];
            let Some(end) = end_of_tag(rest) else {
                done.push_str(rest);
                return Ok(done);
            };
            let inner = &rest[2..end];
            let filled = if inner.trim_start().starts_with('=') || !inner.contains("{{") {
                None
            } else {
                if self.depth == TAGS_DEPTH_MAX {
                    return Err(format!("tags stand inside of each other deeper than {TAGS_DEPTH_MAX}"));
                }
                self.depth += 1;
                let inner = self.text(inner)?;
                self.depth -= 1;
                Some(inner)
            };
            match self.tag(filled.as_deref().unwrap_or(inner))? {
                Some(value) => done.push_str(&value),
                None => {
                    let tag = format!("{{{{{}}}}}", filled.as_deref().unwrap_or(inner));
                    done.push_str(&tag);
                    self.unknown.push(tag);
                }
            }
            if done.len() > TEXT_MAX {
                return Err(format!("a text with its values in it is longer than {TEXT_MAX} bytes"));
            }
            rest = &rest[end + 2..];
        }
        done.push_str(rest);
        Ok(done)
    }

    fn tag(&mut self, inner: &str) -> Result<Option<String>, String> {
        let inner = inner.trim();
        let Some(expression) = inner.strip_prefix('=') else { return Ok(self.scope.text(inner)) };
        let expression = Expression::parse(expression.trim())?;
        let tree = self.tree.get_or_insert_with(|| self.scope.tree());
        let others = |name: &str, arguments: &[Value]| crate::sprig::call(name, arguments, self.now);
        match expression.text_of_known(tree, self.now, &others) {
            Ok(text) => Ok(Some(text)),
            // It names what is known later.
            Err(error) if error.ends_with(UNKNOWN) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

/// The `}}` of the tag that a text begins with; those of tags inside of it are passed over.
pub(crate) fn end_of_tag(text: &str) -> Option<usize> {
    let is_expression = text[2..].trim_start().starts_with('=');
    let (mut depth, mut at) = (0_usize, 0);
    while at + 1 < text.len() {
        match &text.as_bytes()[at..at + 2] {
            b"{{" if !is_expression || at == 0 => {
                depth += 1;
                at += 2;
            }
            b"}}" => {
                depth -= 1;
                if depth == 0 {
                    // `}}}`: the first one closes a map of the expression.
                    let more = text.as_bytes()[at + 2..].iter().take_while(|byte| **byte == b'}').count();
                    return Some(if is_expression { at + more } else { at });
                }
                at += 2;
            }
            _ => at += 1,
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn scope() -> Scope {
        let mut scope = Scope::default();
        scope.set("inputs.parameters.message", "hello");
        scope.set("inputs.parameters.count", "3");
        scope.set("inputs.parameters.hostile", "\", \"privileged\": true, \"x\": \"{{workflow.name}}");
        scope.set("item", "message");
        scope.set("workflow.name", "wf");
        scope
    }

    fn filled(text: &str) -> String {
        scope().fill_text(text, Timestamp::UNIX_EPOCH).expect("it can be filled")
    }

    #[test]
    fn values_stand_where_their_names_were() {
        for (text, wanted) in [
            ("say {{inputs.parameters.message}}!", "say hello!"),
            ("{{ workflow.name }}", "wf"),
            ("{{inputs.parameters.{{item}}}}", "hello"),
            ("{{steps.later.outputs.result}}", "{{steps.later.outputs.result}}"),
            ("{{steps.{{workflow.name}}.x}}", "{{steps.wf.x}}"),
            ("{{=inputs.parameters.message + '!'}}", "hello!"),
            ("{{=inputs.parameters.count == '3' ? 'yes' : 'no'}}", "yes"),
            ("{{= later.outputs }}", "{{= later.outputs }}"),
            ("{{=inputs.parameters.later}}", "{{=inputs.parameters.later}}"),
            ("{{=asInt(inputs.parameters.count) + 1}}", "4"),
            ("{{=sprig.upper(inputs.parameters.message)}}", "HELLO"),
            (
                "{{=toJson({\"a\": inputs.parameters.hostile})}}",
                r#"{"a":"\", \"privileged\": true, \"x\": \"{{workflow.name}}"}"#,
            ),
            ("{{ open", "{{ open"),
            ("no tag", "no tag"),
        ] {
            assert_eq!(filled(text), wanted, "{text}");
        }
    }

    #[test]
    fn what_a_value_holds_changes_no_shape_and_is_not_read_again() {
        let value = json!({"args": ["{{inputs.parameters.hostile}}"], "{{workflow.name}}": 1});
        let filled = scope().fill(&value, Timestamp::UNIX_EPOCH).expect("it can be filled");
        assert_eq!(
            filled,
            json!({"args": ["\", \"privileged\": true, \"x\": \"{{workflow.name}}"], "wf": 1})
        );
    }

    #[test]
    fn what_a_value_holds_is_no_tag_that_nobody_knows() {
        let value =
            json!(["{{inputs.parameters.hostile}}", "{{steps.later.x}}", "{{= later.y }}", "{{a {{item}}}}"]);
        let (_, unknown) = scope().fill_known(&value, Timestamp::UNIX_EPOCH).expect("it can be filled");
        assert_eq!(unknown, ["{{steps.later.x}}", "{{= later.y }}", "{{a message}}"]);
        let whole = |text: &str| scope().fill_whole_text(text, Timestamp::UNIX_EPOCH);
        assert!(whole("{{inputs.parameters.hostile}}").is_ok());
        assert_eq!(whole("{{steps.a.x}}"), Err("failed to resolve {{steps.a.x}}".into()));
    }

    #[test]
    fn tags_inside_of_tags_without_end_are_refused() {
        let text = format!("{}x{}", "{{a".repeat(100_000), "}}".repeat(100_000));
        let error = scope().fill_text(&text, Timestamp::UNIX_EPOCH).expect_err("too deep");
        assert!(error.contains("inside of each other"), "{error}");
    }

    #[test]
    fn a_text_that_grows_without_end_is_refused() {
        let mut scope = Scope::default();
        scope.set("x", "y".repeat(1 << 20));
        let error = scope.fill_text(&"{{x}}".repeat(100), Timestamp::UNIX_EPOCH).expect_err("too long");
        assert!(error.contains("longer than"), "{error}");
    }
}
