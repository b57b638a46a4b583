//! What ApplicationSets add to sprig: `normalize`, `slugify`, `toYaml`, `fromYaml`, `fromYamlArray`.

use crate::functions::{
    Function,
    Type::{Any, Text},
    takes, takes_more, text,
};
use crate::json::to_json;
use crate::value::Value;

type Done<T> = Result<T, String>;

pub(crate) const FUNCTIONS: &[Function] = &[
    takes("normalize", &[Text], |_, a| Ok(normalize(text(&a[0])).into())),
    takes_more("slugify", &[], Any, |_, a| slugify_arguments(a)),
    takes("toYaml", &[Any], |s, a| {
        let json = to_json(s, &a[0])?;
        Ok(slipway_yaml::to_yaml(&json).trim_end_matches('\n').into())
    }),
    takes("fromYaml", &[Text], |s, a| match from_yaml(text(&a[0]))? {
        serde_json::Value::Null => Ok(s.map_of([])),
        json @ serde_json::Value::Object(_) => s.value_of_json(&json),
        other => Err(format!("the YAML is {}, not an object; take fromYamlArray for a list", kind(&other))),
    }),
    takes("fromYamlArray", &[Text], |s, a| match from_yaml(text(&a[0]))? {
        serde_json::Value::Null => s.value_of_json(&serde_json::Value::Array(Vec::new())),
        json @ serde_json::Value::Array(_) => s.value_of_json(&json),
        other => Err(format!("the YAML is {}, not a list; take fromYaml for an object", kind(&other))),
    }),
];

fn kind(json: &serde_json::Value) -> &'static str {
    match json {
        serde_json::Value::Null => "empty",
        serde_json::Value::Bool(_) => "a boolean",
        serde_json::Value::Number(_) => "a number",
        serde_json::Value::String(_) => "a text",
        serde_json::Value::Array(_) => "a list",
        serde_json::Value::Object(_) => "an object",
    }
}

/// The first document of a YAML text.
fn from_yaml(text: &str) -> Done<serde_json::Value> {
    let documents = slipway_yaml::parse(text, slipway_yaml::Dialect::Kubernetes)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))?;
    Ok(documents.first().map_or(serde_json::Value::Null, slipway_yaml::Node::to_json))
}

/// A name that Kubernetes takes: lower case letters, digits, `-` and `.`, at most 253, not at the ends.
pub fn normalize(name: &str) -> String {
    let lower = name.to_lowercase();
    let mut clean: String = lower
        .chars()
        .map(|c| if c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '-' | '.') { c } else { '-' })
        .collect();
    clean.truncate(253);
    clean.trim_matches(['-', '.']).to_owned()
}

/// A short name in words and dashes; `smart` cuts between words.
pub fn slugify(most: usize, smart: bool, name: &str) -> String {
    let mut slug = normalize(name);
    if !smart && most > 0 && slug.len() >= most {
        slug.truncate(most);
    }
    let dashed: String = slug
        .chars()
        .map(|c| if c.is_ascii_alphanumeric() || c == '_' || c == '-' { c } else { '-' })
        .collect();
    let words: Vec<&str> = dashed.split('-').filter(|word| !word.is_empty()).collect();
    let mut slug = words.join("-").trim_matches(['-', '_']).to_owned();
    if smart && most > 0 && slug.len() > most {
        let cut = slug[..=most].rfind('-').unwrap_or(most);
        slug.truncate(cut);
    }
    slug
}

/// `slugify [most [smart]] name`.
fn slugify_arguments(arguments: &[Value]) -> Done<Value> {
    let Some((last, options)) = arguments.split_last() else { return Ok("".into()) };
    let wrong = |value: &Value, wanted: &str| {
        let found = if value.is_nothing() { "nil" } else { value.type_name() };
        format!("interface conversion: interface {{}} is {found}, not {wanted}")
    };
    let Value::Text(name) = last else { return Err(wrong(last, "string")) };
    let most = match options.first() {
        None => 50,
        Some(Value::Int(most, crate::value::IntType::Int)) => usize::try_from(*most).unwrap_or(0),
        Some(other) => return Err(wrong(other, "int")),
    };
    let smart = match options.get(1) {
        None => true,
        Some(Value::Bool(smart)) => *smart,
        Some(other) => return Err(wrong(other, "bool")),
    };
    Ok(slugify(most, smart, name).into())
}
