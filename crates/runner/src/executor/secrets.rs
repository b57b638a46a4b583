//! `secrets` of a `build` step: files of the volume that a line of the Dockerfile may read and no layer keeps.
//!
//! In: `id=ID,src=PATH`, or `{id, src}`. Out: flags for the engine. Each file is copied out of the volume to a place of the
//! runner's own, because an engine would follow a link that a step has put there; the copies go with the attempt.

use std::io::Write;

use serde_json::Value;
use slipway_pipeline::StepSpec;
use slipway_pipeline::spec::Build;

use super::{Place, Refusal, in_volume, working_directory};
use crate::layout::{VOLUME, create_private, create_private_dir};
use crate::within::Volume;

const BYTES_MAX: u64 = 500 << 10;

pub(super) fn flags(step: &StepSpec, spec: &Build, place: &Place<'_>) -> Result<Vec<String>, Refusal> {
    let Some(written) = spec.options.get("secrets") else { return Ok(Vec::new()) };
    let no = |why: String| Refusal::Unsupported(format!("step `{}`: {why}", step.name));
    let folder = place.at.0.join("secrets");
    create_private_dir(&folder)?;
    let directory = working_directory(step).unwrap_or_else(|| VOLUME.to_owned());
    let mut flags = Vec::new();
    for (number, secret) in read(written).map_err(no)?.iter().enumerate() {
        let below = in_volume(&secret.source).or_else(|| {
            let plain = secret.source.trim_start_matches("./");
            (!plain.starts_with(['/', '~'])).then(|| in_volume(&directory).unwrap_or_default().join(plain))
        });
        let below = below.ok_or_else(|| {
            no(format!("secret `{}`: {} is not a file of the build's volume", secret.id, secret.source))
        })?;
        let bytes =
            Volume::open(&place.dir.volume()).and_then(|volume| volume.read(&below, BYTES_MAX)).map_err(
                |error| no(format!("secret `{}`: {} cannot be read: {error}", secret.id, secret.source)),
            )?;
        let copy = folder.join(number.to_string());
        create_private(&copy)?.write_all(&bytes)?;
        flags.push(format!("--secret=id={},src={}", secret.id, copy.display()));
    }
    Ok(flags)
}

struct Secret {
    id: String,
    source: String,
}

fn read(written: &Value) -> Result<Vec<Secret>, String> {
    let Value::Array(all) = written else { return Err("`secrets` is a list".to_owned()) };
    all.iter()
        .map(|one| {
            let (id, source) = match one {
                Value::String(text) => {
                    let part = |name: &str| text.split(',').find_map(|part| part.trim().strip_prefix(name));
                    (part("id="), part("src=").or_else(|| part("source=")))
                }
                other => (other["id"].as_str(), other["src"].as_str()),
            };
            match (id, source) {
                (Some(id), Some(source)) if is_id(id) => {
                    Ok(Secret { id: id.to_owned(), source: source.to_owned() })
                }
                (Some(_), Some(_)) => {
                    Err("the id of a secret has letters, digits, `-`, `_` and `.`".to_owned())
                }
                _ => Err("a secret is `id=ID,src=PATH`, or a map with `id` and `src`".to_owned()),
            }
        })
        .collect()
}

fn is_id(id: &str) -> bool {
    !id.is_empty() && id.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.'))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn secrets_are_read_as_people_write_them() {
        let all = read(&json!(["id=a,src=x/y", {"id": "b", "src": "z"}])).unwrap();
        let shown: Vec<_> = all.iter().map(|one| (one.id.as_str(), one.source.as_str())).collect();
        assert_eq!(shown, [("a", "x/y"), ("b", "z")]);
        for wrong in [json!("default"), json!(["x"]), json!([{"id": "a"}]), json!(["id=a b,src=x"])] {
            assert!(read(&wrong).is_err(), "{wrong}");
        }
    }
}
