//! Registries of the account: which one a step means by a name, and what opens them.
//!
//! In: a step as it was written, and the registries that came with the build. Out: the same step with hosts in place of
//! names, and entries of a Docker `config.json`. Nothing is pulled or pushed here.

use serde_json::{Map, Value, json};
use slipway_api::agent::RegistryAccess;
use slipway_pipeline::{StepKind, StepSpec};

use super::names::{bare, split_tag};
use super::{Place, Refusal};

/// What engines call the registry that needs no name, in the files that they keep.
const DOCKER_HUB: &str = "docker.io";
const DOCKER_HUB_ENTRY: &str = "https://index.docker.io/v1/";

/// In the order in which they are asked for a host: what the step brings or names itself, then the primary ones.
pub(crate) fn for_step(all: &[RegistryAccess], step: &StepSpec) -> Vec<RegistryAccess> {
    let mut named = Vec::new();
    let mut own = None;
    match &step.kind {
        StepKind::Build(spec) => {
            named.extend(spec.registry.clone());
            named.extend(spec.registry_contexts.iter().cloned());
        }
        StepKind::Push(spec) => {
            named.extend(spec.registry.clone().into_iter().chain(spec.registry_context.clone()));
            own = spec.credentials.as_ref().zip(spec.registry.as_ref()).map(|(login, registry)| {
                let known = all.iter().find(|known| known.name == *registry);
                RegistryAccess {
                    domain: known.map_or_else(|| host(registry).to_owned(), |known| known.domain.clone()),
                    username: login.username.clone(),
                    password: login.password.clone(),
                    ..RegistryAccess::default()
                }
            });
        }
        StepKind::PushTag(spec) => named.extend(spec.registry.clone()),
        StepKind::Freestyle(spec) => named.extend(spec.registry_context.clone()),
        StepKind::Composition(spec) => named.extend(spec.registry_contexts.iter().cloned()),
        _ => {}
    }
    let mut ordered: Vec<RegistryAccess> = all.to_vec();
    // Stable: those of one rank stay as the account lists them.
    ordered.sort_by_key(|one| match named.iter().position(|name| *name == one.name) {
        Some(at) => (0, at),
        None => (if one.primary { 1 } else { 2 }, 0),
    });
    own.into_iter().chain(ordered).collect()
}

fn host(address: &str) -> &str {
    address.split('/').next().unwrap_or(address)
}

fn is_host(text: &str) -> bool {
    let host = host(text);
    host == "localhost" || host.contains(['.', ':'])
}

/// The step with hosts instead of names, and what its log should say about it. `has_own` executors push what names no
/// registry to one of their own.
pub(super) fn resolve(
    step: &StepSpec,
    place: &Place<'_>,
    has_own: bool,
) -> Result<(StepSpec, Option<String>), Refusal> {
    let mut step = step.clone();
    let name = step.name.clone();
    let default = || {
        let found = place.registries.iter().find(|one| one.default && !has_own);
        found.map(|one| one.name.clone())
    };
    let mut said = None;
    match &mut step.kind {
        StepKind::Build(spec) => {
            let wanted = spec.registry.clone().filter(|text| !text.is_empty());
            match wanted.clone().or_else(|| default().filter(|_| !spec.disable_push)) {
                // A fork has no registries of ours. What it builds is still worth knowing.
                Some(wanted) if place.trust.is_fork() && !is_host(&wanted) => {
                    said = Some(
                        "The pull request of a fork pushes nothing: the image stays with this build"
                            .to_owned(),
                    );
                    (spec.registry, spec.disable_push) = (None, true);
                }
                Some(wanted) => spec.registry = Some(address(&name, &wanted, place)?),
                None => {}
            }
            if said.is_none()
                && wanted.is_none()
                && !has_own
                && let Some(registry) = &spec.registry
            {
                said = Some(format!("The image goes to {registry}, the account's default registry"));
            }
        }
        StepKind::Push(spec) => {
            let wanted = spec.registry.clone().filter(|text| !text.is_empty()).or_else(default);
            spec.registry = wanted.map(|wanted| address(&name, &wanted, place)).transpose()?;
        }
        StepKind::PushTag(spec) => {
            let wanted = spec.registry.clone().filter(|text| !text.is_empty());
            spec.registry = wanted.map(|wanted| address(&name, &wanted, place)).transpose()?;
        }
        _ => {}
    }
    Ok((step, said))
}

/// `host[:port][/prefix]` of a name; a host is itself.
fn address(step: &str, wanted: &str, place: &Place<'_>) -> Result<String, Refusal> {
    let Some(found) = place.registries.iter().find(|one| one.name == wanted) else {
        if is_host(wanted) {
            return Ok(wanted.to_owned());
        }
        if place.trust.is_fork() {
            return Err(Refusal::Unsupported(format!(
                "step `{step}` pushes to registry `{wanted}`, and the pull request of a fork has no registries: leave the step out for forks"
            )));
        }
        let known: Vec<&str> =
            place.registries.iter().map(|one| one.name.as_str()).filter(|name| !name.is_empty()).collect();
        let known = if known.is_empty() { "none".to_owned() } else { known.join(", ") };
        return Err(Refusal::Unsupported(format!(
            "step `{step}` names registry `{wanted}`, which the account does not have (it has {known}): connect it under Integrations, or name a host"
        )));
    };
    if let Some(problem) = &found.problem {
        return Err(Refusal::Unsupported(format!("registry `{wanted}` cannot be used: {problem}")));
    }
    Ok(match found.prefix.as_str() {
        "" => found.domain.clone(),
        prefix => format!("{}/{prefix}", found.domain),
    })
}

/// Entries of `auths`, the first of a host's wins.
pub(super) fn auths(registries: &[RegistryAccess]) -> Map<String, Value> {
    use base64::Engine as _;
    let mut all = Map::new();
    for one in registries.iter().filter(|one| !one.password.is_empty() && !one.domain.is_empty()) {
        let pair = format!("{}:{}", one.username, one.password);
        let auth = json!({"auth": base64::engine::general_purpose::STANDARD.encode(pair)});
        if one.domain == DOCKER_HUB {
            all.entry(DOCKER_HUB_ENTRY).or_insert_with(|| auth.clone());
        }
        all.entry(one.domain.clone()).or_insert(auth);
    }
    all
}

/// A file for an engine: what it has of its own, and over it these.
pub(super) fn config(own: Option<Value>, registries: &[RegistryAccess]) -> Value {
    let mut config = own.filter(Value::is_object).unwrap_or_else(|| json!({}));
    if !config["auths"].is_object() {
        config["auths"] = json!({});
    }
    for (host, auth) in auths(registries) {
        // A helper for the same host would be asked first; no name means this file.
        if config.get("credsStore").is_some() {
            config["credHelpers"][&host] = json!("");
        } else if let Some(helpers) = config.get_mut("credHelpers").and_then(Value::as_object_mut) {
            helpers.remove(&host);
        }
        config["auths"][host] = auth;
    }
    config
}

/// What is left says where the engine is, and opens nothing.
pub(super) fn forget_logins(config: &mut Value) {
    if let Some(config) = config.as_object_mut() {
        for name in ["auths", "credHelpers", "credsStore", "HttpHeaders"] {
            config.remove(name);
        }
    }
}

/// The image without registry and tag, as `push` steps name it when they say nothing else. With the prefix of the registry
/// that it comes from it would be there twice.
pub(super) fn short_name<'a>(candidate: &'a str, place: &Place<'_>) -> &'a str {
    let (name, _) = split_tag(candidate);
    let prefixes = place.registries.iter().filter(|one| !one.prefix.is_empty());
    let mut known = prefixes.filter_map(|one| name.strip_prefix(&format!("{}/{}/", one.domain, one.prefix)));
    known.next().unwrap_or_else(|| bare(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn registry(name: &str, domain: &str, user: &str) -> RegistryAccess {
        RegistryAccess {
            name: name.into(),
            domain: domain.into(),
            username: user.into(),
            password: "p".into(),
            ..RegistryAccess::default()
        }
    }

    #[test]
    fn the_first_of_a_host_opens_it_and_docker_hub_has_two_names() {
        let all = [
            registry("a", "r.example", "one"),
            registry("b", "r.example", "two"),
            registry("h", DOCKER_HUB, "h"),
        ];
        let auths = auths(&all);
        assert_eq!(auths["r.example"], json!({"auth": "b25lOnA="}));
        assert_eq!(auths[DOCKER_HUB], auths[DOCKER_HUB_ENTRY]);
        let own =
            json!({"auths": {"mine": {"auth": "x"}}, "credHelpers": {"r.example": "pass", "other": "pass"}});
        let merged = config(Some(own), &all);
        assert_eq!(merged["auths"]["mine"]["auth"], "x");
        assert_eq!(merged["credHelpers"], json!({"other": "pass"}));
        let mut own =
            json!({"auths": {"mine": {"auth": "x"}}, "credsStore": "desktop", "currentContext": "colima"});
        forget_logins(&mut own);
        assert_eq!(config(Some(own), &[]), json!({"auths": {}, "currentContext": "colima"}), "for a fork");
        let merged = config(Some(json!({"credsStore": "desktop"})), &all[..1]);
        assert_eq!(merged["credHelpers"], json!({"r.example": ""}));
    }
}
