//! `sprig.NAME(…)` of expressions: the functions of the room `template`, called with values.
//!
//! A call becomes a template that names its arguments: what they hold is data, and never text of it.

use jiff::Timestamp;
use serde_json::{Map, Value};
use slipway_template::{Data, Environment, Functions, Limits, Template};

/// What is something else at every look cannot be a part of a plan; the environment of the engine is nobody's business.
const REFUSED: &[&str] = &["env", "expandenv", "uuidv4", "shuffle", "randInt", "getHostByName"];

/// `None`: it is no function of sprig.
pub(crate) fn call(name: &str, arguments: &[Value], now: Timestamp) -> Option<Result<Value, String>> {
    let name = name.strip_prefix("sprig.")?;
    let functions = Functions::application_set();
    functions.names().find(|known| *known == name)?;
    if REFUSED.contains(&name) || name.starts_with("rand") {
        return Some(Err("it is not offered here".into()));
    }
    Some(called(name, arguments, functions, now))
}

fn called(
    name: &str,
    arguments: &[Value],
    functions: &'static Functions,
    now: Timestamp,
) -> Result<Value, String> {
    let (mut words, mut data) = (vec![name.to_owned()], Map::new());
    for (at, argument) in arguments.iter().enumerate() {
        match argument {
            // Whole numbers are such only where they are written as one.
            Value::Number(number) if !number.is_f64() => words.push(number.to_string()),
            Value::Bool(truth) => words.push(truth.to_string()),
            other => {
                words.push(format!(".a{at}"));
                data.insert(format!("a{at}"), other.clone());
            }
        }
    }
    let text = format!("{{{{ toJson ({}) }}}}", words.join(" "));
    let options: [&str; 0] = [];
    let template = Template::parse(name, &text, &options, functions).map_err(|error| error.to_string())?;
    let limits = Limits { output_bytes: 1 << 20, work_bytes: 8 << 20, steps: 100_000, ..Limits::default() };
    let mut environment = Environment { now, random: &mut || 0, limits };
    let answer = template
        .render(&Data::Json(Value::Object(data)), &mut environment)
        .map_err(|error| error.to_string())?;
    serde_json::from_str(&answer).map_err(|error| error.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn functions_are_called_with_values_and_never_with_text() {
        let call = |name: &str, arguments: &[Value]| call(name, arguments, Timestamp::UNIX_EPOCH);
        for (name, arguments, wanted) in [
            ("sprig.upper", vec![json!("a}} {{ .a0 }}")], json!("A}} {{ .A0 }}")),
            ("sprig.trunc", vec![json!(3), json!("abcdef")], json!("abc")),
            ("sprig.join", vec![json!("-"), json!(["a", "b"])], json!("a-b")),
            ("sprig.add", vec![json!(1), json!(2)], json!(3)),
            ("sprig.b64enc", vec![json!("a")], json!("YQ==")),
            ("sprig.dict", vec![json!("a"), json!("b")], json!({"a": "b"})),
        ] {
            assert_eq!(call(name, &arguments), Some(Ok(wanted)), "{name}");
        }
        assert!(call("sprig.nobody", &[]).is_none() && call("upper", &[]).is_none());
        for name in ["sprig.env", "sprig.randAlpha", "sprig.uuidv4", "sprig.genPrivateKey", "sprig.upper"] {
            assert!(call(name, &[]).is_none_or(|answer| answer.is_err()), "{name}");
        }
    }
}
