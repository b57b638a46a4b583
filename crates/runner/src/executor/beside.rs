//! Containers beside a step: its services, and a composition with the candidate that decides.
//!
//! In: compose text as the pipeline has it. Out: containers in one form for all executors, all findings at once.
//! Everything shares one network, where each service is at its own name; nothing is started here.

use std::collections::BTreeMap;

use serde_json::{Map, Value};
use slipway_pipeline::spec::{Composition, Freestyle};
use slipway_pipeline::variables::is_name;
use slipway_pipeline::volume::Volume;
use slipway_pipeline::{StepKind, StepSpec};

use super::{Place, Refusal, in_volume, reach, working_directory};
use crate::layout::VOLUME;
use crate::within;

const COMPOSE_BYTES_MAX: u64 = 1 << 20;

/// What runs beside a step, in the order in which it starts.
#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Beside {
    pub(crate) services: Vec<Service>,
    /// Tried until it succeeds, before the step.
    pub(crate) readiness: Option<Probe>,
    /// Run once when the services are ready.
    pub(crate) setup: Option<Work>,
    /// Other candidates of a composition: the step is over when they are, and all of them have to succeed.
    pub(crate) candidates: Vec<Service>,
    /// What lives as long as the build does and is there for all of its steps.
    pub(crate) of_build: Option<Box<Beside>>,
}

#[derive(Debug, Clone, Default, PartialEq)]
pub(crate) struct Service {
    pub(crate) name: String,
    pub(crate) image: String,
    pub(crate) entry_point: Option<Vec<String>>,
    pub(crate) cmd: Option<Vec<String>>,
    pub(crate) environment: BTreeMap<String, String>,
    pub(crate) volumes: Vec<Volume>,
    /// As they were written.
    pub(crate) written: Vec<String>,
    pub(crate) working_directory: Option<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Work {
    pub(crate) image: String,
    pub(crate) commands: Vec<String>,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Probe {
    pub(crate) work: Work,
    pub(crate) period_seconds: u64,
    pub(crate) timeout_seconds: u64,
    pub(crate) success_threshold: u64,
    pub(crate) failure_threshold: u64,
}

impl Beside {
    /// Nothing that starts with the step.
    pub(crate) fn is_empty(&self) -> bool {
        self.services.is_empty() && self.candidates.is_empty()
    }

    /// Names of what starts with the step, inside of the shared network.
    pub(crate) fn names(&self) -> Vec<&str> {
        self.services.iter().chain(&self.candidates).map(|service| service.name.as_str()).collect()
    }

    /// Those, and the build's.
    pub(crate) fn all_names(&self) -> Vec<&str> {
        let of_build = self.of_build.iter().flat_map(|root| root.names());
        self.names().into_iter().chain(of_build).collect()
    }
}

impl Probe {
    /// A loop that ends with success or, after its last failure, without.
    pub(crate) fn script(&self) -> Vec<String> {
        let commands = self.work.commands.join("\n");
        vec![format!(
            "good=0; bad=0\nwhile :; do\n  if (set -e\n{commands}\n); then good=$((good+1)); else good=0; bad=$((bad+1)); fi\n  if [ $good -ge {} ]; then echo 'The services are ready'; break; fi\n  if [ $bad -ge {} ]; then echo 'The services did not get ready'; exit 1; fi\n  sleep {}\ndone",
            self.success_threshold, self.failure_threshold, self.period_seconds
        )]
    }
}

/// The services of a step, as it has them, and those of its build.
pub(crate) fn of_step(step: &StepSpec, place: &Place<'_>) -> Result<Beside, Refusal> {
    let mut beside = match &step.services {
        None => Beside::default(),
        Some(Value::Array(names)) => {
            known(step, names, place)?;
            Beside::default()
        }
        Some(value) => read(step, value, place)?,
    };
    beside.of_build = of_build(step, place)?;
    Ok(beside)
}

/// The services at the root of the pipeline.
pub(crate) fn of_build(step: &StepSpec, place: &Place<'_>) -> Result<Option<Box<Beside>>, Refusal> {
    let Some(value) = &place.services else { return Ok(None) };
    let root = read(step, value, place)?;
    Ok((!root.is_empty()).then(|| Box::new(root)))
}

/// By name a step asks for what the pipeline has at its root, which every step can reach.
fn known(step: &StepSpec, names: &[Value], place: &Place<'_>) -> Result<(), Refusal> {
    let mut there = Vec::new();
    if let Some(root) = &place.services {
        there.extend(root["name"].as_str().map(str::to_owned));
        let services = compose(step, root.get("composition").unwrap_or(root), &BTreeMap::new(), place)?;
        there.extend(services.keys().cloned());
    }
    let missing: Vec<String> =
        names.iter().map(text).filter(|name| !there.contains(name)).map(|name| format!("`{name}`")).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let there = if there.is_empty() {
        "the pipeline has no `services` at its root".to_owned()
    } else {
        format!("the pipeline has {}", there.join(", "))
    };
    Err(refuse(step, &format!("it asks for services that are not there: {}; {there}", missing.join(", "))))
}

/// A composition becomes a step that runs its candidate, with the services beside it.
pub(crate) fn of_composition(
    step: &StepSpec,
    spec: &Composition,
    place: &Place<'_>,
) -> Result<(StepSpec, Beside), Refusal> {
    let mut services = compose(step, &spec.composition, &spec.variables, place)?;
    let Value::Object(candidates) = &spec.candidates else {
        return Err(refuse(step, "`composition_candidates` is a map of services"));
    };
    let mut merged = Vec::new();
    for (name, candidate) in candidates {
        let mut whole = services.remove(name).unwrap_or(Value::Object(Map::new()));
        merge(&mut whole, &substituted(candidate, &spec.variables));
        merged.push((name.clone(), whole));
    }
    let mut findings = Vec::new();
    let mut candidates =
        merged.iter().map(|(name, candidate)| service(name, candidate, place.build, &mut findings));
    let first = candidates.next();
    let others: Vec<Service> = candidates.collect();
    let Some(candidate) = first else {
        return Err(refuse(step, "`composition_candidates` names no service that could decide"));
    };
    let beside = Beside {
        services: all(&services, place.build, &mut findings),
        candidates: others,
        of_build: of_build(step, place)?,
        ..Beside::default()
    };
    if !findings.is_empty() {
        return Err(refuse(step, &findings.join("; ")));
    }
    let mut stand_in = step.clone();
    if let Some(directory) = candidate.working_directory {
        stand_in.working_directory = slipway_pipeline::spec::WorkingDirectory::Absolute(directory);
    } else {
        stand_in.working_directory = slipway_pipeline::spec::WorkingDirectory::Image;
    }
    stand_in.kind = StepKind::Freestyle(Freestyle {
        image: candidate.image,
        entry_point: candidate.entry_point,
        cmd: candidate.cmd,
        environment: candidate.environment,
        volumes: candidate.written,
        ..Freestyle::default()
    });
    Ok((stand_in, beside))
}

fn read(step: &StepSpec, value: &Value, place: &Place<'_>) -> Result<Beside, Refusal> {
    let composition = value.get("composition").unwrap_or(value);
    let services = compose(step, composition, &BTreeMap::new(), place)?;
    let mut findings = Vec::new();
    let number = |probe: &Value, name: &str, default: u64| probe[name].as_u64().unwrap_or(default);
    let mut work = |name: &str| {
        let value = value.get(name)?;
        let commands = texts(value.get("commands")).unwrap_or_default();
        match value["image"].as_str() {
            Some(image) => Some((Work { image: image.to_owned(), commands }, value.clone())),
            None => {
                findings.push(format!("`{name}` has no image"));
                None
            }
        }
    };
    let readiness = work("readiness").map(|(work, probe)| Probe {
        work,
        period_seconds: number(&probe, "periodSeconds", 10),
        timeout_seconds: number(&probe, "timeoutSeconds", 10),
        success_threshold: number(&probe, "successThreshold", 1),
        failure_threshold: number(&probe, "failureThreshold", 3),
    });
    let setup = work("setup").map(|(work, _)| work);
    let beside = Beside {
        services: all(&services, place.build, &mut findings),
        readiness,
        setup,
        ..Beside::default()
    };
    if findings.is_empty() { Ok(beside) } else { Err(refuse(step, &findings.join("; "))) }
}

/// A map of services: written out, in a file of the volume, with or without the compose head around it.
fn compose(
    step: &StepSpec,
    value: &Value,
    variables: &BTreeMap<String, String>,
    place: &Place<'_>,
) -> Result<Map<String, Value>, Refusal> {
    let read;
    let value = match value {
        Value::String(path) => {
            read = from_file(step, path, place)?;
            &read
        }
        written => written,
    };
    let inner = value.get("services").filter(|inner| inner.is_object()).unwrap_or(value);
    match substituted(inner, variables) {
        Value::Object(services) => Ok(services),
        _ => Err(refuse(
            step,
            "the composition is a map of services, or the path of a compose file in the volume",
        )),
    }
}

fn from_file(step: &StepSpec, path: &str, place: &Place<'_>) -> Result<Value, Refusal> {
    let directory = working_directory(step).unwrap_or_else(|| VOLUME.to_owned());
    let relative = in_volume(path)
        .unwrap_or_else(|| in_volume(&directory).unwrap_or_default().join(path.trim_start_matches("./")));
    let no = |why: &dyn std::fmt::Display| {
        refuse(
            step,
            &format!("the compose file {path} cannot be read: {why}. It is looked for in {directory}"),
        )
    };
    let bytes = within::Volume::open(&place.dir.volume())
        .and_then(|volume| volume.read(&relative, COMPOSE_BYTES_MAX))
        .map_err(|error| no(&error))?;
    let text = String::from_utf8_lossy(&bytes);
    let all = slipway_yaml::load_all_json(&text).map_err(|errors| {
        let all: Vec<String> = errors.iter().map(ToString::to_string).collect();
        no(&all.join("; "))
    })?;
    all.into_iter().next().map(|(value, _)| value).ok_or_else(|| no(&"it is empty"))
}

fn all(services: &Map<String, Value>, build: &str, findings: &mut Vec<String>) -> Vec<Service> {
    services.iter().map(|(name, value)| service(name, value, build, findings)).collect()
}

fn service(name: &str, value: &Value, build: &str, findings: &mut Vec<String>) -> Service {
    let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    if name.is_empty() || !name.chars().all(plain) {
        findings.push(format!("`{name}` is no name of a service: use letters, digits, `-`, `_` and `.`"));
    }
    let image = value["image"].as_str().unwrap_or_default().to_owned();
    if value.get("build").is_some() {
        findings.push(format!("service `{name}` has `build`: build the image in a step before, and name it"));
    } else if image.is_empty() {
        findings.push(format!("service `{name}` has no image"));
    }
    let written = texts(value.get("volumes")).unwrap_or_default();
    let mut volumes = Vec::new();
    for text in &written {
        match reach::volume(text, build) {
            Ok(volume) => volumes.push(volume),
            Err(why) => {
                findings.push(format!("volume `{text}` of service `{name}` cannot be mounted: {why}"))
            }
        }
    }
    let environment = environment(value.get("environment"));
    for variable in environment.keys().filter(|variable| !is_name(variable)) {
        findings.push(format!("`{variable}` of service `{name}` is not the name of a variable"));
    }
    Service {
        name: name.to_owned(),
        image,
        entry_point: words(value.get("entrypoint")),
        cmd: words(value.get("command")),
        environment,
        volumes,
        written,
        working_directory: value["working_dir"].as_str().map(str::to_owned),
    }
}

/// A list is taken as it is; a text is for a shell.
fn words(value: Option<&Value>) -> Option<Vec<String>> {
    match value? {
        Value::String(text) => Some(split(text)),
        list => texts(Some(list)),
    }
}

/// As compose does it: blanks, quotes and backslashes, nothing else.
fn split(text: &str) -> Vec<String> {
    let (mut words, mut word, mut quote, mut any) = (Vec::new(), String::new(), None, false);
    let mut letters = text.chars();
    while let Some(letter) = letters.next() {
        match (letter, quote) {
            ('\\', None | Some('"')) => word.extend(letters.next()),
            (letter, Some(open)) if letter == open => quote = None,
            (letter @ ('"' | '\''), None) => (quote, any) = (Some(letter), true),
            (letter, None) if letter.is_whitespace() => {
                if any || !word.is_empty() {
                    words.push(std::mem::take(&mut word));
                }
                any = false;
            }
            (letter, _) => word.push(letter),
        }
    }
    if any || !word.is_empty() {
        words.push(word);
    }
    words
}

fn texts(value: Option<&Value>) -> Option<Vec<String>> {
    Some(value?.as_array()?.iter().map(text).collect())
}

fn environment(value: Option<&Value>) -> BTreeMap<String, String> {
    match value {
        Some(Value::Object(map)) => map.iter().map(|(name, value)| (name.clone(), text(value))).collect(),
        Some(Value::Array(list)) => list
            .iter()
            .map(text)
            .filter_map(|pair| pair.split_once('=').map(|(name, value)| (name.to_owned(), value.to_owned())))
            .collect(),
        _ => BTreeMap::new(),
    }
}

fn text(value: &Value) -> String {
    match value {
        Value::String(text) => text.clone(),
        Value::Null => String::new(),
        other => other.to_string(),
    }
}

/// `${NAME}` in every text, for the names that are given.
fn substituted(value: &Value, variables: &BTreeMap<String, String>) -> Value {
    match value {
        Value::String(text) => {
            let mut text = text.clone();
            for (name, value) in variables {
                text = text.replace(&format!("${{{name}}}"), value);
            }
            Value::String(text)
        }
        Value::Array(list) => list.iter().map(|item| substituted(item, variables)).collect(),
        Value::Object(map) => Value::Object(
            map.iter().map(|(name, item)| (name.clone(), substituted(item, variables))).collect(),
        ),
        other => other.clone(),
    }
}

fn merge(base: &mut Value, over: &Value) {
    match (base, over) {
        (Value::Object(base), Value::Object(over)) => {
            for (name, value) in over {
                merge(base.entry(name.clone()).or_insert(Value::Null), value);
            }
        }
        (base, over) => base.clone_from(over),
    }
}

fn refuse(step: &StepSpec, why: &str) -> Refusal {
    Refusal::Unsupported(format!("step `{}`: {why}", step.name))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn words_are_split_as_compose_splits_them() {
        let cases: [(&str, &[&str]); 5] = [
            ("a b  c", &["a", "b", "c"]),
            ("sh -c 'echo a b'", &["sh", "-c", "echo a b"]),
            (r#"say "it's \"so\"""#, &["say", r#"it's "so""#]),
            ("x ''", &["x", ""]),
            ("", &[]),
        ];
        for (text, expected) in cases {
            assert_eq!(split(text), expected, "{text}");
        }
    }

    #[test]
    fn everything_wrong_with_a_composition_is_told_at_once() {
        let mut findings = Vec::new();
        let value = json!({"a b": {"image": "x"}, "built": {"build": "."}, "none": {}});
        all(value.as_object().unwrap(), "1", &mut findings);
        assert_eq!(findings.len(), 3, "{findings:?}");
    }

    #[test]
    fn a_candidate_is_laid_over_the_service_of_its_name() {
        let mut base = json!({"image": "a", "environment": {"X": "1", "Y": "2"}});
        merge(
            &mut base,
            &substituted(
                &json!({"environment": {"Y": "${V}"}, "command": "run"}),
                &BTreeMap::from([("V".into(), "3".into())]),
            ),
        );
        let mut findings = Vec::new();
        let service = service("s", &base, "1", &mut findings);
        assert_eq!((service.environment["X"].as_str(), service.environment["Y"].as_str()), ("1", "3"));
        assert_eq!(service.cmd, Some(vec!["run".to_owned()]));
    }
}
