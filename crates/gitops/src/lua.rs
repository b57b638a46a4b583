//! Health checks and actions in Lua, as `argocd-cm` holds them.
//!
//! Comes in: a script, an object and the time. Goes out: a health, the actions that fit, or what an action changes.
//! A script gets the object as `obj`, tables, strings, mathematics, `os.time` and `os.date`, and nothing else: no files,
//! no modules, no code loading, no `pcall` (it would swallow the limit), 16 MiB and ten million instructions. Pattern
//! matching runs inside one instruction, so a shell that does not trust its administrators gives a deadline too.

use crate::actions::{ActionInfo, Impact};
use crate::health::{Health, HealthCode};
use jiff::Timestamp;
use mlua::{HookTriggers, Lua, LuaOptions, LuaSerdeExt, StdLib, Table, Value as LuaValue, VmState};
use serde_json::Value;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};

const MEMORY_BYTES_MAX: usize = 16 << 20;
const INSTRUCTIONS_MAX: u64 = 10_000_000;
const INSTRUCTIONS_PER_CHECK: u32 = 10_000;
/// Globals of the base library that a script has no business with.
const REMOVED: &[&str] = &[
    "load",
    "loadstring",
    "loadfile",
    "dofile",
    "collectgarbage",
    "print",
    "pcall",
    "xpcall",
    "rawset",
    "module",
];

/// Why a script gave no answer.
#[derive(Debug, thiserror::Error)]
pub enum LuaError {
    #[error("the Lua script failed: {0}")]
    Script(String),
    #[error("the Lua script returned {0}")]
    Answer(String),
}

impl From<mlua::Error> for LuaError {
    fn from(error: mlua::Error) -> Self {
        // The first line says what went wrong; the rest is a trace through our own frames.
        Self::Script(error.to_string().lines().next().unwrap_or_default().to_string())
    }
}

/// Runs a health script. None: the script says that the object has no health.
pub fn health(script: &str, object: &Value, now: Timestamp) -> Result<Option<Health>, LuaError> {
    let lua = machine(object, &BTreeMap::new(), now)?;
    let LuaValue::Table(answer) = lua.load(script).set_name("health.lua").eval::<LuaValue>()? else {
        return Ok(None);
    };
    let status: Option<String> = answer.get("status")?;
    let message: Option<String> = answer.get("message")?;
    Ok(Some(match status.as_deref().map(HealthCode::parse) {
        Some(Some(code)) => Health::new(code, message.unwrap_or_default()),
        _ => Health::new(HealthCode::Unknown, "Lua returned an invalid health status"),
    }))
}

/// Runs a discovery script.
pub fn discover(script: &str, object: &Value, now: Timestamp) -> Result<Vec<ActionInfo>, LuaError> {
    let lua = machine(object, &BTreeMap::new(), now)?;
    let LuaValue::Table(answer) = lua.load(script).set_name("discovery.lua").eval::<LuaValue>()? else {
        return Ok(Vec::new());
    };
    let mut actions = Vec::new();
    for pair in answer.pairs::<String, Table>() {
        let (name, info) = pair?;
        let mut parameters = Vec::new();
        if let Some(list) = info.get::<Option<Table>>("params")? {
            for one in list.sequence_values::<Table>() {
                parameters.push(one?.get::<Option<String>>("name")?.unwrap_or_default());
            }
        }
        actions.push(ActionInfo {
            name,
            disabled: info.get::<Option<bool>>("disabled")?.unwrap_or(false),
            display_name: info.get::<Option<String>>("displayName")?.unwrap_or_default(),
            icon_class: info.get::<Option<String>>("iconClass")?.unwrap_or_default(),
            parameters,
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
    let lua = machine(object, parameters, now)?;
    let answer = lua.load(script).set_name("action.lua").eval::<LuaValue>()?;
    let answer: Value = lua.from_value(answer)?;
    match answer {
        Value::Array(list) => list.iter().map(|entry| impact(entry, object)).collect(),
        Value::Object(_) => Ok(vec![Impact::Patch(cleaned(&answer, Some(object)))]),
        other => Err(LuaError::Answer(format!("{other} instead of an object"))),
    }
}

fn impact(entry: &Value, source: &Value) -> Result<Impact, LuaError> {
    let resource =
        entry.get("resource").ok_or_else(|| LuaError::Answer("an entry without `resource`".into()))?;
    match entry.get("operation").and_then(Value::as_str) {
        Some("create") => Ok(Impact::Create(cleaned(resource, Some(source)))),
        Some("patch") => Ok(Impact::Patch(cleaned(resource, Some(source)))),
        other => Err(LuaError::Answer(format!("the operation {other:?}; use create or patch"))),
    }
}

/// A machine with the object in it and nothing that reaches out.
fn machine(object: &Value, parameters: &BTreeMap<String, String>, now: Timestamp) -> Result<Lua, LuaError> {
    let lua = Lua::new_with(StdLib::TABLE | StdLib::STRING | StdLib::MATH, LuaOptions::default())?;
    lua.set_memory_limit(MEMORY_BYTES_MAX)?;
    let spent = AtomicU64::new(0);
    let triggers = HookTriggers::new().every_nth_instruction(INSTRUCTIONS_PER_CHECK);
    lua.set_hook(triggers, move |_, _| {
        let so_far = spent.fetch_add(u64::from(INSTRUCTIONS_PER_CHECK), Ordering::Relaxed);
        if so_far > INSTRUCTIONS_MAX {
            return Err(mlua::Error::runtime("it needs too many instructions"));
        }
        Ok(VmState::Continue)
    })?;
    let globals = lua.globals();
    for name in REMOVED {
        globals.set(*name, LuaValue::Nil)?;
    }
    let os = clock(&lua, now)?;
    let required = os.clone();
    globals.set(
        "require",
        lua.create_function(move |_, name: String| match name.as_str() {
            "os" => Ok(required.clone()),
            other => Err(mlua::Error::runtime(format!("module {other} is not available"))),
        })?,
    )?;
    globals.set("os", os)?;
    // Lua 5.1 had these, and scripts of that time use them.
    globals.get::<Table>("table")?.set("getn", lua.create_function(|_, list: Table| Ok(list.raw_len()))?)?;
    let unpack: LuaValue = globals.get::<Table>("table")?.get("unpack")?;
    globals.set("unpack", unpack)?;
    let options =
        mlua::serde::ser::Options::new().serialize_none_to_null(false).serialize_unit_to_null(false);
    globals.set("obj", lua.to_value_with(object, options)?)?;
    globals.set("actionParams", lua.to_value_with(parameters, options)?)?;
    Ok(lua)
}

/// `os.time` and `os.date` of the time that was given; in UTC, as the controller runs.
fn clock(lua: &Lua, now: Timestamp) -> Result<Table, LuaError> {
    let os = lua.create_table()?;
    os.set(
        "time",
        lua.create_function(move |_, fields: Option<Table>| {
            let Some(fields) = fields else { return Ok(now.as_second()) };
            let part = |name: &str, default: i64| -> mlua::Result<i64> {
                Ok(match fields.get::<LuaValue>(name)? {
                    LuaValue::Integer(number) => number,
                    LuaValue::Number(number) => number as i64,
                    LuaValue::String(text) => text.to_string_lossy().trim().parse().unwrap_or(default),
                    _ => default,
                })
            };
            let (year, month, day) = (part("year", 1970)?, part("month", 1)?, part("day", 1)?);
            let date = jiff::civil::Date::new(year as i16, month as i8, day as i8)
                .map_err(|error| mlua::Error::runtime(error.to_string()))?;
            let midnight = date
                .to_zoned(jiff::tz::TimeZone::UTC)
                .map_err(|error| mlua::Error::runtime(error.to_string()))?
                .timestamp()
                .as_second();
            Ok(midnight + part("hour", 12)? * 3600 + part("min", 0)? * 60 + part("sec", 0)?)
        })?,
    )?;
    os.set(
        "date",
        lua.create_function(move |_, (format, at): (Option<String>, Option<f64>)| {
            let format = format.unwrap_or_else(|| "%c".into());
            let at = match at {
                Some(seconds) => {
                    Timestamp::from_second(seconds as i64).map_err(|e| mlua::Error::runtime(e.to_string()))?
                }
                None => now,
            };
            let zoned = at.to_zoned(jiff::tz::TimeZone::UTC);
            jiff::fmt::strtime::format(format.trim_start_matches('!'), &zoned)
                .map_err(|error| mlua::Error::runtime(error.to_string()))
        })?,
    )?;
    Ok(os)
}

/// Lua has one kind of number and one kind of table: whole numbers become such again, and an empty table becomes what it
/// was in the source object.
fn cleaned(value: &Value, source: Option<&Value>) -> Value {
    match value {
        Value::Number(number) => match number.as_f64() {
            Some(float) if number.as_i64().is_none() && float.fract() == 0.0 && float.abs() < 9e15 => {
                (float as i64).into()
            }
            _ => value.clone(),
        },
        Value::Array(list) if list.is_empty() && source.is_some_and(Value::is_object) => {
            Value::Object(Default::default())
        }
        Value::Object(map) if map.is_empty() && source.is_some_and(Value::is_array) => {
            Value::Array(Vec::new())
        }
        Value::Array(list) => Value::Array(
            list.iter()
                .enumerate()
                .map(|(index, item)| cleaned(item, source.and_then(|s| s.get(index))))
                .collect(),
        ),
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, item)| (key.clone(), cleaned(item, source.and_then(|s| s.get(key)))))
                .collect(),
        ),
        other => other.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn now() -> Timestamp {
        "2026-01-02T03:04:05Z".parse().expect("a time")
    }

    fn run(script: &str, object: Value) -> Result<Option<Health>, LuaError> {
        health(script, &object, now())
    }

    #[test]
    fn a_script_judges() {
        let script = "local hs = {}\nfor i, c in ipairs(obj.status.conditions) do\n if c.status == 'False' then hs.status = 'Degraded'; hs.message = c.message; return hs end\nend\nhs.status = 'Healthy'\nreturn hs";
        let with = |status: &str| json!({"status": {"conditions": [{"status": status, "message": "no"}]}});
        let bad = run(script, with("False")).expect("runs").expect("a health");
        assert_eq!((bad.status, bad.message.as_str()), (HealthCode::Degraded, "no"));
        assert_eq!(run(script, with("True")).expect("runs").expect("a health").status, HealthCode::Healthy);
        assert_eq!(run("return nil", json!({})).expect("runs"), None);
        let odd = run("return {status = 'Fine'}", json!({})).expect("runs").expect("a health");
        assert_eq!(
            (odd.status, odd.message.as_str()),
            (HealthCode::Unknown, "Lua returned an invalid health status")
        );
        assert!(run("return obj.status.missing.field", json!({"status": {}})).is_err());
        // null is nil, goto and table.getn are there.
        let old = "if obj.a ~= nil then return {status = 'Degraded'} end\nfor i = 1, 2 do if i == 1 then goto next end\n::next:: end\nif table.getn(obj.list) == 2 then return {status = 'Healthy'} end";
        assert_eq!(
            run(old, json!({"a": null, "list": [1, 2]})).expect("runs").expect("a health").status,
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
    fn time_is_what_was_given() {
        let script = "if os.date('!%Y-%m-%dT%H:%M:%SZ') == '2026-01-02T03:04:05Z' and os.time() - os.time({year='2026', month='1', day='2', hour='3', min='4', sec='0'}) == 5 and require('os') == os then return {status='Healthy'} end";
        assert_eq!(run(script, json!({})).expect("runs").expect("a health").status, HealthCode::Healthy);
    }

    #[test]
    fn nothing_can_be_reached() {
        for script in [
            "return io.open('/etc/passwd')",
            "return os.execute('id')",
            "return os.getenv('PATH')",
            "return require('io')",
            "return load('return 1')",
            "return loadstring('return 1')",
            "return dofile('/x')",
            "return debug.getinfo(1)",
            "return package.path",
            "return coroutine.create(print)",
            "return pcall(error)",
        ] {
            assert!(run(script, json!({})).is_err(), "{script}");
        }
    }

    #[test]
    fn a_hostile_script_ends() {
        for script in [
            "while true do end",
            "local s = ('x'):rep(1e9)",
            "local t = {} while true do t[#t + 1] = ('x'):rep(1000) end",
            "local function f() return f() end return f()",
            "local function f() return 1 + f() end return f()",
        ] {
            assert!(run(script, json!({})).is_err(), "{script}");
        }
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
