//! A written step and the state of the build → a [`StepSpec`] that is ready to run.

use std::collections::BTreeMap;

use serde_json::{Map, Value};

use crate::directory::working_directory;
use crate::duration;
use crate::interpolate::Interpolator;
use crate::parse::ANNOTATE_TYPE;
use crate::pipeline::{Pipeline, Step};
use crate::resources::Resources;
use crate::spec::{
    Annotate, Breakpoint, Build, Cache, Composition, Credentials, Deploy, Dockerfile, FinalState, Freestyle,
    FreestyleSsh, GitClone, LaunchComposition, PendingApproval, Push, PushTag, Retry, Shell, StepKind,
    StepSpec, Typed,
};
use crate::state::BuildState;

/// Seven days, the documented life of an approval nobody answers.
const APPROVAL_HOURS: f64 = 168.0;

/// Which step is resolved, and how often it has been tried.
pub(crate) struct Resolve<'a> {
    pub(crate) pipeline: &'a Pipeline,
    pub(crate) state: &'a BuildState,
    pub(crate) step: &'a Step,
    pub(crate) id: &'a str,
    pub(crate) attempt: u32,
    /// From the block around the step, when the step sets none.
    pub(crate) inherited_timeout: Option<&'a Value>,
    pub(crate) fail_fast: bool,
}

/// Reads a flag that may be a boolean, a word, or a variable.
pub(crate) fn flag(value: Option<&Value>, default: bool, interpolator: &Interpolator<'_>) -> bool {
    match value {
        Some(Value::Bool(flag)) => *flag,
        Some(Value::String(text)) => flag_word(interpolator.text(text).trim()).unwrap_or(default),
        Some(Value::Number(number)) => flag_word(&number.to_string()).unwrap_or(default),
        _ => default,
    }
}

/// The words that the validator lets stand for a boolean.
pub(crate) fn flag_word(word: &str) -> Option<bool> {
    match word.to_lowercase().as_str() {
        "true" | "yes" | "on" | "1" => Some(true),
        "false" | "no" | "off" | "0" => Some(false),
        _ => None,
    }
}

/// `retry` with its defaults; nonsense falls back to one attempt.
pub(crate) fn retry(value: Option<&Value>, interpolator: &Interpolator<'_>) -> Retry {
    let default = Retry::default();
    let Some(Value::Object(fields)) = value else { return default };
    let number = |key: &str| {
        let value = match fields.get(key)? {
            Value::String(text) => interpolator.text(text).trim().parse().ok()?,
            other => other.as_f64()?,
        };
        (value > 0.0 && value.is_finite()).then_some(value)
    };
    Retry {
        max_attempts: number("maxAttempts")
            .map_or(default.max_attempts, |attempts| attempts.clamp(1.0, 100.0) as u32),
        delay_seconds: number("delay").unwrap_or(default.delay_seconds),
        exponential_factor: number("exponentialFactor").unwrap_or(default.exponential_factor),
    }
}

/// Makes the interpolator of a step, with the names that only it sees.
pub(crate) fn interpolator<'a>(
    pipeline: &'a Pipeline,
    state: &'a BuildState,
    own: Vec<(String, String)>,
) -> Interpolator<'a> {
    Interpolator { pipeline, state, own }
}

/// The services of the whole build, with the variables of now.
pub fn services(pipeline: &Pipeline, state: &BuildState) -> Option<Value> {
    let services = pipeline.services.as_ref()?;
    Some(interpolator(pipeline, state, Vec::new()).json(services))
}

pub(crate) fn resolve(request: &Resolve<'_>) -> StepSpec {
    let step = request.step;
    let plain = interpolator(request.pipeline, request.state, Vec::new());
    let retry = retry(step.retry.as_ref(), &plain);
    let own = vec![
        ("CF_STEP_NAME".to_owned(), step.name.clone()),
        ("CF_CURRENT_ATTEMPT".to_owned(), request.attempt.to_string()),
        ("CF_MAX_ATTEMPTS".to_owned(), retry.max_attempts.to_string()),
    ];
    let fields = Fields { step, with: interpolator(request.pipeline, request.state, own) };
    let timeout = step.timeout.as_ref().or(request.inherited_timeout);
    let owns_timeout = matches!(step.type_name.as_str(), "pending-approval");
    let timeout_ms = match timeout {
        _ if owns_timeout => None,
        Some(Value::String(text)) if step.type_name == "deploy" => {
            // A deploy step counts plain seconds.
            fields
                .with
                .text(text)
                .trim()
                .parse::<f64>()
                .ok()
                .filter(|s| *s > 0.0)
                .map(|s| (s * 1000.0) as u64)
        }
        Some(Value::String(text)) => duration::step_timeout_ms(&fields.with.text(text)),
        _ if step.type_name == "deploy" => Some(120_000),
        _ => None,
    };
    StepSpec {
        id: request.id.to_owned(),
        name: step.name.clone(),
        title: step.title.as_ref().map_or_else(|| step.name.clone(), |title| fields.with.text(title)),
        stage: step.stage.clone(),
        type_name: step.type_name.clone(),
        timeout_ms,
        retry,
        fail_fast: request.fail_fast,
        working_directory: working_directory(
            request,
            fields.raw("working_directory").and_then(scalar),
            &fields.with,
        ),
        services: step.fields.get("services").map(|services| fields.with.json(services)),
        breakpoint: breakpoint(&fields),
        resources: fields.value("resources").map(|value| Resources::read(&value)).unwrap_or_default(),
        kind: kind(request, &fields),
    }
}

fn breakpoint(fields: &Fields<'_>) -> Breakpoint {
    let phases = fields.raw("debug").and_then(|debug| debug.get("phases"));
    let phase = |name: &str| flag(phases.and_then(|phases| phases.get(name)), false, &fields.with);
    Breakpoint {
        before: phase("before"),
        instead: phase("override") && fields.step.type_name == "freestyle",
        after: phase("after"),
    }
}

/// A step's fields, read with its variables filled in.
struct Fields<'a> {
    step: &'a Step,
    with: Interpolator<'a>,
}

impl Fields<'_> {
    fn raw(&self, key: &str) -> Option<&Value> {
        self.step.fields.get(key).filter(|value| !value.is_null())
    }

    fn value(&self, key: &str) -> Option<Value> {
        self.raw(key).map(|value| self.with.json(value))
    }

    fn text(&self, key: &str) -> Option<String> {
        self.raw(key).and_then(scalar).map(|text| self.with.text(&text))
    }

    fn texts(&self, key: &str) -> Vec<String> {
        match self.raw(key) {
            Some(Value::Array(items)) => {
                items.iter().filter_map(scalar).map(|item| self.with.text(&item)).collect()
            }
            Some(value) => scalar(value).map(|text| self.with.text(&text)).into_iter().collect(),
            None => Vec::new(),
        }
    }

    fn flag(&self, key: &str) -> bool {
        flag(self.raw(key), false, &self.with)
    }

    fn number(&self, key: &str) -> Option<u64> {
        match self.raw(key)? {
            Value::String(text) => self.with.text(text).trim().parse().ok(),
            other => other.as_u64(),
        }
    }

    fn credentials(&self) -> Option<Credentials> {
        let Some(Value::Object(fields)) = self.value("credentials") else { return None };
        let part = |key: &str| fields.get(key).and_then(Value::as_str).map(str::to_owned);
        Some(Credentials { username: part("username")?, password: part("password")? })
    }

    /// The variables of the build, the step's own names, then what the step itself sets.
    fn environment(&self) -> BTreeMap<String, String> {
        let mut environment = self.with.state.variables.effective();
        environment.extend(self.with.own.iter().cloned());
        let pairs = match self.raw("environment") {
            Some(Value::Array(items)) => items
                .iter()
                .filter_map(scalar)
                .map(|item| match self.with.text(&item).split_once('=') {
                    Some((name, value)) => (name.to_owned(), value.to_owned()),
                    // A bare name asks for the value that is in effect, as Docker reads it.
                    None => {
                        (item.clone(), self.with.lookup(&item).map(|found| found.text).unwrap_or_default())
                    }
                })
                .collect(),
            Some(Value::Object(members)) => members
                .iter()
                .filter_map(|(name, value)| Some((name.clone(), self.with.text(&scalar(value)?))))
                .collect(),
            _ => Vec::new(),
        };
        environment.extend(pairs);
        environment
    }

    /// The fields that no built-in field has used, for types that carry their own.
    fn arguments(&self) -> Value {
        match self.raw("arguments") {
            Some(arguments) => self.with.json(arguments),
            None => {
                let rest: Map<String, Value> = self
                    .step
                    .fields
                    .iter()
                    .filter(|(key, _)| {
                        !matches!(
                            key.as_str(),
                            "description" | "working_directory" | "env" | "debug" | "resources"
                        )
                    })
                    .map(|(key, value)| (key.clone(), self.with.json(value)))
                    .collect();
                Value::Object(rest)
            }
        }
    }
}

fn scalar(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(text.clone()),
        Value::Number(number) => Some(number.to_string()),
        Value::Bool(flag) => Some(flag.to_string()),
        _ => None,
    }
}

fn kind(request: &Resolve<'_>, fields: &Fields<'_>) -> StepKind {
    match request.step.type_name.as_str() {
        "freestyle" => StepKind::Freestyle(freestyle(fields)),
        "git-clone" => StepKind::GitClone(GitClone {
            repo: fields.text("repo").unwrap_or_default(),
            revision: fields.text("revision"),
            git: fields.text("git"),
            credentials: fields.credentials(),
            depth: fields.number("depth").and_then(|depth| u32::try_from(depth).ok()),
            use_proxy: fields.flag("use_proxy"),
            exclude_blobs: fields.flag("exclude_blobs") || fields.flag("exclude_blob"),
            skip_tags_on_update: fields.flag("skip_tags_on_update"),
        }),
        "build" => StepKind::Build(Box::new(build(fields))),
        "push" => StepKind::Push(Push {
            candidate: fields.text("candidate").unwrap_or_default(),
            image_name: fields.text("image_name"),
            tags: tags(fields, || Some("latest".to_owned())),
            registry: fields.text("registry"),
            registry_context: fields.text("registry_context"),
            provider: fields.text("provider"),
            credentials: fields.credentials(),
            region: fields.text("region"),
            role_arn: fields.text("role_arn"),
            aws_session_name: fields.text("aws_session_name"),
            aws_duration_seconds: fields.number("aws_duration_seconds"),
        }),
        "push-tag" => StepKind::PushTag(PushTag {
            image_name: fields.text("image_name").unwrap_or_default(),
            tags: fields.texts("tags"),
            registry: fields.text("registry"),
            region: fields.text("region"),
            role_arn: fields.text("role_arn"),
            aws_session_name: fields.text("aws_session_name"),
            aws_duration_seconds: fields.number("aws_duration_seconds"),
        }),
        "deploy" => {
            let candidate = fields.value("candidate");
            let part = |key: &str| {
                candidate.as_ref().and_then(|c| c.get(key)).and_then(Value::as_str).map(str::to_owned)
            };
            StepKind::Deploy(Deploy {
                kind: fields.text("kind").unwrap_or_default(),
                cluster: fields.text("cluster").unwrap_or_default(),
                namespace: fields.text("namespace").unwrap_or_default(),
                service: fields.text("service"),
                file_path: fields.text("file_path"),
                candidate_image: part("image"),
                candidate_registry: part("registry"),
                commands: fields.texts("commands"),
            })
        }
        "composition" => StepKind::Composition(Composition {
            composition: fields.value("composition").unwrap_or_default(),
            candidates: fields.value("composition_candidates").unwrap_or_default(),
            variables: pairs(fields.texts("composition_variables")),
            registry_contexts: fields.texts("registry_contexts"),
        }),
        "launch-composition" => StepKind::LaunchComposition(LaunchComposition {
            composition: fields.value("composition").unwrap_or_default(),
            variables: pairs(fields.texts("composition_variables")),
            environment_name: fields.text("environment_name"),
            entry_point: fields.text("entry_point"),
        }),
        "pending-approval" => StepKind::PendingApproval(approval(fields)),
        "freestyle-ssh" => StepKind::FreestyleSsh(FreestyleSsh {
            commands: commands(fields).unwrap_or_default(),
            environment: fields.environment(),
            arguments: fields.arguments(),
        }),
        ANNOTATE_TYPE => StepKind::Annotate(Annotate {
            annotations: fields.value("annotations").unwrap_or_default(),
            metadata: fields.value("metadata").unwrap_or_default(),
        }),
        other => StepKind::Typed(Typed {
            type_name: fields.with.text(other),
            version: request.step.type_version.as_ref().map(|version| fields.with.text(version)),
            arguments: fields.arguments(),
            environment: fields.environment(),
        }),
    }
}

fn commands(fields: &Fields<'_>) -> Option<Vec<String>> {
    match fields.raw("commands")? {
        Value::Array(items) => {
            Some(items.iter().filter_map(scalar).map(|item| fields.with.shell(&item)).collect())
        }
        value => scalar(value).map(|text| vec![fields.with.shell(&text)]),
    }
}

fn freestyle(fields: &Fields<'_>) -> Freestyle {
    // A plain string is one shell-like line; a list is the words themselves.
    let words = |key: &str| match fields.raw(key)? {
        Value::Array(_) => Some(fields.texts(key)),
        value => scalar(value).map(|text| split_words(&fields.with.text(&text))),
    };
    Freestyle {
        image: fields.text("image").unwrap_or_default(),
        commands: commands(fields),
        cmd: words("cmd"),
        entry_point: words("entry_point"),
        shell: match fields.text("shell").as_deref() {
            Some("bash") => Shell::Bash,
            _ => Shell::Sh,
        },
        environment: fields.environment(),
        volumes: fields.texts("volumes"),
        registry_context: fields.text("registry_context"),
        role_arn: fields.text("role_arn"),
        cache: caches(fields),
    }
}

fn caches(fields: &Fields<'_>) -> Vec<Cache> {
    let texts = |value: Option<&Value>| match value {
        Some(Value::Array(items)) => items.iter().filter_map(scalar).collect(),
        other => other.and_then(scalar).into_iter().collect::<Vec<_>>(),
    };
    let one = |cache: &Value| Cache {
        key: cache.get("key").and_then(scalar).unwrap_or_default(),
        files: texts(cache.get("files")),
        paths: texts(cache.get("paths")),
        restore_keys: texts(cache.get("restore_keys")),
    };
    match fields.value("cache") {
        Some(Value::Array(list)) => list.iter().map(one).collect(),
        Some(cache @ Value::Object(_)) => vec![one(&cache)],
        _ => Vec::new(),
    }
}

fn split_words(line: &str) -> Vec<String> {
    let mut words = Vec::new();
    let mut word = String::new();
    let mut started = false;
    let mut quote: Option<char> = None;
    let mut characters = line.chars();
    while let Some(c) = characters.next() {
        match (quote, c) {
            (None, '\'' | '"') => {
                quote = Some(c);
                started = true;
            }
            (Some(open), c) if c == open => quote = None,
            (None | Some('"'), '\\') => {
                word.extend(characters.next());
                started = true;
            }
            (None, c) if c.is_whitespace() => {
                if started {
                    words.push(std::mem::take(&mut word));
                    started = false;
                }
            }
            (_, c) => {
                word.push(c);
                started = true;
            }
        }
    }
    if started {
        words.push(word);
    }
    words
}

fn tags(fields: &Fields<'_>, default: impl Fn() -> Option<String>) -> Vec<String> {
    let mut tags: Vec<String> = fields.text("tag").into_iter().collect();
    for tag in fields.texts("tags") {
        if !tags.contains(&tag) {
            tags.push(tag);
        }
    }
    if tags.is_empty() {
        tags.extend(default());
    }
    tags
}

fn build(fields: &Fields<'_>) -> Build {
    let named = |name: &str| fields.with.state.variables.get(name).map(str::to_owned);
    let mut tags = tags(fields, || {
        named("CF_BRANCH_TAG_NORMALIZED")
            .or_else(|| named("CF_REVISION"))
            .or_else(|| Some("latest".to_owned()))
    });
    if fields.text("tag_policy").as_deref() != Some("original") {
        tags = tags.into_iter().map(|tag| tag.to_lowercase()).collect();
    }
    let mut options = BTreeMap::new();
    for key in ["ssh", "secrets", "buildx", "provider", "cosign", "metadata", "annotations"] {
        if let Some(value) = fields.value(key) {
            options.insert(key.to_owned(), value);
        }
    }
    let wants_buildkit = ["ssh", "secrets", "progress"].iter().any(|key| fields.raw(key).is_some());
    Build {
        image_name: fields.text("image_name").unwrap_or_default(),
        tags,
        dockerfile: match fields.value("dockerfile") {
            Some(Value::String(path)) => Dockerfile::Path(path),
            Some(Value::Object(inline)) => Dockerfile::Content(
                inline.get("content").and_then(Value::as_str).unwrap_or_default().to_owned(),
            ),
            _ => Dockerfile::default(),
        },
        build_arguments: fields.texts("build_arguments"),
        target: fields.text("target"),
        no_cache: fields.flag("no_cache"),
        no_cf_cache: fields.flag("no_cf_cache"),
        squash: fields.flag("squash"),
        disable_push: fields.flag("disable_push"),
        registry: fields.text("registry"),
        registry_contexts: fields.texts("registry_contexts"),
        cache_from: fields.texts("cache_from"),
        cache_to: fields.texts("cache_to"),
        buildkit: fields.flag("buildkit") || wants_buildkit,
        progress: fields.text("progress"),
        options,
        platform: fields.text("platform"),
        region: fields.text("region"),
        role_arn: fields.text("role_arn"),
        aws_session_name: fields.text("aws_session_name"),
        aws_duration_seconds: fields.number("aws_duration_seconds"),
    }
}

fn approval(fields: &Fields<'_>) -> PendingApproval {
    let written = fields.step.timeout.as_ref().map(|timeout| fields.with.json(timeout));
    let part = |key: &str| written.as_ref().and_then(|timeout| timeout.get(key));
    let hour = 3_600_000.0;
    let unit = match part("timeUnit").and_then(Value::as_str) {
        Some("minutes") => hour / 60.0,
        _ => hour,
    };
    let duration = match part("duration") {
        Some(Value::String(text)) => text.trim().parse().ok(),
        Some(value) => value.as_f64(),
        None => None,
    };
    let timeout_ms = match duration.filter(|duration| *duration > 0.0) {
        Some(duration) => duration * unit,
        None => APPROVAL_HOURS * hour,
    };
    PendingApproval {
        timeout_ms: Some(timeout_ms as u64),
        final_state: match part("finalState").and_then(Value::as_str) {
            Some("approved") => FinalState::Approved,
            Some("denied") => FinalState::Denied,
            _ => FinalState::Terminated,
        },
    }
}

fn pairs(lines: Vec<String>) -> BTreeMap<String, String> {
    lines
        .iter()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .collect()
}
