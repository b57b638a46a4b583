//! Subresources that are not plain objects: logs, exec, attach, port-forward, proxy, eviction, tokens.

use std::sync::Arc;

use http::{Method, Response, StatusCode};
use serde_json::{Value, json};

use super::reply::{json_reply, streaming, text_reply};
use super::resources::{Target, body};
use super::{Ask, Body, channels, forward};
use crate::api::{Caller, Cluster, DeleteOptions};
use crate::error::{ApiError, ApiResult};
use crate::node::{Exec, ExecWish, LogOptions, LogSource, stream_logs};
use crate::value::{Json as _, parse_time, time_text};

pub(super) async fn handle(ask: Ask, target: Target) -> ApiResult<Response<Body>> {
    let namespace = target.namespace.clone().unwrap_or_default();
    let object = ask.cluster.fetch(&target.resource, &namespace, target.name())?.value();
    match (target.subresource.as_str(), ask.method()) {
        ("log", &Method::GET) => log(ask, object).await,
        ("exec" | "attach", &Method::GET | &Method::POST) => exec(ask, &target.subresource, object).await,
        ("portforward", &Method::GET | &Method::POST) => forward::start(ask, object).await,
        ("proxy", _) => forward::proxy(ask, &target, object).await,
        ("eviction", &Method::POST) => evict(ask, &target, &namespace).await,
        ("token", &Method::POST) => token(ask, &namespace, object).await,
        ("binding", &Method::POST) => {
            Err(ApiError::bad_request("pods are bound by the cluster itself; it has one node"))
        }
        _ => Err(ApiError::method("the server does not allow this method on the requested resource")),
    }
}

/// The container a request means, by name or because there is only one.
pub(super) fn choose(pod: &Value, asked: &str) -> ApiResult<String> {
    let names: Vec<&str> = ["spec.containers", "spec.initContainers"]
        .iter()
        .flat_map(|l| pod.list_at(l))
        .map(|c| c.str_at("name"))
        .collect();
    if !asked.is_empty() {
        if names.contains(&asked) {
            return Ok(asked.to_owned());
        }
        return Err(ApiError::bad_request(format!("container {asked} is not valid for pod {}", pod.name())));
    }
    match pod.list_at("spec.containers") {
        [only] => Ok(only.str_at("name").to_owned()),
        _ => Err(ApiError::bad_request(format!(
            "a container name must be specified for pod {}, choose one of: [{}]",
            pod.name(),
            names.join(" ")
        ))),
    }
}

fn status_of<'a>(pod: &'a Value, container: &str) -> Option<&'a Value> {
    let all =
        pod.list_at("status.containerStatuses").iter().chain(pod.list_at("status.initContainerStatuses"));
    all.into_iter().find(|s| s.str_at("name") == container)
}

async fn log(ask: Ask, pod: Value) -> ApiResult<Response<Body>> {
    let container = choose(&pod, ask.query.get("container"))?;
    if pod.str_at("spec.nodeName").is_empty() {
        // Nobody to ask yet: no log, and no mistake either.
        let mut response = text_reply("");
        *response.status_mut() = StatusCode::NO_CONTENT;
        return Ok(response);
    }
    let status = status_of(&pod, &container);
    let mut attempt = status.and_then(|s| s.int_at("restartCount")).unwrap_or(0);
    let waiting = status.is_none_or(|s| s.at("state.waiting").is_some());
    let never_ran = waiting && status.is_none_or(|s| s.at("lastState.terminated").is_none());
    if ask.query.flag("previous") {
        let ended_now = status.is_some_and(|s| {
            s.at("state.terminated").is_some() || (waiting && s.at("lastState.terminated").is_some())
        });
        if attempt == 0 && !(waiting && ended_now) {
            return Err(ApiError::bad_request(format!(
                "previous terminated container \"{container}\" in pod \"{}\" not found",
                pod.name()
            )));
        }
        if !waiting {
            attempt -= 1;
        }
    } else if never_ran {
        let reason = status
            .map(|s| s.str_at("state.waiting.reason"))
            .filter(|r| !r.is_empty())
            .unwrap_or("ContainerCreating");
        let why = match reason {
            "ErrImagePull" => "image can't be pulled",
            "ImagePullBackOff" => "trying and failing to pull image",
            reason => reason,
        };
        return Err(ApiError::bad_request(format!(
            "container \"{container}\" in pod \"{}\" is waiting to start: {why}",
            pod.name()
        )));
    }
    let since = match ask.query.number("sinceSeconds") {
        Some(seconds) => Some(jiff::Timestamp::now() - jiff::SignedDuration::from_secs(seconds)),
        None => parse_time(ask.query.get("sinceTime")),
    };
    let options = LogOptions {
        follow: ask.query.flag("follow"),
        timestamps: ask.query.flag("timestamps"),
        tail: ask.query.number("tailLines").map(|n| n.max(0) as usize),
        since,
        limit_bytes: ask.query.number("limitBytes").map(|n| n.max(0) as usize),
    };
    let (sender, response) = streaming("text/plain");
    let source = LogSource { pod, container, attempt };
    let shutdown = ask.shutdown.clone();
    let cluster: Arc<Cluster> = ask.cluster;
    tokio::spawn(async move {
        tokio::select! {
            () = shutdown.cancelled() => {}
            () = stream_logs(cluster, source, options, sender) => {}
        }
    });
    Ok(response)
}

async fn exec(ask: Ask, kind: &str, pod: Value) -> ApiResult<Response<Body>> {
    let container = choose(&pod, ask.query.get("container"))?;
    let status = status_of(&pod, &container).filter(|s| s.at("state.running").is_some());
    let Some(status) = status else {
        return Err(ApiError::bad_request(format!(
            "unable to {kind}: container \"{container}\" of pod \"{}\" is not running",
            pod.name()
        )));
    };
    let attempt = status.int_at("restartCount").unwrap_or(0);
    let Some(engine) = ask.cluster.node.engine() else {
        return Err(ApiError::new(
            503,
            "ServiceUnavailable",
            ask.cluster.node.unavailable().unwrap_or_default(),
        ));
    };
    let wish = ExecWish {
        command: ask.query.all("command"),
        stdin: ask.query.flag("stdin"),
        tty: ask.query.flag("tty"),
    };
    if kind == "exec" && wish.command.is_empty() {
        return Err(ApiError::bad_request("you must specify at least one command for the container"));
    }
    let attach = kind == "attach";
    channels::upgrade(ask, move || {
        if attach {
            Exec::attach(&engine, &pod, &container, attempt, &wish)
        } else {
            Exec::start(&engine, &pod, &container, attempt, &wish)
        }
    })
}

async fn evict(mut ask: Ask, target: &Target, namespace: &str) -> ApiResult<Response<Body>> {
    let eviction = body(&mut ask).await?;
    let options = DeleteOptions::from_json(eviction.get("deleteOptions").unwrap_or(&json!({})))?;
    let mut caller = Caller::internal("kubectl-evict");
    ask.cluster.delete(&target.resource, namespace, target.name(), &options, &mut caller).await?;
    Ok(json_reply(
        StatusCode::CREATED,
        &json!({"kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Success", "code": 201}),
    ))
}

/// A token that somebody asked for is good for a day at most; they ask again.
const SECONDS_MAX: i64 = 86_400;

async fn token(mut ask: Ask, namespace: &str, account: Value) -> ApiResult<Response<Body>> {
    let mut request = body(&mut ask).await?;
    let seconds = request.int_at("spec.expirationSeconds").unwrap_or(3600).clamp(600, SECONDS_MAX);
    let mut claims = crate::auth::claims(
        namespace,
        account.name(),
        account.uid(),
        request.list_at("spec.audiences"),
        seconds,
    );
    let bound = request.at("spec.boundObjectRef").cloned().unwrap_or_default();
    if !bound.str_at("name").is_empty() {
        let kind = bound.str_at("kind").to_lowercase();
        if !matches!(kind.as_str(), "pod" | "secret") {
            return Err(ApiError::bad_request("a token can be bound to a Pod or a Secret"));
        }
        let found = ask.cluster.get(&format!("{kind}s"), namespace, bound.str_at("name"));
        let uid = found.map(|object| object.uid().to_owned()).unwrap_or_default();
        claims["kubernetes.io"][kind.as_str()] = json!({"name": bound.str_at("name"), "uid": uid});
    }
    let expires = jiff::Timestamp::now() + jiff::SignedDuration::from_secs(seconds);
    let token = ask.cluster.tokens.issue(&claims);
    request.set_at("apiVersion", json!("authentication.k8s.io/v1"));
    request.set_at("kind", json!("TokenRequest"));
    request.set_at("spec.expirationSeconds", json!(seconds));
    request.set_at("status", json!({"token": token, "expirationTimestamp": time_text(expires)}));
    Ok(json_reply(StatusCode::CREATED, &request))
}
