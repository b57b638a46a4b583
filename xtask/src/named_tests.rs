//! Tests that documents name: each has to exist, and to be among those that ran.
//!
//! In: `docs/**/*.md`, README.md, CONTRIBUTING.md and ARCHITECTURE.md; the test functions in the sources, or the list that
//! `scripts/run-tests.mjs` keeps of the programs that it ran. Out: a finding with file and line for each name that is
//! nowhere. A name is a word in backticks with three underscores or more, or with `::` and two: `kill::a_b_c`, `runner: a_b_c_d`,
//! `k64_…` for all that begin so. Paths in backticks (`e2e/tests/path.test.mjs`) have to be there too.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

use anyhow::{Context, bail};

/// Folders whose files documents name by path.
const PLACES: [&str; 6] = ["crates/", "e2e/", "web/src/", "scripts/", "bench/", "xtask/"];

/// Words that look like tests and are something else: metrics, resources of Terraform, a setting of PostgreSQL.
fn is_other(word: &str) -> bool {
    word.starts_with("slipway_")
        || word.starts_with("codefresh_")
        || word == "idle_in_transaction_session_timeout"
}

pub(crate) fn check(ran: Option<&Path>) -> anyhow::Result<String> {
    let known =
        match ran {
            Some(list) => listed(&std::fs::read_to_string(list).with_context(|| {
                format!("cannot read {}: scripts/run-tests.mjs writes it", list.display())
            })?),
            None => written()?,
        };
    if known.is_empty() {
        bail!("no tests were found to compare the documents with");
    }
    let mut wrong = Vec::new();
    let mut named = 0;
    for file in documents()? {
        let text = std::fs::read_to_string(&file)?;
        for (line, word) in words(&text) {
            let place = format!("{}:{line}", file.display());
            if PLACES.iter().any(|folder| word.starts_with(folder)) {
                if !word.contains(['*', '…', '<', '{', ' ', '$'])
                    && !Path::new(word.split([':', '#']).next().unwrap_or(word)).exists()
                {
                    wrong.push(format!("{place}: there is no file `{word}`"));
                }
            } else if let Some(test) = as_test(word).filter(|word| !is_other(word)) {
                named += 1;
                if !is_known(&known, test) {
                    let which = if ran.is_some() { "that ran" } else { "in the sources" };
                    wrong.push(format!("{place}: there is no test `{test}` {which}"));
                }
            }
        }
    }
    if !wrong.is_empty() {
        bail!("documents name what is not there:\n  {}", wrong.join("\n  "));
    }
    Ok(format!(
        "{named} tests named in documents, all of them among those {}",
        if ran.is_some() { "that ran" } else { "in the sources" }
    ))
}

fn documents() -> anyhow::Result<Vec<PathBuf>> {
    let mut found = vec!["README.md".into(), "CONTRIBUTING.md".into(), "ARCHITECTURE.md".into()];
    collect(Path::new("docs"), "md", &mut found)?;
    found.sort();
    Ok(found)
}

fn collect(folder: &Path, extension: &str, found: &mut Vec<PathBuf>) -> anyhow::Result<()> {
    for entry in std::fs::read_dir(folder).with_context(|| format!("cannot read {}", folder.display()))? {
        let path = entry?.path();
        if path.is_dir() {
            collect(&path, extension, found)?;
        } else if path.extension().is_some_and(|known| known == extension) {
            found.push(path);
        }
    }
    Ok(())
}

/// What stands in backticks, with the number of its line; not what is in blocks of code.
fn words(text: &str) -> Vec<(usize, &str)> {
    let mut all = Vec::new();
    let mut block = false;
    for (number, line) in text.lines().enumerate() {
        if line.trim_start().starts_with("```") {
            block = !block;
            continue;
        }
        if !block {
            all.extend(line.split('`').skip(1).step_by(2).map(|word| (number + 1, word.trim())));
        }
    }
    all
}

/// The name of a test without the room before it, if the word is one.
fn as_test(word: &str) -> Option<&str> {
    let name = match word.split_once(": ") {
        Some((room, name)) if room.chars().all(|c| c.is_ascii_lowercase()) => name,
        Some(_) => return None,
        None => word,
    };
    let plain = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_';
    let parts: Vec<&str> = name.trim_end_matches('…').split("::").collect();
    if !parts.iter().all(|part| !part.is_empty() && part.chars().all(plain)) {
        return None;
    }
    let underscores = parts.last().map_or(0, |last| last.matches('_').count());
    let least = if parts.len() > 1 { 2 } else { 3 };
    (underscores >= least || (name.ends_with('…') && parts.len() > 1)).then_some(name)
}

fn is_known(known: &BTreeSet<String>, name: &str) -> bool {
    match name.strip_suffix('…') {
        Some(beginning) => {
            let inside = format!("::{beginning}");
            known.iter().any(|test| test.starts_with(beginning) || test.contains(&inside))
        }
        None => {
            let inside = format!("::{name}");
            known.iter().any(|test| test == name || test.ends_with(&inside))
        }
    }
}

/// Lines as a test program prints them with `--list --format terse`: `module::name: test`. Documents leave the module
/// `tests` of a file out, so it is known without it, too.
fn listed(text: &str) -> BTreeSet<String> {
    let names = text.lines().filter_map(|line| line.trim().strip_suffix(": test"));
    names.flat_map(|name| [name.to_owned(), name.replace("tests::", "")]).collect()
}

/// Test functions in the sources, with the modules that their files are.
fn written() -> anyhow::Result<BTreeSet<String>> {
    let mut files = Vec::new();
    collect(Path::new("crates"), "rs", &mut files)?;
    collect(Path::new("xtask"), "rs", &mut files)?;
    let mut found = BTreeSet::new();
    for file in files {
        let modules = modules(&file);
        for name in functions(&std::fs::read_to_string(&file)?) {
            // Whether in a module `tests` of the file or not: documents write either.
            found.insert(format!("{modules}::{name}"));
            found.insert(format!("{modules}::tests::{name}"));
        }
    }
    Ok(found)
}

/// `crates/x/src/a/b.rs` is `a::b`; `crates/x/tests/it/a.rs` is `a`.
fn modules(file: &Path) -> String {
    let text = file.with_extension("").display().to_string();
    let below = ["/tests/it/", "/tests/", "/src/"]
        .iter()
        .find_map(|mark| text.split_once(mark).map(|(_, rest)| rest));
    let below = below.unwrap_or(&text).trim_end_matches("/mod");
    below.replace('/', "::")
}

/// Names of functions that an attribute marks as tests.
fn functions(text: &str) -> Vec<&str> {
    let mut marked = false;
    let mut names = Vec::new();
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[test]") || line.starts_with("#[tokio::test") {
            marked = true;
        } else if marked && let Some(rest) = line.split("fn ").nth(1) {
            names.extend(rest.split(['(', '<']).next());
            marked = false;
        }
    }
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_in_documents_are_told_from_other_words() {
        for name in ["a_b_c_d", "kill::a_b_c", "runner: reach::c1_a_b", "certificates::k64_…"] {
            assert!(as_test(name).is_some(), "{name}");
        }
        for other in ["a_b_c", "SLIPWAY_A_B_C", "metadata.name_of_it_x", "sync::plan", "--a_b_c_d", "get: X"]
        {
            assert!(as_test(other).is_none(), "{other}");
        }
        assert_eq!(words("x `a` and `b_c`\n```\n`no`\n```\n`d`"), [(1, "a"), (1, "b_c"), (5, "d")]);
    }

    #[test]
    fn a_name_is_known_with_its_modules_or_without() {
        let known = listed(
            "kill::load::it_goes_on_a: test\nother_line\nreach::k64_x_y: test\nauth::tests::it_waits_a: test\n1 tests, 0 benchmarks\n",
        );
        for name in ["it_goes_on_a", "load::it_goes_on_a", "reach::k64_…", "k64_x_y", "auth::it_waits_a"] {
            assert!(is_known(&known, name), "{name}");
        }
        assert!(!is_known(&known, "goes_on_a") && !is_known(&known, "kill::k64_x_y"));
        assert_eq!(
            functions("#[tokio::test(flavor = \"x\")]\nasync fn a_b() {\n}\nfn c() {}\n#[test]\nfn d() {"),
            ["a_b", "d"]
        );
        assert_eq!(modules(Path::new("crates/x/src/a/mod.rs")), "a");
        assert_eq!(modules(Path::new("crates/x/tests/it/kill/load.rs")), "kill::load");
    }
}
