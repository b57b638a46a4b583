use slipway_template::fasttemplate::render;

#[test]
fn known_keys_are_replaced_and_unknown_ones_stay() {
    let lookup = |key: &str| match key {
        "name" => Some("web"),
        "path.basename" => Some("guestbook"),
        "" => Some("never"),
        _ => None,
    };
    for (template, expected) in [
        ("{{name}}", "web"),
        ("{{ name }}-{{path.basename}}", "web-guestbook"),
        ("{{other}} {{ other }}", "{{other}} {{ other }}"),
        ("{{}} {{ }}", "{{}} {{ }}"),
        ("{{name}} {{name", "{{name}} {{name"),
        ("no placeholder", "no placeholder"),
        ("{{ open", "{{ open"),
        ("{{a\n}} x", "{{a\n}} x"),
        ("{ {name}}", "{ {name}}"),
        ("{{name}}}", "web}"),
    ] {
        match render(template, lookup) {
            Ok(text) => assert_eq!(text, expected, "{template}"),
            Err(error) => assert!(error.contains("no end"), "{template}: {error}"),
        }
    }
    assert!(render("{{name}} {{name", lookup).is_err());
}
