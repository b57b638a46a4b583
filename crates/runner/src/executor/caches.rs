//! The `cache` of a step as its writer put it → what its supervisor restores and keeps.

use std::path::{Component, Path, PathBuf};

use slipway_pipeline::spec::Cache as Written;
use slipway_pipeline::{StepKind, StepSpec};

use super::{Place, Refusal, in_volume, working_directory};
use crate::cache::{Cache, KEY_BYTES_MAX, Scopes};
use crate::layout::VOLUME;

pub(super) fn of_step(step: &StepSpec, place: &Place<'_>) -> Result<Vec<Cache>, Refusal> {
    let StepKind::Freestyle(spec) = &step.kind else { return Ok(Vec::new()) };
    if place.cache_bytes_max == 0 {
        return Ok(Vec::new());
    }
    spec.cache.iter().map(|written| one(step, written, place)).collect()
}

fn one(step: &StepSpec, written: &Written, place: &Place<'_>) -> Result<Cache, Refusal> {
    let no = |why: String| {
        Refusal::Unsupported(format!("the cache of step `{}` cannot be used: {why}", step.name))
    };
    if written.key.trim().is_empty() || written.key.len() > KEY_BYTES_MAX {
        return Err(no(format!("its key is empty, or longer than {KEY_BYTES_MAX} bytes")));
    }
    let directory = working_directory(step).unwrap_or_else(|| VOLUME.to_owned());
    let all = |paths: &[String]| -> Result<Vec<PathBuf>, Refusal> {
        paths.iter().map(|path| below(&directory, path).map_err(no)).collect()
    };
    let paths = all(&written.paths)?;
    for (number, path) in paths.iter().enumerate() {
        if let Some(other) = paths[..number].iter().find(|o| path.starts_with(o) || o.starts_with(path)) {
            return Err(no(format!("`{}` and `{}` are in each other", other.display(), path.display())));
        }
    }
    let scopes = Scopes::new(place.dir.data(), place.trust, place.cache_bytes_max);
    Ok(Cache {
        key: written.key.clone(),
        files: all(&written.files)?,
        paths,
        // An empty beginning is one of every key.
        restore_keys: written.restore_keys.iter().filter(|key| !key.is_empty()).cloned().collect(),
        reads: scopes.reads,
        writes: scopes.writes,
        pool: scopes.pool,
        pool_bytes_max: scopes.pool_bytes_max,
        restore: !place.fresh,
    })
}

/// Relative to the volume, which it does not leave.
fn below(directory: &str, path: &str) -> Result<PathBuf, String> {
    let whole = Path::new(directory).join(path);
    let relative = in_volume(&whole.to_string_lossy())
        .ok_or_else(|| format!("`{path}` is not below {VOLUME}, and only what is there can be kept"))?;
    let mut clean = PathBuf::new();
    for part in relative.components() {
        match part {
            Component::Normal(name) => clean.push(name),
            Component::CurDir => {}
            _ => return Err(format!("`{path}` has a `..` in it: write where it leads")),
        }
    }
    if clean.as_os_str().is_empty() {
        return Err(format!("`{path}` is the whole volume, which is kept without a cache"));
    }
    Ok(clean)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_are_of_the_working_directory_and_never_leave_the_volume() {
        let app = "/codefresh/volume/app";
        assert_eq!(below(app, "./node_modules/"), Ok("app/node_modules".into()));
        assert_eq!(below(app, "/codefresh/volume/.m2"), Ok(".m2".into()));
        for bad in
            ["../x", "a/../../x", "/etc", "/codefresh/volume", "/codefresh/volume/../x", "/codefresh/volumes"]
        {
            assert!(below(app, bad).is_err(), "{bad}");
        }
        assert!(below("/srv", "x").is_err());
    }
}
