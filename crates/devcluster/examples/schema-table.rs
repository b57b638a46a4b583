//! Makes `src/schema/builtin.txt` and `src/schema/protobuf.txt` from Kubernetes' own files.
//!
//! `cargo run -p slipway-devcluster --example schema-table -- SWAGGER_JSON API_DIR APIMACHINERY_DIR APIEXTENSIONS_DIR`, where the
//! first is `api/openapi-spec/swagger.json` of the Go module k8s.io/kubernetes and the others are the modules k8s.io/api,
//! k8s.io/apimachinery and k8s.io/apiextensions-apiserver of the same release. Only names, types and numbers are taken.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;

use regex::Regex;
use serde_json::Value;

/// Short prefixes of type names, as the tables write them.
const PREFIXES: &[(&str, &str)] = &[
    ("io.k8s.api.", ""),
    ("io.k8s.apimachinery.pkg.apis.meta.", "meta."),
    ("io.k8s.apiextensions-apiserver.pkg.apis.", ""),
    ("io.k8s.kube-aggregator.pkg.apis.", ""),
];

/// Types that have a letter of their own.
const LETTERS: &[(&str, char)] = &[
    ("IntOrString", 'I'),
    ("resource.Quantity", 'q'),
    ("meta.v1.Time", 't'),
    ("meta.v1.MicroTime", 'u'),
    ("runtime.RawExtension", 'x'),
    ("meta.v1.FieldsV1", 'x'),
    ("apiextensions.v1.JSON", 'x'),
    ("apiextensions.v1.JSONSchemaProps", 'x'),
];

fn short(name: &str) -> String {
    PREFIXES
        .iter()
        .find_map(|(long, short)| name.strip_prefix(long).map(|rest| format!("{short}{rest}")))
        .unwrap_or_else(|| name.to_owned())
}

fn letter(name: &str) -> Option<char> {
    let short = short(name);
    LETTERS
        .iter()
        .find(|(known, _)| short == *known || short.ends_with(&format!(".{known}")))
        .map(|(_, letter)| *letter)
        .or_else(|| short.starts_with("apiextensions.v1.JSONSchemaPropsOr").then_some('x'))
}

struct Shapes<'a> {
    definitions: BTreeMap<String, &'a Value>,
    todo: Vec<String>,
}

impl Shapes<'_> {
    fn type_of(&mut self, schema: &Value) -> String {
        let text = |name: &str| schema[name].as_str().unwrap_or("");
        let mut out = if let Some(reference) = schema["$ref"].as_str() {
            let name = reference.rsplit('/').next().unwrap_or_default();
            match letter(name) {
                Some(letter) => letter.to_string(),
                None => {
                    self.todo.push(short(name));
                    format!("@{}", short(name))
                }
            }
        } else {
            match (text("type"), text("format")) {
                ("string", "byte") => "y".to_owned(),
                ("string", _) => "s".to_owned(),
                ("integer", "int64") => "l".to_owned(),
                ("integer", _) => "i".to_owned(),
                ("number", _) => "n".to_owned(),
                ("boolean", _) => "b".to_owned(),
                ("array", _) => format!("[{}]", self.type_of(&schema["items"])),
                _ if schema["additionalProperties"].is_object() => {
                    format!("{{{}}}", self.type_of(&schema["additionalProperties"]))
                }
                _ => "x".to_owned(),
            }
        };
        match text("x-kubernetes-list-type") {
            "atomic" => out.push('*'),
            "set" => out.push('='),
            "map" => {
                let keys = schema["x-kubernetes-list-map-keys"].as_array().into_iter().flatten();
                let keys: Vec<&str> = keys.filter_map(Value::as_str).collect();
                let _ = write!(out, "/{}", keys.join(","));
            }
            _ => {}
        }
        if text("x-kubernetes-map-type") == "atomic" {
            out.push('*');
        }
        let strategy = text("x-kubernetes-patch-strategy");
        if strategy.contains("merge") {
            let _ = write!(out, "+{}", text("x-kubernetes-patch-merge-key"));
        }
        if strategy.contains("retainKeys") {
            out.push('~');
        }
        out
    }

    fn line(&mut self, name: &str) -> Option<String> {
        let schema = *self.definitions.get(name)?;
        let required: Vec<&str> =
            schema["required"].as_array().into_iter().flatten().filter_map(Value::as_str).collect();
        let mut line = name.to_owned();
        if schema["x-kubernetes-map-type"] == "atomic" {
            line.push('*');
        }
        for (field, inner) in schema["properties"].as_object().into_iter().flatten() {
            let mark = if required.contains(&field.as_str()) { "!" } else { "" };
            let ty = self.type_of(inner);
            let _ = write!(line, " {field}{mark}:{ty}");
        }
        Some(line)
    }
}

/// The present table says which types are wanted: its first words, and whatever they refer to.
fn wanted(table: &str) -> Vec<String> {
    let lines = table.lines().filter(|line| !line.starts_with('#'));
    lines
        .filter_map(|line| line.split(' ').next())
        .map(|name| name.trim_end_matches('*').to_owned())
        .collect()
}

fn shapes(swagger: &Value, table: &str) -> String {
    let all = swagger["definitions"].as_object().into_iter().flatten();
    let mut shapes = Shapes { definitions: all.map(|(k, v)| (short(k), v)).collect(), todo: wanted(table) };
    let mut lines = BTreeMap::new();
    while let Some(name) = shapes.todo.pop() {
        if !lines.contains_key(&name)
            && let Some(line) = shapes.line(&name)
        {
            lines.insert(name, line);
        }
    }
    let head = "# Shapes of the built-in kinds, one type per line; made by `cargo run -p slipway-devcluster --example schema-table`.\n";
    lines.into_values().fold(head.to_owned(), |text, line| text + &line + "\n")
}

/// Go structs and plain type names by package.
#[derive(Default)]
struct Sources {
    structs: BTreeMap<String, String>,
    aliases: BTreeMap<String, String>,
}

impl Sources {
    fn read(&mut self, package: &str, path: &Path) -> Result<(), Box<dyn std::error::Error>> {
        let text = std::fs::read_to_string(path).map_err(|e| format!("{}: {e}", path.display()))?;
        let text = Regex::new(r"//.*")?.replace_all(&text, "").into_owned();
        for found in Regex::new(r"(?m)^type (\w+) (\S+)\s*$")?.captures_iter(&text) {
            self.aliases.insert(format!("{package}.{}", &found[1]), found[2].to_owned());
        }
        for found in Regex::new(r"(?ms)^type (\w+) struct \{\n(.*?)^\}")?.captures_iter(&text) {
            self.structs.insert(format!("{package}.{}", &found[1]), found[2].to_owned());
        }
        Ok(())
    }

    /// The table's word for a Go type, and whether nil is possible.
    fn type_of(&self, package: &str, go: &str) -> Option<(String, bool)> {
        let (pointer, go) = go.strip_prefix('*').map_or((false, go), |rest| (true, rest));
        if go == "[]byte" {
            return Some(("y".to_owned(), pointer));
        }
        if let Some(item) = go.strip_prefix("[]") {
            return Some((format!("*{}", self.type_of(package, item)?.0), true));
        }
        if let Some((_, item)) = go.strip_prefix("map[").and_then(|rest| rest.split_once(']')) {
            return Some((format!("%{}", self.type_of(package, item)?.0), true));
        }
        let plain = match go {
            "string" => "s",
            "bool" => "b",
            "float64" => "d",
            "int" | "int32" | "int64" | "uint32" | "uint64" => "i",
            "resource.Quantity" => "q",
            "intstr.IntOrString" => "I",
            "metav1.Time" => "t",
            "metav1.MicroTime" => "u",
            "runtime.RawExtension" | "metav1.FieldsV1" => "x",
            "Time" if package == "meta.v1" => "t",
            "FieldsV1" if package == "meta.v1" => "x",
            "JSON" if package == "apiextensions.v1" => "x",
            _ => "",
        };
        if !plain.is_empty() {
            return Some((plain.to_owned(), pointer));
        }
        let full = match go.split_once('.') {
            None => format!("{package}.{go}"),
            Some(("types", _)) => return Some(("s".to_owned(), pointer)),
            Some(("metav1", name)) => format!("meta.v1.{name}"),
            Some(("v1" | "corev1" | "core" | "api" | "apiv1", name)) => format!("core.v1.{name}"),
            Some(_) => return None,
        };
        if self.structs.contains_key(&full) {
            return Some((format!("@{full}"), pointer));
        }
        let inner = self.aliases.get(&full)?;
        let home = full.rsplit_once('.').map(|(home, _)| home).unwrap_or(package);
        Some((self.type_of(home, inner)?.0, pointer))
    }
}

fn protobuf(sources: &Sources, table: &str) -> Result<String, Box<dyn std::error::Error>> {
    let field = Regex::new(r"^\s*(?:\w+\s+)?(\S+)\s+`(.*)`")?;
    let number = Regex::new(r#"protobuf:"[^,"]*,(\d+)"#)?;
    let json = Regex::new(r#"json:"([^"]*)""#)?;
    let (mut todo, mut seen, mut lines) = (wanted(table), BTreeSet::new(), BTreeSet::new());
    while let Some(name) = todo.pop() {
        let Some(body) = sources.structs.get(&name).filter(|_| seen.insert(name.clone())) else { continue };
        let package = name.rsplit_once('.').map(|(home, _)| home).unwrap_or_default();
        let mut line = name.clone();
        for text in body.lines() {
            let Some(found) = field.captures(text) else { continue };
            let (Some(number), Some(json)) = (number.captures(&found[2]), json.captures(&found[2])) else {
                continue;
            };
            let Some((ty, nil)) = sources.type_of(package, &found[1]) else { continue };
            let key = json[1].split(',').next().unwrap_or_default();
            let key = if key.is_empty() || json[1].contains("inline") { "^" } else { key };
            let mark = match (nil, json[1].contains("omitempty")) {
                (true, _) => "",
                (false, true) => "?",
                (false, false) => "!",
            };
            if let Some((_, inner)) = ty.split_once('@') {
                todo.push(inner.to_owned());
            }
            let _ = write!(line, " {}:{key}:{ty}{mark}", &number[1]);
        }
        lines.insert(line);
    }
    let head = "# Field numbers of the built-in types in Kubernetes' protobuf encoding, one type per line: number:field:type.\n";
    Ok(lines.into_iter().fold(head.to_owned(), |text, line| text + &line + "\n"))
}

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let [swagger, api, machinery, extensions] = arguments.as_slice() else {
        return Err("usage: schema-table SWAGGER_JSON API_DIR APIMACHINERY_DIR APIEXTENSIONS_DIR".into());
    };
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/schema");
    let table = std::fs::read_to_string(folder.join("builtin.txt"))?;
    let swagger: Value = serde_json::from_slice(&std::fs::read(swagger)?)?;
    let table = shapes(&swagger, &table);
    let mut sources = Sources::default();
    let packages: BTreeSet<String> = wanted(&table)
        .iter()
        .filter_map(|name| name.rsplit_once('.').map(|(home, _)| home.to_owned()))
        .filter(|home| !matches!(home.as_str(), "meta.v1" | "apiextensions.v1" | "apiregistration.v1"))
        .collect();
    for package in packages {
        sources.read(&package, &Path::new(api).join(package.replace('.', "/")).join("types.go"))?;
    }
    sources.read("meta.v1", &Path::new(machinery).join("pkg/apis/meta/v1/types.go"))?;
    sources.read("apiextensions.v1", &Path::new(extensions).join("pkg/apis/apiextensions/v1/types.go"))?;
    std::fs::write(folder.join("protobuf.txt"), protobuf(&sources, &table)?)?;
    std::fs::write(folder.join("builtin.txt"), table)?;
    Ok(())
}
