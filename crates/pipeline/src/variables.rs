//! Variables: layers, precedence, reserved names and what must be masked.

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

/// Where a variable was set, weakest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Layer {
    /// What the platform says about the build (`CF_*`).
    System,
    Project,
    SharedConfig,
    Pipeline,
    Trigger,
    BuildRun,
    /// What earlier steps exported with `cf_export`.
    CfExport,
}

/// Layered variables of one build. A stronger layer hides a weaker one, name by name.
#[derive(Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Variables {
    layers: BTreeMap<Layer, BTreeMap<String, String>>,
    /// Names whose values must never be shown.
    encrypted: BTreeSet<String>,
}

/// A variable that may not be set from where it was tried.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum VariableError {
    #[error("variable `{0}` decides how programs are found or started; set it inside the step instead")]
    Dangerous(String),
    #[error("variable `{0}` belongs to the platform; choose another name")]
    Reserved(String),
    #[error("`{0}` is not a variable name; use letters, digits and underscores, not starting with a digit")]
    Name(String),
}

/// Names with which one step could take over the next, whatever that one runs.
const DANGEROUS: [&str; 14] = [
    "PATH",
    "LD_PRELOAD",
    "LD_LIBRARY_PATH",
    "LD_AUDIT",
    "DYLD_INSERT_LIBRARIES",
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_ASKPASS",
    "GIT_PROXY_COMMAND",
    "DOCKER_HOST",
    "BASH_ENV",
    "ENV",
    "SHELLOPTS",
    "IFS",
];

/// What identifies the build and authorises its calls; never overridden by anybody.
const IDENTITY: [&str; 12] = [
    "CF_ACCOUNT",
    "CF_API_KEY",
    "CF_BUILD_ID",
    "CF_BUILD_URL",
    "CF_PIPELINE_NAME",
    "CF_URL",
    "CF_HOST_NAME",
    "CF_VOLUME_NAME",
    "CF_VOLUME_PATH",
    "CF_KUBECONFIG_PATH",
    "CF_OIDC_REQUEST_TOKEN",
    "CF_OIDC_REQUEST_URL",
];

const NAME_BYTES_MAX: usize = 256;

/// Text that whoever pushes a commit or opens a pull request can choose.
pub fn is_untrusted(name: &str) -> bool {
    const PREFIXES: [&str; 7] = [
        "CF_BRANCH",
        "CF_BASE_BRANCH",
        "CF_COMMIT_",
        "CF_PULL_REQUEST_",
        "CF_RELEASE_",
        "CF_GERRIT_",
        "EVENT_",
    ];
    PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// A name that means itself and nothing else to whatever reads it: a shell, a file of variables, an engine.
/// Step names may hold dashes, and `<step>_CF_OUTPUT_URL` is an ordinary export.
pub fn is_name(name: &str) -> bool {
    let mut characters = name.chars();
    name.len() <= NAME_BYTES_MAX
        && characters.next().is_some_and(|c| c.is_ascii_alphabetic() || c == '_')
        && characters.all(|c| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.'))
}

/// Whether somebody may set this name, and if not, why.
pub fn check_name(layer: Layer, name: &str) -> Result<(), VariableError> {
    if !is_name(name) {
        // Nothing that a terminal or a log would read.
        let shown = name.chars().filter(|c| !c.is_control()).take(80).collect();
        return Err(VariableError::Name(shown));
    }
    if layer == Layer::System {
        return Ok(());
    }
    if IDENTITY.contains(&name) {
        return Err(VariableError::Reserved(name.to_owned()));
    }
    // A person may set PATH for a pipeline; a step may not set it for the steps after it.
    if layer == Layer::CfExport && DANGEROUS.contains(&name) {
        return Err(VariableError::Dangerous(name.to_owned()));
    }
    Ok(())
}

impl std::fmt::Debug for Variables {
    /// Names only: a value may be a secret.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_map()
            .entries(self.layers.iter().map(|(layer, values)| (layer, values.keys().collect::<Vec<_>>())))
            .finish()
    }
}

impl Variables {
    pub fn set(&mut self, layer: Layer, name: impl Into<String>, value: impl Into<String>) {
        self.layers.entry(layer).or_default().insert(name.into(), value.into());
    }

    /// As [`set`](Self::set), refusing names that the layer may not touch.
    pub fn try_set(
        &mut self,
        layer: Layer,
        name: impl Into<String>,
        value: impl Into<String>,
    ) -> Result<(), VariableError> {
        let name = name.into();
        check_name(layer, &name)?;
        self.set(layer, name, value);
        Ok(())
    }

    pub fn set_encrypted(&mut self, layer: Layer, name: impl Into<String>, value: impl Into<String>) {
        let name = name.into();
        self.encrypted.insert(name.clone());
        self.set(layer, name, value);
    }

    /// From now on the value in effect is masked, wherever it was set (`cf_export --mask`).
    pub fn encrypt(&mut self, name: impl Into<String>) {
        self.encrypted.insert(name.into());
    }

    /// The value in effect and the layer that gives it.
    pub fn lookup(&self, name: &str) -> Option<(Layer, &str)> {
        self.layers.iter().rev().find_map(|(layer, values)| Some((*layer, values.get(name)?.as_str())))
    }

    pub fn get(&self, name: &str) -> Option<&str> {
        self.lookup(name).map(|(_, value)| value)
    }

    /// Every name with the value in effect.
    pub fn effective(&self) -> BTreeMap<String, String> {
        let mut all = BTreeMap::new();
        for values in self.layers.values() {
            all.extend(values.iter().map(|(name, value)| (name.clone(), value.clone())));
        }
        all
    }

    /// Every name with its value, layer by layer, for a page that strikes out what is overridden.
    pub fn layers(&self) -> impl Iterator<Item = (Layer, &BTreeMap<String, String>)> {
        self.layers.iter().map(|(layer, values)| (*layer, values))
    }

    pub fn is_encrypted(&self, name: &str) -> bool {
        self.encrypted.contains(name)
    }

    /// What a log must not show, longest first so that no part of a longer secret stays behind:
    /// the values of encrypted names in every layer, their single lines, and the forms that tools
    /// print them in (escaped spaces, base64, URL).
    pub fn masks(&self) -> Vec<String> {
        let mut masks = BTreeSet::new();
        for values in self.layers.values() {
            for (_, value) in values.iter().filter(|(name, _)| self.encrypted.contains(*name)) {
                for form in forms(value) {
                    if form.chars().count() >= MASK_CHARS_MIN {
                        masks.insert(form);
                    }
                }
            }
        }
        let mut masks: Vec<String> = masks.into_iter().collect();
        masks.sort_by(|a, b| b.len().cmp(&a.len()).then_with(|| a.cmp(b)));
        masks
    }
}

/// Shorter values would mask half of every log and hide nothing.
const MASK_CHARS_MIN: usize = 3;

fn forms(value: &str) -> Vec<String> {
    let trimmed = value.trim();
    let mut forms = vec![trimmed.to_owned()];
    if trimmed.contains('\n') {
        // A multi-line secret is printed line by line; lines such as `}` are no secret.
        forms.extend(trimmed.lines().map(str::trim).filter(|line| line.len() >= 8).map(str::to_owned));
        forms.push(trimmed.replace('\n', "\\n"));
    }
    if trimmed.contains(' ') {
        forms.push(trimmed.replace(' ', "\\ "));
    }
    forms.push(base64(trimmed.as_bytes()));
    forms.push(slipway_dialect::percent::encode(trimmed));
    forms
}

fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut out = String::with_capacity(bytes.len().div_ceil(3) * 4);
    for chunk in bytes.chunks(3) {
        let bits =
            chunk.iter().fold(0u32, |bits, byte| (bits << 8) | u32::from(*byte)) << (8 * (3 - chunk.len()));
        for index in 0..4 {
            if index <= chunk.len() {
                out.push(ALPHABET[(bits >> (18 - 6 * index)) as usize & 63] as char);
            } else {
                out.push('=');
            }
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_strongest_layer_wins() {
        let mut variables = Variables::default();
        variables.set(Layer::Pipeline, "A", "pipeline");
        variables.set(Layer::Project, "A", "project");
        assert_eq!(variables.lookup("A"), Some((Layer::Pipeline, "pipeline")));
        variables.set(Layer::CfExport, "A", "export");
        variables.set(Layer::BuildRun, "A", "run");
        assert_eq!(variables.get("A"), Some("export"));
        assert_eq!(variables.effective().get("A").map(String::as_str), Some("export"));
    }

    #[test]
    fn a_step_cannot_take_over_the_next_one() {
        assert!(check_name(Layer::CfExport, "LD_PRELOAD").is_err());
        assert!(check_name(Layer::Pipeline, "PATH").is_ok());
        assert!(check_name(Layer::BuildRun, "CF_BUILD_ID").is_err());
        assert!(check_name(Layer::CfExport, "build_CF_OUTPUT_URL").is_ok());
        assert!(check_name(Layer::CfExport, "A B").is_err());
        assert!(check_name(Layer::CfExport, "").is_err());
    }

    #[test]
    fn masks_cover_the_forms_in_which_tools_print_a_secret() {
        let mut variables = Variables::default();
        variables.set_encrypted(Layer::Project, "TOKEN", "s3cret value");
        variables.set_encrypted(Layer::Project, "SHORT", "ab");
        variables.set_encrypted(Layer::Pipeline, "KEY", "first line of key\nsecond line of key\n");
        variables.set(Layer::Pipeline, "OPEN", "visible");
        let masks = variables.masks();
        for form in
            ["s3cret value", "s3cret\\ value", "czNjcmV0IHZhbHVl", "s3cret%20value", "second line of key"]
        {
            assert!(masks.iter().any(|mask| mask == form), "{form}");
        }
        assert!(!masks.iter().any(|mask| mask == "ab" || mask == "visible"));
        assert!(masks.windows(2).all(|pair| pair[0].len() >= pair[1].len()), "longest first");
    }

    #[test]
    fn debug_shows_names_only() {
        let mut variables = Variables::default();
        variables.set(Layer::Project, "TOKEN", "s3cret");
        let shown = format!("{variables:?}");
        assert!(shown.contains("TOKEN") && !shown.contains("s3cret"));
    }
}
