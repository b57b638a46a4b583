//! Layers of earlier builds that a `build` step may use, and where it may leave its own.

use slipway_pipeline::spec::Build;

use super::Place;
use super::names::split_tag;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Builder {
    /// Also as Podman.
    Buildah,
    Docker,
}

/// The flags of `build`. Either switch means an image from nothing: the layers that this runner keeps are the only
/// optimisation of ours that the second one could turn off.
pub(super) fn flags(spec: &Build, place: &Place<'_>, builder: Builder) -> Vec<String> {
    let mut flags = Vec::new();
    if spec.no_cache || spec.no_cf_cache || place.fresh {
        flags.push("--no-cache".to_owned());
    } else {
        flags.extend(spec.cache_from.iter().filter_map(|from| named("--cache-from", from, builder)));
    }
    // What a fork leaves in a registry, later builds would take for their own.
    if !place.trust.is_fork() {
        flags.extend(spec.cache_to.iter().filter_map(|to| named("--cache-to", to, builder)));
    }
    flags
}

/// People write them as Docker reads them: the name of an image, or `type=registry,ref=NAME`. Buildah wants the name of
/// a repository, in which it finds layers by tags of its own; other types than registries it does not have.
fn named(flag: &str, written: &str, builder: Builder) -> Option<String> {
    if builder == Builder::Docker {
        return Some(format!("{flag}={written}"));
    }
    let image = if written.contains('=') {
        let part = |name: &str| written.split(',').find_map(|part| part.trim().strip_prefix(name));
        part("type=").is_none_or(|kind| kind == "registry").then(|| part("ref=")).flatten()?
    } else {
        written
    };
    let image = image.split('@').next().unwrap_or(image);
    Some(format!("{flag}={}", split_tag(image).0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn caches_as_docker_writes_them_are_repositories_for_buildah() {
        let buildah = |text: &str| named("--cache-from", text, Builder::Buildah);
        for text in ["reg:5000/app", "reg:5000/app:main", "type=registry,ref=reg:5000/app:main,mode=max"] {
            assert_eq!(buildah(text).as_deref(), Some("--cache-from=reg:5000/app"), "{text}");
        }
        assert_eq!(buildah("app@sha256:00").as_deref(), Some("--cache-from=app"));
        assert_eq!(buildah("type=gha"), None);
        assert_eq!(named("--cache-to", "type=gha", Builder::Docker).as_deref(), Some("--cache-to=type=gha"));
    }
}
