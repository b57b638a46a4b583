//! The schema: a field for each operation, which asks its sister in REST.

use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use async_graphql::dynamic::{
    Field, FieldFuture, FieldValue, InputValue, Object, ObjectAccessor, ResolverContext, Schema,
    Subscription, SubscriptionField, SubscriptionFieldFuture, TypeRef,
};
use async_graphql::{Error, ErrorExtensions as _, Value};
use axum::Router;
use axum::http::StatusCode;
use axum::http::header::HeaderValue;
use axum::response::Response;
use futures::StreamExt as _;
use slipway_api::ErrorBody;
use slipway_api::application::{ProxyAbout, ProxyOperation};
use slipway_graphql::{COMPLEXITY_MAX, DEPTH_MAX, DIRECTIVES_MAX, DocumentLimits, RECURSION_MAX};

use super::document::OneField;
use super::fields::{GraphqlField, Request, Root, field_of};
use super::sister::{self, Asked};
use super::stream;
use super::types::Types;

const REQUEST: &str = "request";

/// The pass that came with a request, as `Authorization` has it.
#[derive(Clone)]
pub(super) struct Shown(pub(super) HeaderValue);

/// The status with which REST refused, for whoever answers over HTTP.
#[derive(Clone, Default)]
pub(super) struct Refused(pub(super) Arc<AtomicU16>);

pub(super) fn schema(rest: &Router) -> Schema {
    let mut types = Types::default();
    let mut query =
        Object::new("Query").description("Each request is one field, with a pass for its operation.");
    let mut mutation = Object::new("Mutation");
    let mut subscription = Subscription::new("Subscription");
    for operation in ProxyOperation::ALL.iter().copied() {
        let Some(field) = field_of(operation) else { continue };
        let answer = TypeRef::named_nn((field.answer)(&mut types));
        let arguments = arguments(operation, &field, &mut types);
        let rest = rest.clone();
        if field.root == Root::Subscription {
            let made = SubscriptionField::new(field.name, answer, move |context| {
                let rest = rest.clone();
                SubscriptionFieldFuture::new(async move {
                    let opened = carry(&rest, operation, &context).await?;
                    Ok(stream::of(operation, opened).map(|said| said.map(FieldValue::value)))
                })
            });
            let made = arguments.into_iter().fold(made.description(field.says), SubscriptionField::argument);
            subscription = subscription.field(made);
            continue;
        }
        let made = Field::new(field.name, answer, move |context| {
            let rest = rest.clone();
            FieldFuture::new(async move {
                let answer = carry(&rest, operation, &context).await?;
                let answer = sister::whole(answer).await.map_err(|error| refused(&context, &error))?;
                Ok(Some(FieldValue::value(Value::from_json(answer)?)))
            })
        });
        let made = arguments.into_iter().fold(made.description(field.says), Field::argument);
        match field.root {
            Root::Query => query = query.field(made),
            _ => mutation = mutation.field(made),
        }
    }
    let builder = Schema::build("Query", Some("Mutation"), Some("Subscription"));
    let builder = types.register(builder).register(query).register(mutation).register(subscription);
    builder
        .limit_depth(DEPTH_MAX)
        .limit_complexity(COMPLEXITY_MAX)
        .limit_recursive_depth(RECURSION_MAX)
        .limit_directives(DIRECTIVES_MAX)
        // Who shows no pass learns nothing here; clients are generated from the committed schema.
        .disable_introspection()
        .extension(OneField)
        .extension(DocumentLimits)
        .finish()
        .expect("a schema of types that the contract has")
}

fn arguments(operation: ProxyOperation, field: &GraphqlField, types: &mut Types) -> Vec<InputValue> {
    let mut all = Vec::new();
    if operation.about() == ProxyAbout::Application {
        for name in ["namespace", "name"] {
            let of = format!("The Application's {name}.");
            all.push(InputValue::new(name, TypeRef::named_nn(TypeRef::STRING)).description(of));
        }
    }
    match field.request {
        Request::Nothing => {}
        Request::May(of) => all.push(InputValue::new(REQUEST, TypeRef::named(of(types)))),
        Request::Must(of) => all.push(InputValue::new(REQUEST, TypeRef::named_nn(of(types)))),
    }
    all
}

/// Asks REST: the answer, or its refusal as GraphQL says it.
async fn carry(
    rest: &Router,
    operation: ProxyOperation,
    context: &ResolverContext<'_>,
) -> async_graphql::Result<Response> {
    let text = |name: &str| -> async_graphql::Result<String> {
        Ok(context.args.get(name).map(|value| value.string()).transpose()?.unwrap_or_default().to_owned())
    };
    let asked = Asked {
        operation,
        namespace: text("namespace")?,
        name: text("name")?,
        request: request(&context.args)?,
    };
    let Ok(Shown(pass)) = context.data::<Shown>() else {
        let error = sister::failed(
            StatusCode::UNAUTHORIZED,
            "UNAUTHORIZED",
            "show a pass: with the connection, or as `extensions.pass` of the operation",
        );
        return Err(refused(context, &error));
    };
    sister::ask(rest, asked, pass.clone()).await.map_err(|error| refused(context, &error))
}

/// As it was given: what a pass is bound to.
fn request(arguments: &ObjectAccessor<'_>) -> async_graphql::Result<Option<serde_json::Value>> {
    let given = arguments.get(REQUEST).filter(|value| !value.is_null());
    Ok(given.map(|value| value.as_value().clone().into_json()).transpose()?)
}

fn refused(context: &ResolverContext<'_>, error: &ErrorBody) -> Error {
    if let Ok(Refused(status)) = context.data::<Refused>() {
        status.store(error.status, Ordering::Relaxed);
    }
    let details = error.details.iter().map(|detail| format!("{}: {}", detail.path, detail.message));
    let details: Vec<Value> = details.map(Value::from).collect();
    Error::new(&error.message).extend_with(|_, extensions| {
        extensions.set("code", error.name.as_str());
        extensions.set("status", error.status);
        if !details.is_empty() {
            extensions.set("details", details.clone());
        }
    })
}
