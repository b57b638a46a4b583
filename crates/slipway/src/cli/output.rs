//! Tables for people, JSON for programs.

use clap::{Args, ValueEnum};
use serde::Serialize;
use serde_json::Value;

#[derive(Args, Clone, Copy)]
pub(crate) struct OutputArguments {
    /// How to print
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    Table,
    /// A table with more columns
    Wide,
    Json,
    Yaml,
    /// Only names, one on a line
    Name,
}

/// One line for each item; the first column is the name that other commands take.
pub(crate) fn print<T: Serialize>(
    format: Format,
    items: &[T],
    heads: &[&str],
    row: impl Fn(&T) -> Vec<String>,
    nothing: &str,
) -> anyhow::Result<()> {
    match format {
        Format::Json => say!("{}", serde_json::to_string_pretty(items)?),
        Format::Yaml => say_part!("{}", yaml(&serde_json::to_value(items)?)),
        Format::Name => items.iter().for_each(|item| say!("{}", row(item)[0])),
        Format::Table | Format::Wide if items.is_empty() => eprintln!("{nothing}"),
        Format::Table | Format::Wide => {
            let rows: Vec<Vec<String>> = items.iter().map(row).collect();
            say_part!("{}", table(heads, &rows));
        }
    }
    Ok(())
}

fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([heads[column].chars().count()]).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..heads.len()).map(width).collect();
    let line = |cells: Vec<&str>| {
        let padded = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}"));
        padded.collect::<Vec<_>>().join("   ").trim_end().to_owned() + "\n"
    };
    let mut text = line(heads.to_vec());
    for row in rows {
        text += &line(row.iter().map(String::as_str).collect());
    }
    text
}

/// A value as YAML: keys as they come, texts quoted where YAML would read something else.
pub(crate) fn yaml(value: &Value) -> String {
    let mut out = String::new();
    write_yaml(&mut out, value, 0);
    if !out.ends_with('\n') {
        out.push('\n');
    }
    out
}

fn write_yaml(out: &mut String, value: &Value, indent: usize) {
    let pad = " ".repeat(indent);
    match value {
        Value::Object(map) if !map.is_empty() => {
            for (key, value) in map {
                *out += &format!("{pad}{}:", scalar(&Value::from(key.as_str())));
                write_under(out, value, indent + 2);
            }
        }
        Value::Array(items) if !items.is_empty() => {
            for item in items {
                *out += &format!("{pad}-");
                let mut text = String::new();
                write_yaml(&mut text, item, indent + 2);
                match item {
                    Value::Object(map) if !map.is_empty() => *out += &format!(" {}", text.trim_start()),
                    Value::Array(list) if !list.is_empty() => *out += &format!("\n{text}"),
                    scalar_value => *out += &format!(" {}\n", scalar(scalar_value)),
                }
            }
        }
        other => *out += &format!("{pad}{}\n", scalar(other)),
    }
}

fn write_under(out: &mut String, value: &Value, indent: usize) {
    let nested = match value {
        Value::Object(map) => !map.is_empty(),
        Value::Array(items) => !items.is_empty(),
        _ => false,
    };
    if nested {
        out.push('\n');
        write_yaml(out, value, indent);
    } else {
        *out += &format!(" {}\n", scalar(value));
    }
}

fn scalar(value: &Value) -> String {
    let Value::String(text) = value else { return value.to_string() };
    let plain =
        |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.' | '/' | ' ' | '@' | '(' | ')');
    let safe = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(plain)
        && !text.ends_with(' ')
        && !["true", "false", "null", "yes", "no", "on", "off", "y", "n"]
            .contains(&text.to_lowercase().as_str());
    // JSON's strings are YAML's.
    if safe { text.clone() } else { value.to_string() }
}

/// The first line, cut to what fits in a table.
pub(crate) fn short(text: &str) -> String {
    let first = text.lines().next().unwrap_or_default();
    if first.chars().count() <= 60 {
        first.to_owned()
    } else {
        first.chars().take(59).chain(['…']).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn yaml_says_what_json_said() {
        let value = serde_json::json!({"name": "a b", "on": true, "list": [1, {"x": "yes", "y": []}, ["z"]], "empty": {}, "text": "a: b"});
        let expected = "empty: {}\nlist:\n  - 1\n  - x: \"yes\"\n    \"y\": []\n  -\n    - z\nname: a b\n\"on\": true\ntext: \"a: b\"\n";
        assert_eq!(yaml(&value), expected);
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_lines_end_without_blanks() {
        let rows = [vec!["a".to_owned(), "long cell".to_owned()], vec!["longer".to_owned(), String::new()]];
        assert_eq!(table(&["ID", "TEXT"], &rows), "ID       TEXT\na        long cell\nlonger\n");
        assert_eq!(short(&"x".repeat(70)).chars().count(), 60);
        assert_eq!(short("one\ntwo"), "one");
    }
}
