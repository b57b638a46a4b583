//! Scripts in Lua that people who are not trusted wrote.
//!
//! Comes in: a script, values for its globals, and the time. Goes out: what it returned ([`Answer`]), or why it did not. A
//! script gets what it is given, tables, strings, mathematics, `os.time` and `os.date`, and nothing else: no files, no
//! modules, no code loading, no `pcall` (it would swallow the limit), 16 MiB and ten million instructions. Pattern matching
//! runs inside one instruction, so a shell that does not trust its administrators gives a deadline too. What a script is for
//! is not known here.

use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;
use mlua::{HookTriggers, Lua, LuaOptions, LuaSerdeExt, StdLib, Table, Value as LuaValue, VmState};
use serde_json::Value;

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

/// Runs a script. `name` is what its errors call it.
pub fn run(name: &str, script: &str, given: &[(&str, &Value)], now: Timestamp) -> Result<Answer, LuaError> {
    let lua = machine(given, now)?;
    let value = lua.load(script).set_name(name).eval::<LuaValue>()?;
    Ok(Answer { lua, value })
}

/// What a script returned.
pub struct Answer {
    lua: Lua,
    value: LuaValue,
}

impl Answer {
    /// A field of a table; `None` where it is not there, or where the answer is no table.
    pub fn text(&self, field: &str) -> Result<Option<String>, LuaError> {
        Ok(self.table().map(|table| table.get::<Option<String>>(field)).transpose()?.flatten())
    }

    pub fn flag(&self, field: &str) -> Result<Option<bool>, LuaError> {
        Ok(self.table().map(|table| table.get::<Option<bool>>(field)).transpose()?.flatten())
    }

    /// The tables of the list in a field.
    pub fn list(&self, field: &str) -> Result<Vec<Self>, LuaError> {
        let list = self.table().map(|table| table.get::<Option<Table>>(field)).transpose()?.flatten();
        let tables = list.into_iter().flat_map(|list| list.sequence_values::<Table>().collect::<Vec<_>>());
        tables.map(|table| Ok(self.of(table?))).collect()
    }

    /// The entries of a table of tables.
    pub fn entries(&self) -> Result<Vec<(String, Self)>, LuaError> {
        let pairs = self.table().into_iter().flat_map(|table| table.pairs::<String, Table>());
        pairs.map(|pair| pair.map(|(name, table)| (name, self.of(table))).map_err(LuaError::from)).collect()
    }

    pub fn is_table(&self) -> bool {
        self.table().is_some()
    }

    /// As JSON; see [`restored`].
    pub fn json(&self) -> Result<Value, LuaError> {
        Ok(self.lua.from_value(self.value.clone())?)
    }

    fn table(&self) -> Option<&Table> {
        self.value.as_table()
    }

    fn of(&self, table: Table) -> Self {
        Self { lua: self.lua.clone(), value: LuaValue::Table(table) }
    }
}

/// A machine with these globals and nothing that reaches out.
fn machine(given: &[(&str, &Value)], now: Timestamp) -> Result<Lua, LuaError> {
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
    for (name, value) in given {
        globals.set(*name, lua.to_value_with(value, options)?)?;
    }
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
pub fn restored(value: &Value, source: Option<&Value>) -> Value {
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
                .map(|(index, item)| restored(item, source.and_then(|s| s.get(index))))
                .collect(),
        ),
        Value::Object(map) => Value::Object(
            map.iter()
                .map(|(key, item)| (key.clone(), restored(item, source.and_then(|s| s.get(key)))))
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

    fn returned(script: &str, object: Value) -> Result<Value, LuaError> {
        run("test.lua", script, &[("obj", &object)], now())?.json()
    }

    #[test]
    fn old_scripts_run() {
        // null is nil, goto and table.getn are there.
        let old = "if obj.a ~= nil then return false end\nfor i = 1, 2 do if i == 1 then goto next end\n::next:: end\nreturn table.getn(obj.list) == 2";
        assert_eq!(returned(old, json!({"a": null, "list": [1, 2]})).expect("runs"), true);
    }

    #[test]
    fn time_is_what_was_given() {
        let script = "if os.date('!%Y-%m-%dT%H:%M:%SZ') == '2026-01-02T03:04:05Z' and os.time() - os.time({year='2026', month='1', day='2', hour='3', min='4', sec='0'}) == 5 and require('os') == os then return true end";
        assert_eq!(returned(script, json!({})).expect("runs"), true);
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
            assert!(returned(script, json!({})).is_err(), "{script}");
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
            assert!(returned(script, json!({})).is_err(), "{script}");
        }
    }

    #[test]
    fn an_answer_is_read_by_field() {
        let script = "return {scale = {disabled = true, title = 'Scale', params = {{name = 'replicas'}}}}";
        let answer = run("test.lua", script, &[], now()).expect("runs");
        let (name, entry) = answer.entries().expect("tables").remove(0);
        assert_eq!(
            (name.as_str(), entry.text("title").expect("a text").as_deref()),
            ("scale", Some("Scale"))
        );
        assert_eq!(
            (entry.flag("disabled").expect("a flag"), entry.flag("other").expect("nothing")),
            (Some(true), None)
        );
        let list = entry.list("params").expect("a list");
        assert_eq!(list[0].text("name").expect("a text").as_deref(), Some("replicas"));
        let number = run("test.lua", "return 5", &[], now()).expect("runs");
        assert!(!number.is_table() && number.text("x").expect("nothing").is_none());
    }

    #[test]
    fn what_lua_cannot_tell_apart_is_restored() {
        let before = json!({"n": 1, "list": [], "map": {}, "in": [{"map": {}}]});
        let after = returned("obj.n = obj.n + 1.0 return obj", before.clone()).expect("runs");
        let expected = json!({"n": 2, "list": [], "map": {}, "in": [{"map": {}}]});
        assert_eq!(restored(&after, Some(&before)), expected);
    }
}
