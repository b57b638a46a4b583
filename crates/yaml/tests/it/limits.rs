//! Hostile text costs little and is refused with a place.

use slipway_yaml::{Dialect, Limits, parse, parse_with};

#[test]
fn alias_bombs_are_refused() {
    let mut bomb = String::from("a0: &a0 [x, x, x, x, x, x, x, x, x, x]\n");
    for level in 1..12 {
        let aliases = vec![format!("*a{}", level - 1); 10].join(", ");
        bomb.push_str(&format!("a{level}: &a{level} [{aliases}]\n"));
    }
    let errors = parse(&bomb, Dialect::Kubernetes).expect_err("a bomb");
    assert!(errors[0].message.contains("aliases expand"), "{errors:?}");
    assert!(errors[0].line > 3, "the place where it went too far");
}

#[test]
fn alias_bytes_are_counted_too() {
    let text = format!("a: &a {}\nb: [{}]\n", "x".repeat(100_000), vec!["*a"; 1_000].join(", "));
    assert!(parse(&text, Dialect::Kubernetes).is_err());
}

#[test]
fn anchors_around_anchors_are_limited() {
    let text = format!("{}[{}]{}", "[&a ".repeat(200), "x, ".repeat(20_000), "]".repeat(200));
    let errors = parse(&text, Dialect::Kubernetes).expect_err("two hundred copies");
    assert!(errors[0].message.contains("anchors hold"), "{errors:?}");
}

#[test]
fn many_small_aliases_are_fine() {
    let mut text = String::from("base: &base {image: alpine, commands: [a, b, c]}\nsteps:\n");
    for index in 0..2_000 {
        text.push_str(&format!("  s{index}: {{<<: *base}}\n"));
    }
    let root = parse(&text, Dialect::Pipeline).expect("an ordinary large file").remove(0);
    assert_eq!(root.get("steps").map(|steps| steps.entries().len()), Some(2_000));
}

#[test]
fn depth_is_limited_before_anything_recurses() {
    for open in ["[", "{a: ", "- "] {
        let errors = parse(&open.repeat(100_000), Dialect::Pipeline).expect_err("too deep");
        assert!(errors.iter().any(|error| error.message.contains("nested deeper")), "{:?}", errors.first());
    }
}

#[test]
fn size_is_limited() {
    let limits = Limits { text_bytes: 10, ..Limits::default() };
    let errors = parse_with("a: 12345678", Dialect::Pipeline, &limits).expect_err("too long");
    assert!(errors[0].message.contains("11 bytes"));
}

#[test]
fn odd_texts_never_panic() {
    let pieces = [
        "a:", "- ", "\t", "&x", "*x", "<<:", "{", "}", "[", "]", "|", ">-", "'", "\"", "#", "\u{0}", "é",
        "?", "!!", "%", "\r", "---", "...",
    ];
    let mut seed: u64 = 7;
    for _ in 0..20_000 {
        let mut text = String::new();
        for _ in 0..8 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            text.push_str(pieces[(seed >> 33) as usize % pieces.len()]);
            text.push_str(["", " ", "\n", "\n  "][(seed >> 50) as usize % 4]);
        }
        for dialect in [Dialect::Kubernetes, Dialect::Pipeline] {
            if let Err(errors) = parse(&text, dialect) {
                assert!(
                    !errors.is_empty() && errors.iter().all(|e| e.line >= 1 && e.column >= 1),
                    "{text:?}"
                );
            }
        }
    }
}
