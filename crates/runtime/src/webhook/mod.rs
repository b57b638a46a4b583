//! Git webhooks: a provider says that something was pushed, and exactly the Applications and sets that are built from
//! it are looked at. A webhook is a hint and never data: what was pushed is asked of the repository itself.

mod provider;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Instant;

use axum::body::Bytes;
use axum::http::{HeaderMap, StatusCode};
use slipway_api::runtime::RuntimeEvent;
use slipway_cluster::ObjectKey;
use slipway_reconcile::Wake;

use crate::engine::Engine;
use provider::Refused;
use slipway_forge::remote::Announced;

/// A body may have so many bytes; it is not parsed before its signature holds.
pub(crate) const BODY_BYTES_MAX: usize = 25 << 20;

/// What the provider is answered.
pub(crate) fn receive(engine: &Arc<Engine>, headers: &HeaderMap, body: &Bytes) -> (StatusCode, String) {
    let secrets = secrets(engine);
    let (name, outcome) = provider::read(headers, body, &secrets);
    engine.metrics.webhook(name, outcome.is_ok());
    match outcome {
        Ok(Announced::Pushes(pushes)) => {
            let heard = Instant::now();
            for push in &pushes {
                for url in &push.clone_urls {
                    engine.pushed(
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
            engine.wake_sets(Wake::latest(Instant::now()));
            for key in engine.application_sets() {
                engine.refresh_elsewhere(&key);
            }
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
fn secrets(engine: &Engine) -> BTreeMap<String, String> {
    let key = ObjectKey::new("", "Secret", &engine.config.namespace, "argocd-secret");
    let object = engine.cluster.live(&key).and_then(|live| live.object()).unwrap_or_default();
    let data = object["data"].as_object().into_iter().flatten();
    data.filter(|(name, _)| name.starts_with("webhook."))
        .filter_map(|(name, _)| Some((name.clone(), crate::settings::field(&object["data"], name)?)))
        .collect()
}
