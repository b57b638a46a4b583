//! `when`: whether a step runs, in the language that upstream reads conditions with.
//!
//! In: `{{x}} == tails`, `"{{x}}" != ""`, `5 > 3 && !(a in (b, c))`, and the values. Out: true or false, or what cannot be read. The text
//! is read first and the values are put into its words then: what a value holds is compared, and never read as a part of the condition.
//! Words that are no numbers and have no quotes are texts. Only where the whole condition is one tag, its value is the condition.

use jiff::Timestamp;

use crate::scope::{Scope, end_of_tag};

const TEXT_MAX: usize = 64 << 10;
const DEPTH_MAX: usize = 64;

pub fn holds(text: &str, scope: &Scope, now: Timestamp) -> Result<bool, String> {
    if text.len() > TEXT_MAX {
        return Err(format!("a condition may have {TEXT_MAX} bytes"));
    }
    let trimmed = text.trim();
    if trimmed.starts_with("{{") && end_of_tag(trimmed).is_some_and(|end| end + 2 == trimmed.len()) {
        let value = scope.fill_whole_text(trimmed, now)?;
        return judge(words(&value, &|word| Ok(word.to_owned()))?);
    }
    judge(words(text, &|word| scope.fill_whole_text(word, now))?)
}

fn judge(words: Vec<Word>) -> Result<bool, String> {
    let mut reader = Reader { words, at: 0, depth: 0 };
    let value = reader.any()?;
    if let Some(word) = reader.words.get(reader.at) {
        return Err(format!("`{}` was not expected", word.shown()));
    }
    match value {
        Thing::Truth(answer) => Ok(answer),
        other => Err(format!("`{}` is neither true nor false", other.text())),
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Word {
    Text(String),
    Number(f64),
    Truth(bool),
    Sign(&'static str),
}

impl Word {
    fn shown(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
            Self::Truth(truth) => truth.to_string(),
            Self::Sign(sign) => (*sign).to_owned(),
        }
    }
}

#[derive(Debug, Clone, PartialEq)]
enum Thing {
    Text(String),
    Number(f64),
    Truth(bool),
    List(Vec<Thing>),
}

impl Thing {
    fn text(&self) -> String {
        match self {
            Self::Text(text) => text.clone(),
            Self::Number(number) => number.to_string(),
            Self::Truth(truth) => truth.to_string(),
            Self::List(items) => {
                format!("({})", items.iter().map(Self::text).collect::<Vec<_>>().join(", "))
            }
        }
    }
}

const SIGNS: [&str; 18] =
    ["==", "!=", "=~", "!~", "<=", ">=", "&&", "||", "(", ")", ",", "<", ">", "!", "+", "*", "/", "%"];

/// `fill` puts values into a word.
fn words(text: &str, fill: &dyn Fn(&str) -> Result<String, String>) -> Result<Vec<Word>, String> {
    let mut found = Vec::new();
    let mut rest = text.trim_start();
    while let Some(first) = rest.chars().next() {
        if let Some(sign) = SIGNS.iter().find(|sign| rest.starts_with(**sign)) {
            found.push(Word::Sign(sign));
            rest = rest[sign.len()..].trim_start();
            continue;
        }
        if first == '\'' || first == '"' {
            let (word, length) = quoted(rest, first)?;
            found.push(Word::Text(fill(&word)?));
            rest = rest[length..].trim_start();
            continue;
        }
        let end = end_of_word(rest);
        if end == 0 {
            return Err(format!("`{first}` has no meaning here"));
        }
        let word = fill(&rest[..end])?;
        found.push(match word.trim() {
            "true" => Word::Truth(true),
            "false" => Word::Truth(false),
            trimmed => match trimmed.parse() {
                Ok(number) if f64::is_finite(number) => Word::Number(number),
                _ => Word::Text(word),
            },
        });
        rest = rest[end..].trim_start();
    }
    Ok(found)
}

/// Tags are passed over whole.
fn end_of_word(text: &str) -> usize {
    let mut at = 0;
    while let Some(letter) = text[at..].chars().next() {
        if text[at..].starts_with("{{")
            && let Some(end) = end_of_tag(&text[at..])
        {
            at += end + 2;
        } else if letter.is_whitespace() || "=!<>&|(),'\"".contains(letter) {
            break;
        } else {
            at += letter.len_utf8();
        }
    }
    at
}

fn quoted(text: &str, quote: char) -> Result<(String, usize), String> {
    let mut out = String::new();
    let mut letters = text.char_indices().skip(1);
    while let Some((at, letter)) = letters.next() {
        match letter {
            '\\' => out.extend(letters.next().map(|(_, letter)| letter)),
            letter if letter == quote => return Ok((out, at + letter.len_utf8())),
            letter => out.push(letter),
        }
    }
    Err("a text has no closing quote".into())
}

struct Reader {
    words: Vec<Word>,
    at: usize,
    depth: usize,
}

impl Reader {
    fn takes(&mut self, sign: &str) -> bool {
        let there = matches!(self.words.get(self.at), Some(Word::Sign(known)) if *known == sign);
        self.at += usize::from(there);
        there
    }

    fn any(&mut self) -> Result<Thing, String> {
        let mut left = self.all()?;
        while self.takes("||") {
            let right = self.all()?;
            left = Thing::Truth(truth(&left)? | truth(&right)?);
        }
        Ok(left)
    }

    fn all(&mut self) -> Result<Thing, String> {
        let mut left = self.compared()?;
        while self.takes("&&") {
            let right = self.compared()?;
            left = Thing::Truth(truth(&left)? & truth(&right)?);
        }
        Ok(left)
    }

    fn compared(&mut self) -> Result<Thing, String> {
        let left = self.one()?;
        if matches!(self.words.get(self.at), Some(Word::Text(word)) if word == "in") {
            self.at += 1;
            let Thing::List(items) = self.list()? else { return Err("`in` needs a list".into()) };
            return Ok(Thing::Truth(items.iter().any(|item| same(item, &left))));
        }
        let Some(Word::Sign(sign)) = self.words.get(self.at).cloned() else { return Ok(left) };
        if !["==", "!=", "=~", "!~", "<=", ">=", "<", ">"].contains(&sign) {
            return Ok(left);
        }
        self.at += 1;
        let right = self.one()?;
        Ok(Thing::Truth(match sign {
            "==" => same(&left, &right),
            "!=" => !same(&left, &right),
            "=~" => matches(&left, &right)?,
            "!~" => !matches(&left, &right)?,
            sign => ordered(sign, &left, &right)?,
        }))
    }

    fn one(&mut self) -> Result<Thing, String> {
        self.depth += 1;
        if self.depth > DEPTH_MAX {
            return Err("the condition is nested too deeply".into());
        }
        let found = self.simple();
        self.depth -= 1;
        found
    }

    fn simple(&mut self) -> Result<Thing, String> {
        if self.takes("!") {
            let inner = self.one()?;
            return Ok(Thing::Truth(!truth(&inner)?));
        }
        if self.takes("(") {
            let inner = self.any()?;
            return if self.takes(")") { Ok(inner) } else { Err("a `)` is missing".into()) };
        }
        let word = self.words.get(self.at).cloned().ok_or("the condition ends too early")?;
        self.at += 1;
        match word {
            Word::Text(text) => Ok(Thing::Text(text)),
            Word::Number(number) => Ok(Thing::Number(number)),
            Word::Truth(truth) => Ok(Thing::Truth(truth)),
            Word::Sign(sign) => Err(format!("`{sign}` was not expected")),
        }
    }

    fn list(&mut self) -> Result<Thing, String> {
        if !self.takes("(") {
            return Err("`in` needs a list in parentheses".into());
        }
        let mut items = Vec::new();
        while !self.takes(")") {
            if !items.is_empty() && !self.takes(",") {
                return Err("a `,` or a `)` is missing".into());
            }
            items.push(self.simple()?);
        }
        Ok(Thing::List(items))
    }
}

fn truth(thing: &Thing) -> Result<bool, String> {
    match thing {
        Thing::Truth(answer) => Ok(*answer),
        other => Err(format!("`{}` is neither true nor false", other.text())),
    }
}

fn same(left: &Thing, right: &Thing) -> bool {
    left == right
}

fn matches(left: &Thing, right: &Thing) -> Result<bool, String> {
    let pattern = right.text();
    let regex = regex::RegexBuilder::new(&pattern).size_limit(1 << 20).build();
    Ok(regex.map_err(|_| format!("`{pattern}` is not a pattern"))?.is_match(&left.text()))
}

fn ordered(sign: &str, left: &Thing, right: &Thing) -> Result<bool, String> {
    let order = match (left, right) {
        (Thing::Number(left), Thing::Number(right)) => left.partial_cmp(right),
        (Thing::Text(left), Thing::Text(right)) => Some(left.cmp(right)),
        _ => None,
    };
    let order = order.ok_or_else(|| format!("`{}` and `{}` have no order", left.text(), right.text()))?;
    Ok(match sign {
        "<" => order.is_lt(),
        "<=" => order.is_le(),
        ">" => order.is_gt(),
        _ => order.is_ge(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holds(text: &str) -> Result<bool, String> {
        let mut scope = Scope::default();
        scope.set("x", "heads");
        scope.set("empty", "");
        scope.set("n", "7");
        scope.set("hostile", "a == a || 1");
        scope.set("yes", "true");
        super::holds(text, &scope, Timestamp::UNIX_EPOCH)
    }

    #[test]
    fn values_are_compared_and_never_read() {
        for (text, wanted) in [
            ("{{x}} == heads", true),
            ("\"{{x}}\" == \"heads\"", true),
            ("{{empty}} == ''", true),
            ("'{{empty}}' != ''", false),
            ("{{n}} > 5", true),
            ("{{hostile}} == b", false),
            ("'{{hostile}}' == 'a == a || 1'", true),
            ("{{yes}}", true),
            ("{{= n == '7' }}", true),
            ("pre-{{x}} == pre-heads", true),
        ] {
            assert_eq!(holds(text), Ok(wanted), "{text}");
        }
        assert_eq!(holds("{{nobody}} == x"), Err("failed to resolve {{nobody}}".into()));
    }

    #[test]
    fn conditions_as_people_write_them() {
        for (text, wanted) in [
            ("heads == heads", true),
            ("heads == tails", false),
            ("heads != tails", true),
            ("5 > 3", true),
            ("5 < 3 || 2 >= 2", true),
            ("( heads == heads && even == even ) || ( x == y && a == b )", true),
            ("true", true),
            ("!false", true),
            ("\"hello world\" == 'hello world'", true),
            ("'' == ''", true),
            ("foo =~ fo+", true),
            ("foo !~ ^b", true),
            ("a in (a, b)", true),
            ("c in ('a', 'b')", false),
            ("Succeeded == Succeeded && 1 <= 2", true),
            ("10 > 9", true),
            ("a-b.c == a-b.c", true),
            ("-1 < 0", true),
        ] {
            assert_eq!(holds(text), Ok(wanted), "{text}");
        }
    }

    #[test]
    fn what_cannot_be_read_is_said() {
        for text in ["", "heads", "a ==", "(a == a", "5 > a", "'open", "a == b c", "1 && true", "a =~ ("] {
            assert!(holds(text).is_err(), "{text}: {:?}", holds(text));
        }
        assert!(holds(&"(".repeat(10_000)).is_err(), "it ends");
        assert!(holds(&"!".repeat(10_000)).is_err(), "it ends");
    }
}
