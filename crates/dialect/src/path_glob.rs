//! Patterns over changed paths, as triggers write them: `{a/**,b/*.go}`, `**/*.md`, `!docs/**`.
//!
//! Compiled to the linear-time engine with a bound on its size, so that no pattern can be made to run long.

use regex::{Regex, RegexBuilder};

const COMPILED_BYTES_MAX: usize = 4 << 20;

/// A compiled pattern.
#[derive(Debug)]
pub struct Glob {
    regex: Regex,
    negated: bool,
}

/// Reads a pattern, or says what is wrong with it.
pub fn compile(pattern: &str) -> Result<Glob, String> {
    let pattern = pattern.trim();
    let (negated, body) = match pattern.strip_prefix('!') {
        Some(rest) => (true, rest.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')).unwrap_or(rest)),
        None => (false, pattern),
    };
    let regex = RegexBuilder::new(&format!("^(?:{})$", translate(body)?))
        .size_limit(COMPILED_BYTES_MAX)
        .build()
        .map_err(|_| format!("`{pattern}` is not a valid pattern, or too large"))?;
    Ok(Glob { regex, negated })
}

impl Glob {
    pub fn matches(&self, path: &str) -> bool {
        self.regex.is_match(path) != self.negated
    }
}

fn translate(pattern: &str) -> Result<String, String> {
    let (mut out, mut depth) = (String::new(), 0usize);
    let mut rest = pattern.chars().peekable();
    while let Some(c) = rest.next() {
        match c {
            '*' if rest.peek() == Some(&'*') => {
                rest.next();
                // `**/` is any number of folders, also none.
                if rest.peek() == Some(&'/') {
                    rest.next();
                    out.push_str("(?:.*/)?");
                } else {
                    out.push_str(".*");
                }
            }
            '*' => out.push_str("[^/]*"),
            '?' => out.push_str("[^/]"),
            '{' => {
                depth += 1;
                out.push_str("(?:");
            }
            '}' if depth > 0 => {
                depth -= 1;
                out.push(')');
            }
            ',' if depth > 0 => out.push('|'),
            '[' => {
                let set: String = rest.by_ref().take_while(|c| *c != ']').collect();
                let set = set.strip_prefix('!').map_or(set.clone(), |set| format!("^{set}"));
                out.push_str(&format!(
                    "[{}]",
                    set.replace('\\', "\\\\").replace('[', "\\[").replace("&&", "&")
                ));
            }
            '\\' => out.extend(rest.next().map(|c| regex::escape(&c.to_string()))),
            other => out.push_str(&regex::escape(&other.to_string())),
        }
    }
    if depth > 0 { Err(format!("`{pattern}` has a `{{` that is not closed")) } else { Ok(out) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_fit_the_paths_that_people_mean() {
        for (pattern, path, expected) in [
            ("**/*.md", "README.md", true),
            ("**/*.md", "docs/a/b.md", true),
            ("*.md", "docs/b.md", false),
            ("{app/**,lib/*.go}", "app/x/y", true),
            ("{app/**,lib/*.go}", "lib/x.go", true),
            ("{app/**,lib/*.go}", "lib/x/y.go", false),
            ("!docs/**", "docs/a", false),
            ("!docs/**", "src/a", true),
            ("!(**.md)", "a/b.md", false),
            ("src/[a-c]?.rs", "src/bx.rs", true),
            ("src/[!a-c].rs", "src/b.rs", false),
            ("a.c", "abc", false),
            ("a,b", "a,b", true),
        ] {
            assert_eq!(compile(pattern).unwrap().matches(path), expected, "{pattern} {path}");
        }
        assert!(compile("{a,b").is_err());
        assert!(compile(&"{a,b}".repeat(200_000)).is_err());
    }
}
