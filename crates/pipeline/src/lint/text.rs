//! What only the text shows: tabs among spaces, and folded scalars that break their lines anyway.

use slipway_yaml::Span;

use crate::lint::Finding;

fn at(line: usize, column: usize) -> Span {
    Span { line, column, ..Span::default() }
}

/// Lines on which a tab stands next to other white space.
pub(super) fn mixed_tabs(text: &str) -> Vec<Finding> {
    let blank = |c: char| c.is_whitespace();
    text.split('\n')
        .enumerate()
        .filter_map(|(index, line)| {
            let characters: Vec<char> = line.chars().collect();
            let column = characters.windows(2).position(|pair| {
                (pair[0] == '\t' && blank(pair[1])) || (blank(pair[0]) && pair[1] == '\t')
            })?;
            let finding =
                Finding::error("Your YAML contains both spaces and tabs.", at(index + 1, column + 1));
            Some(finding.area("indention").code(400).hint("replace all tabs with spaces"))
        })
        .collect()
}

/// Lines below a `- >-` that are indented further than its first line: folding keeps their breaks,
/// which is hardly ever what a long command wants.
pub(super) fn folded_indentation(text: &str) -> Vec<Finding> {
    let lines: Vec<&str> = text.split('\n').collect();
    let indent = |line: &str| line.chars().position(|c| !c.is_whitespace()).map_or(-1, |at| at as isize);
    let mut findings = Vec::new();
    let mut inside = false;
    let mut first_indent = 0;
    for (index, line) in lines.iter().enumerate() {
        if line.contains("- >-") {
            inside = true;
            if index + 1 < lines.len().saturating_sub(1) {
                first_indent = indent(lines[index + 1]);
            }
        } else if inside {
            let spaces = indent(line);
            if line.contains("- ") || (spaces < first_indent && looks_like_key(line)) {
                inside = false;
            } else if spaces > first_indent {
                let message = "Your YAML contains invalid indentation after characters '>-'.";
                let finding = Finding::warning(message, at(index + 1, spaces.unsigned_abs() + 1));
                findings.push(
                    finding.area("indention").code(500).hint("align the line with the first one after `>-`"),
                );
            }
        }
    }
    findings
}

/// `name:` or `name: word` without quotes or dashes before it: the next field of the file.
fn looks_like_key(line: &str) -> bool {
    let allowed_before = |text: &str| !text.contains(['-', '\'', '"', '`']);
    line.char_indices().filter(|(_, c)| *c == ':').any(|(at, _)| {
        let (before, after) = (&line[..at], &line[at + 1..]);
        let Some(last) = before.chars().next_back() else { return false };
        let rest = after.trim_start();
        let key_end = last.is_ascii_alphabetic() || ('/'..='\\').contains(&last);
        let value_ok = rest.chars().all(|c| {
            c.is_ascii_alphabetic() || ('/'..='\\').contains(&c) || matches!(c, '-' | '\'' | '"' | '.')
        });
        key_end && value_ok && allowed_before(&before[..before.len() - last.len_utf8()])
    })
}
