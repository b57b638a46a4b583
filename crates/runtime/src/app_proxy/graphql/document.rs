//! One operation with one field: that is what a pass is for. What says more is refused before anything of it runs.

use std::collections::BTreeSet;
use std::sync::Arc;

use async_graphql::extensions::{
    Extension, ExtensionContext, ExtensionFactory, NextParseQuery, NextPrepareRequest,
};
use async_graphql::parser::types::{DocumentOperations, ExecutableDocument, Selection, SelectionSet};
use async_graphql::{Request, ServerError, ServerResult, Value, Variables};
use axum::http::header::HeaderValue;
use slipway_graphql::RECURSION_MAX;

use super::schema::Shown;

/// What is large stands in variables.
const DOCUMENT_BYTES_MAX: usize = 32 << 10;
/// Fields and fragments, each as often as it stands in an answer. No answer has so many.
const LOOKS_MAX: usize = 1_000;
/// Where a request on a connection of many has a pass of its own.
const PASS: &str = "pass";

pub(super) struct OneField;

impl ExtensionFactory for OneField {
    fn create(&self) -> Arc<dyn Extension> {
        Arc::new(Look)
    }
}

struct Look;

#[async_graphql::async_trait::async_trait]
impl Extension for Look {
    async fn prepare_request(
        &self,
        context: &ExtensionContext<'_>,
        mut request: Request,
        next: NextPrepareRequest<'_>,
    ) -> ServerResult<Request> {
        if request.query.len() > DOCUMENT_BYTES_MAX {
            let message = format!(
                "the document has more than {DOCUMENT_BYTES_MAX} bytes: what is large belongs into variables"
            );
            return Err(ServerError::new(message, None));
        }
        if let Some(Value::String(pass)) = request.extensions.remove(PASS) {
            let shown = HeaderValue::from_str(&format!("Bearer {}", pass.trim_start_matches("Bearer ")));
            let shown = shown.map_err(|_| ServerError::new("`extensions.pass` is no pass", None))?;
            request = request.data(Shown(shown));
        }
        next.run(context, request).await
    }

    async fn parse_query(
        &self,
        context: &ExtensionContext<'_>,
        query: &str,
        variables: &Variables,
        next: NextParseQuery<'_>,
    ) -> ServerResult<ExecutableDocument> {
        let document = next.run(context, query, variables).await?;
        if !is_one_field(&document) {
            let message = "ask for one field in one operation: a pass is for one operation, and a document here is as much";
            return Err(ServerError::new(message, None));
        }
        if !asks_once(&document) {
            let message =
                "ask for each field of an answer once: none has arguments, so that twice is the same";
            return Err(ServerError::new(message, None));
        }
        Ok(document)
    }
}

/// Whatever is asked for twice is copied twice, and an answer may be large: a document is never answered by more than REST answers.
fn asks_once(document: &ExecutableDocument) -> bool {
    let mut left = LOOKS_MAX;
    let mut all = document.operations.iter();
    all.all(|(_, operation)| set_asks_once(document, &operation.node.selection_set.node, 0, &mut left))
}

/// Of one object: fields of the same name are in the answer together, whatever they are called there.
fn set_asks_once(document: &ExecutableDocument, set: &SelectionSet, depth: usize, left: &mut usize) -> bool {
    let (mut names, mut below) = (BTreeSet::new(), Vec::new());
    let mut open = vec![set];
    while let Some(set) = open.pop() {
        for item in &set.items {
            let Some(less) = left.checked_sub(1) else { return false };
            *left = less;
            match &item.node {
                Selection::Field(field) => {
                    let name = field.node.name.node.as_str();
                    if name != "__typename" && !names.insert(name) {
                        return false;
                    }
                    below.push(&field.node.selection_set.node);
                }
                Selection::InlineFragment(inline) => open.push(&inline.node.selection_set.node),
                Selection::FragmentSpread(spread) => {
                    let fragment = document.fragments.get(&spread.node.fragment_name.node);
                    open.extend(fragment.map(|fragment| &fragment.node.selection_set.node));
                }
            }
        }
    }
    // What is deeper the library refuses.
    depth > RECURSION_MAX || below.into_iter().all(|set| set_asks_once(document, set, depth + 1, left))
}

fn is_one_field(document: &ExecutableDocument) -> bool {
    let one = match &document.operations {
        DocumentOperations::Single(operation) => operation,
        DocumentOperations::Multiple(all) => match all.values().next() {
            Some(one) if all.len() == 1 => one,
            _ => return false,
        },
    };
    let fields = &one.node.selection_set.node.items;
    matches!(&fields[..], [one] if matches!(one.node, Selection::Field(_)))
}

#[cfg(test)]
mod tests {
    use async_graphql::parser::parse_query;

    use super::*;

    #[test]
    fn a_document_is_one_field_of_one_operation() {
        for (text, is_one) in [
            ("{ a }", true),
            ("mutation M($x: Int) { b: a(x: $x) { ...F } } fragment F on T { c }", true),
            ("{ a b }", false),
            ("{ a x: a }", false),
            ("query A { a } query B { b }", false),
            ("{ ...F } fragment F on Query { a b }", false),
            ("{ ... on Query { a } }", false),
        ] {
            let document = parse_query(text).expect("a document");
            assert_eq!(is_one_field(&document), is_one, "{text}");
        }
    }

    #[test]
    fn nothing_is_asked_for_twice() {
        let circle = "{ a { ...F } } fragment F on T { ...G } fragment G on T { ...F }";
        let doubling: String = (0..40)
            .map(|n| format!("fragment F{n} on T {{ x{n} {{ ...F{} }} y{n} {{ ...F{} }} }} ", n + 1, n + 1))
            .collect();
        let doubling = format!("{{ a {{ ...F0 }} }} {doubling} fragment F40 on T {{ z }}");
        for (text, is_once) in [
            ("{ a { b c { b } __typename __typename } }", true),
            ("{ a { ...F c } } fragment F on T { b }", true),
            ("{ a { b b } }", false),
            ("{ a { x: b y: b } }", false),
            ("{ a { c { b } c { d } } }", false),
            ("{ a { b ...F } } fragment F on T { b }", false),
            ("{ a { b ... { b } } }", false),
            (circle, false),
            (doubling.as_str(), false),
        ] {
            let document = parse_query(text).expect("a document");
            assert_eq!(asks_once(&document), is_once, "{text}");
        }
    }
}
