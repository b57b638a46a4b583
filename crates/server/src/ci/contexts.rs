//! Shared configuration and integrations: what rules look at, what is secret in them and sealed, what builds get.
//!
//! Comes in: what a caller sends, and rows. Goes out: rows with their secrets sealed, values for builds and calls. Knows nothing of HTTP.

use crate::ci::kept_secrets::{self, Of};
use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::http::redact::{self, mask_all};
use crate::identity::access;
use crate::identity::auth::Caller;
use crate::seal::DataKey;
use crate::seams;
use serde_json::{Map, Value};
use slipway_access::{Entity, Role};
use slipway_api::context::{Context, ContextLabels, ContextMetadata, ContextSpec};
use slipway_store::{Scope, Tx, contexts, pipelines};

/// All data of these is secret; of the others only what is named so.
pub(crate) const SECRET_TYPES: [&str; 2] = ["secret", "secret-yaml"];

/// Types that older versions took and that nothing here reads: what is there stays and says so, new ones are refused.
pub(crate) const EFFECTLESS: [&str; 8] = [
    "helm-repository",
    "secret-store.kubernetes",
    "secret-store.kubernetes-runtime",
    "secret-store.hashicorp-vault",
    "storage.s3",
    "storage.gc",
    "storage.azuref",
    "storage.minio",
];

pub(crate) const TYPES: [&str; 13] = [
    "config",
    "secret",
    "yaml",
    "secret-yaml",
    "git.github",
    "git.gitlab",
    "git.bitbucket",
    "git.stash",
    "git.gitea",
    "notification.slack",
    "notification.webhook",
    "notification.email",
    "registry",
];

pub(crate) const BYTES_MAX: usize = 512 << 10;

/// Why a context of this type does nothing here.
pub(crate) fn effectless(kind: &str) -> Option<String> {
    let without = EFFECTLESS.contains(&kind) || kind.starts_with("helm-repository");
    without.then(|| {
        format!(
            "contexts of type `{kind}` are not used here: builds get the values of config, secret, yaml and secret-yaml"
        )
    })
}

/// What rules look at.
pub(crate) fn entity(row: &contexts::Context) -> Entity<'_> {
    let kind = if row.kind.starts_with("git.") { "git-context" } else { "shared-configuration" };
    let tags = row.tags.iter().map(String::as_str).collect();
    Entity { kind, name: &row.name, tags, ..Entity::default() }
}

/// Everything but shared configuration and Git integrations is for Administrators.
pub(crate) fn require(
    tx: &mut Tx<'_>,
    caller: &Caller,
    action: &str,
    row: &contexts::Context,
) -> Result<(), ApiError> {
    let administrator = caller.principal.role() == Some(Role::Administrator);
    let shared = matches!(row.kind.as_str(), "config" | "secret" | "yaml" | "secret-yaml")
        || row.kind.starts_with("git.");
    let what = format!("context `{}`", row.name);
    if administrator {
        return Ok(());
    }
    let spec: Map<String, Value> = serde_json::from_str(&row.spec).unwrap_or_default();
    // The API has it beside the data, the published CLI writes it into them.
    let policies = [spec.get("sharingPolicy"), spec.get("data").and_then(|data| data.get("sharingPolicy"))];
    if policies.contains(&Some(&Value::from("AccountAdmins"))) {
        return Err(ApiError::hidden(what, "its sharing policy is AccountAdmins"));
    }
    if !shared {
        return match action {
            "read" => Ok(()),
            _ => Err(ApiError::forbidden("only an Administrator of the account can change integrations")),
        };
    }
    let entity = entity(row);
    let (look, action) = match (entity.kind, action) {
        ("git-context", "read") => ("use", "use"),
        ("git-context", action) => ("use", action),
        (_, action) => ("read", action),
    };
    access::require(tx, caller, action, look, &entity, &what)?.map(drop)
}

/// Takes what is secret out of `data`; gives back what may be shown and, if there was any, what may not.
pub(crate) fn split(kind: &str, data: &Value) -> (Value, Option<Value>) {
    if SECRET_TYPES.contains(&kind) {
        return (mask_all(data), Some(data.clone()));
    }
    let shown = mask_named(data);
    let secret = (shown != *data).then(|| data.clone());
    (shown, secret)
}

pub(crate) fn mask_named(value: &Value) -> Value {
    match value {
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(name, value)| {
                    let secret = redact::is_secret(name);
                    (name.clone(), if secret { mask_all(value) } else { mask_named(value) })
                })
                .collect(),
        ),
        Value::Array(items) => Value::Array(items.iter().map(mask_named).collect()),
        other => other.clone(),
    }
}

pub(crate) fn place(scope: Scope, id: impl std::fmt::Display) -> String {
    format!("context/{}/{id}", scope.account())
}

/// The kept spec: `type` and `data` are columns of their own in spirit; the rest is as it came.
pub(crate) fn shown(row: &contexts::Context) -> Context {
    let mut spec: Map<String, Value> = serde_json::from_str(&row.spec).unwrap_or_default();
    let data = spec.remove("data").unwrap_or(Value::Object(Map::new()));
    let forbid_decrypt = spec.remove("forbidDecrypt") == Some(Value::Bool(true));
    Context {
        api_version: "v1".into(),
        kind: "context".into(),
        metadata: ContextMetadata {
            name: row.name.clone(),
            labels: ContextLabels { tags: row.tags.clone() },
            forbid_decrypt,
            revision: row.revision,
            created_at: seams::rfc3339(row.created_ms),
            updated_at: seams::rfc3339(row.updated_ms),
            ..ContextMetadata::default()
        },
        spec: ContextSpec { kind: row.kind.clone(), data, other: spec },
        owner: Some(row.owner.clone()),
        note: effectless(&row.kind),
    }
}

pub(crate) fn unsealed(key: &DataKey, scope: Scope, row: &contexts::Context) -> Option<Value> {
    let opened = key.unseal(&place(scope, row.id), row.sealed.as_deref()?)?;
    serde_json::from_str(opened.expose()).ok()
}

/// Nobody outside of the customer's network reaches it: a runner asks it. The API has it beside the data, the published CLI writes it into
/// them.
pub(crate) fn is_behind_firewall(row: &contexts::Context) -> bool {
    let spec: Value = serde_json::from_str(&row.spec).unwrap_or_default();
    says_behind_firewall(&spec) || says_behind_firewall(&spec["data"])
}

fn says_behind_firewall(value: &Value) -> bool {
    matches!(&value["behindFirewall"], Value::Bool(true)) || value["behindFirewall"] == "true"
}

/// Some token, password or key of an app; one that is masked is there already.
pub(crate) fn has_credential(data: &Value) -> bool {
    ["/auth/password", "/auth/token", "/auth/privateKey", "/password", "/token"]
        .iter()
        .any(|place| data.pointer(place).and_then(Value::as_str).is_some_and(|text| !text.trim().is_empty()))
}

/// `is_there`: it is a change of one that was taken before.
pub(crate) fn check(context: &Context, is_there: bool) -> Result<(), ApiError> {
    let mut wrong = Vec::new();
    let (name, kind) = (&context.metadata.name, &context.spec.kind);
    let good_name = !name.trim().is_empty() && name.len() <= 100 && !name.chars().any(char::is_control);
    if !good_name {
        wrong.push("metadata.name is required: up to 100 characters".to_owned());
    }
    if let Some(why) = effectless(kind).filter(|_| !is_there) {
        wrong.push(format!("spec.type: {why}"));
    } else if !is_there && !TYPES.contains(&kind.as_str()) {
        wrong.push(format!("spec.type `{kind}` is unknown: use one of {}", TYPES.join(", ")));
    }
    if kind.starts_with("git.") && !has_credential(&context.spec.data) {
        wrong.push(
            "spec.data.auth.password is required: the token for reading repositories and registering webhooks"
                .to_owned(),
        );
    }
    if matches!(kind.as_str(), "config" | "secret") {
        let flat = context
            .spec
            .data
            .as_object()
            .is_some_and(|data| data.values().all(|value| !value.is_object() && !value.is_array()));
        if !flat {
            wrong.push(format!("spec.data of type `{kind}` must map names to single values"));
        }
    } else if !context.spec.data.is_object() {
        wrong.push("spec.data is required and must be an object".to_owned());
    }
    if kind == crate::ci::registries::TYPE {
        wrong.extend(crate::ci::registries::problem(&context.spec.data));
    }
    let other = Value::Object(context.spec.other.clone());
    if kind == "notification.email"
        && (says_behind_firewall(&other) || says_behind_firewall(&context.spec.data))
    {
        wrong.push(
            "behindFirewall is not there for notification.email: a runner makes calls by HTTP and sends no mail"
                .to_owned(),
        );
    }
    if context.spec.data.to_string().len() > BYTES_MAX {
        wrong.push(format!("spec.data is larger than {BYTES_MAX} bytes"));
    }
    if wrong.is_empty() { Ok(()) } else { Err(ApiError::findings("this context is not valid", &wrong)) }
}

/// From the wire to a row. `old` is what is there already.
pub(crate) fn row(
    server: &Server,
    key: &DataKey,
    caller: &Caller,
    context: Context,
    old: Option<&contexts::Context>,
) -> Result<contexts::Context, ApiError> {
    let scope = caller.scope();
    let id = old.map_or_else(|| server.seams().new_id(), |old| old.id);
    let before = old.and_then(|old| Some((old, unsealed(key, scope, old)?)));
    let data = match &before {
        Some((old, before)) => {
            let sent = Of { kind: &context.spec.kind, data: &context.spec.data };
            let wrong = kept_secrets::problems(sent, Of { kind: &old.kind, data: before });
            if !wrong.is_empty() {
                return Err(ApiError::findings(
                    "secrets would be sent to another host than they were entered for",
                    &wrong,
                ));
            }
            kept_secrets::keep(&context.spec.data, before)
        }
        None => context.spec.data,
    };
    let (visible, secret) = split(&context.spec.kind, &data);
    let mut spec = context.spec.other;
    spec.insert("data".into(), visible);
    if context.metadata.forbid_decrypt || old.is_some_and(|old| shown(old).metadata.forbid_decrypt) {
        // Once forbidden, it stays so: lifting it would be a way to read.
        spec.insert("forbidDecrypt".into(), true.into());
    }
    let now_ms = server.now_ms();
    Ok(contexts::Context {
        id,
        name: context.metadata.name,
        kind: context.spec.kind,
        tags: context.metadata.labels.tags,
        spec: Value::Object(spec).to_string(),
        sealed: secret.map(|secret| key.seal(server.seams(), &place(scope, id), &secret.to_string())),
        owner: old.map_or_else(|| caller.principal.display_name(), |old| old.owner.clone()),
        revision: old.map_or(0, |old| old.revision),
        created_ms: old.map_or(now_ms, |old| old.created_ms),
        updated_ms: now_ms,
    })
}

/// For what keeps contexts under a name of its own.
pub(crate) struct KeptContext<'a> {
    pub(crate) server: &'a Server,
    pub(crate) key: &'a DataKey,
    pub(crate) caller: &'a Caller,
}

impl KeptContext<'_> {
    pub(crate) fn row(
        &self,
        context: Context,
        old: Option<&contexts::Context>,
    ) -> Result<contexts::Context, ApiError> {
        row(self.server, self.key, self.caller, context, old)
    }

    pub(crate) fn opened(&self, row: &contexts::Context) -> Value {
        opened(self.key, self.caller.scope(), row)
    }
}

/// What a build gets of a context: names with values, secret ones marked so that the runner masks them in logs.
pub(crate) fn variables(
    key: &DataKey,
    scope: Scope,
    row: &contexts::Context,
) -> Vec<slipway_api::pipeline::Variable> {
    if !matches!(row.kind.as_str(), "config" | "secret" | "yaml" | "secret-yaml") {
        return Vec::new();
    }
    let opened = unsealed(key, scope, row);
    let encrypted = opened.is_some();
    let mut data = opened.unwrap_or_else(|| shown(row).spec.data);
    // Some clients send YAML as its text.
    if let Value::String(text) = &data
        && let Ok(documents) = slipway_yaml::parse(text, slipway_yaml::Dialect::Pipeline)
    {
        data = documents.first().map(slipway_yaml::Node::to_json).unwrap_or_default();
    }
    let Value::Object(data) = data else { return Vec::new() };
    let text = |value: Value| match value {
        Value::String(text) => text,
        other => other.to_string(),
    };
    data.into_iter()
        .map(|(key, value)| slipway_api::pipeline::Variable { key, value: text(value), encrypted })
        .collect()
}

pub(crate) fn find(
    tx: &mut Tx<'_>,
    caller: &Caller,
    name: &str,
    action: &str,
) -> Result<contexts::Context, ApiError> {
    let found = contexts::by_name(tx, caller.scope(), name)?;
    let row = found.ok_or_else(|| ApiError::not_found(format!("context `{name}`")))?;
    require(tx, caller, action, &row)?;
    Ok(row)
}

/// A run names shared configuration: whoever starts it must be allowed to read it.
pub(crate) fn require_use(tx: &mut Tx<'_>, caller: &Caller, name: &str) -> Result<(), ApiError> {
    find(tx, caller, name, "read").map(drop)
}

/// What a Git context says, secrets and all, for calls that the server makes to the provider.
pub(crate) fn opened(key: &DataKey, scope: Scope, row: &contexts::Context) -> Value {
    unsealed(key, scope, row).unwrap_or_else(|| shown(row).spec.data)
}

/// Names of pipelines that use a context, by their own list or by that of a trigger, a specTemplate or a variable import.
pub(crate) fn used_by(tx: &mut Tx<'_>, scope: Scope, name: &str) -> Result<Vec<String>, ApiError> {
    let mut users = Vec::new();
    for row in pipelines::list(tx, scope)? {
        let body: Value = serde_json::from_str(&row.body).unwrap_or_default();
        if names_context(&body["spec"], name) {
            users.push(format!("`{}`", row.name));
        }
    }
    Ok(users)
}

pub(crate) fn names_context(value: &Value, name: &str) -> bool {
    let is_name = |value: &Value| {
        value.as_str() == Some(name) || value.get("name").and_then(Value::as_str) == Some(name)
    };
    match value {
        Value::Object(map) => map.iter().any(|(key, value)| match key.as_str() {
            "contexts" => value.as_array().is_some_and(|list| list.iter().any(is_name)),
            "context" | "git" => is_name(value) || names_context(value, name),
            _ => names_context(value, name),
        }),
        Value::Array(items) => items.iter().any(|item| names_context(item, name)),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::http::redact::MASK;

    #[test]
    fn what_is_secret_goes_out_and_comes_back() {
        let (visible, secret) = split("secret", &json!({"A": "x"}));
        assert_eq!((visible, secret), (json!({"A": MASK}), Some(json!({"A": "x"}))));
        assert_eq!(split("config", &json!({"A": "x"})), (json!({"A": "x"}), None));
        let git = json!({"auth": {"type": "basic", "password": "tok", "apiHost": "h"}});
        let (visible, secret) = split("git.github", &git);
        assert_eq!(visible, json!({"auth": {"type": "basic", "password": MASK, "apiHost": "h"}}));
        let helm = json!({"variables": {"HELMREPO_USERNAME": "u", "HELMREPO_PASSWORD": "p"}});
        let masked = json!({"variables": {"HELMREPO_USERNAME": "u", "HELMREPO_PASSWORD": MASK}});
        assert_eq!(split("helm-repository", &helm), (masked, Some(helm)));
        assert_eq!(secret, Some(git));
    }

    #[test]
    fn a_pipeline_names_a_context_in_several_ways() {
        for spec in [
            json!({"contexts": ["c"]}),
            json!({"contexts": [{"name": "c"}]}),
            json!({"specTemplate": {"context": "c"}}),
            json!({"triggers": [{"context": "c"}]}),
        ] {
            assert!(names_context(&spec, "c"), "{spec}");
        }
        assert!(!names_context(&json!({"variables": [{"key": "c", "value": "c"}]}), "c"));
    }
}
