//! Tables for people, JSON for programs.

use clap::{Args, ValueEnum};
use serde::Serialize;

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
    fn columns_are_as_wide_as_their_widest_cell_and_lines_end_without_blanks() {
        let rows = [vec!["a".to_owned(), "long cell".to_owned()], vec!["longer".to_owned(), String::new()]];
        assert_eq!(table(&["ID", "TEXT"], &rows), "ID       TEXT\na        long cell\nlonger\n");
        assert_eq!(short(&"x".repeat(70)).chars().count(), 60);
        assert_eq!(short("one\ntwo"), "one");
    }
}
