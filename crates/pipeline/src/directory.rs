//! Where a step works: the rules for `working_directory`.

use crate::interpolate::{Interpolator, only_reference};
use crate::parse::KNOWN_TYPES;
use crate::pipeline::MAIN_CLONE;
use crate::resolve::Resolve;
use crate::spec::WorkingDirectory;

const VOLUME_PATH: &str = "/codefresh/volume";

/// Empty → the main clone's directory for built-in steps, else the volume; `${{step}}` → that step's
/// directory; absolute → itself; relative → below the main clone, or below the volume.
pub(crate) fn working_directory(
    request: &Resolve<'_>,
    written: Option<String>,
    interpolator: &Interpolator<'_>,
) -> WorkingDirectory {
    let step = request.step;
    let main_clone = || request.state.step(MAIN_CLONE).working_directory.filter(|path| !path.is_empty());
    let built_in = KNOWN_TYPES.contains(&step.type_name.as_str());
    let clones = step.type_name == "git-clone";
    let Some(written) = written else {
        return match main_clone() {
            Some(path) if built_in && !clones => located(&path),
            _ => WorkingDirectory::Volume,
        };
    };
    if let Some(name) = only_reference(&written) {
        let name = name.strip_prefix("parentSteps.").or_else(|| name.strip_prefix("steps.")).unwrap_or(name);
        if let Some(path) = request.state.steps.get(name).and_then(|state| state.working_directory.as_ref()) {
            return located(path);
        }
    }
    let text = interpolator.text(&written);
    match text.trim() {
        "IMAGE_WORK_DIR" => WorkingDirectory::Image,
        "" => WorkingDirectory::Volume,
        path if path.starts_with('/') => located(path),
        path => match main_clone() {
            Some(base) if !clones => located(&format!("{}/{path}", base.trim_end_matches('/'))),
            _ => located(&format!("{VOLUME_PATH}/{path}")),
        },
    }
}

/// A path below the volume stays there whatever `..` it holds; anything else is absolute.
fn located(path: &str) -> WorkingDirectory {
    let mut parts: Vec<&str> = Vec::new();
    for part in path.split('/') {
        match part {
            "" | "." => {}
            ".." => {
                parts.pop();
            }
            part => parts.push(part),
        }
    }
    let clean = format!("/{}", parts.join("/"));
    let wanted_volume = path.starts_with(VOLUME_PATH);
    match clean.strip_prefix(VOLUME_PATH) {
        Some("") => WorkingDirectory::Volume,
        Some(below) if below.starts_with('/') => {
            WorkingDirectory::UnderVolume(below.trim_start_matches('/').to_owned())
        }
        _ if wanted_volume => WorkingDirectory::Volume,
        _ => WorkingDirectory::Absolute(clean),
    }
}
