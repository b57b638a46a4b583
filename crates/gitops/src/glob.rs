//! Globs as project and ignore rules use them: `*`, `?`, `[a-z]`, `{a,b}`. A star crosses every character.

/// True when the pattern matches the whole text. Linear in practice: one backtrack point per star.
pub fn matches(pattern: &str, text: &str) -> bool {
    // Nearly all patterns are a word, a star, or a word with one star; they are asked about every object.
    let special = |c: char| matches!(c, '*' | '?' | '[' | '{' | '\\');
    let Some(first) = pattern.find(special) else { return pattern == text };
    if pattern[first..].starts_with('*') && !pattern[first + 1..].contains(special) {
        let (before, after) = (&pattern[..first], &pattern[first + 1..]);
        return text.len() >= before.len() + after.len() && text.starts_with(before) && text.ends_with(after);
    }
    alternatives(pattern).iter().any(|one| {
        let pattern: Vec<char> = one.chars().collect();
        let text: Vec<char> = text.chars().collect();
        match_one(&pattern, &text)
    })
}

/// Writes out `{a,b}`; at most 256 results, so that nested braces cannot explode.
fn alternatives(pattern: &str) -> Vec<String> {
    let mut done = Vec::new();
    let mut open = vec![pattern.to_string()];
    while let Some(one) = open.pop() {
        let braces = one.find('{').and_then(|start| one[start..].find('}').map(|end| (start, start + end)));
        match braces {
            Some((start, end)) if done.len() + open.len() < 256 => {
                let options: Vec<&str> = one[start + 1..end].split(',').collect();
                open.extend(
                    options.iter().map(|option| format!("{}{option}{}", &one[..start], &one[end + 1..])),
                );
            }
            _ => done.push(one),
        }
    }
    done
}

fn match_one(pattern: &[char], text: &[char]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut retry: Option<(usize, usize)> = None;
    while t < text.len() {
        if pattern.get(p) == Some(&'*') {
            retry = Some((p + 1, t));
            p += 1;
        } else if let Some(next) = step(pattern, p, text[t]) {
            p = next;
            t += 1;
        } else if let Some((after_star, from)) = retry {
            p = after_star;
            t = from + 1;
            retry = Some((after_star, t));
        } else {
            return false;
        }
    }
    pattern[p..].iter().all(|c| *c == '*')
}

/// Where the pattern goes on if its element at `p` takes this character.
fn step(pattern: &[char], p: usize, c: char) -> Option<usize> {
    match pattern.get(p)? {
        '?' => Some(p + 1),
        '\\' => (pattern.get(p + 1)? == &c).then_some(p + 2),
        '[' => {
            let end = p + 1 + pattern[p + 1..].iter().position(|x| *x == ']')?;
            let mut set = &pattern[p + 1..end];
            let negated = matches!(set.first(), Some('!' | '^'));
            if negated {
                set = &set[1..];
            }
            let mut found = false;
            let mut i = 0;
            while i < set.len() {
                if i + 2 < set.len() && set[i + 1] == '-' {
                    found |= (set[i]..=set[i + 2]).contains(&c);
                    i += 3;
                } else {
                    found |= set[i] == c;
                    i += 1;
                }
            }
            (found != negated).then_some(end + 1)
        }
        literal => (*literal == c).then_some(p + 1),
    }
}

#[cfg(test)]
mod tests {
    use super::matches;

    #[test]
    fn globs_match_as_users_expect() {
        for (pattern, text, expected) in [
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
            ("", "", true),
            ("", "x", false),
            ("*a*b*c", "xxaxxbxxcxxc", true),
        ] {
            assert_eq!(matches(pattern, text), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn hostile_patterns_end_soon() {
        let text = "a".repeat(2000);
        assert!(!matches(&format!("{}b", "*a".repeat(30)), &text));
        assert!(!matches(&"{a,b}".repeat(40), "c"));
    }
}
