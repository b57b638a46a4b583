//! What Helm adds for the templates of a chart, as far as charts of ours use it.
//!
//! `include` is a call that fills a defined template; the executor does it, because nobody else has the templates.

use crate::functions::Type::{Any, Text};
use crate::functions::{Function, takes, text};
use crate::value::Value;

pub(crate) const INCLUDE: &str = "include";

pub(crate) const FUNCTIONS: &[Function] = &[
    takes(INCLUDE, &[Text, Any], |_, _| Err("it is called by the executor".to_owned())),
    takes("required", &[Text, Any], |_, a| match &a[1] {
        Value::Nil | Value::Missing => Err(text(&a[0]).to_owned()),
        Value::Text(given) if given.is_empty() => Err(text(&a[0]).to_owned()),
        given => Ok(given.clone()),
    }),
];

#[cfg(test)]
mod tests {
    use crate::{Data, Environment, Functions, Template};

    fn rendered(text: &str, data: &serde_json::Value) -> Result<String, String> {
        let template = Template::parse("t", text, &[] as &[&str], Functions::chart())
            .map_err(|error| error.to_string())?;
        let data = Data::from(data.clone());
        let mut environment = Environment {
            now: jiff::Timestamp::UNIX_EPOCH,
            random: &mut || 4,
            limits: crate::Limits::default(),
        };
        template.render(&data, &mut environment).map_err(|error| error.to_string())
    }

    #[test]
    fn a_defined_template_is_text_that_can_be_piped_on() {
        let data = serde_json::json!({"name": "shop", "labels": {"b": "2", "a": "1"}});
        let text = "{{- define \"name\" -}}x-{{ .name }}{{- end -}}{{ include \"name\" . | upper | quote }} {{ toYaml .labels | nindent 2 }}";
        assert_eq!(rendered(text, &data).expect("rendered"), "\"X-SHOP\" \n  a: \"1\"\n  b: \"2\"");
        let wrong = rendered("{{ include \"nothing\" . }}", &data).expect_err("not defined");
        assert!(wrong.contains("template \"nothing\" not defined"), "{wrong}");
        let endless =
            rendered("{{ define \"a\" }}{{ include \"a\" . }}{{ end }}{{ include \"a\" . }}", &data);
        assert!(endless.expect_err("ends").contains("depth"));
    }

    #[test]
    fn what_is_required_is_asked_for_by_its_sentence() {
        let data = serde_json::json!({"name": "shop", "empty": ""});
        assert_eq!(rendered("{{ required \"give a name\" .name }}", &data).expect("there"), "shop");
        for missing in ["{{ required \"give one\" .none }}", "{{ required \"give one\" .empty }}"] {
            assert!(rendered(missing, &data).expect_err("missing").contains("give one"), "{missing}");
        }
    }
}
