//! Registries of images: contexts of one type. Where each is, who we are there, and what builds get of them.

use crate::ci::contexts::{self as shared};
use crate::http::error::ApiError;
use crate::seal::DataKey;
use serde_json::{Map, Value};
use slipway_api::agent::RegistryAccess;
use slipway_store::{Scope, StoreError, Tx, contexts};

pub(crate) const TYPE: &str = "registry";

pub(crate) fn text<'a>(data: &'a Map<String, Value>, name: &str) -> &'a str {
    data.get(name).and_then(Value::as_str).unwrap_or_default()
}

/// Forms of pages know texts alone.
pub(crate) fn is(data: &Map<String, Value>, name: &str) -> bool {
    data.get(name).is_some_and(|value| value == true || value == "true")
}

/// Why a context of this type cannot be kept.
pub(crate) fn problem(data: &Value) -> Option<String> {
    match reach(data.as_object()?) {
        Ok((_, _, secret)) if secret.trim().is_empty() => {
            Some("a password, token or key file is required: builds sign in with it".into())
        }
        other => other.err(),
    }
}

/// Where it is, and who we are there.
pub(crate) fn reach(data: &Map<String, Value>) -> Result<(String, String, String), String> {
    let domain = text(data, "domain").trim().trim_end_matches('/');
    let domain = domain.strip_prefix("https://").or(domain.strip_prefix("http://")).unwrap_or(domain);
    let own = |user: &str, secret: &str| (text(data, user).to_owned(), text(data, secret).to_owned());
    let (host, (user, secret)) = match text(data, "provider") {
        "dockerhub" => ("docker.io".to_owned(), own("username", "password")),
        "gcr" => {
            let host = if domain.is_empty() { "gcr.io" } else { domain };
            (host.to_owned(), ("_json_key".to_owned(), text(data, "keyfile").to_owned()))
        }
        "gar" => {
            let host =
                if domain.contains('.') { domain.to_owned() } else { format!("{domain}-docker.pkg.dev") };
            (host, ("_json_key".to_owned(), text(data, "keyfile").to_owned()))
        }
        "acr" => (domain.to_owned(), own("clientId", "clientSecret")),
        // A password of Amazon's is good for hours; whoever asks for it has to renew it.
        "ecr" if text(data, "password").is_empty() => {
            return Err("Amazon's registries need a password that is created for each build: give it as `password` with `username: AWS` and `provider: other`, or log in in a step".into());
        }
        _ => (domain.to_owned(), own("username", "password")),
    };
    if host.is_empty() || host == "-docker.pkg.dev" {
        return Err("`domain` is required: the host of the registry".into());
    }
    if host.contains(|c: char| c.is_whitespace() || c.is_control() || c == '/' || c == '@') {
        return Err(format!(
            "`{host}` is not the host of a registry; the path after it is `repositoryPrefix`"
        ));
    }
    Ok((host, user, secret))
}

/// Host, user and secret, for whoever tries whether they are right.
pub(crate) fn login(data: &Value) -> Result<(String, String, String), ApiError> {
    let empty = Map::new();
    reach(data.as_object().unwrap_or(&empty)).map_err(ApiError::bad_request)
}

/// What a build gets of all of them.
pub(crate) fn accesses(
    tx: &mut Tx<'_>,
    key: &DataKey,
    scope: Scope,
) -> Result<Vec<RegistryAccess>, StoreError> {
    let mut rows: Vec<contexts::Context> =
        contexts::list(tx, scope)?.into_iter().filter(|row| row.kind == TYPE).collect();
    // As contexts several can be made the default: the latest is meant.
    rows.sort_by_key(|row| std::cmp::Reverse(row.updated_ms));
    let mut all: Vec<RegistryAccess> =
        rows.iter().map(|row| access(&row.name, &shared::opened(key, scope, row))).collect();
    for other in all.iter_mut().filter(|one| one.default).skip(1) {
        other.default = false;
    }
    all.sort_by(|one, other| one.name.cmp(&other.name));
    Ok(all)
}

pub(crate) fn access(name: &str, data: &Value) -> RegistryAccess {
    let empty = Map::new();
    let data = data.as_object().unwrap_or(&empty);
    let mut access = RegistryAccess {
        name: name.to_owned(),
        prefix: text(data, "repositoryPrefix").trim_matches('/').to_owned(),
        default: is(data, "default"),
        primary: is(data, "primary"),
        ..RegistryAccess::default()
    };
    match reach(data) {
        Ok((domain, username, password)) => {
            (access.domain, access.username, access.password) = (domain, username, password)
        }
        Err(why) => access.problem = Some(why),
    }
    access
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_provider_has_its_host_and_its_user() {
        let reached = |data: Value| {
            let access = access("r", &data);
            (access.domain, access.username, access.password, access.problem.is_some())
        };
        let good = |host: &str, user: &str, secret: &str| (host.into(), user.into(), secret.into(), false);
        let hub = json!({"provider": "dockerhub", "username": "u", "password": "p"});
        assert_eq!(reached(hub), good("docker.io", "u", "p"));
        let other = json!({"provider": "other", "domain": "https://r.example:5000/", "username": "u", "password": "p"});
        assert_eq!(reached(other), good("r.example:5000", "u", "p"));
        assert_eq!(reached(json!({"provider": "gcr", "keyfile": "{}"})), good("gcr.io", "_json_key", "{}"));
        let gar = json!({"provider": "gar", "domain": "europe-west1", "keyfile": "{}"});
        assert_eq!(reached(gar), good("europe-west1-docker.pkg.dev", "_json_key", "{}"));
        let acr = json!({"provider": "acr", "domain": "a.azurecr.io", "clientId": "i", "clientSecret": "s"});
        assert_eq!(reached(acr), good("a.azurecr.io", "i", "s"));
        for bad in
            [json!({}), json!({"domain": "a b"}), json!({"domain": "host/path"}), json!({"provider": "gar"})]
        {
            assert!(reached(bad.clone()).3, "{bad}");
        }
    }
}
