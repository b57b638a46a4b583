//! A step that stands for many: `withItems`, `withParam`, `withSequence`.

use jiff::Timestamp;
use serde_json::Value;
use slipway_crd::workflow::{Sequence, Step};

use crate::scope::{Scope, text_of};

/// More are no list that somebody meant.
const ITEMS_MAX: usize = 100_000;

/// One of many.
#[derive(Debug)]
pub(super) struct Item {
    /// `step(0:value)`
    pub name: String,
    /// `item`, `item.key`
    pub scope: Scope,
}

/// `None`: the step stands for itself.
pub(super) fn expand(step: &Step, scope: &Scope, now: Timestamp) -> Result<Option<Vec<Item>>, String> {
    let values = if let Some(items) = &step.with_items {
        items.iter().map(|item| scope.fill(item, now)).collect::<Result<Vec<_>, _>>()?
    } else if !step.with_param.is_empty() {
        let text = scope.fill_text(&step.with_param, now)?;
        match serde_json::from_str::<Value>(&text) {
            Ok(Value::Array(values)) => values,
            _ => {
                return Err(format!(
                    "withParam value could not be parsed as a JSON list: {}",
                    start_of(&text)
                ));
            }
        }
    } else if let Some(sequence) = &step.with_sequence {
        numbers(sequence, scope, now)?
    } else {
        return Ok(None);
    };
    if values.len() > ITEMS_MAX {
        return Err(format!("`{}` stands for {} steps, and may for {ITEMS_MAX}", step.name, values.len()));
    }
    Ok(Some(values.iter().enumerate().map(|(at, value)| item(&step.name, at, value)).collect()))
}

fn start_of(text: &str) -> &str {
    &text[..text.floor_char_boundary(200)]
}

fn item(step: &str, at: usize, value: &Value) -> Item {
    let mut scope = Scope::default();
    scope.set("item", text_of(value));
    let shown = match value {
        Value::Object(entries) => {
            for (name, value) in entries {
                scope.set(format!("item.{name}"), text_of(value));
            }
            let parts: Vec<String> =
                entries.iter().map(|(name, value)| format!("{name}:{}", text_of(value))).collect();
            parts.join(",")
        }
        Value::Array(items) => {
            for (at, value) in items.iter().enumerate() {
                scope.set(format!("item[{at}]"), text_of(value));
            }
            format!("[{}]", items.iter().map(text_of).collect::<Vec<_>>().join(" "))
        }
        other => text_of(other),
    };
    Item { name: format!("{step}({at}:{})", shown.replace(['(', ')'], "")), scope }
}

fn numbers(sequence: &Sequence, scope: &Scope, now: Timestamp) -> Result<Vec<Value>, String> {
    let number = |name: &str, value: &Option<Value>| -> Result<Option<i64>, String> {
        let Some(value) = value else { return Ok(None) };
        let text = scope.fill_text(&text_of(value), now)?;
        text.trim().parse().map(Some).map_err(|_| format!("withSequence.{name} is `{text}`, and no number"))
    };
    let start = number("start", &sequence.start)?.unwrap_or(0);
    let all: Vec<i64> = match (number("count", &sequence.count)?, number("end", &sequence.end)?) {
        (Some(count), _) => {
            let count = usize::try_from(count).map_err(|_| "withSequence.count is below 0")?;
            if count > ITEMS_MAX {
                return Err(format!("withSequence.count is {count}, and may be {ITEMS_MAX}"));
            }
            (0..count).map(|step| start.saturating_add(i64::try_from(step).unwrap_or(i64::MAX))).collect()
        }
        (None, Some(end)) => {
            if start.abs_diff(end) > ITEMS_MAX as u64 {
                return Err(format!(
                    "withSequence goes from {start} to {end}, and may have {ITEMS_MAX} numbers"
                ));
            }
            if start <= end { (start..=end).collect() } else { (end..=start).rev().collect() }
        }
        (None, None) => return Err("withSequence has neither count nor end".into()),
    };
    let format = if sequence.format.is_empty() { "%d" } else { &sequence.format };
    all.iter().map(|number| printed(format, *number).map(Value::String)).collect()
}

/// The verbs of Go's printf that make sense for a whole number.
fn printed(format: &str, number: i64) -> Result<String, String> {
    let mut done = String::new();
    let mut letters = format.chars().peekable();
    while let Some(letter) = letters.next() {
        if letter != '%' {
            done.push(letter);
            continue;
        }
        if letters.next_if_eq(&'%').is_some() {
            done.push('%');
            continue;
        }
        let zero = letters.next_if_eq(&'0').is_some();
        let mut width = 0_usize;
        while let Some(digit) = letters.next_if(char::is_ascii_digit) {
            width = (width * 10 + digit.to_digit(10).unwrap_or_default() as usize).min(64);
        }
        let text = match letters.next() {
            Some('d' | 'v') => number.to_string(),
            Some('x') => hex(number, format!("{:x}", number.unsigned_abs())),
            Some('X') => hex(number, format!("{:X}", number.unsigned_abs())),
            Some('o') => hex(number, format!("{:o}", number.unsigned_abs())),
            other => {
                let verb = other.map(String::from).unwrap_or_default();
                return Err(format!("withSequence.format: `%{verb}` prints no whole number"));
            }
        };
        if zero {
            let (sign, digits) = text.split_at(usize::from(text.starts_with('-')));
            done.push_str(sign);
            done.push_str(&format!("{digits:0>width$}", width = width.saturating_sub(sign.len())));
        } else {
            done.push_str(&format!("{text:>width$}"));
        }
    }
    Ok(done)
}

fn hex(number: i64, digits: String) -> String {
    if number < 0 { format!("-{digits}") } else { digits }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn names(step: Value) -> Result<Vec<String>, String> {
        let step: Step = serde_json::from_value(step).expect("a step");
        let mut scope = Scope::default();
        scope.set("inputs.parameters.list", r#"[{"os":"debian","v":"12"}, "a(b)"]"#);
        scope.set("inputs.parameters.n", "3");
        let found = expand(&step, &scope, Timestamp::UNIX_EPOCH)?;
        Ok(found.into_iter().flatten().map(|item| item.name).collect())
    }

    #[test]
    fn a_step_stands_for_many() {
        for (step, wanted) in [
            (json!({"name": "a", "withItems": ["x", 2, true]}), vec!["a(0:x)", "a(1:2)", "a(2:true)"]),
            (
                json!({"name": "a", "withParam": "{{inputs.parameters.list}}"}),
                vec!["a(0:os:debian,v:12)", "a(1:ab)"],
            ),
            (
                json!({"name": "a", "withSequence": {"count": "{{inputs.parameters.n}}"}}),
                vec!["a(0:0)", "a(1:1)", "a(2:2)"],
            ),
            (
                json!({"name": "a", "withSequence": {"start": "9", "end": "8", "format": "t%03d"}}),
                vec!["a(0:t009)", "a(1:t008)"],
            ),
            (json!({"name": "a", "withItems": []}), vec![]),
            (json!({"name": "a"}), vec![]),
        ] {
            let wanted: Vec<String> = wanted.into_iter().map(Into::into).collect();
            assert_eq!(names(step.clone()), Ok(wanted), "{step}");
        }
    }

    #[test]
    fn what_is_no_list_is_said() {
        for step in [
            json!({"name": "a", "withParam": "{{inputs.parameters.n}}"}),
            json!({"name": "a", "withParam": "nonsense"}),
            json!({"name": "a", "withSequence": {"count": "-1"}}),
            json!({"name": "a", "withSequence": {"count": "99999999999"}}),
            json!({"name": "a", "withSequence": {"start": "0", "end": "9999999999"}}),
            json!({"name": "a", "withSequence": {"count": 1, "format": "%s"}}),
        ] {
            assert!(names(step.clone()).is_err(), "{step}");
        }
    }
}
