//! `--watch`: print a list, then each of its rows again whenever it changes, until the command is interrupted.
//!
//! In: rows of one kind, the first time all and later the changed ones. Out: tables get the new row below the others, JSON
//! one object per line, YAML one document each. What is gone is told on stderr, so that stdout holds rows alone.

use std::collections::BTreeMap;

use clap::Args;
use serde::Serialize;

use super::output::{Format, aligned, widths};

#[derive(Args, Clone, Copy, Default)]
pub(crate) struct WatchArguments {
    /// Then print every change as it happens, until interrupted
    #[arg(short, long)]
    pub(crate) watch: bool,
}

/// Columns that differ with the time of day, not with what they are about.
const TIMES: [&str; 4] = ["CREATED", "STARTED", "FINISHED", "UPDATED"];

/// The cells of an item.
type Row<'a, T> = dyn Fn(&T) -> Vec<String> + 'a;

pub(crate) struct Watched<'a, T> {
    format: Format,
    heads: &'a [&'a str],
    row: Box<Row<'a, T>>,
    key: Box<dyn Fn(&T) -> String + 'a>,
    widths: Option<Vec<usize>>,
    shown: BTreeMap<String, String>,
}

impl<'a, T: Serialize> Watched<'a, T> {
    pub(crate) fn new(
        format: Format,
        heads: &'a [&'a str],
        row: impl Fn(&T) -> Vec<String> + 'a,
        key: impl Fn(&T) -> String + 'a,
    ) -> Self {
        Self { format, heads, row: Box::new(row), key: Box::new(key), widths: None, shown: BTreeMap::new() }
    }

    /// Whether something was printed.
    pub(crate) fn has_begun(&self) -> bool {
        !self.shown.is_empty()
    }

    /// All there is: prints what is new or different, and tells what is gone.
    pub(crate) fn all(&mut self, items: &[T]) -> anyhow::Result<()> {
        let keys: Vec<String> = items.iter().map(&self.key).collect();
        let gone: Vec<String> = self.shown.keys().filter(|key| !keys.contains(key)).cloned().collect();
        gone.iter().for_each(|key| self.gone(key));
        self.some(items)
    }

    /// Prints what is new or different.
    pub(crate) fn some(&mut self, items: &[T]) -> anyhow::Result<()> {
        let mut fresh = Vec::new();
        for item in items {
            let seen = self.fingerprint(item)?;
            if self.shown.insert((self.key)(item), seen.clone()).as_ref() != Some(&seen) {
                fresh.push(item);
            }
        }
        self.print(&fresh)
    }

    /// No longer there, or no longer matched.
    pub(crate) fn gone(&mut self, key: &str) {
        if self.shown.remove(key).is_some() {
            note!("{key} is no longer listed");
        }
    }

    fn fingerprint(&self, item: &T) -> anyhow::Result<String> {
        if matches!(self.format, Format::Json | Format::Yaml) {
            return Ok(serde_json::to_string(item)?);
        }
        let lasting = (self.row)(item).into_iter().zip(self.heads).filter(|(_, head)| !TIMES.contains(head));
        Ok(lasting.map(|(cell, _)| cell).collect::<Vec<_>>().join("\u{1f}"))
    }

    fn print(&mut self, items: &[&T]) -> anyhow::Result<()> {
        match self.format {
            Format::Json => {
                for item in items {
                    say!("{}", serde_json::to_string(item)?);
                }
            }
            Format::Yaml => {
                for item in items {
                    say_part!("---\n{}", slipway_yaml::to_yaml(&serde_json::to_value(item)?));
                }
            }
            Format::Name => {
                items.iter().for_each(|item| say!("{}", crate::say::cell(&(self.row)(item)[0])));
            }
            Format::Table | Format::Wide => {
                let plain = |cells: Vec<String>| cells.iter().map(|text| crate::say::cell(text)).collect();
                let rows: Vec<Vec<String>> = items.iter().map(|item| plain((self.row)(item))).collect();
                let first = self.widths.is_none();
                let widths = self.widths.get_or_insert_with(|| widths(self.heads, &rows));
                say_part!("{}", aligned(self.heads, &rows, widths, first));
            }
        }
        Ok(())
    }
}
