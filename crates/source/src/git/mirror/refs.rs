//! Where branches and tags point, and what a revision text means among them.

use std::collections::BTreeMap;

use super::{GitError, is_full_sha};

/// The answer of one `ls-remote`.
#[derive(Debug, Default, PartialEq)]
pub(super) struct RefTable {
    /// Full name → commit id; annotated tags already followed to their commit.
    refs: BTreeMap<String, String>,
    /// Full name of an annotated tag → the tag itself, which may be signed.
    tags: BTreeMap<String, String>,
    head: Option<String>,
}

/// What an Application may name: what [`check_revision`](crate::git::check_revision) lets through, nothing at all (the
/// default branch), or a range of versions.
pub(super) fn check_revision(revision: &str) -> Result<(), GitError> {
    let range = revision.len() <= 250 && !revision.contains("..") && parse_range(revision).is_some();
    if revision.is_empty() || range { Ok(()) } else { crate::git::check_revision(revision) }
}

pub(super) fn is_short_id(revision: &str) -> bool {
    (7..40).contains(&revision.len()) && revision.bytes().all(|b| b.is_ascii_hexdigit())
}

impl RefTable {
    /// Reads `git ls-remote --symref`.
    pub(super) fn parse(text: &str) -> Self {
        let mut table = Self::default();
        for line in text.lines() {
            let Some((id, name)) = line.split_once('\t') else { continue };
            if id.starts_with("ref: ") || !is_full_sha(id) {
                continue;
            }
            match name.strip_suffix("^{}") {
                _ if name == "HEAD" => table.head = Some(id.to_owned()),
                // The peeled line follows the tag's own line and replaces it.
                Some(tag) => {
                    if let Some(object) = table.refs.insert(tag.to_owned(), id.to_owned()) {
                        table.tags.insert(tag.to_owned(), object);
                    }
                }
                None => {
                    table.refs.insert(name.to_owned(), id.to_owned());
                }
            }
        }
        table
    }

    pub(super) fn resolve(&self, revision: &str) -> Option<String> {
        if revision.is_empty() || revision == "HEAD" {
            return self.head.clone();
        }
        self.refs.get(self.name_of(revision)?).cloned()
    }

    /// The tag object that a revision means, if it means an annotated tag.
    pub(super) fn tag_object(&self, revision: &str) -> Option<&str> {
        self.tags.get(self.name_of(revision)?).map(String::as_str)
    }

    /// The full name of what a revision means.
    fn name_of(&self, revision: &str) -> Option<&str> {
        let names = [
            revision.to_owned(),
            format!("refs/heads/{revision}"),
            format!("refs/tags/{revision}"),
            format!("refs/{revision}"),
        ];
        let known = names.iter().find_map(|name| self.refs.get_key_value(name));
        known.map(|(name, _)| name.as_str()).or_else(|| self.highest_tag(revision))
    }

    pub(super) fn some_branches(&self) -> Vec<String> {
        self.refs
            .keys()
            .filter_map(|name| name.strip_prefix("refs/heads/"))
            .take(5)
            .map(str::to_owned)
            .collect()
    }

    /// A version range (`1.2.*`, `^1.2`, `>=1 <3`) means the highest tag in it.
    fn highest_tag(&self, revision: &str) -> Option<&str> {
        let range = parse_range(revision)?;
        self.refs
            .keys()
            .filter_map(|name| Some((Version::parse(name.strip_prefix("refs/tags/")?)?, name)))
            .filter(|(version, _)| range.iter().all(|bound| bound.admits(version)))
            .max_by(|(a, _), (b, _)| a.cmp(b))
            .map(|(_, name)| name.as_str())
    }
}

/// `v1.2.3`; versions with a pre-release part never match a range, as Argo's default has it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Version(u64, u64, u64);

impl Version {
    fn parse(text: &str) -> Option<Self> {
        let text = text.strip_prefix('v').unwrap_or(text);
        let text = text.split('+').next()?;
        let mut parts = text.split('.').map(|part| part.parse::<u64>().ok());
        let version =
            Self(parts.next()??, parts.next().unwrap_or(Some(0))?, parts.next().unwrap_or(Some(0))?);
        parts.next().is_none().then_some(version)
    }
}

/// From (inclusive) to (exclusive).
#[derive(Debug, PartialEq)]
struct Bound {
    from: Version,
    to: Option<Version>,
}

impl Bound {
    fn admits(&self, version: &Version) -> bool {
        *version >= self.from && self.to.is_none_or(|to| *version < to)
    }
}

fn parse_range(text: &str) -> Option<Vec<Bound>> {
    let is_range = text.starts_with(['^', '~', '>', '<', '=', '*']) || text.contains(['*', 'x', 'X']);
    if !is_range {
        return None;
    }
    let bounds: Option<Vec<Bound>> =
        text.split([' ', ',']).filter(|part| !part.is_empty()).map(parse_bound).collect();
    bounds.filter(|bounds| !bounds.is_empty())
}

fn parse_bound(text: &str) -> Option<Bound> {
    const ZERO: Version = Version(0, 0, 0);
    let operator_end = text.find(|c: char| !matches!(c, '^' | '~' | '>' | '<' | '=')).unwrap_or(text.len());
    let (operator, rest) = text.split_at(operator_end);
    let rest = rest.strip_prefix('v').unwrap_or(rest);
    let mut parts: Vec<u64> = Vec::new();
    let mut open = false;
    for part in rest.split('.') {
        match part {
            "*" | "x" | "X" => {
                open = true;
                break;
            }
            digits => parts.push(digits.parse().ok()?),
        }
    }
    if parts.len() > 3 {
        return None;
    }
    let get = |index: usize| parts.get(index).copied().unwrap_or(0);
    let from = Version(get(0), get(1), get(2));
    let after = |count: usize| match count {
        0 => None,
        1 => Some(Version(from.0 + 1, 0, 0)),
        2 => Some(Version(from.0, from.1 + 1, 0)),
        _ => Some(Version(from.0, from.1, from.2 + 1)),
    };
    Some(match operator {
        "^" if from.0 > 0 => Bound { from, to: after(1) },
        "^" if from.1 > 0 => Bound { from, to: after(2) },
        "^" => Bound { from, to: after(parts.len()) },
        "~" => Bound { from, to: after(parts.len().min(2)) },
        ">=" => Bound { from, to: None },
        ">" => Bound { from: after(parts.len()).unwrap_or(from), to: None },
        "<" => Bound { from: ZERO, to: Some(from) },
        "<=" => Bound { from: ZERO, to: after(parts.len()) },
        "" | "=" if open || parts.len() < 3 => Bound { from, to: after(parts.len()) },
        "" | "=" => Bound { from, to: after(3) },
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> RefTable {
        let id = |c: char| c.to_string().repeat(40);
        RefTable::parse(&format!(
            "ref: refs/heads/main\tHEAD\n{a}\tHEAD\n{a}\trefs/heads/main\n{b}\trefs/heads/feature/x\n\
             {c}\trefs/tags/v1.2.0\n{d}\trefs/tags/v1.2.0^{{}}\n{e}\trefs/tags/v1.10.1\n{f}\trefs/tags/v2.0.0-rc1\n",
            a = id('a'),
            b = id('b'),
            c = id('c'),
            d = id('d'),
            e = id('e'),
            f = id('f'),
        ))
    }

    #[test]
    fn a_revision_means_what_people_mean() {
        let table = table();
        for (revision, expected) in [
            ("", Some('a')),
            ("HEAD", Some('a')),
            ("main", Some('a')),
            ("refs/heads/feature/x", Some('b')),
            ("feature/x", Some('b')),
            ("v1.2.0", Some('d')),
            ("1.*", Some('e')),
            ("^1.2", Some('e')),
            ("~1.2", Some('d')),
            (">=1.0 <1.5", Some('d')),
            ("*", Some('e')),
            ("2.*", None),
            ("nope", None),
        ] {
            let found = table.resolve(revision).map(|id| id.chars().next().expect("not empty"));
            assert_eq!(found, expected, "{revision}");
        }
    }

    #[test]
    fn revisions_that_git_could_misread_are_refused() {
        for revision in ["-x", "--upload-pack=id", "a..b", "a@{1}", "a\nb", "a b", "a:b", "a\\b"] {
            assert!(check_revision(revision).is_err(), "{revision}");
        }
        for revision in ["", "main", "feature/x", "v1.2.0", ">=1.0 <2.0", "^1.2", "1.*"] {
            assert!(check_revision(revision).is_ok(), "{revision}");
        }
    }
}
