//! The old placeholders: `{{key}}` is replaced, a key that is not known stays as it is written.

/// Fills placeholders. `lookup` says what a (trimmed) key means; only texts take part.
/// A text without `{{…}}` on one line is left alone, whatever it holds.
pub fn render<'v>(template: &str, lookup: impl Fn(&str) -> Option<&'v str>) -> Result<String, String> {
    let has_placeholder =
        template.lines().any(|line| line.find("{{").is_some_and(|start| line[start + 2..].contains("}}")));
    if !has_placeholder {
        return Ok(template.to_owned());
    }
    let mut out = String::with_capacity(template.len());
    let mut rest = template;
    while let Some(start) = rest.find("{{") {
        out.push_str(&rest[..start]);
        let inside = &rest[start + 2..];
        let Some(end) = inside.find("}}") else {
            return Err(format!(
                "a placeholder has no end: `}}}}` is missing after `{{{{{}`",
                shorten(inside)
            ));
        };
        let tag = &inside[..end];
        match lookup(tag.trim()).filter(|_| !tag.trim().is_empty()) {
            Some(value) => out.push_str(value),
            None => {
                out.push_str("{{");
                out.push_str(tag);
                out.push_str("}}");
            }
        }
        rest = &inside[end + 2..];
    }
    out.push_str(rest);
    Ok(out)
}

fn shorten(text: &str) -> String {
    let mut short: String = text.chars().take(20).collect();
    if text.chars().count() > 20 {
        short.push('…');
    }
    short
}
