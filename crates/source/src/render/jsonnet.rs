//! Jsonnet by its binary, on exactly the files that it imports.
//!
//! Imports are literals in the language, so what a program reads is known before it runs: every import is followed here,
//! inside the repository and nowhere else. This is how files come into the folder and how a person hears what is wrong;
//! the wall is the cage, in which nothing else exists.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::workspace::{self, Workspace};
use super::{Files, Finding, Origin, RenderError, RenderRequest, Renderer, environment};

/// `directory.jsonnet` of a source.
#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
#[serde(default)]
pub struct Jsonnet {
    pub external: Vec<JsonnetVariable>,
    pub arguments: Vec<JsonnetVariable>,
    /// Folders, from the repository's root.
    pub libraries: Vec<String>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, PartialEq, Eq)]
pub struct JsonnetVariable {
    pub name: String,
    pub value: String,
    /// The value is jsonnet itself.
    pub code: bool,
}

const FILES_MAX: usize = 2_000;

/// One program → its objects. What it read outside of the source folder is added to `outside`.
pub(super) async fn render(
    renderer: &Renderer,
    request: &RenderRequest,
    options: &Jsonnet,
    file: &str,
    outside: &mut Vec<String>,
) -> Result<Vec<(Value, Origin)>, RenderError> {
    let mut libraries = Vec::new();
    for folder in &options.libraries {
        libraries
            .push(workspace::join("", environment::substitute(folder, request).trim_start_matches('/'))?);
    }
    let mut files = Files::new();
    gather(renderer, request, &libraries, file, &mut files).await?;
    for variable in options.external.iter().chain(&options.arguments).filter(|variable| variable.code) {
        if !imports(&variable.value).is_some_and(|found| found.is_empty()) {
            let message = format!("jsonnet variable `{}` may not import files", variable.name);
            return Err(RenderError::Options { message });
        }
    }
    outside.extend(files.keys().filter(|path| *path != file).cloned());
    let workspace = Workspace::with(&files)?;
    let mut arguments: Vec<String> = Vec::new();
    for library in &libraries {
        arguments.extend(["-J".into(), workspace.path(&format!("repo/{library}")).display().to_string()]);
    }
    let (external, top) = (&options.external, &options.arguments);
    let mut number = 0;
    for (plain, code, variables) in
        [("--ext-str-file", "--ext-code-file", external), ("--tla-str-file", "--tla-code-file", top)]
    {
        for variable in variables {
            let flag = if variable.code { code } else { plain };
            let value = environment::substitute(&variable.value, request);
            // By a file: a value on a command line can be seen by all of the machine.
            let file = workspace.write(&format!("own/variable-{number}"), value.as_bytes())?;
            number += 1;
            arguments.extend([flag.to_owned(), format!("{}={}", variable_name(variable)?, file.display())]);
        }
    }
    arguments.push("--".into());
    arguments.push(workspace.path(&format!("repo/{file}")).display().to_string());
    let output = workspace.run(renderer, request, "jsonnet", &arguments).await?;
    let output = output.ok_or_else(|| RenderError::ToolMissing {
        tool: "jsonnet".to_owned(),
        path: file.to_owned(),
        install: "put go-jsonnet's `jsonnet` on the PATH of the runtime".to_owned(),
    })?;
    let value: Value = serde_json::from_slice(&output).map_err(|error| RenderError::Tool {
        tool: "jsonnet".to_owned(),
        path: file.to_owned(),
        detail: error.to_string(),
    })?;
    let documents = match value {
        Value::Array(items) => items,
        one => vec![one],
    };
    let text = documents.iter().map(Value::to_string).collect::<Vec<_>>().join("\n---\n");
    super::manifest::read_output("jsonnet", file, text.as_bytes()).map_err(RenderError::Findings)
}

/// The name ends at the first `=` for jsonnet.
fn variable_name(variable: &JsonnetVariable) -> Result<&str, RenderError> {
    let name = variable.name.as_str();
    if name.is_empty() || name.starts_with('-') || name.chars().any(|c| c == '=' || c.is_control()) {
        let message = format!("jsonnet variable `{}` has a name that it cannot have", name.escape_debug());
        return Err(RenderError::Options { message });
    }
    Ok(name)
}

/// The program and everything that it imports, directly or not.
async fn gather(
    renderer: &Renderer,
    request: &RenderRequest,
    libraries: &[String],
    file: &str,
    files: &mut Files,
) -> Result<(), RenderError> {
    let mut open = vec![(file.to_owned(), true)];
    let mut seen: BTreeSet<(String, bool)> = open.iter().cloned().collect();
    while let Some((path, program)) = open.pop() {
        if !workspace::add_file(renderer, request, &path, files).await? || seen.len() > FILES_MAX {
            return Err(refused(&path, "is missing or imports too many files"));
        }
        // What is imported as text or bytes is no program; everything else is, whatever its name ends with.
        if !program {
            continue;
        }
        let text = String::from_utf8_lossy(&files[&path]).into_owned();
        let found =
            imports(&text).ok_or_else(|| refused(&path, "imports something that is not a plain text"))?;
        let folder = path.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
        for Import { target, program } in found {
            if target.starts_with('/') || target.contains("://") {
                return Err(refused(&path, "imports a file outside of the repository"));
            }
            let mut places = vec![workspace::join(&folder, &target)];
            places.extend(libraries.iter().rev().map(|library| workspace::join(library, &target)));
            let mut known = false;
            for place in places {
                // A way out of the repository from one library may be a way inside from another.
                let Ok(place) = place else { continue };
                if request.content.file(&renderer.git, &place).await?.is_some() {
                    known = true;
                    if seen.insert((place.clone(), program)) {
                        open.push((place, program));
                    }
                    break;
                }
            }
            if !known {
                return Err(refused(&path, &format!("imports `{target}`, which is not in the repository")));
            }
        }
    }
    Ok(())
}

fn refused(file: &str, why: &str) -> RenderError {
    let message = format!("this program {why}");
    RenderError::Findings(vec![Finding { file: file.to_owned(), line: 1, column: 1, message }])
}

#[derive(Debug, PartialEq)]
struct Import {
    target: String,
    /// Evaluated, and not only read.
    program: bool,
}

/// What the program imports; `None` where that cannot be told. Comments and texts are no imports.
fn imports(text: &str) -> Option<Vec<Import>> {
    let bytes = text.as_bytes();
    let mut found = Vec::new();
    let mut at = 0;
    let mut expecting: Option<bool> = None;
    while at < bytes.len() {
        let rest = &text[at..];
        let first = bytes[at];
        if rest.starts_with("//") || first == b'#' {
            at += rest.find('\n').unwrap_or(rest.len());
        } else if rest.starts_with("/*") {
            at += rest.find("*/").map_or(rest.len(), |end| end + 2);
        } else if first.is_ascii_whitespace() {
            at += 1;
        } else if rest.starts_with("|||") {
            if expecting.is_some() {
                return None;
            }
            at += text_block(rest)?;
        } else if matches!(first, b'"' | b'\'') || (first == b'@' && rest[1..].starts_with(['"', '\''])) {
            let verbatim = first == b'@';
            let (literal, end) = literal(&rest[usize::from(verbatim)..], verbatim)?;
            if let Some(program) = expecting.take() {
                // An escape could hide another path.
                if literal.contains('\\') {
                    return None;
                }
                found.push(Import { target: literal, program });
            }
            at += usize::from(verbatim) + end;
        } else if expecting.is_some() {
            return None;
        } else if first.is_ascii_alphabetic() || first == b'_' {
            let end = rest.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(rest.len());
            expecting = match &rest[..end] {
                "import" => Some(true),
                "importstr" | "importbin" => Some(false),
                _ => None,
            };
            at += end;
        } else {
            at += rest.chars().next().map_or(1, char::len_utf8);
        }
    }
    expecting.is_none().then_some(found)
}

/// How long a text block is: it ends where a line that is indented less begins with `|||`, and nowhere before.
fn text_block(text: &str) -> Option<usize> {
    let blank = |c: char| matches!(c, ' ' | '\t' | '\r');
    let head = text.strip_prefix("|||")?;
    let head = head.strip_prefix('-').unwrap_or(head).trim_start_matches(blank);
    let mut rest = head.strip_prefix('\n')?;
    rest = rest.trim_start_matches('\n');
    let indent = &rest[..rest.len() - rest.trim_start_matches([' ', '\t']).len()];
    if indent.is_empty() {
        return None;
    }
    while rest.starts_with(indent) || rest.starts_with('\n') {
        rest = &rest[rest.find('\n')? + 1..];
    }
    let end = rest.trim_start_matches([' ', '\t']).strip_prefix("|||")?;
    Some(text.len() - end.len())
}

/// The text between quotes, and where it ends.
fn literal(text: &str, verbatim: bool) -> Option<(String, usize)> {
    let quote = text.chars().next()?;
    let mut out = String::new();
    let mut chars = text.char_indices().skip(1).peekable();
    while let Some((index, c)) = chars.next() {
        if c == quote {
            if verbatim && chars.peek().is_some_and(|(_, next)| *next == quote) {
                out.push(quote);
                chars.next();
                continue;
            }
            return Some((out, index + c.len_utf8()));
        }
        out.push(c);
        if c == '\\' && !verbatim {
            out.push(chars.next()?.1);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::imports;

    #[test]
    fn imports_are_found_and_texts_are_not() {
        let text = "// import 'no'\nlocal a = import 'a.libsonnet'; /* import 'no' */\n# import 'no'\n\
                    local b = importstr \"x/b.txt\"; local c = importbin @'c.bin';\n\
                    { s: \"import 'no'\", t: |||\n  import 'no'\n|||, important: 1 }";
        let found = imports(text).expect("readable");
        let found: Vec<_> = found.iter().map(|import| (import.target.as_str(), import.program)).collect();
        assert_eq!(found, [("a.libsonnet", true), ("x/b.txt", false), ("c.bin", false)]);
    }

    #[test]
    fn a_text_block_ends_where_the_language_ends_it() {
        let inside = "{ a: |||\n  one ||| import 'no'\n\n   |||\n  two\n|||, b: importstr 'yes' }";
        assert_eq!(
            imports(inside).expect("readable"),
            [super::Import { target: "yes".into(), program: false }]
        );
        let dash = "|||-\n\tx\n||| + import 'a'";
        assert_eq!(imports(dash).expect("readable").len(), 1);
        for open in ["|||\nnot indented\n|||", "||| on the same line |||", "|||\n  never ends", "|||\n  x\n "]
        {
            assert!(imports(open).is_none(), "{open}");
        }
    }

    #[test]
    fn what_cannot_be_told_is_refused() {
        for text in [
            "import (a)",
            "import '\\u002fetc/passwd'",
            "import",
            "import |||\n  /etc/passwd\n|||",
            "import 'open",
        ] {
            assert!(imports(text).is_none(), "{text}");
        }
    }
}
