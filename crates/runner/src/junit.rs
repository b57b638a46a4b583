//! JUnit reports that a step left in the volume, read where they are: counts and names leave the machine, files do not.
//!
//! A step asks for it with the variable `SLIPWAY_JUNIT`: paths relative to its working directory, with `*`, several
//! with blanks between them. The reader takes what it understands of a file and never fails a step.

use std::path::{Path, PathBuf};

use slipway_api::build::TestCounts;

use crate::tree;
use crate::within::Volume;

pub(crate) const VARIABLE: &str = "SLIPWAY_JUNIT";
const FILES_MAX: usize = 1_000;
const FILE_BYTES_MAX: u64 = 64 << 20;
const NAMES_MAX: usize = 200;
const NAME_CHARS_MAX: usize = 300;

/// Everything that the patterns find below the volume; `None` when that is no report at all.
pub(crate) fn read(volume: &Path, directory: &Path, patterns: &str) -> Option<TestCounts> {
    let volume = &Volume::open(volume).ok()?;
    let mut counts = TestCounts::default();
    let mut any = false;
    for pattern in patterns.split_whitespace() {
        let pattern = pattern.strip_prefix(crate::layout::VOLUME).map_or_else(
            || directory.join(pattern.trim_start_matches("./")),
            |below| PathBuf::from(below.trim_start_matches('/')),
        );
        for file in find(volume, &pattern) {
            if let Ok(text) = volume.read(&file, FILE_BYTES_MAX) {
                any |= count(&String::from_utf8_lossy(&text), &mut counts);
            }
        }
    }
    any.then_some(counts)
}

/// Files whose path matches, with `*` for any part of one name; links that leave the volume are not followed.
fn find(volume: &Volume, pattern: &Path) -> Vec<PathBuf> {
    let mut found = vec![PathBuf::new()];
    for part in pattern.components() {
        let std::path::Component::Normal(part) = part else { continue };
        let part = part.to_string_lossy();
        let mut next = Vec::new();
        for at in &found {
            if !part.contains('*') {
                next.push(at.join(part.as_ref()));
                continue;
            }
            let Ok(names) = volume.folder(at).and_then(|folder| tree::names(&folder)) else { continue };
            let names = names.into_iter().map(|name| name.to_string_lossy().into_owned());
            next.extend(names.filter(|name| matches(&part, name)).map(|name| at.join(name)));
        }
        next.sort();
        next.truncate(FILES_MAX);
        found = next;
    }
    found
}

fn matches(pattern: &str, name: &str) -> bool {
    match pattern.split_once('*') {
        None => pattern == name,
        Some((head, rest)) => {
            let Some(mut tail) = name.strip_prefix(head) else { return false };
            loop {
                if matches(rest, tail) {
                    return true;
                }
                let mut letters = tail.chars();
                if letters.next().is_none() {
                    return false;
                }
                tail = letters.as_str();
            }
        }
    }
}

/// Adds the cases of one report; `false` when there is none in it.
fn count(text: &str, counts: &mut TestCounts) -> bool {
    let mut any = false;
    let mut open: Option<Case> = None;
    for tag in Tags(text) {
        any |= tag.name == "testsuite" || tag.name == "testsuites" || tag.name == "testcase";
        match (tag.name, tag.closes) {
            ("testcase", false) => {
                end(open.take(), counts);
                let case = Case { name: tag.case(), outcome: Outcome::Passed };
                if tag.empty { end(Some(case), counts) } else { open = Some(case) }
            }
            ("testcase", true) => end(open.take(), counts),
            ("failure" | "error", false) => {
                if let Some(case) = &mut open {
                    case.outcome = Outcome::Failed;
                }
            }
            ("skipped", false) => {
                if let Some(case) = open.as_mut().filter(|case| case.outcome == Outcome::Passed) {
                    case.outcome = Outcome::Skipped;
                }
            }
            _ => {}
        }
    }
    end(open, counts);
    any
}

#[derive(PartialEq)]
enum Outcome {
    Passed,
    Failed,
    Skipped,
}

struct Case {
    name: String,
    outcome: Outcome,
}

fn end(case: Option<Case>, counts: &mut TestCounts) {
    let Some(case) = case else { return };
    let (count, names) = match case.outcome {
        Outcome::Passed => (&mut counts.passed, &mut counts.passed_cases),
        Outcome::Skipped => (&mut counts.skipped, &mut counts.skipped_cases),
        Outcome::Failed => (&mut counts.failed, &mut counts.failed_cases),
    };
    *count += 1;
    if names.len() < NAMES_MAX {
        names.push(case.name);
    }
}

struct Tag<'a> {
    name: &'a str,
    attributes: &'a str,
    closes: bool,
    empty: bool,
}

impl Tag<'_> {
    /// `class.name`, as people call a test.
    fn case(&self) -> String {
        let (class, name) = (self.attribute("classname"), self.attribute("name"));
        let whole = if class.is_empty() { name } else { format!("{class}.{name}") };
        whole.chars().take(NAME_CHARS_MAX).collect()
    }

    fn attribute(&self, wanted: &str) -> String {
        let mut rest = self.attributes;
        while let Some((name, after)) = rest.split_once('=') {
            let Some(quote) = after.trim_start().chars().next().filter(|c| matches!(c, '"' | '\'')) else {
                break;
            };
            let Some((value, more)) = after.trim_start()[1..].split_once(quote) else { break };
            if name.trim() == wanted {
                return unescape(value);
            }
            rest = more;
        }
        String::new()
    }
}

fn unescape(text: &str) -> String {
    ["&lt;", "&gt;", "&quot;", "&apos;", "&amp;"]
        .iter()
        .zip(["<", ">", "\"", "'", "&"])
        .fold(text.to_owned(), |text, (name, letter)| text.replace(name, letter))
}

/// Tags of XML, comments and character data passed over.
struct Tags<'a>(&'a str);

impl<'a> Iterator for Tags<'a> {
    type Item = Tag<'a>;

    fn next(&mut self) -> Option<Tag<'a>> {
        loop {
            let rest = &self.0[self.0.find('<')? + 1..];
            for (head, tail) in [("!--", "-->"), ("![CDATA[", "]]>"), ("?", "?>"), ("!", ">")] {
                if let Some(inside) = rest.strip_prefix(head) {
                    self.0 = inside.split_once(tail).map_or("", |(_, after)| after);
                    break;
                }
            }
            if rest.starts_with(['!', '?']) {
                continue;
            }
            let end = tag_end(rest)?;
            let (inside, after) = rest.split_at(end);
            self.0 = &after[1..];
            let closes = inside.starts_with('/');
            let inside = inside.trim_start_matches('/');
            let empty = inside.ends_with('/');
            let inside = inside.trim_end_matches('/');
            let (name, attributes) = inside.split_once(char::is_whitespace).unwrap_or((inside, ""));
            return Some(Tag { name, attributes, closes, empty });
        }
    }
}

/// The `>` that is not inside of quotes.
fn tag_end(text: &str) -> Option<usize> {
    let mut quote = None;
    for (at, letter) in text.char_indices() {
        match (letter, quote) {
            (letter, Some(open)) if letter == open => quote = None,
            ('"' | '\'', None) => quote = Some(letter),
            ('>', None) => return Some(at),
            _ => {}
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    const REPORT: &str = r#"<?xml version="1.0"?>
<!-- <testcase name="no"/> -->
<testsuites><testsuite name="a" tests="5">
  <testcase classname="pkg.A" name="ok" time="0.1"/>
  <testcase classname="pkg.A" name="a &lt;b&gt; > c"><failure message="x">at <![CDATA[ <testcase name="no"/> ]]></failure></testcase>
  <testcase name="broken"><error/><system-out>text</system-out></testcase>
  <testcase name="later"><skipped/></testcase>
  <testcase name="prints"><system-out>fine</system-out></testcase>
</testsuite></testsuites>"#;

    #[test]
    fn cases_are_counted_and_those_that_failed_are_named() {
        let mut counts = TestCounts::default();
        assert!(count(REPORT, &mut counts));
        assert_eq!((counts.passed, counts.failed, counts.skipped), (2, 2, 1));
        assert_eq!(counts.failed_cases, ["pkg.A.a <b> > c", "broken"]);
        assert!(!count("<html>no report</html>", &mut TestCounts::default()));
    }

    #[test]
    fn any_text_is_read_to_its_end() {
        for cut in 0..REPORT.len() {
            count(&REPORT[..cut], &mut TestCounts::default());
        }
        for odd in ["<", "<testcase", "<testcase name='", "<<>>", "<!--", "</>", "<testcase name==\"x\">"] {
            count(odd, &mut TestCounts::default());
        }
    }

    #[test]
    fn reports_are_found_by_pattern_and_never_outside_of_the_volume() {
        let volume = tempfile::tempdir().unwrap();
        let secret = tempfile::tempdir().unwrap();
        std::fs::write(secret.path().join("x.xml"), REPORT).unwrap();
        std::fs::create_dir_all(volume.path().join("app/out")).unwrap();
        std::fs::write(volume.path().join("app/out/TEST-a.xml"), REPORT).unwrap();
        std::fs::write(volume.path().join("app/out/other.txt"), REPORT).unwrap();
        std::os::unix::fs::symlink(secret.path(), volume.path().join("app/link")).unwrap();
        let read =
            |patterns: &str| read(volume.path(), Path::new("app"), patterns).map(|counts| counts.passed);
        assert_eq!(read("out/TEST-*.xml"), Some(2));
        assert_eq!(read("*/*.xml"), Some(2));
        assert_eq!(read("/codefresh/volume/app/out/*-a.xml out/none.xml"), Some(2));
        assert_eq!(read("link/x.xml"), None);
        assert_eq!(read("../../etc/passwd"), None);
    }
}
