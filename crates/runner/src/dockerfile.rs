//! Which images a Dockerfile names. Builders of the containers family take files of their machine there
//! (`FROM docker-archive:/…`), opened with the builder's rights; a Dockerfile is written by whoever writes the pipeline.
//!
//! In: the text, and the build arguments. Out: nothing, or a sentence about the first name that is none. Names are read
//! as a builder reads them: with global arguments filled in. What cannot be followed is refused.

use std::collections::{BTreeMap, BTreeSet};

use slipway_pipeline::image;

/// Everything that is named is an image, a stage of the same file, or `scratch`.
pub(crate) fn check(text: &str, arguments: &BTreeMap<String, String>) -> Result<(), String> {
    // A directive at the top may choose the other one; a reader that does not know it keeps the first.
    for escape in ['\\', '`'].into_iter().take(if text.contains("escape") { 2 } else { 1 }) {
        let mut names = Names { arguments, known: BTreeMap::new(), stages: BTreeSet::new(), begun: false };
        for (line, instruction) in instructions(text, escape) {
            names.instruction(&instruction).map_err(|why| format!("line {line} of the Dockerfile: {why}"))?;
        }
    }
    Ok(())
}

struct Names<'a> {
    /// As they were given.
    arguments: &'a BTreeMap<String, String>,
    /// Global ones, with their values.
    known: BTreeMap<String, String>,
    stages: BTreeSet<String>,
    begun: bool,
}

impl Names<'_> {
    fn instruction(&mut self, text: &str) -> Result<(), String> {
        let (word, rest) = text.split_once(char::is_whitespace).unwrap_or((text, ""));
        match word.to_ascii_uppercase().as_str() {
            "ARG" if !self.begun => self.argument(rest),
            "FROM" => self.from(rest),
            "COPY" | "ADD" | "RUN" => self.flags(rest),
            "ONBUILD" => self.instruction(rest.trim_start()),
            _ => Ok(()),
        }
    }

    fn argument(&mut self, rest: &str) -> Result<(), String> {
        for word in rest.split_whitespace() {
            let (name, default) =
                word.split_once('=').map_or((word, None), |(name, value)| (name, Some(value)));
            let value = match (self.arguments.get(name), default) {
                (Some(given), _) => given.clone(),
                (None, Some(default)) => self.filled(&unquoted(default))?,
                (None, None) => continue,
            };
            self.known.insert(name.to_owned(), value);
        }
        Ok(())
    }

    fn from(&mut self, rest: &str) -> Result<(), String> {
        self.begun = true;
        let mut words = rest.split_whitespace().skip_while(|word| word.starts_with("--"));
        let name = unquoted(words.next().unwrap_or_default());
        let name = self.filled(&name)?;
        self.image(&name)?;
        if words.next().is_some_and(|word| word.eq_ignore_ascii_case("as")) {
            self.stages.extend(words.next().map(str::to_lowercase));
        }
        Ok(())
    }

    /// `--from=NAME` and `--mount=…,from=NAME`.
    fn flags(&mut self, rest: &str) -> Result<(), String> {
        for flag in rest.split_whitespace().take_while(|word| word.starts_with("--")) {
            let flag = unquoted(flag);
            let (name, value) = flag.split_once('=').unwrap_or((&flag, ""));
            let from = match name {
                "--from" => Some(value),
                "--mount" => value.split(',').find_map(|part| {
                    part.trim()
                        .split_once('=')
                        .filter(|(key, _)| key.eq_ignore_ascii_case("from"))
                        .map(|(_, name)| name)
                }),
                _ => None,
            };
            if let Some(from) = from {
                let from = self.filled(from)?;
                let stage = !from.is_empty() && from.bytes().all(|byte| byte.is_ascii_digit());
                if !stage {
                    self.image(&from)?;
                }
            }
        }
        Ok(())
    }

    fn image(&self, name: &str) -> Result<(), String> {
        if name == "scratch" || self.stages.contains(&name.to_lowercase()) || image::check(name).is_ok() {
            return Ok(());
        }
        let shown: String = name.chars().filter(|c| !c.is_control()).take(120).collect();
        Err(format!("`{shown}` {}", image::ImageError))
    }

    /// `$NAME`, `${NAME}`, `${NAME:-other}` and `${NAME:+other}`.
    fn filled(&self, text: &str) -> Result<String, String> {
        let mut out = String::new();
        let mut rest = text;
        while let Some((before, after)) = rest.split_once('$') {
            out.push_str(before);
            let (name, other, left) = match after.strip_prefix('{') {
                Some(inside) => {
                    let (inside, left) =
                        inside.split_once('}').ok_or_else(|| "a `${` is not closed".to_owned())?;
                    let end =
                        inside.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(inside.len());
                    let (name, other) = inside.split_at(end);
                    (name, other, left)
                }
                None => {
                    let end =
                        after.find(|c: char| !c.is_ascii_alphanumeric() && c != '_').unwrap_or(after.len());
                    let (name, left) = after.split_at(end);
                    (name, "", left)
                }
            };
            let value = self.known.get(name).filter(|value| !value.is_empty()).map_or("", String::as_str);
            out.push_str(match (other.get(..2), value) {
                (None, value) if other.is_empty() => value,
                (Some(":-"), "") => other.get(2..).unwrap_or_default(),
                (Some(":-"), value) => value,
                (Some(":+"), "") => "",
                (Some(":+"), _) => other.get(2..).unwrap_or_default(),
                _ => {
                    return Err(format!(
                        "`${{{name}{other}}}` cannot be followed: write the name of the image"
                    ));
                }
            });
            rest = left;
        }
        out.push_str(rest);
        if out.contains('$') {
            return Err("a name within a name cannot be followed: write the name of the image".to_owned());
        }
        Ok(out)
    }
}

/// Whole instructions with the line that they begin at.
fn instructions(text: &str, escape: char) -> Vec<(usize, String)> {
    let mut all: Vec<(usize, String)> = Vec::new();
    let mut open = false;
    for (number, line) in text.trim_start_matches('\u{feff}').lines().enumerate() {
        let line = line.trim();
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (part, goes_on) = match line.strip_suffix(escape) {
            Some(part) => (part, true),
            None => (line, false),
        };
        match all.last_mut().filter(|_| open) {
            Some((_, whole)) => whole.push_str(part),
            None => all.push((number + 1, part.to_owned())),
        }
        open = goes_on;
    }
    all
}

fn unquoted(word: &str) -> String {
    word.replace(['"', '\'', '\\'], "")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn arguments(all: &[(&str, &str)]) -> BTreeMap<String, String> {
        all.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    #[test]
    fn images_stages_and_scratch_may_be_named() {
        let text = "# syntax=docker/dockerfile:1\nARG V=1.25\nARG BASE=golang:${V}\nFROM --platform=linux/amd64 ${BASE} AS Build\nRUN --mount=type=cache,target=/x make \\\n  # why\n  && echo FROM dir:/etc\nFROM scratch\nCOPY --from=build --chown=1:1 /a /b\nCOPY --from=0 /a /b\nCOPY --from=busybox:1 /a /b\nFROM $GIVEN\nFROM ${NONE:-alpine}\n";
        assert_eq!(check(text, &arguments(&[("GIVEN", "x")])), Err("line 12 of the Dockerfile: `` is not the name of an image: write [host[:port]/]path[:tag][@digest], without a transport such as dir: or oci:".to_owned()), "only what is declared is filled in");
        let text = text.replace("ARG V", "ARG GIVEN\nARG V");
        assert_eq!(check(&text, &arguments(&[("GIVEN", "registry.example:5000/x:1")])), Ok(()));
    }

    #[test]
    fn files_of_the_machine_may_not() {
        let none = arguments(&[]);
        for text in [
            "FROM dir:/etc",
            "from\tdocker-archive:/etc/shadow",
            "FROM \\\n  oci:/var",
            "FROM `\ndir:/etc",
            "# escape=`\nFROM `\ndir:/etc",
            "FROM \"dir:/etc\"",
            "ARG X=dir:/etc\nFROM $X",
            "ARG A=di\nARG B=r:/etc\nFROM ${A}${B}",
            "FROM ${X:-dir:/etc}",
            "FROM ${X%y}",
            "FROM a\nCOPY --from=dir:/etc / /x",
            "FROM a\nCOPY --chown=1 --from='oci-archive:/x' / /x",
            "FROM a\nRUN --mount=type=bind,from=dir:/etc,target=/x true",
            "FROM a\nONBUILD COPY --from=dir:/etc / /x",
            "FROM",
        ] {
            assert!(check(text, &none).is_err(), "{text}");
        }
        assert!(check("ARG X=a\nFROM $X", &arguments(&[("X", "dir:/etc")])).is_err());
    }
}
