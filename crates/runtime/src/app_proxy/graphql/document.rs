//! One operation with one field: that is what a pass is for. What says more is refused before anything of it runs.

use std::sync::Arc;

use async_graphql::extensions::{
    Extension, ExtensionContext, ExtensionFactory, NextParseQuery, NextPrepareRequest,
};
use async_graphql::parser::types::{DocumentOperations, ExecutableDocument, Selection};
use async_graphql::{Request, ServerError, ServerResult, Value, Variables};
use axum::http::header::HeaderValue;

use super::schema::Shown;

/// What is large stands in variables.
const DOCUMENT_BYTES_MAX: usize = 32 << 10;
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
        match is_one_field(&document) {
            true => Ok(document),
            false => Err(ServerError::new(
                "ask for one field in one operation: a pass is for one operation, and a document here is as much",
                None,
            )),
        }
    }
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
}
