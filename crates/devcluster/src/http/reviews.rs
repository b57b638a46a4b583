//! Questions that are answered and not kept: who am I, may I, is this token good.

use http::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::reply::json_reply;
use super::resources::{Target, body};
use super::{Ask, Body};
use crate::error::{ApiError, ApiResult};
use crate::value::{Json as _, now};

pub(super) async fn handle(mut ask: Ask, target: Target) -> ApiResult<Response<Body>> {
    if ask.method() != Method::POST {
        return Err(ApiError::method("the server does not allow this method on the requested resource"));
    }
    let mut review = body(&mut ask).await?;
    let who = |name: &str, groups: &[String]| json!({"username": name, "groups": groups});
    let status: Value = match target.resource.kind.as_str() {
        "SelfSubjectReview" => json!({"userInfo": who(&ask.user.name, &ask.user.groups)}),
        "TokenReview" => match ask.cluster.tokens.verify(review.str_at("spec.token"), &ask.cluster) {
            Some(user) => {
                json!({"authenticated": true, "user": who(&user.name, &user.groups), "audiences": review["spec"]["audiences"]})
            }
            None => json!({"authenticated": false, "error": "the token is unknown or has expired"}),
        },
        "SelfSubjectRulesReview" => json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}], "incomplete": false,
        }),
        "SelfSubjectAccessReview" | "SubjectAccessReview" | "LocalSubjectAccessReview" => {
            json!({"allowed": true, "reason": "the embedded cluster allows everything to whoever is authenticated"})
        }
        "Binding" => {
            return Err(ApiError::bad_request(
                "use pods/{name}/binding; pods are bound by the cluster itself",
            ));
        }
        _ => return Err(ApiError::no_such_path()),
    };
    review.set_at("apiVersion", json!(target.resource.api_version()));
    review.set_at("kind", json!(target.resource.kind));
    review.set_at("metadata.creationTimestamp", json!(now()));
    review.set_at("status", status);
    Ok(json_reply(StatusCode::CREATED, &review))
}
