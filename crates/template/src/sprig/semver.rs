//! Semantic versions and constraints on them, as Masterminds/semver reads them.

use std::cmp::Ordering;
use std::fmt;
use std::rc::Rc;
use std::sync::OnceLock;

use regex::Regex;

use crate::functions::{Function, Type::Text, takes, text};
use crate::value::Value;

type Done<T> = Result<T, String>;

pub(crate) const FUNCTIONS: &[Function] = &[
    takes("semver", &[Text], |_, a| Ok(Value::Version(Rc::new(Version::parse(text(&a[0]))?)))),
    takes("semverCompare", &[Text, Text], |_, a| {
        let constraints = Constraints::parse(text(&a[0]))?;
        Ok(Value::Bool(constraints.admit(&Version::parse(text(&a[1]))?)))
    }),
];

/// A version; `1.2` is `1.2.0`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Version {
    pub major: u64,
    pub minor: u64,
    pub patch: u64,
    pub prerelease: String,
    pub metadata: String,
    pub original: String,
}

const NUMBERS: &str = r"v?([0-9]+)(\.[0-9]+)?(\.[0-9]+)?";
const WILDCARDS: &str = r"v?([0-9|x|X|\*]+)(\.[0-9|x|X|\*]+)?(\.[0-9|x|X|\*]+)?";
const TAIL: &str = r"(-([0-9A-Za-z\-]+(?:\.[0-9A-Za-z\-]+)*))?(\+([0-9A-Za-z\-]+(?:\.[0-9A-Za-z\-]+)*))?";
const OPERATORS: &str = r"=||!=|>|<|>=|=>|<=|=<|~|~>|\^";

fn pattern(slot: &'static OnceLock<Regex>, text: &str) -> &'static Regex {
    slot.get_or_init(|| Regex::new(text).expect("our own expression is valid"))
}

impl Version {
    pub fn parse(text: &str) -> Done<Self> {
        static WHOLE: OnceLock<Regex> = OnceLock::new();
        let invalid = || "Invalid Semantic Version".to_owned();
        let found = pattern(&WHOLE, &format!("^{NUMBERS}{TAIL}$")).captures(text).ok_or_else(invalid)?;
        let number = |group: usize| -> Done<u64> {
            let digits = found.get(group).map_or("0", |m| m.as_str().trim_start_matches('.'));
            digits.parse().map_err(|_| format!("Error parsing version segment: {digits}"))
        };
        let group = |index: usize| found.get(index).map_or("", |m| m.as_str()).to_owned();
        let prerelease = group(5);
        if prerelease.split('.').any(|part| {
            part.len() > 1 && part.starts_with('0') && part.bytes().all(|byte| byte.is_ascii_digit())
        }) {
            return Err("Version segment starts with 0".into());
        }
        Ok(Self {
            major: number(1)?,
            minor: number(2)?,
            patch: number(3)?,
            prerelease,
            metadata: group(7),
            original: text.to_owned(),
        })
    }

    pub fn compare(&self, other: &Self) -> Ordering {
        (self.major, self.minor, self.patch)
            .cmp(&(other.major, other.minor, other.patch))
            .then_with(|| compare_prerelease(&self.prerelease, &other.prerelease))
    }
}

impl fmt::Display for Version {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{}.{}", self.major, self.minor, self.patch)?;
        if !self.prerelease.is_empty() {
            write!(f, "-{}", self.prerelease)?;
        }
        if !self.metadata.is_empty() {
            write!(f, "+{}", self.metadata)?;
        }
        Ok(())
    }
}

fn compare_prerelease(a: &str, b: &str) -> Ordering {
    match (a.is_empty(), b.is_empty()) {
        (true, true) => return Ordering::Equal,
        (true, false) => return Ordering::Greater,
        (false, true) => return Ordering::Less,
        _ => {}
    }
    let (mut left, mut right) = (a.split('.'), b.split('.'));
    loop {
        let order = match (left.next(), right.next()) {
            (None, None) => return Ordering::Equal,
            (None, _) => return Ordering::Less,
            (_, None) => return Ordering::Greater,
            (Some(x), Some(y)) => match (x.parse::<u64>(), y.parse::<u64>()) {
                (Ok(x), Ok(y)) => x.cmp(&y),
                (Ok(_), Err(_)) => Ordering::Less,
                (Err(_), Ok(_)) => Ordering::Greater,
                _ => x.cmp(y),
            },
        };
        if order != Ordering::Equal {
            return order;
        }
    }
}

/// `||` of lists of constraints that must all hold.
pub struct Constraints(Vec<Vec<Constraint>>);

struct Constraint {
    operator: String,
    version: Version,
    /// Some part is a wildcard or left out.
    dirty: bool,
    minor_dirty: bool,
    patch_dirty: bool,
}

impl Constraints {
    pub fn parse(text: &str) -> Done<Self> {
        static RANGE: OnceLock<Regex> = OnceLock::new();
        static VALID: OnceLock<Regex> = OnceLock::new();
        static FIND: OnceLock<Regex> = OnceLock::new();
        let version = format!("{WILDCARDS}{TAIL}");
        let range = pattern(&RANGE, &format!(r"\s*({version})\s+-\s+({version})\s*"));
        let valid = pattern(
            &VALID,
            &format!(r"^(\s*({OPERATORS})\s*({version})\s*)((?:\s+|,\s*)({OPERATORS})\s*({version})\s*)*$"),
        );
        let find = pattern(&FIND, &format!(r"({OPERATORS})\s*({version})"));
        let text = range
            .replace_all(text, |found: &regex::Captures<'_>| format!(">= {}, <= {} ", &found[1], &found[9]));
        let mut either = Vec::new();
        for part in text.split("||") {
            if !valid.is_match(part) {
                return Err(format!("improper constraint: {part}"));
            }
            let all = find.find_iter(part).map(|found| Constraint::parse(found.as_str()));
            either.push(all.collect::<Done<Vec<_>>>()?);
        }
        Ok(Self(either))
    }

    pub fn admit(&self, version: &Version) -> bool {
        self.0.iter().any(|all| all.iter().all(|constraint| constraint.admits(version)))
    }
}

impl Constraint {
    fn parse(text: &str) -> Done<Self> {
        static WHOLE: OnceLock<Regex> = OnceLock::new();
        let whole = pattern(&WHOLE, &format!(r"^\s*({OPERATORS})\s*({WILDCARDS}{TAIL})\s*$"));
        let improper = || format!("improper constraint: {text}");
        let found = whole.captures(text).ok_or_else(improper)?;
        let group = |index: usize| found.get(index).map_or("", |m| m.as_str());
        let is_any = |part: &str| matches!(part.trim_start_matches('.'), "" | "x" | "X" | "*");
        let (major, minor, patch, tail) = (group(3), group(4), group(5), group(6));
        let (version, minor_dirty, patch_dirty, dirty) = if is_any(major) {
            (format!("0.0.0{tail}"), false, false, true)
        } else if is_any(minor) {
            (format!("{major}.0.0{tail}"), true, false, true)
        } else if is_any(patch) {
            (format!("{major}{minor}.0{tail}"), false, true, true)
        } else {
            (group(2).to_owned(), false, false, false)
        };
        let version = Version::parse(&version).map_err(|_| "constraint Parser Error".to_owned())?;
        Ok(Self { operator: group(1).to_owned(), version, dirty, minor_dirty, patch_dirty })
    }

    fn admits(&self, version: &Version) -> bool {
        let wanted = &self.version;
        // Someone who does not speak of prereleases does not want them.
        let unwanted = !version.prerelease.is_empty() && wanted.prerelease.is_empty();
        if unwanted && (self.operator != "!=" || self.dirty) {
            return false;
        }
        let order = version.compare(wanted);
        match self.operator.as_str() {
            "!=" => self.differs(version, order),
            ">" if !self.dirty => order == Ordering::Greater,
            ">" => match version.major.cmp(&wanted.major) {
                Ordering::Greater => true,
                Ordering::Less => false,
                Ordering::Equal if self.minor_dirty => false,
                Ordering::Equal if self.patch_dirty => version.minor > wanted.minor,
                Ordering::Equal => order == Ordering::Greater,
            },
            "<" => order == Ordering::Less,
            ">=" | "=>" => order != Ordering::Less,
            "<=" | "=<" if !self.dirty => order != Ordering::Greater,
            "<=" | "=<" => {
                version.major <= wanted.major
                    && !(version.major == wanted.major && version.minor > wanted.minor && !self.minor_dirty)
            }
            "~" | "~>" => self.tilde(version, order),
            "^" => self.caret(version, order),
            _ if self.dirty => self.tilde(version, order),
            _ => order == Ordering::Equal,
        }
    }

    fn differs(&self, version: &Version, order: Ordering) -> bool {
        let wanted = &self.version;
        if !self.dirty || (!self.minor_dirty && !self.patch_dirty && version.major == wanted.major) {
            return order != Ordering::Equal;
        }
        if version.major != wanted.major {
            return true;
        }
        if self.minor_dirty {
            return false;
        }
        version.minor != wanted.minor
            || compare_prerelease(&version.prerelease, &wanted.prerelease) != Ordering::Equal
    }

    fn tilde(&self, version: &Version, order: Ordering) -> bool {
        let wanted = &self.version;
        if order == Ordering::Less {
            return false;
        }
        let anything = (wanted.major, wanted.minor, wanted.patch) == (0, 0, 0);
        if anything && !self.minor_dirty && !self.patch_dirty {
            return true;
        }
        version.major == wanted.major && (version.minor == wanted.minor || self.minor_dirty)
    }

    fn caret(&self, version: &Version, order: Ordering) -> bool {
        let wanted = &self.version;
        if order == Ordering::Less {
            return false;
        }
        if wanted.major > 0 || self.minor_dirty {
            return version.major == wanted.major;
        }
        if version.major > 0 {
            return false;
        }
        if wanted.minor > 0 || self.patch_dirty {
            return version.minor == wanted.minor;
        }
        version.minor == 0 && version.patch == wanted.patch
    }
}
