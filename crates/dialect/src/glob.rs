//! Globs over names, as projects, ignore rules, `include` and `exclude` use them: `*`, `?`, `[a-z]`, `{a,b}`. A star crosses
//! every character, slashes too, and `!` is not special. Globs over paths are in [`crate::path_glob`].

/// A compiled pattern. Matching takes time proportional to pattern × text, whatever the pattern is.
#[derive(Debug, Clone)]
pub struct Glob {
    alternatives: Vec<Vec<Token>>,
}

#[derive(Debug, Clone, PartialEq)]
enum Token {
    Char(char),
    One,
    Any,
    Class { negated: bool, ranges: Vec<(char, char)> },
}

/// More alternatives than this are an attack, not a pattern.
const ALTERNATIVES_MAX: usize = 256;

impl Glob {
    /// Reads a pattern. An unreadable one (unclosed brace, too many alternatives) is `None`.
    pub fn new(pattern: &str) -> Option<Self> {
        let expanded = expand(pattern)?;
        let alternatives = expanded.iter().map(|text| tokens(text)).collect::<Option<Vec<_>>>()?;
        Some(Self { alternatives })
    }

    pub fn matches(&self, text: &str) -> bool {
        let text: Vec<char> = text.chars().collect();
        self.alternatives.iter().any(|pattern| takes(pattern, &text))
    }
}

/// Whether the pattern takes the whole text. One that cannot be read takes nothing, as upstream has it.
pub fn matches(pattern: &str, text: &str) -> bool {
    // Nearly all patterns are a word, a star, or a word with one star; they are asked about every object.
    let special = |c: char| matches!(c, '*' | '?' | '[' | '{' | '}' | '\\');
    let Some(first) = pattern.find(special) else { return pattern == text };
    if pattern[first..].starts_with('*') && !pattern[first + 1..].contains(special) {
        let (before, after) = (&pattern[..first], &pattern[first + 1..]);
        return text.len() >= before.len() + after.len() && text.starts_with(before) && text.ends_with(after);
    }
    Glob::new(pattern).is_some_and(|glob| glob.matches(text))
}

/// `a{b,c}d` → `abd`, `acd`; nested braces too.
fn expand(pattern: &str) -> Option<Vec<String>> {
    let mut done = Vec::new();
    let mut open = vec![pattern.to_owned()];
    while let Some(text) = open.pop() {
        let Some(start) = find_unescaped(&text, '{', 0) else {
            if find_unescaped(&text, '}', 0).is_some() {
                return None;
            }
            done.push(text);
            if done.len() + open.len() > ALTERNATIVES_MAX {
                return None;
            }
            continue;
        };
        let (end, commas) = closing(&text, start)?;
        let mut from = start + 1;
        let mut parts = Vec::new();
        for comma in commas.iter().copied().chain([end]) {
            parts.push(&text[from..comma]);
            from = comma + 1;
        }
        for part in parts.iter().rev() {
            open.push(format!("{}{}{}", &text[..start], part, &text[end + 1..]));
        }
        if done.len() + open.len() > ALTERNATIVES_MAX {
            return None;
        }
    }
    Some(done)
}

fn find_unescaped(text: &str, wanted: char, from: usize) -> Option<usize> {
    let mut escaped = false;
    for (index, c) in text.char_indices().skip_while(|(index, _)| *index < from) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            c if c == wanted => return Some(index),
            _ => {}
        }
    }
    None
}

/// The brace that closes the one at `start`, and the commas between them.
fn closing(text: &str, start: usize) -> Option<(usize, Vec<usize>)> {
    let mut depth = 0;
    let mut escaped = false;
    let mut commas = Vec::new();
    for (index, c) in text.char_indices().skip_while(|(index, _)| *index < start) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            '{' => depth += 1,
            '}' if depth == 1 => return Some((index, commas)),
            '}' => depth -= 1,
            ',' if depth == 1 => commas.push(index),
            _ => {}
        }
    }
    None
}

fn tokens(text: &str) -> Option<Vec<Token>> {
    let mut out = Vec::new();
    let mut chars = text.chars();
    while let Some(c) = chars.next() {
        let token = match c {
            '*' => Token::Any,
            '?' => Token::One,
            '\\' => Token::Char(chars.next()?),
            '[' => class(&mut chars)?,
            c => Token::Char(c),
        };
        if token != Token::Any || out.last() != Some(&Token::Any) {
            out.push(token);
        }
    }
    Some(out)
}

fn class(chars: &mut std::str::Chars<'_>) -> Option<Token> {
    let mut negated = false;
    let mut members = Vec::new();
    loop {
        match chars.next()? {
            ']' if !members.is_empty() => break,
            '!' | '^' if members.is_empty() && !negated => negated = true,
            '\\' => members.push(chars.next()?),
            c => members.push(c),
        }
    }
    let mut ranges = Vec::new();
    let mut index = 0;
    while index < members.len() {
        if index + 2 < members.len() && members[index + 1] == '-' {
            ranges.push((members[index], members[index + 2]));
            index += 3;
        } else {
            ranges.push((members[index], members[index]));
            index += 1;
        }
    }
    Some(Token::Class { negated, ranges })
}

/// Greedy with one remembered star: no exponential backtracking.
fn takes(pattern: &[Token], text: &[char]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    while t < text.len() {
        let fits = match pattern.get(p) {
            Some(Token::Char(c)) => *c == text[t],
            Some(Token::One) => true,
            Some(Token::Class { negated, ranges }) => {
                ranges.iter().any(|(low, high)| (*low..=*high).contains(&text[t])) != *negated
            }
            Some(Token::Any) => {
                star = Some((p, t));
                p += 1;
                continue;
            }
            None => false,
        };
        if fits {
            p += 1;
            t += 1;
        } else if let Some((at, from)) = star {
            star = Some((at, from + 1));
            p = at + 1;
            t = from + 1;
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|token| *token == Token::Any)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_choose_as_users_expect() {
        for (pattern, text, expected) in [
            ("*.yaml", "a.yaml", true),
            ("*.yaml", "sub/a.yaml", true),
            ("*.yaml", "a.yml", false),
            ("{*.yml,*.yaml}", "x/y.yml", true),
            ("{a,b{c,d}}.json", "bd.json", true),
            ("{a,b{c,d}}.json", "b.json", false),
            ("conf?g.json", "config.json", true),
            ("[a-c]x", "bx", true),
            ("[!a-c]x", "bx", false),
            ("a\\*b", "a*b", true),
            ("a\\*b", "axb", false),
            ("config/*", "config/a/b", true),
            ("", "", true),
            ("*", "", true),
            ("*", "a/b", true),
            ("team-*", "team-a", true),
            ("team-*", "steam-a", false),
            ("*-{a,b}", "x-b", true),
            ("*-{a,b}", "x-c", false),
            ("app-[0-9]", "app-7", true),
            ("app-[!0-9]", "app-7", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("", "x", false),
            ("*a*b*c", "xxaxxbxxcxxc", true),
        ] {
            let glob = Glob::new(pattern).unwrap_or_else(|| panic!("{pattern} is readable"));
            assert_eq!(glob.matches(text), expected, "{pattern} on {text}");
            assert_eq!(matches(pattern, text), expected, "{pattern} on {text}");
        }
        assert!(Glob::new("{a,b").is_none());
        assert!(Glob::new("a}").is_none());
        assert!(!matches("{a,b", "{a,b") && !matches("[a", "[a"), "what cannot be read takes nothing");
    }

    #[test]
    fn hostile_patterns_end_quickly() {
        assert!(Glob::new(&"{a,b}".repeat(20)).is_none());
        let glob = Glob::new(&"*a".repeat(200)).expect("readable");
        assert!(!glob.matches(&"a".repeat(150)));
    }
}
