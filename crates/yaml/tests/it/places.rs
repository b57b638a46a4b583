//! Every node knows where it was written.

use slipway_yaml::{Dialect, Node, NodeKind, Span, parse};

const TEXT: &str = "version: '1.0'\nsteps:\n  build: &b\n    image: alpine\n    commands:\n      - echo a\n      - |\n        two\n        lines\n  other:\n    <<: *b\n    title: x\n";

fn root() -> Node {
    parse(TEXT, Dialect::Pipeline).expect("reads").remove(0)
}

fn at(span: Option<Span>) -> Option<(usize, usize)> {
    span.map(|span| (span.line, span.column))
}

#[test]
fn paths_lead_to_places() {
    let root = root();
    assert_eq!(at(root.span_at(&["steps", "build", "image"])), Some((4, 12)));
    assert_eq!(at(root.span_at(&["steps", "build", "commands", "1"])), Some((7, 9)));
    assert_eq!(root.span_at(&["steps", "nobody"]), None);
    let key = root.key_span_at(&["steps", "build", "image"]);
    assert_eq!((key.line, key.column), (4, 5));
    let nearest = root.key_span_at(&["steps", "build", "nobody"]);
    assert_eq!((nearest.line, nearest.column), (3, 3), "the deepest part that is there");
}

#[test]
fn spans_end_where_the_value_ends() {
    let root = root();
    let image = root.span_at(&["steps", "build", "image"]).expect("there");
    assert_eq!((image.end_line, image.end_column), (4, 18));
    let flow = parse("a: [1,\n 2]\nb: 1\n", Dialect::Pipeline).expect("reads").remove(0);
    let list = flow.span_at(&["a"]).expect("there");
    assert_eq!((list.line, list.column, list.end_line, list.end_column), (1, 4, 2, 4));
}

#[test]
fn an_alias_keeps_the_place_of_what_it_repeats() {
    let root = root();
    assert_eq!(at(root.span_at(&["steps", "other", "image"])), Some((4, 12)));
    assert_eq!(at(root.span_at(&["steps", "other", "title"])), Some((12, 12)));
}

#[test]
fn a_value_without_text_has_no_place() {
    let node = Node::from_json(&serde_json::json!({"a": [1, null]}));
    assert_eq!(node.span_at(&["a", "0"]), Some(Span::default()));
    assert!(matches!(node.at(&["a", "1"]).map(|n| &n.kind), Some(NodeKind::Null)));
    assert_eq!(node.to_json(), serde_json::json!({"a": [1, null]}));
}
