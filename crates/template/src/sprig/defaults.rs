//! Defaults, types, JSON.

use crate::exec::Scope;
use crate::functions::{
    Function,
    Type::{Any, Bool, Text},
    takes, takes_more, text,
};
use crate::json::{Style, encode};
use crate::value::Value;

type Done<T> = Result<T, String>;

const COMPACT: Style = Style { escape_html: true, indent: false };
const PRETTY: Style = Style { escape_html: true, indent: true };
const RAW: Style = Style { escape_html: false, indent: false };

pub(crate) const FUNCTIONS: &[Function] = &[
    takes_more("default", &[Any], Any, |_, a| {
        Ok(a.get(1).filter(|given| !is_empty(given)).unwrap_or(&a[0]).clone())
    }),
    takes("empty", &[Any], |_, a| Ok(Value::Bool(is_empty(&a[0])))),
    takes_more("coalesce", &[], Any, |_, a| {
        Ok(a.iter().find(|value| !is_empty(value)).cloned().unwrap_or(Value::Nil))
    }),
    takes_more("all", &[], Any, |_, a| Ok(Value::Bool(!a.iter().any(is_empty)))),
    takes_more("any", &[], Any, |_, a| Ok(Value::Bool(!a.iter().all(is_empty)))),
    takes("ternary", &[Any, Any, Bool], |_, a| Ok(a[usize::from(!a[2].is_true())].clone())),
    takes("fail", &[Text], |_, a| Err(text(&a[0]).to_owned())),
    takes("typeOf", &[Any], |_, a| Ok(a[0].type_name().into())),
    takes("typeIs", &[Text, Any], |_, a| Ok(Value::Bool(text(&a[0]) == a[1].type_name()))),
    takes("typeIsLike", &[Text, Any], |_, a| {
        let name = a[1].type_name();
        Ok(Value::Bool(text(&a[0]) == name || format!("*{}", text(&a[0])) == name))
    }),
    takes("kindOf", &[Any], |_, a| Ok(a[0].kind_name().into())),
    takes("kindIs", &[Text, Any], |_, a| Ok(Value::Bool(text(&a[0]) == a[1].kind_name()))),
    // The forms without `must` drop the error and with it the text.
    takes("toJson", &[Any], |s, a| Ok(lenient(s, &a[0], &COMPACT)?.into())),
    takes("mustToJson", &[Any], |s, a| Ok(encode(s, &a[0], &COMPACT)?.into())),
    takes("toPrettyJson", &[Any], |s, a| Ok(lenient(s, &a[0], &PRETTY)?.into())),
    takes("mustToPrettyJson", &[Any], |s, a| Ok(encode(s, &a[0], &PRETTY)?.into())),
    takes("toRawJson", &[Any], |s, a| Ok(encode(s, &a[0], &RAW)?.into())),
    takes("mustToRawJson", &[Any], |s, a| Ok(encode(s, &a[0], &RAW)?.into())),
    takes("fromJson", &[Text], |s, a| match serde_json::from_str(text(&a[0])) {
        Ok(json) => s.value_of_json(&json),
        Err(_) => Ok(Value::Nil),
    }),
    takes("mustFromJson", &[Text], |s, a| match serde_json::from_str(text(&a[0])) {
        Ok(json) => s.value_of_json(&json),
        Err(error) => Err(error.to_string()),
    }),
];

/// sprig's `empty`.
pub(crate) fn is_empty(value: &Value) -> bool {
    !value.is_true()
}

/// What cannot be written as JSON is the empty text; what goes past a limit is still refused.
fn lenient(scope: &mut Scope<'_>, value: &Value, style: &Style) -> Done<String> {
    match encode(scope, value, style) {
        Err(message) if message.starts_with("json:") => Ok(String::new()),
        other => other,
    }
}
