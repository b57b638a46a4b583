//! The rooms and their arrows: the table in ARCHITECTURE.md says what may use what, `cargo metadata` what does.

use std::collections::{BTreeMap, BTreeSet};
use std::process::Command;

use anyhow::{Context, bail};
use serde_json::Value;

/// A pure room that could name one of these could do something.
const IMPURE: [&str; 9] =
    ["tokio", "reqwest", "kube", "rusqlite", "axum", "hyper", "getrandom", "tempfile", "nix"];

struct Room {
    pure: bool,
    may_use: BTreeSet<String>,
}

pub(crate) fn tidy() -> anyhow::Result<String> {
    let text = std::fs::read_to_string("ARCHITECTURE.md").context("run it from the root of the workspace")?;
    let rooms = table(&text);
    if rooms.is_empty() {
        bail!("ARCHITECTURE.md has no table of rooms");
    }
    let mut wrong = Vec::new();
    let packages = packages()?;
    for (name, dependencies) in &packages {
        let Some(room) = rooms.get(name) else {
            wrong.push(format!("`{name}` is a crate, but no room in ARCHITECTURE.md"));
            continue;
        };
        for used in dependencies {
            match used.strip_prefix("slipway-") {
                Some(other) if !room.may_use.contains(other) => {
                    wrong.push(format!("`{name}` uses `{other}`, which ARCHITECTURE.md does not allow"));
                }
                None if room.pure && IMPURE.contains(&used.as_str()) => {
                    wrong.push(format!("`{name}` is a pure room and names `{used}`"));
                }
                _ => {}
            }
        }
    }
    for name in rooms.keys().filter(|name| !packages.contains_key(*name)) {
        wrong.push(format!("`{name}` is a room in ARCHITECTURE.md, but no crate"));
    }
    let described = std::fs::read_to_string("docs/rooms.md").context("docs/rooms.md describes the rooms")?;
    for name in rooms.keys().filter(|name| !described.lines().any(|line| line == format!("### `{name}`"))) {
        wrong.push(format!("`{name}` has no entry in docs/rooms.md: its invariant and its boundary"));
    }
    if !wrong.is_empty() {
        bail!("the rooms and the table disagree:\n  {}", wrong.join("\n  "));
    }
    Ok(format!("{} rooms, every arrow as in ARCHITECTURE.md", packages.len()))
}

/// Rows look like: | pure | `model` | … | – |
fn table(text: &str) -> BTreeMap<String, Room> {
    let mut rooms = BTreeMap::new();
    let mut tier = "";
    for line in text.lines().filter(|line| line.starts_with('|')) {
        let cells: Vec<_> = line.trim_matches('|').split('|').map(str::trim).collect();
        let [first, name, .., uses] = cells[..] else { continue };
        if !first.is_empty() {
            tier = first;
        }
        let Some(name) = name.strip_prefix('`').and_then(|rest| rest.strip_suffix('`')) else { continue };
        let may_use = uses.split(',').map(|used| used.trim().trim_matches('`').to_owned()).collect();
        rooms.insert(name.to_owned(), Room { pure: tier == "pure", may_use });
    }
    rooms
}

fn packages() -> anyhow::Result<BTreeMap<String, Vec<String>>> {
    let output = Command::new("cargo")
        .args(["metadata", "--no-deps", "--format-version", "1", "--offline"])
        .output()?;
    let metadata: Value = serde_json::from_slice(&output.stdout).context("cargo metadata did not answer")?;
    let mut packages = BTreeMap::new();
    for package in metadata["packages"].as_array().into_iter().flatten() {
        let name = package["name"].as_str().unwrap_or_default();
        let dependencies = package["dependencies"].as_array().into_iter().flatten();
        let normal = dependencies.filter(|dependency| dependency["kind"].is_null());
        let names = normal.filter_map(|dependency| dependency["name"].as_str().map(str::to_owned)).collect();
        packages.insert(name.strip_prefix("slipway-").unwrap_or(name).to_owned(), names);
    }
    Ok(packages)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_of_the_table_become_rooms_with_their_tier() {
        let rooms = table(
            "| tier | room | what | may use |\n|---|---|---|---|\n| pure | `model` | nouns | – |\n| | `crd` | kinds | model |\n| edge | `store` | SQL | `model` |\n",
        );
        assert_eq!(rooms.keys().collect::<Vec<_>>(), ["crd", "model", "store"]);
        assert!(rooms["crd"].pure && !rooms["store"].pure && rooms["store"].may_use.contains("model"));
    }
}
