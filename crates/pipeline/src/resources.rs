//! How much of a machine a step may use, as files write it: `500m`, `2`, `1.5`, `512Mi`, `2Gi`, `1073741824`.
//!
//! In: text as Kubernetes has it. Out: thousandths of a processor and bytes, or a sentence on what is wrong with the
//! text. Who enforces it is the executor's business.

use serde::{Deserialize, Serialize};
use serde_json::Value;

/// What one step is promised, and what it may not exceed.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Resources {
    pub limits: Amounts,
    pub requests: Amounts,
}

/// As written, with variables filled in.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Amounts {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cpu: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub memory: Option<String>,
}

impl Amounts {
    fn read(value: &Value) -> Self {
        let text = |key: &str| match value.get(key)? {
            Value::String(text) => Some(text.trim().to_owned()).filter(|text| !text.is_empty()),
            Value::Number(number) => Some(number.to_string()),
            _ => None,
        };
        Self { cpu: text("cpu"), memory: text("memory") }
    }

    pub fn or(self, other: Self) -> Self {
        Self { cpu: self.cpu.or(other.cpu), memory: self.memory.or(other.memory) }
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }
}

impl Resources {
    /// `{limits: {cpu, memory}, requests: {…}}`, or `{cpu, memory}` for limits alone.
    pub fn read(value: &Value) -> Self {
        let part = |key: &str| value.get(key).map(Amounts::read).unwrap_or_default();
        Self { limits: part("limits").or(Amounts::read(value)), requests: part("requests") }
    }

    /// Each amount of ours that is there, else the other's.
    pub fn or(self, other: Self) -> Self {
        Self { limits: self.limits.or(other.limits), requests: self.requests.or(other.requests) }
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// All that is wrong, in a sentence each.
    pub fn findings(&self) -> Vec<String> {
        let mut wrong = Vec::new();
        for (part, amounts) in [("limits", &self.limits), ("requests", &self.requests)] {
            if let Some(text) = amounts.cpu.as_deref().filter(|text| cpu_millis(text).is_none()) {
                wrong.push(format!(
                    "resources.{part}.cpu `{text}` is no number of processors: write `2`, `0.5` or `500m`"
                ));
            }
            if let Some(text) = amounts.memory.as_deref().filter(|text| memory_bytes(text).is_none()) {
                wrong.push(format!(
                    "resources.{part}.memory `{text}` is no amount of memory: write `512Mi`, `2Gi` or a number of bytes"
                ));
            }
        }
        wrong
    }
}

/// Thousandths of a processor; never none of it.
pub fn cpu_millis(text: &str) -> Option<u64> {
    let (digits, factor) = match text.strip_suffix('m') {
        Some(digits) => (digits, 1.0),
        None => (text, 1000.0),
    };
    positive(digits, factor)
}

pub fn memory_bytes(text: &str) -> Option<u64> {
    const UNITS: [(&str, f64); 10] = [
        ("Ki", 1024.0),
        ("Mi", 1048576.0),
        ("Gi", 1073741824.0),
        ("Ti", 1099511627776.0),
        ("k", 1e3),
        ("K", 1e3),
        ("M", 1e6),
        ("G", 1e9),
        ("T", 1e12),
        ("", 1.0),
    ];
    let (digits, factor) =
        UNITS.iter().find_map(|(unit, factor)| Some((text.strip_suffix(unit)?, *factor)))?;
    positive(digits, factor)
}

fn positive(digits: &str, factor: f64) -> Option<u64> {
    let plain = !digits.is_empty() && digits.chars().all(|c| c.is_ascii_digit() || c == '.');
    let amount = digits.parse::<f64>().ok().filter(|_| plain)? * factor;
    (1.0..1e18).contains(&amount).then_some(amount as u64)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn amounts_read_as_kubernetes_reads_them() {
        for (text, expect) in [
            ("2", Some(2000)),
            ("0.5", Some(500)),
            ("500m", Some(500)),
            ("0", None),
            ("-1", None),
            ("two", None),
        ] {
            assert_eq!(cpu_millis(text), expect, "{text}");
        }
        for (text, expect) in [
            ("512Mi", Some(512 << 20)),
            ("2Gi", Some(2 << 30)),
            ("1.5Gi", Some(3 << 29)),
            ("1000", Some(1000)),
            ("1M", Some(1_000_000)),
            ("1e3", None),
            ("MB", None),
            ("", None),
        ] {
            assert_eq!(memory_bytes(text), expect, "{text}");
        }
    }

    #[test]
    fn the_short_form_is_limits_and_every_fault_is_told() {
        let short = Resources::read(&json!({"cpu": 2, "memory": "1Gi"}));
        assert_eq!(short.limits, Amounts { cpu: Some("2".into()), memory: Some("1Gi".into()) });
        let both = Resources::read(&json!({"limits": {"cpu": "lots"}, "requests": {"memory": "1 gig"}}));
        assert_eq!(both.findings().len(), 2, "{:?}", both.findings());
        assert!(short.findings().is_empty());
    }
}
