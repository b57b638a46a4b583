//! `${{NAME}}` in text: one pass, unknown names stay as they are written.
//!
//! Values are never looked at again after they have been put in, so a value that itself contains
//! `${{…}}` cannot reach another variable. Where the text is code (a shell command, a condition),
//! values that came from outside, such as a branch name or a commit message, are put in as data.

use serde_json::{Map, Value};

use crate::pipeline::Pipeline;
use crate::state::BuildState;
use crate::variables::{Layer, is_untrusted};

/// Everything `${{NAME}}` can mean for one step of one build.
pub(crate) struct Interpolator<'a> {
    pub(crate) pipeline: &'a Pipeline,
    pub(crate) state: &'a BuildState,
    /// Names that only this step sees: `CF_STEP_NAME`, `CF_CURRENT_ATTEMPT`, …
    pub(crate) own: Vec<(String, String)>,
}

/// A found value and whether it may be put into code as it is.
pub(crate) struct Found {
    pub(crate) text: String,
    pub(crate) trusted: bool,
}

/// Cuts a text at its `${{NAME}}` references: literal, name, literal, …
pub(crate) fn references(text: &str) -> Vec<Piece<'_>> {
    let mut pieces = Vec::new();
    let mut rest = text;
    while let Some(start) = rest.find("${{") {
        let Some(length) = rest[start + 3..].find("}}") else { break };
        // `.+?` of the reference implementation: at least one character.
        if length == 0 {
            pieces.push(Piece::Literal(&rest[..start + 3]));
            rest = &rest[start + 3..];
            continue;
        }
        pieces.push(Piece::Literal(&rest[..start]));
        pieces.push(Piece::Name(rest[start + 3..start + 3 + length].trim()));
        rest = &rest[start + 5 + length..];
    }
    pieces.push(Piece::Literal(rest));
    pieces
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Piece<'a> {
    Literal(&'a str),
    Name(&'a str),
}

/// The name in a text that is exactly one reference.
pub(crate) fn only_reference(text: &str) -> Option<&str> {
    match references(text.trim()).as_slice() {
        [Piece::Literal(""), Piece::Name(name), Piece::Literal("")] => Some(name),
        _ => None,
    }
}

impl Interpolator<'_> {
    pub(crate) fn lookup(&self, name: &str) -> Option<Found> {
        if let Some((_, value)) = self.own.iter().rev().find(|(own, _)| own == name) {
            return Some(Found { text: value.clone(), trusted: true });
        }
        // A step's member wins over a variable of the same name, which could only be there by accident.
        if let Some(text) = self.step_value(name) {
            return Some(Found { text, trusted: true });
        }
        let (layer, value) = self.state.variables.lookup(name)?;
        // Only who may edit the pipeline or its project can make text from outside their own.
        let edited = matches!(layer, Layer::Project | Layer::SharedConfig | Layer::Pipeline);
        let trusted = edited || !is_untrusted(name);
        Some(Found { text: value.to_owned(), trusted })
    }

    /// `steps.NAME.member`, `NAME.member`, `NAME`, `parentSteps.NAME`.
    fn step_value(&self, name: &str) -> Option<String> {
        let path = name.strip_prefix("steps.").or_else(|| name.strip_prefix("parentSteps.")).unwrap_or(name);
        let (step, member) = match path.split_once('.') {
            Some((step, member)) => (step, Some(member)),
            None => (path, None),
        };
        let written = self.pipeline.step(step)?;
        let state = self.state.step(step);
        match member {
            None => state
                .members
                .get("image")
                .cloned()
                .or_else(|| image_reference(&state.members))
                .or_else(|| state.working_directory.clone()),
            Some("name") => Some(step.to_owned()),
            Some("type") => Some(written.type_name.clone()),
            Some("description") => {
                written.fields.get("description").and_then(Value::as_str).map(str::to_owned)
            }
            Some("workingDirectory" | "working-directory") => state.working_directory.clone(),
            Some("result") => Some(state.status.as_str().to_owned()),
            Some(member) => match member.strip_prefix("output.") {
                Some(output) => state.output.get(output).cloned(),
                None => state.members.get(member).cloned(),
            },
        }
    }

    /// Puts values in as they are.
    pub(crate) fn text(&self, text: &str) -> String {
        self.fill(text, &mut NoQuotes, |_, found| found.text)
    }

    /// Replaces references one by one; `quotes` reads along and knows where each of them stands.
    fn fill<Q: Quotes>(&self, text: &str, quotes: &mut Q, put: impl Fn(&Q, Found) -> String) -> String {
        let mut out = String::with_capacity(text.len());
        for piece in references(text) {
            match piece {
                Piece::Literal(literal) => {
                    quotes.read(literal);
                    out.push_str(literal);
                }
                Piece::Name(name) => match self.lookup(name) {
                    Some(found) => {
                        let trusted = found.trusted;
                        let filled = put(quotes, found);
                        // What a value from outside brings is data; a value from the file may open a quote.
                        if trusted {
                            quotes.read(&filled);
                        }
                        out.push_str(&filled);
                    }
                    None => {
                        out.push_str("${{");
                        out.push_str(name);
                        out.push_str("}}");
                    }
                },
            }
        }
        out
    }

    /// Fills every string of a value, keys included.
    pub(crate) fn json(&self, value: &Value) -> Value {
        match value {
            Value::String(text) => Value::String(self.text(text)),
            Value::Array(items) => Value::Array(items.iter().map(|item| self.json(item)).collect()),
            Value::Object(members) => Value::Object(
                members.iter().map(|(key, value)| (self.text(key), self.json(value))).collect::<Map<_, _>>(),
            ),
            other => other.clone(),
        }
    }

    /// Fills a shell command. A value from outside that the shell could read as more than one plain
    /// word is quoted for the place it stands in, so that a branch called `$(reboot)` stays a name.
    pub(crate) fn shell(&self, command: &str) -> String {
        self.fill(command, &mut ShellQuotes::default(), |quotes, found| {
            if found.trusted || found.text.chars().all(is_plain) {
                return found.text;
            }
            match quotes.open {
                None => format!("'{}'", found.text.replace('\'', r"'\''")),
                Some('\'') => found.text.replace('\'', r"'\''"),
                Some(_) => escape(&found.text, &['\\', '"', '$', '`']),
            }
        })
    }

    /// Fills a condition. Inside quotes a value is escaped for them; outside, a value from outside
    /// that is not a plain word or number becomes a string.
    pub(crate) fn condition(&self, expression: &str) -> String {
        self.fill(expression, &mut ExpressionQuotes::default(), |quotes, found| {
            let word = |c: char| c.is_alphanumeric() || "_.".contains(c);
            match quotes.open {
                Some(quote) => escape(&found.text, &[quote, '\\']),
                None if found.trusted => found.text,
                None if !found.text.is_empty() && found.text.chars().all(word) => found.text,
                None => format!("\"{}\"", escape(&found.text, &['"', '\\'])),
            }
        })
    }
}

fn escape(text: &str, special: &[char]) -> String {
    text.chars().fold(String::with_capacity(text.len()), |mut out, c| {
        if special.contains(&c) {
            out.push('\\');
        }
        out.push(c);
        out
    })
}

fn image_reference(members: &std::collections::BTreeMap<String, String>) -> Option<String> {
    let name = members.get("imageName")?;
    Some(match members.get("imageTagName") {
        Some(tag) => format!("{name}:{tag}"),
        None => name.clone(),
    })
}

fn is_plain(c: char) -> bool {
    c.is_alphanumeric() || matches!(c, '_' | '.' | '/' | ':' | '@' | '%' | '+' | ',' | '=' | '-')
}

/// Reads code along with the one who fills it in, and knows which quote is open.
trait Quotes {
    fn read(&mut self, text: &str);
}

struct NoQuotes;

impl Quotes for NoQuotes {
    fn read(&mut self, _: &str) {}
}

/// A POSIX shell: nothing is special between single quotes.
#[derive(Default)]
struct ShellQuotes {
    open: Option<char>,
    escaped: bool,
}

impl Quotes for ShellQuotes {
    fn read(&mut self, text: &str) {
        for c in text.chars() {
            match (self.open, c) {
                _ if self.escaped => self.escaped = false,
                (None | Some('"'), '\\') => self.escaped = true,
                (None, '\'' | '"') => self.open = Some(c),
                (Some(open), c) if c == open => self.open = None,
                _ => {}
            }
        }
    }
}

/// The condition language: a backslash only means something inside a string.
#[derive(Default)]
struct ExpressionQuotes {
    open: Option<char>,
    escaped: bool,
}

impl Quotes for ExpressionQuotes {
    fn read(&mut self, text: &str) {
        for c in text.chars() {
            match (self.open, c) {
                (Some(_), _) if self.escaped => self.escaped = false,
                (Some(_), '\\') => self.escaped = true,
                (Some(open), c) if c == open => self.open = None,
                (None, '\'' | '"') => self.open = Some(c),
                _ => {}
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state() -> BuildState {
        let mut state = BuildState::default();
        state.variables.set(Layer::System, "CF_BRANCH", "x\"; $(reboot) 'q");
        state.variables.set(Layer::System, "CF_REVISION", "abc123");
        state.variables.set(Layer::Pipeline, "FLAGS", "--a \"b c\"");
        state.variables.set(Layer::Pipeline, "NESTED", "${{CF_REVISION}}");
        state
    }

    #[track_caller]
    fn check(make: impl Fn(&Interpolator<'_>, &str) -> String, given: &str, expect: &str) {
        let (pipeline, state) = (Pipeline::default(), state());
        let interpolator = Interpolator { pipeline: &pipeline, state: &state, own: Vec::new() };
        assert_eq!(make(&interpolator, given), expect);
    }

    #[test]
    fn unknown_names_stay_and_values_are_not_looked_at_again() {
        check(|i, t| i.text(t), "a ${{CF_REVISION}} b", "a abc123 b");
        check(|i, t| i.text(t), "${{ CF_REVISION }}", "abc123");
        check(|i, t| i.text(t), "${{MISSING}} ${{}} ${{open", "${{MISSING}} ${{}} ${{open");
        check(|i, t| i.text(t), "${{NESTED}}", "${{CF_REVISION}}");
    }

    #[test]
    fn hostile_values_reach_a_shell_as_one_word() {
        check(|i, t| i.shell(t), "echo ${{CF_BRANCH}}", r#"echo 'x"; $(reboot) '\''q'"#);
        check(|i, t| i.shell(t), "echo \"${{CF_BRANCH}}\"", r#"echo "x\"; \$(reboot) 'q""#);
        check(|i, t| i.shell(t), "echo '${{CF_BRANCH}}'", r#"echo 'x"; $(reboot) '\''q'"#);
        check(|i, t| i.shell(t), "run ${{FLAGS}}", "run --a \"b c\"");
        check(|i, t| i.shell(t), "echo \\\"${{CF_BRANCH}}", r#"echo \"'x"; $(reboot) '\''q'"#);
    }

    #[test]
    fn hostile_values_reach_a_condition_as_text() {
        check(|i, t| i.condition(t), "\"${{CF_BRANCH}}\" == 'main'", r#""x\"; $(reboot) 'q" == 'main'"#);
        check(|i, t| i.condition(t), "${{CF_REVISION}} == 1", "abc123 == 1");
    }

    #[test]
    fn a_lone_reference_is_recognised() {
        assert_eq!(only_reference("${{clone}}"), Some("clone"));
        assert_eq!(only_reference("${{clone}}/x"), None);
        assert_eq!(only_reference("clone"), None);
    }
}
