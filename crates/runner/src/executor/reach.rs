//! How far a step reaches: everything that people write and that names something of the machine, checked once more when
//! variables are filled in, and in the form in which it may be given to another program.
//!
//! In: texts of a step. Out: volumes, images, variables and build arguments that mean one thing only, or a refusal that
//! names what was written. The same for every executor; nothing is opened here.

use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::Path;

use slipway_pipeline::spec::{Build, Dockerfile, Freestyle};
use slipway_pipeline::variables::is_name;
use slipway_pipeline::volume::{Volume, VolumeError};
use slipway_pipeline::{StepSpec, image};

use super::beside::Beside;
use super::{Place, Refusal, in_volume, working_directory};
use crate::layout::{VOLUME, create_private};
use crate::task::{Context, Recipe};

/// Engines read lines of files up to 64 KiB.
const LINE_BYTES_MAX: usize = 32 << 10;

/// Before a step is given to any executor.
pub(super) fn check(
    step: &StepSpec,
    spec: &Freestyle,
    beside: &Beside,
    place: &Place<'_>,
) -> Result<(), Refusal> {
    let works = |beside: &Beside| {
        let readiness = beside.readiness.as_ref().map(|probe| probe.work.image.clone());
        readiness.into_iter().chain(beside.setup.as_ref().map(|work| work.image.clone())).collect::<Vec<_>>()
    };
    let mut all = vec![spec.image.clone()];
    for beside in [Some(beside), beside.of_build.as_deref()].into_iter().flatten() {
        let containers = beside.services.iter().chain(&beside.candidates);
        all.extend(containers.map(|service| service.image.clone()).chain(works(beside)));
    }
    images(step, all.into_iter().filter(|image| !image.is_empty()))?;
    volumes(&spec.volumes, place)?;
    names(spec.environment.keys())
}

pub(super) fn images(step: &StepSpec, all: impl IntoIterator<Item = String>) -> Result<(), Refusal> {
    for name in all {
        image::check(&name)
            .map_err(|why| Refusal::Unsupported(format!("step `{}`: `{}` {why}", step.name, shown(&name))))?;
    }
    Ok(())
}

pub(super) fn volumes(written: &[String], place: &Place<'_>) -> Result<Vec<Volume>, Refusal> {
    let mut volumes = Vec::new();
    for text in written {
        let volume = volume(text, place.build).map_err(|why| {
            Refusal::Unsupported(format!("volume `{}` cannot be mounted: {why}", shown(text)))
        })?;
        // It is there.
        volumes.extend((!volume.is_the_volume_itself()).then_some(volume));
    }
    Ok(volumes)
}

/// `CF_VOLUME_NAME` is a name of all of it.
pub(super) fn volume(written: &str, build: &str) -> Result<Volume, VolumeError> {
    Volume::parse(written, Some(&format!("slipway-{build}")))
}

/// By name, and never by what it is called in a log.
pub(super) fn names<'a>(all: impl IntoIterator<Item = &'a String>) -> Result<(), Refusal> {
    match all.into_iter().find(|name| !is_name(name)) {
        None => Ok(()),
        Some(name) => Err(Refusal::Unsupported(format!(
            "`{}` is not the name of a variable: use letters, digits, `_`, `-` and `.`, not starting with a digit",
            shown(name)
        ))),
    }
}

/// Variables of a container, by the way that each of them takes.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Environment<'a> {
    /// As lines of a file. A name that is one and an equals sign leave nothing to be read otherwise.
    pub(super) lines: Vec<(&'a str, &'a str)>,
    /// By the step's script itself.
    pub(super) exported: BTreeMap<String, String>,
    /// By name, the value in the engine's own environment.
    pub(super) passed: BTreeMap<String, String>,
    pub(super) left_out: Vec<String>,
}

impl<'a> Environment<'a> {
    /// `literal`: the engine takes lines as they are; else only those without signs are lines.
    pub(super) fn of(all: &'a BTreeMap<String, String>, has_script: bool, literal: bool) -> Self {
        let mut environment = Self::default();
        for (name, value) in all {
            let identifier = !name.contains(['-', '.']);
            if is_line(value) && (literal || is_plain(value)) {
                environment.lines.push((name, value));
            } else if has_script && identifier && !value.contains('\0') {
                environment.exported.insert(name.clone(), value.clone());
            } else if !concerns_engine(name) && !value.contains('\0') {
                environment.passed.insert(name.clone(), value.clone());
            } else {
                environment.left_out.push(name.clone());
            }
        }
        environment
    }
}

fn is_line(value: &str) -> bool {
    !value.contains(['\n', '\r', '\0']) && value.len() <= LINE_BYTES_MAX
}

fn is_plain(value: &str) -> bool {
    value.chars().all(|c| c.is_alphanumeric() || "_-./:@%+,=".contains(c))
}

/// What a file of variables can hold.
pub(super) fn one_line(all: &BTreeMap<String, String>) -> impl Iterator<Item = (&str, &str)> {
    all.iter().map(|(name, value)| (name.as_str(), value.as_str())).filter(|(_, value)| is_line(value))
}

pub(super) fn write_environment<'a>(
    path: &Path,
    lines: impl IntoIterator<Item = (&'a str, &'a str)>,
) -> io::Result<()> {
    let mut file = create_private(path)?;
    for (name, value) in lines.into_iter().filter(|(name, _)| is_name(name)) {
        writeln!(file, "{name}={value}")?;
    }
    Ok(())
}

/// What an image is built from, and the directory as its author calls it.
pub(super) fn context(
    step: &StepSpec,
    spec: &Build,
    place: &Place<'_>,
    names_only: bool,
) -> Result<(Context, String), Refusal> {
    let directory = working_directory(step).unwrap_or_else(|| VOLUME.to_owned());
    let from = in_volume(&directory).ok_or_else(|| {
        Refusal::Unsupported(format!(
            "the build context {directory} cannot be used: it is not in the volume. Clone the repository in an earlier step, or set working_directory"
        ))
    })?;
    for (what, word) in [("target", &spec.target), ("platform", &spec.platform)] {
        let plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '_' | '-' | '/' | ',');
        if let Some(word) = word.as_ref().filter(|word| !word.chars().all(plain)) {
            return Err(Refusal::Unsupported(format!(
                "step `{}`: `{}` is no {what}",
                step.name,
                shown(word)
            )));
        }
    }
    let dockerfile = match &spec.dockerfile {
        Dockerfile::Path(path) => {
            Recipe::Path(in_volume(path).unwrap_or_else(|| from.join(path.trim_start_matches('/'))))
        }
        Dockerfile::Content(text) => Recipe::Content(text.clone()),
    };
    let arguments = pairs(spec, place)?;
    let (to, dockerfile_to) = (place.at.context(), place.at.dockerfile());
    Ok((Context { from, to, dockerfile, dockerfile_to, names_only, arguments }, directory))
}

/// Flags of build arguments, and the values that are in no flag: everybody on a machine reads arguments.
pub(super) fn arguments(
    spec: &Build,
    place: &Place<'_>,
) -> Result<(Vec<String>, BTreeMap<String, String>), Refusal> {
    let (mut flags, mut environment) = (Vec::new(), BTreeMap::new());
    for (name, value) in pairs(spec, place)? {
        if !concerns_engine(&name) {
            flags.push(format!("--build-arg={name}"));
            environment.insert(name, value);
        } else if place.masker.hides(&value) {
            return Err(Refusal::Unsupported(format!(
                "build argument `{name}` has a secret in it, and its name means something to the engine itself: call it something else"
            )));
        } else {
            flags.push(format!("--build-arg={name}={value}"));
        }
    }
    Ok((flags, environment))
}

/// A name alone asks for the build's variable, and never for one of the runner.
fn pairs(spec: &Build, place: &Place<'_>) -> Result<BTreeMap<String, String>, Refusal> {
    let mut all = BTreeMap::new();
    for text in &spec.build_arguments {
        let pair = match text.split_once('=') {
            Some((name, value)) => Some((name.to_owned(), value.to_owned())),
            None => place.variables.get(text).map(|value| (text.clone(), value.clone())),
        };
        let Some((name, value)) = pair else { continue };
        if !is_name(&name) || value.contains('\0') {
            return Err(Refusal::Unsupported(format!(
                "`{}` is not the name of a build argument, or its value has a NUL in it",
                shown(&name)
            )));
        }
        all.insert(name, value);
    }
    Ok(all)
}

/// Names that change what an engine, or a library that it uses, itself does. Variables take another way wherever there
/// is one; this stands before the last.
pub(super) fn concerns_engine(name: &str) -> bool {
    const PREFIXES: [&str; 40] = [
        "_",
        "AARDVARK",
        "BASH",
        "BUILDAH",
        "BUILDKIT",
        "BUILDX",
        "CNI",
        "CONMON",
        "CONTAINER",
        "CRUN",
        "DBUS",
        "DOCKER",
        "FUSE",
        "GCONV",
        "GETCONF",
        "GIT_",
        "GLIBC",
        "GNUPG",
        "GO",
        "GPG",
        "HOSTALIASES",
        "INVOCATION",
        "JOURNAL",
        "KRB5",
        "LC_",
        "LD_",
        "LISTEN_",
        "LOC",
        "MALLOC_",
        "NETAVARK",
        "NLS",
        "NOTIFY_",
        "OTEL",
        "PODMAN",
        "REGISTR",
        "RES",
        "RUNC",
        "SSH_",
        "STORAGE",
        "XDG_",
    ];
    const NAMES: [&str; 25] = [
        "PATH",
        "HOME",
        "TMPDIR",
        "TMP",
        "TEMP",
        "SHELL",
        "USER",
        "LOGNAME",
        "ENV",
        "IFS",
        "LANG",
        "LANGUAGE",
        "TERM",
        "TZ",
        "TZDIR",
        "PWD",
        "SSL_CERT_FILE",
        "SSL_CERT_DIR",
        "CURL_CA_BUNDLE",
        "SHELLOPTS",
        "PS4",
        "NIS_PATH",
        "LOCALDOMAIN",
        "SYSTEMD_LOG_LEVEL",
        "BATS_TEST_DIRNAME",
    ];
    let upper = name.to_ascii_uppercase();
    NAMES.contains(&upper.as_str())
        || upper.ends_with("_PROXY")
        || PREFIXES.iter().any(|prefix| upper.starts_with(prefix))
}

fn shown(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { '\u{fffd}' } else { c }).take(200).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_variable_takes_a_way_on_which_it_means_nothing_else() {
        let all: BTreeMap<String, String> = [
            ("PLAIN", "a=b # * $x \"q\""),
            ("LINES", "a\nb"),
            ("LD_PRELOAD", "/x"),
            ("CONTAINERS_CONF", "a\nb"),
            ("dotted.name", "a\nb"),
            ("NUL", "a\0b"),
            ("RETURN", "a\r"),
        ]
        .map(|(name, value)| (name.to_owned(), value.to_owned()))
        .into();
        let script = Environment::of(&all, true, true);
        assert_eq!(script.lines, [("LD_PRELOAD", "/x"), ("PLAIN", "a=b # * $x \"q\"")]);
        assert_eq!(script.exported.keys().collect::<Vec<_>>(), ["CONTAINERS_CONF", "LINES", "RETURN"]);
        assert_eq!(script.passed.keys().collect::<Vec<_>>(), ["dotted.name"]);
        assert_eq!(script.left_out, ["NUL"]);
        let entry = Environment::of(&all, false, true);
        assert_eq!(entry.passed.keys().collect::<Vec<_>>(), ["LINES", "RETURN", "dotted.name"]);
        assert_eq!(entry.left_out, ["CONTAINERS_CONF", "NUL"]);
        let picky = Environment::of(&all, true, false);
        assert_eq!(picky.lines, [("LD_PRELOAD", "/x")]);
        assert!(picky.exported.contains_key("PLAIN"));
    }

    #[test]
    fn names_that_engines_and_loaders_read_are_not_given_to_them() {
        for name in [
            "PATH",
            "LD_PRELOAD",
            "CONTAINERS_CONF",
            "https_proxy",
            "GODEBUG",
            "GCONV_PATH",
            "_CONTAINERS_X",
            "XDG_Y",
        ] {
            assert!(concerns_engine(name), "{name}");
        }
        for name in ["S", "NPM_TOKEN", "DEPLOYKEY", "VERSION", "API_KEY"] {
            assert!(!concerns_engine(name), "{name}");
        }
    }
}
