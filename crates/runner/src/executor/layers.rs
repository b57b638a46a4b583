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
    let image = if written.contains('=') {
        let part = |name: &str| written.split(',').find_map(|part| part.trim().strip_prefix(name));
        part("type=").is_none_or(|kind| kind == "registry").then(|| part("ref=")).flatten()?
    } else {
        written
    };
    // Nothing but a registry: other kinds are folders of the machine.
    slipway_pipeline::image::check(image).ok()?;
    if builder == Builder::Docker {
        let mode = written.split(',').find(|part| matches!(part.trim(), "mode=max" | "mode=min"));
        let mode = mode.map(|mode| format!(",{}", mode.trim())).unwrap_or_default();
        return Some(if written.contains('=') {
            format!("{flag}=type=registry,ref={image}{mode}")
        } else {
            format!("{flag}={image}")
        });
    }
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
        let digest = "0".repeat(64);
        assert_eq!(buildah(&format!("app@sha256:{digest}")).as_deref(), Some("--cache-from=app"));
        for builder in [Builder::Buildah, Builder::Docker] {
            for text in
                ["type=gha", "type=local,dest=/etc", "type=local,src=/etc", "dir:/etc", "oci:x", "--x"]
            {
                assert_eq!(named("--cache-to", text, builder), None, "{text}");
            }
        }
        let docker = |text: &str| named("--cache-to", text, Builder::Docker).unwrap();
        assert_eq!(docker("reg:5000/app:main"), "--cache-to=reg:5000/app:main");
        assert_eq!(docker("type=registry,ref=a/b,mode=max"), "--cache-to=type=registry,ref=a/b,mode=max");
    }
}
