//! Helm's `parameters` and `fileParameters`: texts go to helm in files, what is left of its small language is checked.
//!
//! Helm reads `--set name=value` as a path with dots and brackets, a value that may be a number, a truth value, nothing
//! or a list, and commas between several of these; `--set-file` reads files that the value names. A name with a comma
//! in it would start another assignment, and with `--set-file` read any file. So a name has to be one plain path, and
//! every value that helm would take for a text is handed over as a file of ours, whose name nobody else chose. Numbers,
//! truth values and lists stay arguments: in a file they would become other types.

use super::helm::HelmParameter;
use super::{Files, RenderError};

/// Where the files are, seen from the folder that helm runs in.
const PLACE: &str = "../own/";

/// What helm is told, and the files that it is told of, by their names in `own`.
#[derive(Default, Debug, PartialEq, Eq)]
pub(super) struct Settings {
    pub(super) arguments: Vec<String>,
    pub(super) files: Files,
}

struct Assignment<'a> {
    flag: &'static str,
    name: &'a str,
    /// As helm reads it from its command line.
    written: String,
    /// What it comes to, where that is a text.
    text: Option<Vec<u8>>,
}

/// In the order in which helm applies them: parameters, then those that are texts by force, then files.
pub(super) fn settings(
    parameters: &[HelmParameter],
    files: Vec<(String, Vec<u8>)>,
) -> Result<Settings, RenderError> {
    let mut all = Vec::new();
    for forced in [false, true] {
        for parameter in parameters.iter().filter(|parameter| parameter.force_string == forced) {
            check_name(&parameter.name)?;
            let written = escape_commas(&parameter.value);
            all.push(Assignment {
                flag: if forced { "--set-string" } else { "--set" },
                name: &parameter.name,
                text: text_of(&written, forced),
                written,
            });
        }
    }
    for (name, content) in &files {
        check_name(name)?;
        all.push(Assignment {
            flag: "--set-file",
            name,
            written: String::new(),
            text: Some(content.clone()),
        });
    }
    Ok(arrange(all))
}

/// Files come last for helm. A text that something later overlaps has to stay before it, as an argument.
fn arrange(all: Vec<Assignment<'_>>) -> Settings {
    let mut settings = Settings::default();
    let mut texts = Vec::new();
    for (index, one) in all.iter().enumerate() {
        let covered =
            all[index + 1..].iter().any(|later| later.text.is_none() && overlap(one.name, later.name));
        match &one.text {
            Some(content) if !covered => texts.push((one.name, content)),
            _ => settings.arguments.push(format!("{}={}={}", one.flag, one.name, one.written)),
        }
    }
    for (index, (name, content)) in texts.into_iter().enumerate() {
        let file = format!("parameter-{index}");
        settings.arguments.push(format!("--set-file={name}={PLACE}{file}"));
        settings.files.insert(file, content.clone());
    }
    settings
}

/// One may be inside of the other.
fn overlap(one: &str, other: &str) -> bool {
    one.starts_with(other) || other.starts_with(one)
}

/// One path, and nothing that would end it before its value.
fn check_name(name: &str) -> Result<(), RenderError> {
    let mut escaped = false;
    let mut plain = !name.is_empty();
    for letter in name.chars() {
        plain &= !letter.is_control() && (escaped || !matches!(letter, '=' | ','));
        escaped = letter == '\\' && !escaped;
    }
    if plain && !escaped {
        return Ok(());
    }
    Err(RenderError::Options {
        message: format!(
            "helm parameter `{}` is not a name; write one path such as `image.tag` or `hosts[0].name`, and a `\\` before \
             `=` and `,` that belong to it",
            name.escape_debug()
        ),
    })
}

/// The text that helm takes a value for; `None`: it is a list, a number, a truth value or nothing.
fn text_of(written: &str, forced: bool) -> Option<Vec<u8>> {
    if written.starts_with('{') {
        return None;
    }
    let mut text = String::with_capacity(written.len());
    let mut letters = written.chars();
    while let Some(letter) = letters.next() {
        match letter {
            '\\' => text.extend(letters.next()),
            other => text.push(other),
        }
    }
    let word = ["true", "false", "null"].iter().any(|word| text.eq_ignore_ascii_case(word));
    let number = text == "0" || (!text.starts_with('0') && text.parse::<i64>().is_ok());
    (forced || !(word || number)).then(|| text.into_bytes())
}

/// Helm splits `--set` at commas, except inside `{}`.
fn escape_commas(value: &str) -> String {
    if value.starts_with('{') && value.ends_with('}') {
        return value.to_owned();
    }
    let mut out = String::with_capacity(value.len());
    let mut escaped = false;
    for c in value.chars() {
        if c == ',' && !escaped {
            out.push('\\');
        }
        escaped = c == '\\' && !escaped;
        out.push(c);
    }
    out
}

/// A text of the options that becomes a word of helm's command line.
pub(super) fn check_word(what: &str, text: &str) -> Result<(), RenderError> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || "./_-+~:".contains(letter);
    if !text.starts_with('-') && text.chars().all(plain) {
        return Ok(());
    }
    Err(RenderError::Options {
        message: format!("{what} `{}` has letters that it cannot have; correct it", text.escape_debug()),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(name: &str, value: &str) -> HelmParameter {
        HelmParameter { name: name.into(), value: value.into(), force_string: false }
    }

    fn forced(name: &str, value: &str) -> HelmParameter {
        HelmParameter { force_string: true, ..set(name, value) }
    }

    #[test]
    fn commas_are_escaped_once() {
        for (value, expected) in [("a,b", "a\\,b"), ("a\\,b", "a\\,b"), ("{a,b}", "{a,b}"), ("x", "x")] {
            assert_eq!(escape_commas(value), expected);
        }
    }

    #[test]
    fn texts_go_by_file_and_the_rest_keeps_its_type() {
        let parameters = [
            set("image.tag", "v1,2"),
            set("replicas", "3"),
            set("on", "True"),
            set("off", "null"),
            set("list", "{a,b}"),
            set("octal", "0755"),
            forced("id", "12"),
            set("word", "a\\,b"),
        ];
        let made = settings(&parameters, vec![("conf".into(), b"x=y".to_vec())]).expect("plain");
        assert_eq!(
            made.arguments,
            [
                "--set=replicas=3",
                "--set=on=True",
                "--set=off=null",
                "--set=list={a,b}",
                "--set-file=image.tag=../own/parameter-0",
                "--set-file=octal=../own/parameter-1",
                "--set-file=word=../own/parameter-2",
                "--set-file=id=../own/parameter-3",
                "--set-file=conf=../own/parameter-4",
            ]
        );
        let texts: Vec<&[u8]> = made.files.values().map(Vec::as_slice).collect();
        assert_eq!(texts, [&b"v1,2"[..], b"0755", b"a,b", b"12", b"x=y"]);
    }

    #[test]
    fn what_comes_later_wins_as_before() {
        let made = settings(&[set("a", "text"), set("a", "5"), set("b", "5"), set("b", "text")], Vec::new());
        let made = made.expect("plain");
        assert_eq!(
            made.arguments,
            ["--set=a=text", "--set=a=5", "--set=b=5", "--set-file=b=../own/parameter-0"]
        );
    }

    #[test]
    fn a_name_is_one_path() {
        for name in ["leak=/etc/passwd,x", "a,b", "a=b", "", "a\nb", "a\\", "a\\\\\\", "a\0b", "a\\\\,b"] {
            assert!(settings(&[set(name, "v")], Vec::new()).is_err(), "{name:?}");
            assert!(settings(&[], vec![(name.to_owned(), Vec::new())]).is_err(), "{name:?}");
        }
        for name in ["a.b[0].c", "a\\.b", "nodeSelector.\"kubernetes\\.io/role\"", "a\\,b", "a\\=b"] {
            assert!(settings(&[set(name, "v")], Vec::new()).is_ok(), "{name:?}");
        }
    }

    #[test]
    fn words_cannot_be_options_or_several() {
        for text in ["--post-renderer=x", "a,b", "a b", "a\nb", "v1\"x"] {
            assert!(check_word("a namespace", text).is_err(), "{text:?}");
        }
        for text in ["", "argo-cd", "v1.34.2+k3s1", "networking.k8s.io/v1/Ingress"] {
            assert!(check_word("a namespace", text).is_ok(), "{text:?}");
        }
    }
}
