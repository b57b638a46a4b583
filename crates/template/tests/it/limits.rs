//! No text makes the engine panic, hang, or fill the memory.

use std::time::{Duration, Instant};

use serde_json::json;
use slipway_template::{Data, Limits};

use crate::{render, render_within};

fn data() -> Data {
    Data::Json(
        json!({"a": "text", "n": 3, "l": [1, "x", null, {"k": [true]}], "m": {"b": {"c": 1.5}}, "nil": null}),
    )
}

#[test]
fn greedy_templates_end_with_a_sentence() {
    let greedy = [
        "{{range until 100000000}}x{{end}}",
        "{{range 100000000}}{{range 100000000}}x{{end}}{{end}}",
        "{{range until 3000}}{{range until 3000}}{{end}}{{end}}",
        "{{repeat 1000000000 \"x\"}}",
        "{{repeat 9223372036854775807 \"xx\"}}",
        "{{$x := \"x\"}}{{range until 100}}{{$x = print $x $x}}{{end}}{{len $x}}",
        "{{$x := \"x\"}}{{range until 100}}{{$x = printf \"%s%s\" $x $x}}{{end}}",
        "{{$x := \"x\"}}{{range until 100}}{{$x = cat $x $x}}{{end}}",
        "{{$x := repeat 1000000 \"x\"}}{{replace \"x\" $x $x}}",
        "{{$x := repeat 1000000 \"x\"}}{{join $x (splitList \"\" $x)}}",
        "{{$x := repeat 1000000 \"\\n\"}}{{indent 1000000 $x}}",
        "{{$x := repeat 100000 \"x\"}}{{regexReplaceAll \"x\" $x $x}}",
        "{{$x := repeat 100000 \"x\"}}{{wrapWith 1 $x $x}}",
        "{{printf \"%1000000d\" 1 | repeat 1000}}",
        "{{printf \"%.1000000f\" 1.0 | repeat 1000}}",
        "{{$l := list 1}}{{range until 40}}{{$l = concat $l $l}}{{end}}",
        "{{$l := list 1}}{{range until 100000}}{{$l = list $l}}{{end}}",
        "{{$d := dict}}{{range until 60}}{{$d = dict \"a\" $d \"b\" $d}}{{end}}{{$d}}",
        "{{$d := dict}}{{range until 60}}{{$d = dict \"a\" $d \"b\" $d}}{{end}}{{deepCopy $d | toJson}}",
        "{{$d := dict}}{{$_ := set $d \"self\" $d}}{{$d}}",
        "{{$d := dict}}{{$_ := set $d \"self\" $d}}{{toJson $d}}",
        "{{$d := dict}}{{$_ := set $d \"self\" $d}}{{deepCopy $d}}",
        "{{$d := dict}}{{$_ := set $d \"self\" $d}}{{toYaml $d}}",
        "{{$a := dict}}{{$b := dict}}{{$_ := set $a \"x\" $b}}{{$_ := set $b \"x\" $a}}{{deepEqual $a (dict \"x\" $b)}}{{printf \"%#v\" $a}}",
        "{{define \"r\"}}{{template \"r\" .}}{{end}}{{template \"r\" .}}",
        "{{define \"r\"}}{{template \"r\" .}}{{template \"r\" .}}{{end}}{{template \"r\" .}}",
        "{{define \"r\"}}{{if true}}{{with 1}}{{range 1}}{{template \"r\" .}}{{end}}{{end}}{{end}}{{end}}{{template \"r\" .}}",
        "{{seq 1 100000000}}",
        "{{randAlphaNum 1000000000}}",
        "{{regexMatch \"(((a{1,100}){1,100}){1,100}){1,100}\" \"a\"}}{{regexFind \"(((a{1,100}){1,100}){1,100}){1,100}\" \"a\"}}",
    ];
    for text in greedy {
        let start = Instant::now();
        let limits = Limits { work_bytes: 8 << 20, steps: 200_000, ..Limits::default() };
        let outcome = render_within(text, &data(), &[], limits);
        assert!(outcome.is_err(), "{text} gave {} bytes", outcome.unwrap().len());
        assert!(start.elapsed() < Duration::from_secs(120), "{text} took {:?}", start.elapsed());
    }
}

#[test]
fn maps_in_a_long_chain_and_in_a_ring_are_let_go() {
    // A chain that is dropped link by link would overflow the stack; a ring would never be dropped.
    let chain = "{{$root := dict}}{{$at := $root}}{{range until 50000}}{{$next := dict}}{{$_ := set $at \"n\" $next}}{{$at = $next}}{{end}}ok";
    assert_eq!(render(chain, &data(), &[]).expect("fits the limits"), "ok");
    let ring = "{{$d := dict}}{{$_ := set $d \"self\" $d}}{{$_ := set .m \"d\" $d}}ok";
    assert_eq!(render(ring, &data(), &[]).expect("fits the limits"), "ok");
}

#[test]
fn the_result_has_a_limit() {
    let limits = Limits { output_bytes: 10, ..Limits::default() };
    assert!(render_within("12345{{.a}}6", &data(), &[], limits).is_ok());
    let error = render_within("12345{{.a}}67", &data(), &[], limits).unwrap_err().to_string();
    assert!(error.contains("more than 10 bytes"), "{error}");
}

#[test]
fn text_that_is_nested_too_deep_is_refused() {
    for text in [
        format!("{{{{{}1{}}}}}", "(".repeat(100_000), ")".repeat(100_000)),
        format!("{}{}", "{{if 1}}".repeat(100_000), "{{end}}".repeat(100_000)),
        format!("{{{{if 1}}}}{}", "{{else if 1}}".repeat(100_000)),
        "{{range 1}}".repeat(100_000),
    ] {
        assert!(render(&text, &data(), &[]).is_err());
    }
    let deep = format!("{{{{{}1{}}}}}", "(".repeat(60), ")".repeat(60));
    assert_eq!(render(&deep, &data(), &[]).expect("deep, not too deep"), "1");
}

/// A small generator of texts, from a seed: what fails can be run again.
struct Dice(u64);

impl Dice {
    fn below(&mut self, bound: usize) -> usize {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((self.0 >> 33) as usize) % bound
    }

    fn pick<'a>(&mut self, of: &[&'a str]) -> &'a str {
        of[self.below(of.len())]
    }
}

#[test]
fn no_input_panics() {
    let names: Vec<&str> = slipway_template::Functions::application_set().names().collect();
    let bits = [
        "{{",
        "}}",
        "{{-",
        "-}}",
        " ",
        "\n",
        "(",
        ")",
        "|",
        ".",
        ".a",
        ".m.b",
        ".nil",
        "$",
        "$x",
        ":=",
        "=",
        ",",
        "if",
        "else",
        "end",
        "range",
        "with",
        "define",
        "template",
        "block",
        "break",
        "continue",
        "nil",
        "true",
        "1",
        "-1",
        "1.5",
        "0x",
        "'a'",
        "\"s\"",
        "\"",
        "`r`",
        "`",
        "/*",
        "*/",
        "é",
        "\u{0}",
        "99999999999999999999",
    ];
    let arguments = [
        ".a",
        ".n",
        ".l",
        ".m",
        ".nil",
        ".missing",
        "nil",
        "1",
        "-1",
        "0",
        "2147483648",
        "9223372036854775807",
        "-9223372036854775808",
        "1.5",
        "true",
        "\"\"",
        "\"é\"",
        "\"%d%s%*d\"",
        "\"[\"",
        "\"2006-01-02\"",
        "(list)",
        "(list 1 \"a\")",
        "(dict)",
        "(dict \"a\" 1)",
        "(until 3)",
        "(semver \"1.2.3\")",
        "(toDate \"2006\" \"2020\")",
        "(splitList \",\" \"a,b\")",
    ];
    let limits = Limits { output_bytes: 1 << 16, work_bytes: 1 << 20, steps: 20_000, depth: 50 };
    let mut dice = Dice(90);
    for round in 0..8_000 {
        let mut text = String::new();
        if round % 2 == 0 {
            for _ in 0..1 + dice.below(14) {
                text.push_str(dice.pick(&bits));
                if dice.below(3) == 0 {
                    text.push(' ');
                }
            }
        } else {
            text.push_str("{{ ");
            text.push_str(dice.pick(&names));
            for _ in 0..dice.below(5) {
                text.push(' ');
                text.push_str(dice.pick(&arguments));
            }
            if dice.below(3) == 0 {
                text.push_str(" | ");
                text.push_str(dice.pick(&names));
            }
            text.push_str(" }}");
        }
        // Whatever comes out is fine; that something does is the test.
        let _ = render_within(&text, &data(), &[], limits);
    }
}

#[test]
fn what_is_refused_says_why() {
    let error = render("{{ genCA \"x\" 1 }}", &data(), &[]).unwrap_err().to_string();
    assert!(error.contains("never come to rest"), "{error}");
    let error = render("{{.a}}", &data(), &["missingkey=maybe".into()]).unwrap_err().to_string();
    assert!(error.contains("missingkey=maybe"), "{error}");
}

#[test]
fn the_clock_and_the_dice_come_from_outside() {
    let twice =
        || render("{{now}} {{randAlphaNum 8}} {{uuidv4}} {{shuffle \"abcdef\"}} {{ago (now)}}", &data(), &[]);
    let first = twice().expect("renders");
    assert_eq!(first, twice().expect("renders"));
    assert!(first.starts_with("2026-11-16 00:00:00 +0000 UTC "), "{first}");
}
