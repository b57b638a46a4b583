//! Text that is written reads back as what it was written from.

use serde_json::{Map, Value, json};

struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound
    }

    fn text(&mut self) -> String {
        const BITS: [&str; 44] = [
            "a",
            "b",
            " ",
            "  ",
            "\n",
            ":",
            ": ",
            "#",
            " #",
            "-",
            "- ",
            "?",
            "'",
            "\"",
            "\\",
            "true",
            "null",
            "~",
            "1",
            "0x1",
            "1.5",
            "yes",
            "{",
            "}",
            "[",
            "]",
            ",",
            "&",
            "*",
            "!",
            "|",
            ">",
            "%",
            "@",
            "`",
            "\t",
            "é",
            "\u{85}",
            "\u{2028}",
            "\u{0}",
            "---",
            "...",
            "2020-01-01",
            "some more words that make a long line of text",
        ];
        (0..self.below(7)).map(|_| BITS[self.below(BITS.len())]).collect()
    }

    fn value(&mut self, depth: usize) -> Value {
        match self.below(if depth > 3 { 5 } else { 8 }) {
            0 => Value::Null,
            1 => Value::Bool(self.below(2) == 0),
            2 => json!(self.below(100_000) as i64 - 50_000),
            3 => json!(self.below(1000) as f64 / 8.0),
            4 => Value::String(self.text()),
            5 | 6 => (0..self.below(4)).map(|_| self.value(depth + 1)).collect(),
            _ => {
                let entries: Map<String, Value> =
                    (0..self.below(4)).map(|_| (self.text(), self.value(depth + 1))).collect();
                Value::Object(entries)
            }
        }
    }
}

fn same(a: &Value, b: &Value) -> bool {
    match (a, b) {
        (Value::Number(a), Value::Number(b)) => a.as_f64() == b.as_f64(),
        (Value::Array(a), Value::Array(b)) => a.len() == b.len() && a.iter().zip(b).all(|(a, b)| same(a, b)),
        (Value::Object(a), Value::Object(b)) => {
            a.len() == b.len() && a.iter().all(|(key, a)| b.get(key).is_some_and(|b| same(a, b)))
        }
        _ => a == b,
    }
}

#[test]
fn what_is_written_reads_back() {
    let mut dice = Dice(11);
    for _ in 0..20_000 {
        let value = dice.value(0);
        let text = slipway_yaml::to_yaml(&value);
        let read = slipway_yaml::parse(&text, slipway_yaml::Dialect::Kubernetes)
            .unwrap_or_else(|errors| panic!("{errors:?}\n{value}\n{text}"));
        let read = read.first().map_or(Value::Null, slipway_yaml::Node::to_json);
        assert!(same(&value, &read), "{value}\n{read}\n{text}");
    }
}
