use serde_json::{Map, Value, json};

use super::{DEPTH_MAX, EXPRESSION_CHARS_MAX, JsRegex, check, evaluate};

fn scope() -> Map<String, Value> {
    let scope = json!({
        "branch": "main",
        "empty": "",
        "count": 3,
        "nothing": null,
        "list": [1],
        "steps": {"build": {"result": "success", "nested": {"deep": true}}},
        "my-step": {"result": "failure"},
    });
    scope.as_object().cloned().unwrap_or_default()
}

#[track_caller]
fn holds(expression: &str) {
    assert_eq!(evaluate(expression, &scope()), Ok(true), "{expression}");
}

#[track_caller]
fn fails(expression: &str) {
    assert_eq!(evaluate(expression, &scope()), Ok(false), "{expression}");
}

#[track_caller]
fn invalid(expression: &str, column: usize, part: &str) {
    let error = evaluate(expression, &scope()).expect_err(expression);
    assert_eq!(error.column, column, "{expression}: {error}");
    assert!(error.reason.contains(part), "{expression}: {error}");
}

#[test]
fn literals_have_javascript_truth() {
    holds("7");
    holds("'text'");
    holds(".5");
    fails("0.0");
    fails("''");
    fails("null");
    fails("");
    fails("  ");
    holds("1;");
}

#[test]
fn operators_bind_as_in_javascript() {
    holds("1 + 2 * 3 == 7");
    holds("(1 + 2) * 3 == 9");
    holds("10 - 3 - 2 == 5");
    holds("1 < 2 == true");
    holds("true || false && false");
    holds("!false && true");
    holds("-2 + 5 == 3");
}

#[test]
fn both_sides_of_a_logical_operator_are_evaluated() {
    invalid("true || missing", 9, "no variable `missing`");
    invalid("false && 1", 7, "cannot work on a boolean and a number");
}

#[test]
fn members_are_own_members_only() {
    holds("steps.build.result == 'success'");
    holds("steps.build.nested.deep");
    invalid("steps.build.toString", 13, "no member `toString`");
    invalid("branch.size", 8, "has no member");
    holds("branch.length == 4");
    invalid("'text'.length", 7, "is not expected");
    invalid("steps", 1, "is an object");
    invalid("list", 1, "is a list");
    holds("Variable('my-step').result == 'failure'");
    holds("Member(steps.build, 'result') == 'success'");
    invalid("Member('my-step', 'result')", 1, "cannot take (string, string)");
}

#[test]
fn kinds_are_never_converted() {
    invalid("branch == 1", 8, "convert with");
    invalid("count == null", 7, "cannot work on");
    fails("branch == null");
    holds("steps.build != null");
    invalid("+true", 1, "a sign takes a number");
    invalid("!'a'", 1, "takes a number or a boolean");
}

#[test]
fn numbers_without_a_finite_result_are_errors() {
    invalid("1 / 0", 3, "no finite result");
    invalid("1 % 0", 3, "no finite result");
    fails("0 / 0");
    invalid("Number('Infinity')", 1, "not a number");
    invalid("1.79E+308 * 10", 11, "no finite result");
}

#[test]
fn functions_are_strict() {
    holds("String(0) == '0'");
    holds("String(1e21) == '1e+21'");
    holds("Number(' 0x10 ') == 16");
    holds("Number('') == 0");
    invalid("Number('inf')", 1, "not a number");
    holds("round(0 - 1.5) == 0 - 1");
    holds("replace('aaa', 'a', 'b') == 'baa'");
    holds("substring('hello', 1, 3) == 'el'");
    holds("substring('hello', 3, 1) == 'lo'");
    holds("substring('hello', -3, 2) == 'he'");
    holds("length('h\u{e9}\u{1F600}') == 4");
    holds("indexOf('team', 'x') == -1");
    invalid("lower('a', 'b')", 1, "takes 1 argument, not 2");
    invalid("Lower('a')", 1, "did you mean `lower`?");
    invalid("branch.lower('a')", 13, "only the functions");
}

#[test]
fn what_is_not_in_the_language_is_named() {
    invalid("a === b", 3, "write `==`");
    invalid("`text`", 1, "backticks");
    invalid("steps['build']", 6, "square brackets");
    invalid("true ? 1 : 2", 6, "`? :`");
    invalid("branch = 'main'", 8, "write `==`");
    invalid("this", 1, "`this`");
    invalid("hello there", 7, "side by side");
    invalid("'open", 1, "no closing '");
    invalid("1 +", 4, "a value is missing");
    invalid("1.2.3", 4, "only one `.`");
    invalid("branch.", 8, "member name is missing");
}

#[test]
fn long_and_deep_expressions_are_refused_and_wide_ones_are_not() {
    let long = "1 ".repeat(EXPRESSION_CHARS_MAX);
    assert!(evaluate(&long, &scope()).is_err());
    let deep = format!("{}1{}", "(".repeat(DEPTH_MAX + 1), ")".repeat(DEPTH_MAX + 1));
    let error = evaluate(&deep, &scope()).expect_err("too deep");
    assert!(error.reason.contains("nested deeper"), "{error}");
    let signs = format!("{}true", "!".repeat(EXPRESSION_CHARS_MAX - 4));
    assert!(evaluate(&signs, &scope()).is_err());
    let wide = vec!["1"; 3_000].join(" + ");
    assert_eq!(evaluate(&wide, &scope()), Ok(true));
}

#[test]
fn text_that_grows_without_end_is_stopped() {
    let mut scope = scope();
    scope.insert("big".to_owned(), Value::String("x".repeat(600_000)));
    let error = evaluate("length(big + big) > 0", &scope).expect_err("too long");
    assert!(error.reason.contains("grows past"), "{error}");
}

#[test]
fn patterns_read_as_javascript_reads_them() {
    let matches = |pattern: &str, text: &str| {
        JsRegex::new(pattern, false).map(|regex| regex.is_match(text)).map_err(|reason| reason.to_string())
    };
    assert_eq!(matches(r"^\d{2,}$", "12"), Ok(true));
    assert_eq!(matches(r"^\d$", "\u{0663}"), Ok(false), "only ASCII digits");
    assert_eq!(matches("a{b}", "a{b}"), Ok(true));
    assert_eq!(matches("[[]x", "[x"), Ok(true));
    assert_eq!(matches("a[^]c", "a\nc"), Ok(true));
    assert_eq!(matches(r"feature\/x", "feature/x"), Ok(true));
    assert_eq!(matches(r"\bfix\b", "a fix b"), Ok(true));
    assert_eq!(matches(r"^[\w.-]+$", "a.b-c_d"), Ok(true));
    assert!(matches("(?=x)", "x").is_err_and(|reason| reason.contains("look-around")));
    assert!(matches(r"(a)\1", "aa").is_err_and(|reason| reason.contains("back-reference")));
    assert!(matches("(", "").is_err());
}

#[test]
fn catastrophic_patterns_stay_linear() {
    let regex = JsRegex::new("^(a+)+$", false).expect("compiles");
    assert!(!regex.is_match(&format!("{}b", "a".repeat(50_000))));
    assert!(JsRegex::new("(x{1000}){1000}", false).is_err(), "too large to compile");
}

#[test]
fn regex_literals_carry_flags() {
    let literal = |text: &str| JsRegex::literal(text).map(|regex| regex.expect("compiles"));
    assert!(literal("/^FB-/i").is_some_and(|regex| regex.is_match("fb-1")));
    assert!(literal("/^FB-/").is_some_and(|regex| !regex.is_match("fb-1")));
    assert!(literal("main").is_none());
    assert!(literal("/a/b").is_none(), "b is no flag, so this is a name");
}

#[test]
fn checking_lists_what_is_read_without_needing_values() {
    let references = check("steps.build.result == 'x' && missing").expect("parses");
    let paths: Vec<String> = references.iter().map(|reference| reference.path.join(".")).collect();
    assert_eq!(paths, ["steps.build.result", "missing"]);
    assert!(check("unknown(1)").is_err());
}
