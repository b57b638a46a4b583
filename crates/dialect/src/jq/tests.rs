use super::*;
use serde_json::json;

fn object() -> Value {
    json!({
        "metadata": {"annotations": {"a/b": "1", "keep": "2"}},
        "spec": {
            "replicas": 3,
            "containers": [
                {"name": "app", "image": "app:1", "env": [{"name": "A", "value": "1"}, {"name": "B"}]},
                {"name": "side-car", "image": "istio/proxy:2", "env": []},
            ],
            "deep": {"x": {"secret": 1}, "y": [{"secret": 2}]},
        },
    })
}

#[track_caller]
fn check(expression: &str, change: impl FnOnce(&mut Value)) {
    let (mut ours, mut expected) = (object(), object());
    change(&mut expected);
    JqPath::parse(expression).expect("readable").delete_from(&mut ours).expect("runs");
    assert_eq!(ours, expected, "{expression}");
}

fn remove(value: &mut Value, pointer: &str, field: &str) {
    value.pointer_mut(pointer).and_then(Value::as_object_mut).expect("there").remove(field);
}

#[test]
fn places_are_taken_out() {
    check(".spec.replicas", |o| remove(o, "/spec", "replicas"));
    check(".metadata.annotations[\"a/b\"]", |o| remove(o, "/metadata/annotations", "a/b"));
    check(".metadata.annotations.\"a/b\"", |o| remove(o, "/metadata/annotations", "a/b"));
    check(".spec.missing.deeper", |_| {});
    check(".spec.containers[].image", |o| {
        remove(o, "/spec/containers/0", "image");
        remove(o, "/spec/containers/1", "image");
    });
    check(".spec.containers[1]", |o| {
        o["spec"]["containers"].as_array_mut().expect("a list").remove(1);
    });
    check(".spec.containers[-1].image", |o| remove(o, "/spec/containers/1", "image"));
    check(".spec.containers[0, 1]", |o| o["spec"]["containers"] = json!([]));
    check(".spec.replicas, .metadata", |o| {
        remove(o, "/spec", "replicas");
        remove(o, "", "metadata");
    });
}

#[test]
fn conditions_choose() {
    let without_sidecar = |o: &mut Value| {
        o["spec"]["containers"].as_array_mut().expect("a list").remove(1);
    };
    for expression in [
        ".spec.containers[] | select(.name == \"side-car\")",
        ".spec.containers[] | select(.name != \"app\")",
        ".spec.containers[] | select(.image | test(\"^istio/\"))",
        ".spec.containers[] | select(.image | test(\"^ISTIO/\"; \"i\"))",
        ".spec.containers[] | select(.name | startswith(\"side\") and endswith(\"car\"))",
        ".spec.containers[] | select((.env | length) == 0)",
        ".spec.containers[] | select(.env | length == 0 and true)",
        ".spec.containers[] | select(.name | contains(\"-\"))",
        ".spec.containers[] | select([.env[].name] | index(\"A\") | not)",
        ".spec.containers[] | select(if .name == \"app\" then false else true end)",
        ".spec.containers[] | select(.missing // .name | test(\"car\"))",
    ] {
        check(expression, without_sidecar);
    }
    check(".spec.containers[].env[] | select(has(\"value\") | not)", |o| {
        o["spec"]["containers"][0]["env"].as_array_mut().expect("a list").remove(1);
    });
}

#[test]
fn everything_below_can_be_looked_at() {
    check(".. | .secret?", |o| {
        remove(o, "/spec/deep/x", "secret");
        remove(o, "/spec/deep/y/0", "secret");
    });
    check(".spec.deep | recurse | objects | .secret", |o| {
        remove(o, "/spec/deep/x", "secret");
        remove(o, "/spec/deep/y/0", "secret");
    });
}

#[test]
fn an_error_leaves_the_object_alone() {
    for expression in [
        ".spec.replicas.deeper",
        ".spec.nothing[]",
        ".spec.replicas[]",
        "1 + 1",
        "\"text\"",
        ".spec.containers | length",
        ".spec | test(\"a\")",
    ] {
        let mut ours = object();
        let result = JqPath::parse(expression).expect("readable").delete_from(&mut ours);
        assert!(result.is_err(), "{expression}");
        assert_eq!(ours, object(), "{expression}");
        // With `?` it names nothing.
        let quiet = JqPath::parse(&format!("({expression})?")).expect("readable");
        let _ = quiet.delete_from(&mut ours);
        assert_eq!(ours, object(), "{expression}");
    }
}

#[test]
fn what_is_not_supported_is_refused_by_name() {
    for (expression, word) in [
        ("env", "env"),
        ("$ENV.PATH", "$"),
        (".a | halt", "halt"),
        ("input", "input"),
        ("def f: f; f", "def"),
        ("reduce .[] as $x (0; .)", "reduce"),
        ("[limit(3; repeat(.))]", "repeat"),
        ("now", "now"),
        ("\"\\(.a)\"", "\\("),
        (".a * 1000000", "*"),
        ("range(1e9)", "range"),
        (".a[1:2]", "slice"),
        (".a[:2]", "slice"),
        ("any(.[]; .)", "any"),
        (".a |= 1", "|="),
    ] {
        let error = JqPath::parse(expression).expect_err(expression).to_string();
        assert!(error.contains(word) || error.contains('='), "{error}");
    }
    for broken in ["", ".a[", "(.a", ".a b", "| .a", "select(", "if .a then .b", "\"a"] {
        assert!(JqPath::parse(broken).is_err(), "{broken}");
    }
    assert!(JqPath::parse(&"(".repeat(1000)).is_err());
    assert!(JqPath::parse(&format!(".a{}", " | .a".repeat(2000))).is_err());
}

#[test]
fn hostile_expressions_run_out_of_fuel() {
    let many = format!("select({} | false)", vec!["(.,.)"; 40].join(" | "));
    for expression in [many.as_str(), "recurse(.)", "[..] | map([..]) | map([..])  | map([..])"] {
        let mut ours = object();
        let result = JqPath::parse(expression).expect("readable").delete_from(&mut ours);
        assert!(matches!(result, Err(JqError::TooMuchWork | JqError::NotAPath)), "{expression}: {result:?}");
        assert_eq!(ours, object());
    }
}
