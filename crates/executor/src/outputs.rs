//! What a step leaves: which files, read when it has ended, and what it printed.

use std::io::Read;
use std::path::PathBuf;

use serde_json::{Value, json};

/// What is wanted, as JSON: `{"result": true, "parameters": [{"name": "x", "path": "/tmp/x", "default": "y"}]}`.
pub(crate) const WANTED: &str = "SLIPWAY_OUTPUTS";
/// Where the last words of a container are read.
const LAST_WORDS: &str = "/dev/termination-log";
/// What Kubernetes keeps of them.
const LAST_WORDS_MAX: usize = 4096;
const VALUE_MAX: u64 = 256 << 10;

#[derive(Debug, Default, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) result: bool,
    parameters: Vec<Parameter>,
}

#[derive(Debug, Default, PartialEq)]
struct Parameter {
    name: String,
    path: PathBuf,
    default: Option<String>,
}

impl Wanted {
    pub(crate) fn from_environment() -> Result<Self, String> {
        match std::env::var(WANTED) {
            Ok(text) => Self::parse(&text),
            Err(_) => Ok(Self::default()),
        }
    }

    pub(crate) fn parse(text: &str) -> Result<Self, String> {
        let value: Value =
            serde_json::from_str(text).map_err(|error| format!("{WANTED} cannot be read: {error}"))?;
        let word = |value: &Value| value.as_str().map(str::to_owned);
        let parameters = value["parameters"].as_array().into_iter().flatten().map(|one| Parameter {
            name: word(&one["name"]).unwrap_or_default(),
            path: word(&one["path"]).unwrap_or_default().into(),
            default: word(&one["default"]),
        });
        Ok(Self { result: value["result"] == true, parameters: parameters.collect() })
    }

    /// What was found; `error` says everything that was not.
    pub(crate) fn collect(&self, result: Option<&[u8]>) -> Value {
        let (mut found, mut missing) = (Vec::new(), Vec::new());
        for one in &self.parameters {
            match (read(&one.path), &one.default) {
                (Ok(value), _) => found.push(json!({"name": one.name, "value": value})),
                (Err(_), Some(default)) => found.push(json!({"name": one.name, "value": default})),
                (Err(why), None) => {
                    missing.push(format!("output parameter {}: {}: {why}", one.name, one.path.display()));
                }
            }
        }
        let mut outputs = json!({});
        if !found.is_empty() {
            outputs["parameters"] = found.into();
        }
        if let Some(result) = result {
            outputs["result"] = without_end(String::from_utf8_lossy(result).into_owned()).into();
        }
        let mut all = json!({"outputs": outputs});
        if !missing.is_empty() {
            all["error"] = missing.join("; ").into();
        }
        all
    }
}

fn read(path: &std::path::Path) -> Result<String, String> {
    let file = std::fs::File::open(path).map_err(|error| error.to_string())?;
    let mut bytes = Vec::new();
    file.take(VALUE_MAX + 1).read_to_end(&mut bytes).map_err(|error| error.to_string())?;
    if bytes.len() as u64 > VALUE_MAX {
        return Err(format!("it is longer than {VALUE_MAX} bytes"));
    }
    String::from_utf8(bytes).map(without_end).map_err(|_| "it is not UTF-8".into())
}

/// The line's end is not a part of a value.
fn without_end(mut text: String) -> String {
    if text.ends_with('\n') {
        text.pop();
    }
    text
}

/// The last words. What does not fit is not cut: half a value would be taken for a whole one.
pub(crate) fn say(words: &Value) {
    let mut text = fitting(words);
    if text.len() > LAST_WORDS_MAX {
        text = json!({"error": "the outputs do not fit"}).to_string();
    }
    if let Err(error) = std::fs::write(LAST_WORDS, text) {
        eprintln!("slipway-executor: cannot write {LAST_WORDS}: {error}");
    }
}

fn fitting(words: &Value) -> String {
    let text = words.to_string();
    if text.len() <= LAST_WORDS_MAX {
        return text;
    }
    let error = format!(
        "the outputs have {} bytes with their names, and {LAST_WORDS_MAX} can be carried",
        text.len()
    );
    json!({"error": error}).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn files_are_values_and_what_is_missing_is_said_at_once() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::write(folder.path().join("a"), "one\ntwo\n").expect("written");
        let path = |name: &str| folder.path().join(name).display().to_string();
        let wanted = json!({"result": true, "parameters": [
            {"name": "a", "path": path("a")}, {"name": "b", "path": path("b"), "default": "x"},
            {"name": "c", "path": path("c")}, {"name": "d", "path": path("d")}]});
        let found = Wanted::parse(&wanted.to_string()).expect("readable").collect(Some(b"hello\n"));
        assert_eq!(
            found["outputs"],
            json!({"parameters": [{"name": "a", "value": "one\ntwo"}, {"name": "b", "value": "x"}], "result": "hello"})
        );
        let error = found["error"].as_str().expect("an error");
        assert!(error.contains("output parameter c") && error.contains("output parameter d"), "{error}");
        assert!(Wanted::parse("nonsense").is_err());
    }

    #[test]
    fn what_does_not_fit_is_an_error_and_never_half_a_value() {
        let text = fitting(&json!({"outputs": {"result": "x".repeat(5000)}}));
        assert!(text.len() < LAST_WORDS_MAX && text.contains("can be carried"), "{text}");
        let small = json!({"outputs": {"result": "x"}});
        assert_eq!(fitting(&small), small.to_string());
    }
}
