//! `lookup` of charts with the real helm: what is asked, what is remembered, and what an error may say.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::FutureExt;
use futures::future::BoxFuture;
use serde_json::{Value, json};
use slipway_source::{Lookup, LookupAnswer, RenderError, RenderRequest, Renderer, SourceOptions};

use crate::render::request;
use crate::repo::Repo;

/// A cluster of a few objects.
#[derive(Default)]
struct Objects {
    objects: Mutex<BTreeMap<String, Value>>,
    asked: Mutex<Vec<String>>,
}

impl Objects {
    fn put(&self, path: &str, value: Value) {
        self.objects.lock().unwrap().insert(path.to_owned(), value);
    }

    fn asked(&self) -> Vec<String> {
        std::mem::take(&mut self.asked.lock().unwrap())
    }
}

impl Lookup for Objects {
    fn answer<'a>(&'a self, path: &'a str) -> BoxFuture<'a, Result<LookupAnswer, String>> {
        async move {
            self.asked.lock().unwrap().push(path.to_owned());
            if path == "/api/v1" {
                let kind = |name: &str, kind: &str| json!({"name": name, "kind": kind, "namespaced": true});
                let list = json!({"kind": "APIResourceList", "groupVersion": "v1", "resources": [
                    kind("secrets", "Secret"), kind("configmaps", "ConfigMap")]});
                return Ok(LookupAnswer { status: 200, body: list.to_string().into(), sensitive: false });
            }
            let found = self.objects.lock().unwrap().get(path).cloned();
            Ok(match found {
                Some(value) => LookupAnswer {
                    status: 200,
                    body: value.to_string().into(),
                    sensitive: path.contains("/secrets"),
                },
                None if path.contains("/others/") => {
                    LookupAnswer::refused(403, "Forbidden", "this project may not look there")
                }
                None => LookupAnswer::refused(404, "NotFound", "not found"),
            })
        }
        .boxed()
    }
}

const SECRET: &str = "/api/v1/namespaces/demo/secrets/pw";

async fn ask(repo: &Repo, renderer: &Renderer, lookup: Option<Arc<dyn Lookup>>) -> RenderRequest {
    RenderRequest { lookup, ..request(repo, renderer, "chart", SourceOptions::Detect).await }
}

fn chart(repo: &Repo, template: &str) {
    repo.write("chart/Chart.yaml", "apiVersion: v2\nname: c\nversion: 0.1.0\n")
        .write(
            "chart/templates/map.yaml",
            &format!("{template}\napiVersion: v1\nkind: ConfigMap\nmetadata: {{name: m}}\ndata: {{word: {{{{ $word }}}}, once: {{{{ randAlphaNum 20 }}}}}}\n"),
        )
        .commit("A chart");
}

#[tokio::test]
async fn a_chart_is_rendered_again_when_what_it_looked_up_has_changed_and_only_then() {
    let repo = Repo::new();
    chart(
        &repo,
        r#"{{- $s := lookup "v1" "Secret" .Release.Namespace "pw" }}{{ $word := dig "data" "a" "none" $s }}"#,
    );
    let cluster = Arc::new(Objects::default());
    let render = async || {
        // A new renderer each time: what is remembered is on the disk.
        let renderer = repo.renderer();
        let request = ask(&repo, &renderer, Some(cluster.clone())).await;
        renderer.render(&request).await.expect("rendered").objects[0]["data"].clone()
    };
    let first = render().await;
    assert_eq!(first["word"], "none");
    assert_eq!(cluster.asked(), ["/api/v1", SECRET]);
    assert_eq!(render().await, first, "the same answers, the same manifests");
    assert_eq!(cluster.asked(), ["/api/v1", SECRET], "asked, and not rendered");
    cluster.put(
        SECRET,
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pw"}, "data": {"a": "eQ=="}}),
    );
    let second = render().await;
    assert_eq!(second["word"], "eQ==");
    assert_ne!(second["once"], first["once"]);
    assert_eq!(render().await, second);
    cluster.asked();

    // Who may not look finds nothing, and does not get what somebody else saw.
    let renderer = repo.renderer();
    let blind = renderer.render(&ask(&repo, &renderer, None).await).await.expect("rendered");
    assert_eq!(blind.objects[0]["data"]["word"], "none");
    assert!(cluster.asked().is_empty());
}

#[tokio::test]
async fn an_error_tells_of_a_refusal_and_nothing_of_a_secret() {
    let cluster = Arc::new(Objects::default());
    cluster.put(
        SECRET,
        json!({"apiVersion": "v1", "kind": "Secret", "metadata": {"name": "pw"}, "data": {"a": "canary"}}),
    );
    let broken = async |template: &str| {
        let repo = Repo::new();
        chart(&repo, template);
        let renderer = repo.renderer();
        let request = ask(&repo, &renderer, Some(cluster.clone())).await;
        let error = renderer.render(&request).await.expect_err("broken");
        assert!(matches!(error, RenderError::Tool { .. } | RenderError::Findings(_)), "{error:?}");
        error.to_string()
    };
    let said = broken(r#"{{- $word := lookup "v1" "ConfigMap" "others" "x" }}"#).await;
    assert!(said.contains("this project may not look there") && said.contains("map.yaml:1:"), "{said}");
    assert!(!said.contains("127.0.0.1"), "{said}");
    for template in [
        r#"{{- $word := (lookup "v1" "Secret" "demo" "pw").data.a }}{{ fail (printf "no: %s" $word) }}"#,
        r#"{{- $word := (lookup "v1" "Secret" "demo" "pw").data.a }}{{ template "canary" $word.x }}"#,
        r#"{{- $word := printf "[%s" (lookup "v1" "Secret" "demo" "pw").data.a }}"#,
        r#"{{- $word := (lookup "v1" "Secret" "demo" "pw").data.a }}{{ printf "word: %s\n---" $word }}"#,
    ] {
        let said = broken(template).await;
        assert!(said.contains("withheld") && !said.contains("canary"), "{template}: {said}");
    }
}
