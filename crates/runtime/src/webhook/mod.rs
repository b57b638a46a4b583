//! Git webhooks: a provider says that something was pushed, and exactly the Applications and sets that are built from
//! it are looked at. A webhook is a hint and never data: what was pushed is asked of the repository itself.

mod provider;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use slipway_api::runtime::RuntimeEvent;
use slipway_cluster::{Cluster, ObjectKey};

use crate::context::Context;
use crate::metrics::Metrics;
use crate::pushes::Pushes;
use provider::Refused;
use slipway_forge::remote::Announced;

/// A body may have so many bytes; it is not parsed before its signature holds.
pub(crate) const BODY_BYTES_MAX: usize = 25 << 20;

/// What webhooks are checked against, and who hears of them.
pub(crate) struct Webhooks {
    cluster: Cluster,
    namespace: String,
    metrics: Arc<Metrics>,
    pushes: Arc<Pushes>,
}

impl Webhooks {
    pub(crate) fn new(context: &Context, pushes: Arc<Pushes>) -> Self {
        Self {
            cluster: context.cluster().clone(),
            namespace: context.config.namespace.clone(),
            metrics: context.metrics.clone(),
            pushes,
        }
    }
}

/// What the provider is answered.
pub(crate) fn receive(hooks: &Webhooks, headers: &HeaderMap, body: &Bytes) -> (StatusCode, String) {
    let secrets = secrets(&hooks.cluster, &hooks.namespace);
    let (name, outcome) = provider::read(headers, body, &secrets);
    hooks.metrics.webhook(name, outcome.is_ok());
    match outcome {
        Ok(Announced::Pushes(pushes)) => {
            let heard = Instant::now();
            for push in &pushes {
                for url in &push.clone_urls {
                    hooks.pushes.pushed(
                        &RuntimeEvent {
                            seq: 0,
                            clone_url: url.clone(),
                            reference: push.reference.clone(),
                            sha: None,
                            changed_paths: push.changed_paths.clone(),
                        },
                        heard,
                    );
                }
            }
            (StatusCode::OK, format!("{} pushes were heard\n", pushes.len()))
        }
        Ok(Announced::PullRequest) => {
            hooks.pushes.pull_request();
            (StatusCode::OK, "a change of a pull request was heard\n".to_owned())
        }
        Ok(Announced::Nothing) => (StatusCode::OK, "this event changes nothing here\n".to_owned()),
        Err(Refused::Unknown) => {
            (StatusCode::BAD_REQUEST, "this is no webhook of a provider that is known here\n".to_owned())
        }
        Err(Refused::NoSecret(key)) => {
            tracing::warn!(provider = name, key, "A webhook came, and argocd-secret has no key for it.");
            (
                StatusCode::FORBIDDEN,
                format!("set {key} in the Secret argocd-secret to accept these webhooks\n"),
            )
        }
        Err(Refused::Signature) => {
            tracing::warn!(provider = name, "A webhook with a wrong signature was refused.");
            (
                StatusCode::UNAUTHORIZED,
                "the signature is wrong; compare the secrets on both sides\n".to_owned(),
            )
        }
        Err(Refused::Body) => {
            (StatusCode::BAD_REQUEST, "the body is not what this provider sends\n".to_owned())
        }
    }
}

/// The `webhook.*` keys of argocd-secret.
fn secrets(cluster: &Cluster, namespace: &str) -> BTreeMap<String, String> {
    let key = ObjectKey::new("", "Secret", namespace, "argocd-secret");
    let object = cluster.live(&key).and_then(|live| live.object()).unwrap_or_default();
    let data = object["data"].as_object().into_iter().flatten();
    data.filter(|(name, _)| name.starts_with("webhook."))
        .filter_map(|(name, _)| Some((name.clone(), crate::settings::field(&object["data"], name)?)))
        .collect()
}
