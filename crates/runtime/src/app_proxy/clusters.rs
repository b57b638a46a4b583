//! Clusters that this runtime deploys to: added after they were tried, and let go.
//!
//! In: an address and an account's token. Out: a Secret in the runtime's namespace, of the form that Argo CD knows, which the runtime
//! follows like any other ([`crate::clusters`]). The token is written there and nowhere else; nothing is changed in the cluster itself.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::State;
use axum::http::StatusCode;
use axum::{Extension, Json};
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use slipway_api::managed_cluster::{ClusterAdd, ClusterAdded, ClusterRemove, ClusterRemoved};
use slipway_cluster::{Cluster, ClusterConfig, ClusterError, Given, ObjectKey, Propagation, WriteOptions};

use super::{Asker, Proxy, Refusal, Running};
use crate::clusters::{IN_CLUSTER, reach};
use crate::settings::{SECRET_TYPE, field};

const ANSWER_WITHIN: Duration = Duration::from_secs(15);
const NAME_CHARS_MAX: usize = 63;
const NOTES_MAX: usize = 32;

fn refused(name: &'static str, message: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::UNPROCESSABLE_ENTITY, name, message)
}

fn conflict(name: &'static str, message: impl Into<String>) -> Refusal {
    Refusal::new(StatusCode::CONFLICT, name, message)
}

pub(super) async fn add(
    State(proxy): State<Proxy>,
    Extension(asker): Extension<Asker>,
    Json(request): Json<ClusterAdd>,
) -> Result<Json<ClusterAdded>, Refusal> {
    let running = proxy.running()?;
    let wrong = findings(&request);
    if !wrong.is_empty() {
        return Err(refused("BAD_CLUSTER", wrong.join("; ")));
    }
    let server = request.server.trim_end_matches('/').to_owned();
    let secret = secret_name(&server);
    let known = known(running).await?;
    if let Some(other) = known.iter().find(|known| known.server == server && known.secret != secret) {
        let message = format!(
            "{server} is known as `{}` already, by the Secret {}: delete that first",
            other.name, other.secret
        );
        return Err(conflict("KNOWN_CLUSTER", message));
    }
    if let Some(other) = known.iter().find(|known| known.server == server && known.name != request.name) {
        let message =
            format!("{server} is known as `{}` already: remove it first to call it otherwise", other.name);
        return Err(conflict("KNOWN_CLUSTER", message));
    }
    if let Some(other) = known.iter().find(|known| known.name == request.name && known.server != server) {
        let message = format!("`{}` is the name of {} already: choose another", request.name, other.server);
        return Err(conflict("NAME_TAKEN", message));
    }
    let config = connection(&request);
    let server_version = tried(running, &server, &config).await?;
    let outcome = if known.iter().any(|known| known.secret == secret) { "changed" } else { "added" };
    let mut labels = json!({"app.kubernetes.io/managed-by": "slipway"});
    labels.as_object_mut().expect("an object").extend(notes(&request.labels));
    labels[SECRET_TYPE] = "cluster".into();
    let mut annotations = json!({});
    annotations.as_object_mut().expect("an object").extend(notes(&request.annotations));
    annotations["slipway.io/added-by"] = asker.name.as_str().into();
    let object = json!({
        "apiVersion": "v1", "kind": "Secret", "type": "Opaque",
        "metadata": {"name": secret, "namespace": running.settings.namespace(), "labels": labels, "annotations": annotations},
        "data": {"name": STANDARD.encode(&request.name), "server": STANDARD.encode(&server), "config": STANDARD.encode(&config)},
    });
    running.cluster.apply(&object, WriteOptions::default()).await?;
    tracing::info!(cluster = %request.name, %server, by = %asker.name, "A cluster was {outcome}.");
    Ok(Json(ClusterAdded { name: request.name, server, outcome: outcome.to_owned(), server_version }))
}

pub(super) async fn remove(
    State(proxy): State<Proxy>,
    Extension(asker): Extension<Asker>,
    Json(request): Json<ClusterRemove>,
) -> Result<Json<ClusterRemoved>, Refusal> {
    let running = proxy.running()?;
    if request.name == IN_CLUSTER.name {
        return Err(conflict(
            "OWN_CLUSTER",
            "`in-cluster` is the cluster that the runtime is in: it cannot be removed",
        ));
    }
    let mut fitting: Vec<_> =
        known(running).await?.into_iter().filter(|known| known.name == request.name).collect();
    let one = match (fitting.pop(), fitting.len()) {
        (Some(one), 0) => one,
        (Some(_), _) => {
            let message = format!(
                "several Secrets describe a cluster `{}`: delete those that are wrong with kubectl",
                request.name
            );
            return Err(conflict("SEVERAL_CLUSTERS", message));
        }
        (None, _) => {
            let message = format!("this runtime knows no cluster `{}`", request.name);
            return Err(Refusal::new(StatusCode::NOT_FOUND, "NOT_FOUND", message));
        }
    };
    let applications = going_there(running, &one);
    if applications > 0 && !request.force {
        let message = format!(
            "{applications} Applications go to `{}`, and could be compared and synced no more: delete or move them first, or force it; what they deployed stays in any case",
            one.name
        );
        return Err(conflict("CLUSTER_IN_USE", message));
    }
    let key = ObjectKey::new("", "Secret", running.settings.namespace(), &one.secret);
    running.cluster.delete(&key, Some(&one.uid), Propagation::Background, false).await?;
    tracing::info!(cluster = %one.name, server = %one.server, by = %asker.name, "A cluster was removed.");
    Ok(Json(ClusterRemoved { name: one.name, server: one.server, applications }))
}

/// All that is wrong with it, at once.
fn findings(request: &ClusterAdd) -> Vec<String> {
    let mut wrong = Vec::new();
    let name = &request.name;
    let is_label = name.len() <= NAME_CHARS_MAX
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && !name.ends_with('-')
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-');
    if !is_label || name == IN_CLUSTER.name {
        wrong.push(format!(
            "`{name}` is not a name for a cluster: use up to {NAME_CHARS_MAX} lowercase letters, digits and hyphens, a letter first, and not `in-cluster`"
        ));
    }
    let host = request.server.trim_end_matches('/').strip_prefix("https://").unwrap_or_default();
    if host.is_empty() || host.contains(['@', '?', '#', ' ', '\\']) || host.starts_with('/') {
        wrong.push(format!("`{}` is not the address of a cluster: use https://HOST[:PORT]", request.server));
    }
    if request.server.trim_end_matches('/') == IN_CLUSTER.server {
        wrong.push("the cluster that the runtime is in is known already, as `in-cluster`".to_owned());
    }
    if request.token.is_empty() || request.token.chars().any(|c| c.is_control() || c.is_whitespace()) {
        wrong.push("the token is empty, or has a space in it".to_owned());
    }
    if request.insecure && !request.ca_data.is_empty() {
        wrong.push(
            "certificates to check the server by, and not to look at its certificate, exclude each other"
                .to_owned(),
        );
    }
    let pem = STANDARD.decode(&request.ca_data).unwrap_or_default();
    if !request.ca_data.is_empty() && !String::from_utf8_lossy(&pem).contains("-----BEGIN CERTIFICATE-----") {
        wrong.push("caData holds no certificate: it is PEM in base64".to_owned());
    }
    if request.labels.len().max(request.annotations.len()) > NOTES_MAX {
        wrong.push(format!("up to {NOTES_MAX} labels and {NOTES_MAX} annotations"));
    }
    for key in request.labels.keys().chain(request.annotations.keys()) {
        if key == SECRET_TYPE || key.starts_with("slipway.io/") {
            wrong.push(format!("`{key}` is the runtime's own"));
        }
    }
    wrong
}

fn notes(given: &std::collections::BTreeMap<String, String>) -> impl Iterator<Item = (String, Value)> {
    given.iter().map(|(key, value)| (key.clone(), Value::from(value.as_str())))
}

/// The Secret's `config`, as Argo CD writes it.
fn connection(request: &ClusterAdd) -> String {
    let mut tls = json!({"insecure": request.insecure});
    if !request.ca_data.is_empty() {
        tls["caData"] = request.ca_data.as_str().into();
    }
    json!({"bearerToken": request.token, "tlsClientConfig": tls}).to_string()
}

/// Its version, if it can be used from here.
async fn tried(running: &Running, server: &str, config: &str) -> Result<String, Refusal> {
    let given = Given::parse(server, config).map_err(|why| refused("BAD_CLUSTER", why))?;
    let mut config = ClusterConfig::new(None);
    config.given = Some(Arc::new(given));
    config.reach = Some(reach(&running.config.egress));
    config.request_timeout = ANSWER_WITHIN;
    let asked = async {
        let cluster = Cluster::connect(config).await?;
        cluster.version().await
    };
    let answer = tokio::time::timeout(ANSWER_WITHIN, asked).await;
    let answer = answer.unwrap_or(Err(ClusterError::Deadline { seconds: ANSWER_WITHIN.as_secs() }));
    answer.map_err(|error| match error {
        ClusterError::Refused { code: 401 | 403, .. } => {
            refused("CLUSTER_REFUSES", format!("{server} refuses the token: is the account there, with its rights?"))
        }
        error => {
            let message = format!(
                "this runtime cannot use {server}: {error}; the address has to be one that the runtime reaches, with a certificate of the given authority"
            );
            refused("CLUSTER_UNREACHABLE", message)
        }
    })
}

/// The same for the same address, as Argo CD's CLI makes them.
fn secret_name(server: &str) -> String {
    let host = server.trim_start_matches("https://").split([':', '/']).next().unwrap_or_default();
    let host: String =
        host.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '.' || *c == '-').take(100).collect();
    let digest = hex::encode(&Sha256::digest(server.as_bytes())[..5]);
    format!("cluster-{}-{digest}", host.to_ascii_lowercase().trim_matches(['.', '-']))
}

/// A cluster that a Secret describes.
struct Known {
    secret: String,
    uid: String,
    name: String,
    server: String,
}

async fn known(running: &Running) -> Result<Vec<Known>, Refusal> {
    let kind = ObjectKey::new("", "Secret", running.settings.namespace(), "");
    let all = running.cluster.list_labelled(&kind, &format!("{SECRET_TYPE}=cluster")).await?;
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    let read = |object: &Value| {
        let server = field(&object["data"], "server").unwrap_or_default().trim_end_matches('/').to_owned();
        Known {
            secret: text(&object["metadata"]["name"]),
            uid: text(&object["metadata"]["uid"]),
            name: field(&object["data"], "name").unwrap_or_else(|| server.clone()),
            server,
        }
    };
    Ok(all.iter().map(read).collect())
}

fn going_there(running: &Running, cluster: &Known) -> usize {
    let goes = |key: &slipway_reconcile::Key| {
        running.inventory.application(key).is_some_and(|(app, _)| {
            let destination = &app.spec.destination;
            destination.server.trim_end_matches('/') == cluster.server || destination.name == cluster.name
        })
    };
    running.inventory.applications().iter().filter(|key| goes(key)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn good() -> ClusterAdd {
        ClusterAdd {
            name: "production".into(),
            server: "https://10.0.0.1:6443".into(),
            token: "t".into(),
            ..ClusterAdd::default()
        }
    }

    #[test]
    fn everything_that_is_wrong_is_said_at_once_and_the_token_never() {
        assert_eq!(findings(&good()), Vec::<String>::new());
        let bad = ClusterAdd {
            name: "In Cluster".into(),
            server: "http://user@host".into(),
            token: "can ary".into(),
            ca_data: "bm8=".into(),
            insecure: true,
            labels: [(SECRET_TYPE.to_owned(), "repository".to_owned())].into(),
            ..ClusterAdd::default()
        };
        let wrong = findings(&bad);
        assert_eq!(wrong.len(), 6, "{wrong:#?}");
        assert!(!wrong.concat().contains("can ary"));
        for name in ["", "1a", "a-", "in-cluster", &"a".repeat(64)] {
            assert_eq!(findings(&ClusterAdd { name: name.into(), ..good() }).len(), 1, "{name}");
        }
        for server in ["", "10.0.0.1", "https://", "https:///x", "https://kubernetes.default.svc"] {
            assert!(!findings(&ClusterAdd { server: server.into(), ..good() }).is_empty(), "{server}");
        }
    }

    #[test]
    fn a_secret_has_a_name_that_kubernetes_takes_and_no_two_addresses_share_one() {
        let one = secret_name("https://10.0.0.1:6443");
        assert!(one.starts_with("cluster-10.0.0.1-"), "{one}");
        assert_ne!(one, secret_name("https://10.0.0.1:6444"));
        let odd = secret_name("https://[2001:DB8::1]:6443");
        assert!(
            odd.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || "-.".contains(c)),
            "{odd}"
        );
    }
}
