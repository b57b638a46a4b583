//! Health checks and actions in Lua, as `argocd-cm` holds them.
//!
//! Comes in: a script, an object and the time. Goes out: a health, the actions that fit, or what an action changes. A script
//! has the object as `obj` and its parameters as `actionParams`; what it may do is said in `dialect::lua`.

use crate::actions::{ActionInfo, Impact};
use crate::health::{Health, HealthCode};
use jiff::Timestamp;
use serde_json::Value;
use slipway_dialect::lua::{LuaError, restored, run};
use std::collections::BTreeMap;

/// Runs a health script. None: the script says that the object has no health.
pub fn health(script: &str, object: &Value, now: Timestamp) -> Result<Option<Health>, LuaError> {
    let answer = run("health.lua", script, &given(object, &no_parameters()), now)?;
    if !answer.is_table() {
        return Ok(None);
    }
    let (status, message) = (answer.text("status")?, answer.text("message")?);
    Ok(Some(match status.as_deref().map(HealthCode::parse) {
        Some(Some(code)) => Health::new(code, message.unwrap_or_default()),
        _ => Health::new(HealthCode::Unknown, "Lua returned an invalid health status"),
    }))
}

/// Runs a discovery script.
pub fn discover(script: &str, object: &Value, now: Timestamp) -> Result<Vec<ActionInfo>, LuaError> {
    let answer = run("discovery.lua", script, &given(object, &no_parameters()), now)?;
    let mut actions = Vec::new();
    for (name, info) in answer.entries()? {
        let parameters = info.list("params")?;
        let parameters = parameters.iter().map(|one| Ok(one.text("name")?.unwrap_or_default()));
        actions.push(ActionInfo {
            name,
            disabled: info.flag("disabled")?.unwrap_or(false),
            display_name: info.text("displayName")?.unwrap_or_default(),
            icon_class: info.text("iconClass")?.unwrap_or_default(),
            parameters: parameters.collect::<Result<_, LuaError>>()?,
        });
    }
    actions.sort_by(|a, b| a.name.cmp(&b.name));
    Ok(actions)
}

/// Runs an action: the script returns the changed object, or a list of `{operation, resource}`.
pub fn run_action(
    script: &str,
    object: &Value,
    parameters: &BTreeMap<String, String>,
    now: Timestamp,
) -> Result<Vec<Impact>, LuaError> {
    let parameters: Value = parameters.iter().map(|(name, value)| (name.clone(), value.clone())).collect();
    let answer = run("action.lua", script, &given(object, &parameters), now)?.json()?;
    match answer {
        Value::Array(list) => list.iter().map(|entry| impact(entry, object)).collect(),
        Value::Object(_) => Ok(vec![Impact::Patch(restored(&answer, Some(object)))]),
        other => Err(LuaError::Answer(format!("{other} instead of an object"))),
    }
}

/// The globals of every script.
fn given<'a>(object: &'a Value, parameters: &'a Value) -> [(&'static str, &'a Value); 2] {
    [("obj", object), ("actionParams", parameters)]
}

fn no_parameters() -> Value {
    Value::Object(Default::default())
}

fn impact(entry: &Value, source: &Value) -> Result<Impact, LuaError> {
    let resource =
        entry.get("resource").ok_or_else(|| LuaError::Answer("an entry without `resource`".into()))?;
    match entry.get("operation").and_then(Value::as_str) {
        Some("create") => Ok(Impact::Create(restored(resource, Some(source)))),
        Some("patch") => Ok(Impact::Patch(restored(resource, Some(source)))),
        other => Err(LuaError::Answer(format!("the operation {other:?}; use create or patch"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn now() -> Timestamp {
        "2026-01-02T03:04:05Z".parse().expect("a time")
    }

    fn judged(script: &str, object: Value) -> Result<Option<Health>, LuaError> {
        health(script, &object, now())
    }

    #[test]
    fn a_script_judges() {
        let script = "local hs = {}\nfor i, c in ipairs(obj.status.conditions) do\n if c.status == 'False' then hs.status = 'Degraded'; hs.message = c.message; return hs end\nend\nhs.status = 'Healthy'\nreturn hs";
        let with = |status: &str| json!({"status": {"conditions": [{"status": status, "message": "no"}]}});
        let bad = judged(script, with("False")).expect("runs").expect("a health");
        assert_eq!((bad.status, bad.message.as_str()), (HealthCode::Degraded, "no"));
        assert_eq!(
            judged(script, with("True")).expect("runs").expect("a health").status,
            HealthCode::Healthy
        );
        assert_eq!(judged("return nil", json!({})).expect("runs"), None);
        let odd = judged("return {status = 'Fine'}", json!({})).expect("runs").expect("a health");
        assert_eq!(
            (odd.status, odd.message.as_str()),
            (HealthCode::Unknown, "Lua returned an invalid health status")
        );
        assert!(judged("return obj.status.missing.field", json!({"status": {}})).is_err());
        // null is nil, goto and table.getn are there.
        let old = "if obj.a ~= nil then return {status = 'Degraded'} end\nfor i = 1, 2 do if i == 1 then goto next end\n::next:: end\nif table.getn(obj.list) == 2 then return {status = 'Healthy'} end";
        assert_eq!(
            judged(old, json!({"a": null, "list": [1, 2]})).expect("runs").expect("a health").status,
            HealthCode::Healthy
        );
    }

    #[test]
    fn the_installation_comes_before_our_rules() {
        let (settings, _) = crate::settings::from_config_map(
            &[(
                "resource.customizations.health.Service".to_string(),
                "return {status = 'Degraded', message = 'by script'}".to_string(),
            )]
            .into(),
            "argocd",
        );
        let service = json!({"apiVersion": "v1", "kind": "Service", "metadata": {"name": "s"}});
        let health = crate::health::assess_with(&service, &settings, now()).expect("a health");
        assert_eq!((health.status, health.reason.as_str()), (HealthCode::Degraded, "custom health script"));
        let pod = json!({"apiVersion": "v1", "kind": "Pod", "metadata": {"name": "p"}, "status": {"phase": "Succeeded"}});
        assert_eq!(
            crate::health::assess_with(&pod, &settings, now()).expect("a health").status,
            HealthCode::Healthy
        );
    }

    #[test]
    fn actions_are_found_and_run() {
        let found = discover("return {restart = {disabled = false}, scale = {disabled = true, displayName = 'Scale', params = {{name = 'replicas'}}}}", &json!({}), now()).expect("runs");
        let names: Vec<_> = found.iter().map(|a| (a.name.as_str(), a.disabled, a.parameters.len())).collect();
        assert_eq!(names, [("restart", false, 0), ("scale", true, 1)]);
        let object = json!({"kind": "Deployment", "spec": {"replicas": 1, "empty": [], "none": {}}});
        let parameters = [("replicas".to_string(), "3".to_string())].into();
        let changed = run_action(
            "obj.spec.replicas = tonumber(actionParams['replicas'])\nreturn obj",
            &object,
            &parameters,
            now(),
        )
        .expect("runs");
        assert_eq!(
            changed,
            [Impact::Patch(json!({"kind": "Deployment", "spec": {"replicas": 3, "empty": [], "none": {}}}))]
        );
        let made = run_action(
            "return {{operation = 'create', resource = {kind = 'Job', spec = {n = 2}}}}",
            &object,
            &BTreeMap::new(),
            now(),
        )
        .expect("runs");
        assert_eq!(made, [Impact::Create(json!({"kind": "Job", "spec": {"n": 2}}))]);
        assert!(run_action("return 5", &object, &BTreeMap::new(), now()).is_err());
        assert!(
            run_action("return {{operation = 'delete', resource = {}}}", &object, &BTreeMap::new(), now())
                .is_err()
        );
    }
}
