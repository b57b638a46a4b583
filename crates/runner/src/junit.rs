//! JUnit reports that a step left in the volume, read where they are: counts and names leave the machine, files do not.
//!
//! A step asks for it with the variable `SLIPWAY_JUNIT`: paths relative to its working directory, with `*`, several
//! with blanks between them. The reader takes what it understands of a file and never fails a step.

use std::path::{Path, PathBuf};

use quick_xml::escape::unescape;
use quick_xml::events::{BytesStart, Event};
use quick_xml::reader::Reader;
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

/// In one pass: between the stars the first place that fits is as good as any other.
fn matches(pattern: &str, name: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|head| name.strip_prefix(head)) else { return false };
    let Some(tail) = parts.next_back() else { return rest.is_empty() };
    let Some(inner) = rest.strip_suffix(tail) else { return false };
    rest = inner;
    parts.all(|part| match rest.split_once(part) {
        Some((_, after)) => {
            rest = after;
            true
        }
        None => false,
    })
}

/// Adds the cases of one report; `false` when there is none in it. What is no XML any more ends the reading: what was
/// counted until there stays. Entities of a document's own are not looked up, and depth costs nothing, because events
/// are read and no tree is made.
fn count(text: &str, counts: &mut TestCounts) -> bool {
    let mut reader = Reader::from_str(text);
    let config = reader.config_mut();
    config.check_end_names = false;
    config.allow_unmatched_ends = true;
    config.allow_dangling_amp = true;
    let mut any = false;
    let mut open: Option<Case> = None;
    loop {
        let (tag, empty) = match reader.read_event() {
            Ok(Event::Start(tag)) => (tag, false),
            Ok(Event::Empty(tag)) => (tag, true),
            Ok(Event::End(tag)) => {
                if tag.name().as_ref() == "testcase" {
                    end(open.take(), counts);
                }
                continue;
            }
            Ok(Event::Eof) | Err(_) => break,
            Ok(_) => continue,
        };
        match tag.name().as_ref() {
            "testsuite" | "testsuites" => any = true,
            "testcase" => {
                any = true;
                end(open.take(), counts);
                let case = Case { name: case_name(&tag), outcome: Outcome::Passed };
                if empty { end(Some(case), counts) } else { open = Some(case) }
            }
            "failure" | "error" => {
                if let Some(case) = &mut open {
                    case.outcome = Outcome::Failed;
                }
            }
            "skipped" => {
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

/// `class.name`, as people call a test.
fn case_name(tag: &BytesStart<'_>) -> String {
    let attribute = |name: &str| {
        let found = tag.try_get_attribute(name).ok().flatten();
        // An entity that is not one of XML's own is left as it is written.
        found.map(|found| match unescape(&found.value) {
            Ok(text) => text.into_owned(),
            Err(_) => found.value.into_owned(),
        })
    };
    let (class, name) = (attribute("classname"), attribute("name").unwrap_or_default());
    let whole = match class.filter(|class| !class.is_empty()) {
        Some(class) => format!("{class}.{name}"),
        None => name,
    };
    whole.chars().take(NAME_CHARS_MAX).collect()
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

    /// A report is what a step wrote, and a step may be anybody's.
    #[test]
    fn a_report_that_means_harm_costs_no_more_than_its_length() {
        let started = std::time::Instant::now();
        let bomb: String =
            (1..60).map(|n| format!("<!ENTITY e{n} \"{}\">", format!("&e{};", n - 1).repeat(10))).collect();
        let bomb = format!(
            "<?xml version=\"1.0\"?><!DOCTYPE x [<!ENTITY e0 \"x\">{bomb}<!ENTITY f SYSTEM \"file:///etc/passwd\">]>\
             <testsuite><testcase name=\"&e59;&f;\"/></testsuite>"
        );
        let mut counts = TestCounts::default();
        assert!(count(&bomb, &mut counts));
        assert_eq!((counts.passed, counts.passed_cases), (1, vec!["&e59;&f;".to_owned()]));

        let deep = "<a>".repeat(2_000_000) + "<testcase name='x'/>";
        assert!(count(&deep, &mut TestCounts::default()));
        let huge = format!("<testcase name=\"{}\"/>", "n".repeat(16 << 20));
        let mut counts = TestCounts::default();
        assert!(count(&huge, &mut counts));
        assert_eq!(counts.passed_cases[0].len(), NAME_CHARS_MAX);
        let many = "<testcase name='x'/>".repeat(500_000);
        let mut counts = TestCounts::default();
        assert!(count(&many, &mut counts));
        assert_eq!((counts.passed, counts.passed_cases.len()), (500_000, NAMES_MAX));
        assert!(started.elapsed() < std::time::Duration::from_secs(60), "{:?}", started.elapsed());
    }

    #[test]
    fn a_star_is_any_part_of_a_name() {
        for (pattern, name, fits) in [
            ("*", "", true),
            ("*.xml", "a.xml", true),
            ("a*b*c", "abc", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "acb", false),
            ("a*a", "a", false),
            ("a", "ab", false),
            ("**x**", "yxy", true),
        ] {
            assert_eq!(matches(pattern, name), fits, "{pattern} {name}");
        }
        assert!(!matches(&"*a".repeat(200), &"a".repeat(100_000).replace('a', "ab")));
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
