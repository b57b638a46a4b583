//! `depends` of a task: which tasks it waits for, and how they must have ended.
//!
//! In: the text (`(A.Succeeded || A.Skipped) && !B.Failed`). Out: a tree, the tasks that it names, or what cannot be read. A name
//! alone stands for a task that succeeded, was skipped, or runs as a daemon.

/// How a task ended, as `depends` may ask.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    Succeeded,
    Failed,
    Errored,
    Skipped,
    Omitted,
    Daemoned,
    /// Of an expanded task: one of its children, or all of them.
    AnySucceeded,
    AllFailed,
}

impl Ending {
    pub const ALL: [(&'static str, Self); 8] = [
        ("Succeeded", Self::Succeeded),
        ("Failed", Self::Failed),
        ("Errored", Self::Errored),
        ("Skipped", Self::Skipped),
        ("Omitted", Self::Omitted),
        ("Daemoned", Self::Daemoned),
        ("AnySucceeded", Self::AnySucceeded),
        ("AllFailed", Self::AllFailed),
    ];

    fn named(word: &str) -> Option<Self> {
        Self::ALL.iter().find(|(name, _)| *name == word).map(|(_, ending)| *ending)
    }

    /// It asks about the children of an expanded task.
    pub fn is_about_items(self) -> bool {
        matches!(self, Self::AnySucceeded | Self::AllFailed)
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Depends {
    /// `None`: the name alone.
    Task(String, Option<Ending>),
    Not(Box<Depends>),
    All(Vec<Depends>),
    Any(Vec<Depends>),
}

/// Deeper nesting is no condition that a person wrote.
const DEPTH_MAX: usize = 50;

impl Depends {
    pub fn parse(text: &str) -> Result<Self, String> {
        let mut reader = Reader { words: words(text)?, at: 0 };
        let found = reader.any(0)?;
        match reader.peek() {
            None => Ok(found),
            Some(word) => Err(format!("`{word}` stands where `&&` or `||` is expected")),
        }
    }

    /// Every task that is named, with what is asked of it, in the order of the text.
    pub fn tasks(&self) -> Vec<(&str, Option<Ending>)> {
        match self {
            Self::Task(name, ending) => vec![(name, *ending)],
            Self::Not(inner) => inner.tasks(),
            Self::All(parts) | Self::Any(parts) => parts.iter().flat_map(Self::tasks).collect(),
        }
    }

    /// `ended` says whether a task ended like that.
    pub fn holds(&self, ended: &impl Fn(&str, Ending) -> bool) -> bool {
        match self {
            Self::Task(name, Some(ending)) => ended(name, *ending),
            Self::Task(name, None) => [Ending::Succeeded, Ending::Skipped, Ending::Daemoned]
                .into_iter()
                .any(|ending| ended(name, ending)),
            Self::Not(inner) => !inner.holds(ended),
            Self::All(parts) => parts.iter().all(|part| part.holds(ended)),
            Self::Any(parts) => parts.iter().any(|part| part.holds(ended)),
        }
    }
}

fn words(text: &str) -> Result<Vec<&str>, String> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        let length = match first {
            '(' | ')' | '!' => 1,
            '&' | '|' if rest[1..].starts_with(first) => 2,
            _ => rest
                .find(|letter: char| !(letter.is_ascii_alphanumeric() || "-_.".contains(letter)))
                .unwrap_or(rest.len()),
        };
        if length == 0 {
            return Err(format!(
                "`{first}` means nothing here; there are names of tasks, `&&`, `||`, `!` and parentheses"
            ));
        }
        let (word, after) = rest.split_at(length);
        found.push(word);
        rest = after.trim_start();
    }
    Ok(found)
}

struct Reader<'a> {
    words: Vec<&'a str>,
    at: usize,
}

impl<'a> Reader<'a> {
    fn peek(&self) -> Option<&'a str> {
        self.words.get(self.at).copied()
    }

    fn take(&mut self, word: &str) -> bool {
        let there = self.peek() == Some(word);
        self.at += usize::from(there);
        there
    }

    fn any(&mut self, depth: usize) -> Result<Depends, String> {
        let mut parts = vec![self.all(depth)?];
        while self.take("||") {
            parts.push(self.all(depth)?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Depends::Any(parts) })
    }

    fn all(&mut self, depth: usize) -> Result<Depends, String> {
        let mut parts = vec![self.one(depth)?];
        while self.take("&&") {
            parts.push(self.one(depth)?);
        }
        Ok(if parts.len() == 1 { parts.remove(0) } else { Depends::All(parts) })
    }

    fn one(&mut self, depth: usize) -> Result<Depends, String> {
        if depth > DEPTH_MAX {
            return Err(format!("it is nested deeper than {DEPTH_MAX}"));
        }
        if self.take("!") {
            return Ok(Depends::Not(Box::new(self.one(depth + 1)?)));
        }
        if self.take("(") {
            let inner = self.any(depth + 1)?;
            return if self.take(")") { Ok(inner) } else { Err("a `)` is missing".into()) };
        }
        let Some(word) = self.peek() else { return Err("the name of a task is missing".into()) };
        if matches!(word, ")" | "&&" | "||") {
            return Err(format!("`{word}` stands where the name of a task is expected"));
        }
        self.at += 1;
        let Some((name, ending)) = word.split_once('.') else {
            return Ok(Depends::Task(word.to_owned(), None));
        };
        match Ending::named(ending) {
            Some(ending) => Ok(Depends::Task(name.to_owned(), Some(ending))),
            None => {
                let known: Vec<&str> = Ending::ALL.iter().map(|(name, _)| *name).collect();
                Err(format!("`{ending}` is no way to end; there are {}", known.join(", ")))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(text: &str, ended: &[(&str, Ending)]) -> bool {
        let depends = Depends::parse(text).expect("it can be read");
        depends.holds(&|name, ending| ended.contains(&(name, ending)))
    }

    #[test]
    fn a_name_alone_means_that_it_went_well() {
        for ending in [Ending::Succeeded, Ending::Skipped, Ending::Daemoned] {
            assert!(holds("a", &[("a", ending)]), "{ending:?}");
        }
        assert!(!holds("a", &[("a", Ending::Failed)]));
        assert!(!holds("a", &[]));
    }

    #[test]
    fn and_binds_closer_than_or() {
        let text = "a.Failed || b.Succeeded && !c.Errored";
        assert!(holds(text, &[("a", Ending::Failed)]));
        assert!(holds(text, &[("b", Ending::Succeeded)]));
        assert!(!holds(text, &[("b", Ending::Succeeded), ("c", Ending::Errored)]));
        assert!(!holds("(a || b) && c", &[("a", Ending::Succeeded)]));
        let names: Vec<_> = Depends::parse(text)
            .expect("it can be read")
            .tasks()
            .iter()
            .map(|(name, _)| name.to_string())
            .collect();
        assert_eq!(names, ["a", "b", "c"]);
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        for (text, part) in [
            ("", "name of a task is missing"),
            ("a &&", "name of a task is missing"),
            ("a b", "`b` stands"),
            ("(a", "`)` is missing"),
            ("a.Done", "`Done` is no way to end"),
            ("a & b", "`&` means nothing"),
            ("a == b", "`=` means nothing"),
        ] {
            let error = Depends::parse(text).expect_err(text);
            assert!(error.contains(part), "{text}: {error}");
        }
        assert!(Depends::parse(&"(".repeat(10_000)).is_err(), "it ends");
        assert!(Depends::parse(&"!".repeat(10_000)).is_err(), "it ends");
    }
}
