//! Tables for people, JSON for programs.
//!
//! On a terminal times are relative ("2 minutes ago") and statuses have colours; elsewhere, and in JSON and YAML, times are
//! RFC 3339 and nothing has a colour.

use std::io::IsTerminal;

use clap::{Args, ValueEnum};
use jiff::Timestamp;
use serde::Serialize;

#[derive(Args, Clone, Copy)]
pub(crate) struct OutputArguments {
    /// Output format
    #[arg(short, long, value_enum, default_value_t = Format::Table)]
    pub(crate) output: Format,
}

#[derive(Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    #[value(alias = "text")]
    Table,
    /// A table with more columns
    Wide,
    Json,
    Yaml,
    /// Names only, one per line
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
        Format::Yaml => say_part!("{}", slipway_yaml::to_yaml(&serde_json::to_value(items)?)),
        Format::Name => items.iter().for_each(|item| say!("{}", crate::say::cell(&row(item)[0]))),
        Format::Table | Format::Wide if items.is_empty() => note!("{nothing}"),
        Format::Table | Format::Wide => {
            let plain = |cells: Vec<String>| cells.iter().map(|text| crate::say::cell(text)).collect();
            let rows: Vec<Vec<String>> = items.iter().map(row).map(plain).collect();
            say_part!("{}", table(heads, &rows));
        }
    }
    Ok(())
}

/// One object: JSON or YAML as it is, its name, or whatever `text` prints for people.
pub(crate) fn print_one<T: Serialize>(
    format: Format,
    item: &T,
    name: &str,
    text: impl FnOnce() -> anyhow::Result<()>,
) -> anyhow::Result<()> {
    match format {
        Format::Json => say!("{}", serde_json::to_string_pretty(item)?),
        Format::Yaml => say_part!("{}", slipway_yaml::to_yaml(&serde_json::to_value(item)?)),
        Format::Name => say!("{}", crate::say::cell(name)),
        Format::Table | Format::Wide => text()?,
    }
    Ok(())
}

/// What was done: a sentence for people, the object that it was done to for programs.
pub(crate) fn done<T: Serialize>(
    output: OutputArguments,
    item: &T,
    name: &str,
    sentence: &str,
) -> anyhow::Result<()> {
    print_one(output.output, item, name, || {
        say!("{sentence}");
        Ok(())
    })
}

/// Whether a person reads what is printed.
pub(crate) fn is_terminal() -> bool {
    std::io::stdout().is_terminal()
}

/// A time of the server's: how long ago on a terminal, RFC 3339 elsewhere.
pub(crate) fn when(text: &str) -> String {
    match text.parse::<Timestamp>() {
        Ok(at) if is_terminal() => ago(Timestamp::now().as_second() - at.as_second()),
        _ => text.to_owned(),
    }
}

fn ago(seconds: i64) -> String {
    let (amount, unit) = match seconds.abs() {
        0..=4 => return "just now".to_owned(),
        s @ 5..=59 => (s, "second"),
        s @ 60..=3_599 => (s / 60, "minute"),
        s @ 3_600..=86_399 => (s / 3_600, "hour"),
        s @ 86_400..=2_591_999 => (s / 86_400, "day"),
        s @ 2_592_000..=31_535_999 => (s / 2_592_000, "month"),
        s => (s / 31_536_000, "year"),
    };
    let plural = if amount == 1 { "" } else { "s" };
    if seconds < 0 { format!("in {amount} {unit}{plural}") } else { format!("{amount} {unit}{plural} ago") }
}

/// The colour of a status, as an SGR parameter.
fn colour(word: &str) -> Option<&'static str> {
    Some(match word.to_ascii_lowercase().as_str() {
        "success" | "synced" | "healthy" | "succeeded" | "approved" | "allowed" | "online" => "32",
        "error" | "failure" | "failed" | "degraded" | "denied" | "outofsync" | "missing" => "31",
        "running" | "elected" | "progressing" | "terminating" => "36",
        "pending" | "pending-approval" | "delayed" | "suspended" | "unknown" => "33",
        "terminated" | "skipped" => "90",
        _ => return None,
    })
}

/// Columns whose words are statuses.
const COLOURED: [&str; 5] = ["STATUS", "SYNC", "HEALTH", "OUTCOME", "ONLINE"];

fn table(heads: &[&str], rows: &[Vec<String>]) -> String {
    aligned(heads, rows, &widths(heads, rows), true)
}

/// As wide as the widest cell of each column.
pub(crate) fn widths(heads: &[&str], rows: &[Vec<String>]) -> Vec<usize> {
    let width = |column: usize| {
        let cells = rows.iter().map(|row| row[column].chars().count());
        cells.chain([heads[column].chars().count()]).max().unwrap_or(0)
    };
    (0..heads.len()).map(width).collect()
}

/// Rows in columns of these widths, below their headings if wanted.
pub(crate) fn aligned(heads: &[&str], rows: &[Vec<String>], widths: &[usize], headings: bool) -> String {
    let fancy = is_terminal() && std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    painted(heads, rows, widths, headings, fancy)
}

fn painted(heads: &[&str], rows: &[Vec<String>], widths: &[usize], headings: bool, fancy: bool) -> String {
    let line = |cells: Vec<&str>| {
        let last = cells.iter().rposition(|cell| !cell.is_empty()).unwrap_or(0);
        let mut text = String::new();
        for (column, cell) in cells.iter().enumerate().take(last + 1) {
            let paint = colour(cell).filter(|_| fancy && COLOURED.contains(&heads[column]));
            match paint {
                Some(paint) => text += &format!("\x1b[{paint}m{cell}\x1b[0m"),
                None => text += cell,
            }
            if column < last {
                // A row that came later may be wider than those before it.
                text += &" ".repeat(widths[column].saturating_sub(cell.chars().count()) + 3);
            }
        }
        text + "\n"
    };
    let mut text = if headings { line(heads.to_vec()) } else { String::new() };
    for row in rows {
        text += &line(row.iter().map(String::as_str).collect());
    }
    text
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
    fn times_are_told_as_people_say_them() {
        for (seconds, said) in [
            (2, "just now"),
            (59, "59 seconds ago"),
            (60, "1 minute ago"),
            (7_200, "2 hours ago"),
            (86_400 * 40, "1 month ago"),
            (-120, "in 2 minutes"),
        ] {
            assert_eq!(ago(seconds), said);
        }
        assert_eq!(when("2026-11-17T05:54:19.447Z"), "2026-11-17T05:54:19.447Z", "nobody looks at a test");
    }

    #[test]
    fn columns_are_as_wide_as_their_widest_cell_and_lines_end_without_blanks() {
        let rows = [vec!["a".to_owned(), "long cell".to_owned()], vec!["longer".to_owned(), String::new()]];
        assert_eq!(table(&["ID", "TEXT"], &rows), "ID       TEXT\na        long cell\nlonger\n");
        assert_eq!(
            painted(&["ID", "STATUS"], &[vec!["a".to_owned(), "error".to_owned()]], &[2, 6], true, true),
            "ID   STATUS\na    \x1b[31merror\x1b[0m\n"
        );
        assert_eq!(short(&"x".repeat(70)).chars().count(), 60);
        assert_eq!(short("one\ntwo"), "one");
    }
}
