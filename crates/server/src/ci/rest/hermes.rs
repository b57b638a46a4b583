//! Triggers by events that are not Git's: registries and their like, under the names that published clients use.
//!
//! An event is a name (`registry:dockerhub:library:redis:push:ACCOUNT`) with a secret; whoever announces it with the
//! secret starts the pipelines that are connected to it, if the filters fit. A schedule is an event too
//! (`cron:codefresh:EXPRESSION:MESSAGE:ACCOUNT`), which nobody announces but the clock.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, Query, State};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use slipway_access::Resource;
use slipway_api::error::ErrorBody;
use slipway_model::{AccountId, Fact, ImageEvent};
use slipway_store::trigger_events::{self, EventTrigger, TriggerEvent};
use slipway_store::{Scope, StoreError, Tx, cron, facts, inbox};
use utoipa::{IntoParams, ToSchema};

use crate::ci::trigger_events::CRON;
use crate::ci::triggers::images;
use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::access;
use crate::identity::auth::Caller;
use crate::identity::trail::Entry;
use slipway_dialect::cron::{Dialect, Schedule};
use slipway_dialect::percent;

const KINDS: [(&str, &str); 5] = [
    ("registry", "dockerhub"),
    ("registry", "quay"),
    ("registry", "azure"),
    ("registry", "jfrog"),
    ("cron", "codefresh"),
];

/// As many as of those that stand in pipelines.
const SCHEDULES_MAX: usize = 100;

/// The name of the account in events that everybody may use; there are none here.
const PUBLIC: &str = "000000000000";

/// Names arrive encoded twice.
fn decoded(text: &str) -> String {
    percent::decode(&percent::decode(text))
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ShownTrigger {
    event: String,
    pipeline: String,
    #[schema(value_type = Object)]
    filters: Value,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct ShownEvent {
    uri: String,
    #[serde(rename = "type")]
    group: String,
    kind: String,
    account: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    secret: Option<String>,
    status: String,
    endpoint: String,
    description: String,
    help: String,
}

fn connected(tx: &mut Tx<'_>, caller: &Caller) -> Result<Vec<(EventTrigger, String)>, ApiError> {
    let mut found = Vec::new();
    for link in trigger_events::links(tx, caller.scope())? {
        // Only what the caller may see.
        if crate::ci::rest::pipelines::find(tx, caller, &link.pipeline.to_string(), "read").is_ok() {
            let name = link.pipeline.to_string();
            found.push((link, name));
        }
    }
    Ok(found)
}

fn shown_trigger((link, pipeline): (EventTrigger, String)) -> ShownTrigger {
    let filters = serde_json::from_str(&link.filters).unwrap_or_default();
    ShownTrigger { event: link.uri, pipeline, filters }
}

/// Triggers: which events start which pipelines.
#[utoipa::path(get, path = "/api/hermes/triggers", tag = "triggers", responses((status = 200, body = [ShownTrigger])))]
pub(crate) async fn triggers(
    State(server): State<Server>,
    caller: Caller,
) -> Result<Json<Vec<ShownTrigger>>, ApiError> {
    let found = server.look(move |tx| connected(tx, &caller)).await?;
    Ok(Json(found.into_iter().map(shown_trigger).collect()))
}

/// Events that trigger a pipeline.
#[utoipa::path(get, path = "/api/hermes/triggers/pipeline/{pipeline}", tag = "triggers", params(("pipeline" = String, Path)),
    responses((status = 200, body = [ShownTrigger]), (status = 404, body = ErrorBody)))]
pub(crate) async fn triggers_of_pipeline(
    State(server): State<Server>,
    caller: Caller,
    Path(pipeline): Path<String>,
) -> Result<Json<Vec<ShownTrigger>>, ApiError> {
    let found = server
        .look(move |tx| {
            let row = crate::ci::rest::pipelines::find(tx, &caller, &pipeline, "read")?;
            let mut all = connected(tx, &caller)?;
            all.retain(|(link, _)| link.pipeline == row.id);
            Ok(all)
        })
        .await?;
    Ok(Json(found.into_iter().map(shown_trigger).collect()))
}

/// Pipelines that an event triggers.
#[utoipa::path(get, path = "/api/hermes/triggers/event/{event}", tag = "triggers", params(("event" = String, Path)),
    responses((status = 200, body = [ShownTrigger])))]
pub(crate) async fn triggers_of_event(
    State(server): State<Server>,
    caller: Caller,
    Path(event): Path<String>,
) -> Result<Json<Vec<ShownTrigger>>, ApiError> {
    let wanted = decoded(&event);
    let found = server.look(move |tx| connected(tx, &caller)).await?;
    Ok(Json(found.into_iter().filter(|(link, _)| link.uri == wanted).map(shown_trigger).collect()))
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default)]
pub(crate) struct Connect {
    /// Names of variables and regular expressions that their values must fit.
    #[schema(value_type = Object)]
    filters: BTreeMap<String, String>,
}

/// Trigger a pipeline by an event.
#[utoipa::path(post, path = "/api/hermes/triggers/{event}/{pipeline}", tag = "triggers", request_body = Connect,
    params(("event" = String, Path), ("pipeline" = String, Path)),
    responses((status = 200, body = String), (status = 404, body = ErrorBody)))]
pub(crate) async fn connect(
    State(server): State<Server>,
    caller: Caller,
    Path((event, pipeline)): Path<(String, String)>,
    body: axum::body::Bytes,
) -> Result<Json<String>, ApiError> {
    let uri = decoded(&event);
    // Published clients send nothing where there are no filters.
    let body: Connect = match body.is_empty() {
        true => Connect::default(),
        false => serde_json::from_slice(&body).map_err(|error| {
            ApiError::bad_request(format!("filters must map names to expressions: {error}"))
        })?,
    };
    let now_ms = server.now_ms();
    server
        .change(move |tx| {
            let row = crate::ci::rest::pipelines::find(tx, &caller, &pipeline, "update")?;
            trigger_events::by_uri(tx, caller.scope(), &uri)?
                .ok_or_else(|| ApiError::not_found(format!("event `{uri}`")))?;
            let schedules = |link: &&EventTrigger| link.uri.starts_with(CRON);
            if uri.starts_with(CRON)
                && trigger_events::links(tx, caller.scope())?.iter().filter(schedules).count()
                    >= SCHEDULES_MAX
            {
                return Err(ApiError::bad_request(format!(
                    "an account has at most {SCHEDULES_MAX} of these schedules: disconnect some"
                )));
            }
            let filters = serde_json::to_string(&body.filters).map_err(StoreError::corrupt)?;
            let link = EventTrigger { uri: uri.clone(), pipeline: row.id, filters };
            trigger_events::connect(tx, caller.scope(), &link)?;
            if uri.starts_with(CRON) {
                // Ticks from now on.
                cron::note_tick(tx, row.id, &uri, now_ms)?;
            }
            let entry = Entry::new("connect", "trigger", &uri, &row.name).after(&body.filters);
            caller.trail.allowed(tx, &caller.actor(), &entry)?;
            Ok(())
        })
        .await?;
    Ok(Json("ok".into()))
}

/// Stop triggering a pipeline by an event.
#[utoipa::path(delete, path = "/api/hermes/triggers/{event}/{pipeline}", tag = "triggers",
    params(("event" = String, Path), ("pipeline" = String, Path)),
    responses((status = 200, body = String), (status = 404, body = ErrorBody)))]
pub(crate) async fn disconnect(
    State(server): State<Server>,
    caller: Caller,
    Path((event, pipeline)): Path<(String, String)>,
) -> Result<Json<String>, ApiError> {
    let uri = decoded(&event);
    server
        .change(move |tx| {
            let row = crate::ci::rest::pipelines::find(tx, &caller, &pipeline, "update")?;
            if !trigger_events::disconnect(tx, caller.scope(), &uri, row.id)? {
                return Err(ApiError::not_found(format!("a trigger of `{uri}`")));
            }
            let waits = |link: &EventTrigger| link.uri == uri;
            if uri.starts_with(CRON) && !trigger_events::links(tx, caller.scope())?.iter().any(waits) {
                // A schedule that nobody waits for is nothing.
                trigger_events::delete(tx, caller.scope(), &uri)?;
            }
            caller.trail.allowed(
                tx,
                &caller.actor(),
                &Entry::new("disconnect", "trigger", &uri, &row.name),
            )?;
            Ok(())
        })
        .await?;
    Ok(Json("ok".into()))
}

fn place(account: AccountId, uri: &str) -> String {
    format!("trigger-event/{account}/{uri}")
}

fn shown_event(server: &Server, scope: Scope, event: &TriggerEvent, secret: Option<String>) -> ShownEvent {
    let (group, kind) = event.kind.split_once(':').unwrap_or((&event.kind, ""));
    let account = scope.account().to_string();
    let shown_secret = secret.clone().unwrap_or_else(|| "SECRET".into());
    ShownEvent {
        uri: event.uri.clone(),
        group: group.to_owned(),
        kind: kind.to_owned(),
        status: "active".into(),
        endpoint: format!("{}/nomios/{kind}?account={account}&secret={shown_secret}", server.public_url()),
        description: event.description.clone(),
        help: "register this address as a webhook at the registry".into(),
        account,
        secret,
    }
}

#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
pub(crate) struct EventQuery {
    #[serde(rename = "type")]
    group: Option<String>,
    kind: Option<String>,
    filter: Option<String>,
}

/// Events that can trigger pipelines.
#[utoipa::path(get, path = "/api/hermes/events", tag = "triggers", params(EventQuery), responses((status = 200, body = [ShownEvent])))]
pub(crate) async fn events(
    State(server): State<Server>,
    caller: Caller,
    Query(query): Query<EventQuery>,
) -> Result<Json<Vec<ShownEvent>>, ApiError> {
    let scope = caller.scope();
    let rows = server.store().read(move |tx| trigger_events::list(tx, scope)).await?;
    let fits = |event: &&TriggerEvent| {
        let (group, kind) = event.kind.split_once(':').unwrap_or_default();
        query.group.as_deref().is_none_or(|wanted| wanted.is_empty() || wanted == group)
            && query.kind.as_deref().is_none_or(|wanted| wanted.is_empty() || wanted == kind)
            && query.filter.as_deref().is_none_or(|wanted| event.uri.contains(wanted))
    };
    Ok(Json(rows.iter().filter(fits).map(|event| shown_event(&server, scope, event, None)).collect()))
}

/// One event.
#[utoipa::path(get, path = "/api/hermes/events/{event}", tag = "triggers", params(("event" = String, Path)),
    responses((status = 200, body = ShownEvent), (status = 404, body = ErrorBody)))]
pub(crate) async fn event(
    State(server): State<Server>,
    caller: Caller,
    Path(event): Path<String>,
) -> Result<Json<ShownEvent>, ApiError> {
    let (scope, uri) = (caller.scope(), decoded(&event));
    let wanted = uri.clone();
    let found = server.store().read(move |tx| trigger_events::by_uri(tx, scope, &wanted)).await?;
    let row = found.ok_or_else(|| ApiError::not_found(format!("event `{uri}`")))?;
    Ok(Json(shown_event(&server, scope, &row, None)))
}

#[derive(Debug, Default, Deserialize, ToSchema)]
#[serde(default)]
pub(crate) struct NewEvent {
    #[serde(rename = "type")]
    group: String,
    kind: String,
    /// `!generate`, or one of one's own.
    secret: String,
    /// `namespace`, `name` and `action` of a registry's event.
    #[schema(value_type = Object)]
    values: BTreeMap<String, String>,
}

/// Create an event. The answer is its name; its secret is shown once.
#[utoipa::path(post, path = "/api/hermes/events", tag = "triggers", request_body = NewEvent,
    responses((status = 200, body = String), (status = 400, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn create_event(
    State(server): State<Server>,
    caller: Caller,
    Json(new): Json<NewEvent>,
) -> Result<Json<String>, ApiError> {
    let (scope, account) = (caller.scope(), caller.principal.account);
    if !KINDS.contains(&(new.group.as_str(), new.kind.as_str())) {
        let known: Vec<_> = KINDS.iter().map(|(group, kind)| format!("{group}:{kind}")).collect();
        return Err(ApiError::bad_request(format!(
            "unknown event type `{}:{}`: use one of {}",
            new.group,
            new.kind,
            known.join(", ")
        )));
    }
    if new.group == "cron" {
        return create_schedule(server, caller, &new).await;
    }
    let value = |name: &str| new.values.get(name).map(String::as_str).unwrap_or_default();
    let (namespace, name) = (value("namespace"), value("name"));
    let good = |text: &str| {
        !text.is_empty() && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c))
    };
    if !good(namespace) || !good(name) {
        return Err(ApiError::bad_request("values needs `namespace` and `name` of the image"));
    }
    let uri = format!("{}:{}:{namespace}:{name}:push:{account}", new.group, new.kind);
    let secret = match new.secret.as_str() {
        "" | "!generate" => hex::encode(server.seams().random::<20>()),
        own if own.len() >= 16 => own.to_owned(),
        _ => {
            return Err(ApiError::bad_request(
                "a secret has at least 16 characters; `!generate` creates one",
            ));
        }
    };
    let key = server.data_key(account).await?;
    let row = TriggerEvent {
        secret: key.seal(server.seams(), &place(account, &uri), &secret),
        kind: format!("{}:{}", new.group, new.kind),
        description: format!("push of {namespace}/{name}"),
        created_ms: server.now_ms(),
        uri: uri.clone(),
    };
    server
        .change(move |tx| {
            trigger_events::create(tx, scope, &row)?;
            caller.trail.allowed(
                tx,
                &caller.actor(),
                &Entry::new("create", "trigger-event", &row.uri, &row.description),
            )?;
            Ok(())
        })
        .await?;
    Ok(Json(uri))
}

/// Create an event, at the path that the published Terraform provider uses.
#[utoipa::path(post, path = "/api/hermes/events/", tag = "triggers", request_body = NewEvent,
    responses((status = 200, body = String), (status = 400, body = ErrorBody), (status = 409, body = ErrorBody)))]
pub(crate) async fn create_event_with_slash(
    server: State<Server>,
    caller: Caller,
    new: Json<NewEvent>,
) -> Result<Json<String>, ApiError> {
    create_event(server, caller, new).await
}

/// Two pipelines may wait for the same one: making it again is no mistake.
async fn create_schedule(server: Server, caller: Caller, new: &NewEvent) -> Result<Json<String>, ApiError> {
    let value = |name: &str| new.values.get(name).map(|text| text.trim().to_owned()).unwrap_or_default();
    let (expression, message) = (value("expression"), value("message"));
    let mut wrong: Vec<String> = Schedule::parse(&expression, Dialect::Triggers).err().into_iter().collect();
    let plain = |c: char| c.is_alphanumeric() || " _-.".contains(c);
    if message.is_empty() || message.len() > 200 || !message.chars().all(plain) {
        wrong.push("values.message is required: letters, digits, spaces, `_`, `-` and `.`".to_owned());
    }
    if !wrong.is_empty() {
        return Err(ApiError::findings("this schedule is not valid", &wrong));
    }
    let (scope, now_ms) = (caller.scope(), server.now_ms());
    let uri = format!("{CRON}{expression}:{message}:{}", caller.principal.account);
    let row = TriggerEvent {
        uri: uri.clone(),
        kind: "cron:codefresh".to_owned(),
        secret: String::new(),
        description: format!("{message} ({expression})"),
        created_ms: now_ms,
    };
    server
        .change(move |tx| {
            if trigger_events::by_uri(tx, scope, &row.uri)?.is_none() {
                trigger_events::create(tx, scope, &row)?;
                let entry = Entry::new("create", "trigger-event", &row.uri, &row.description);
                caller.trail.allowed(tx, &caller.actor(), &entry)?;
            }
            Ok(())
        })
        .await?;
    Ok(Json(uri))
}

/// The webhook URL with its secret, for registering it at the registry; every access is recorded.
#[utoipa::path(get, path = "/api/hermes/events/{event}/endpoint", tag = "triggers", params(("event" = String, Path)),
    responses((status = 200, body = ShownEvent), (status = 404, body = ErrorBody)))]
pub(crate) async fn endpoint(
    State(server): State<Server>,
    caller: Caller,
    Path(event): Path<String>,
) -> Result<Json<ShownEvent>, ApiError> {
    let (scope, account, uri) = (caller.scope(), caller.principal.account, decoded(&event));
    let may_see = access::disclose(&caller, Resource::Pipelines)?;
    let key = server.data_key(account).await?;
    let inner = server.clone();
    let found = server
        .change(move |tx| {
            let row = trigger_events::by_uri(tx, scope, &uri)?
                .ok_or_else(|| ApiError::not_found(format!("event `{uri}`")))?;
            caller.trail.allowed(
                tx,
                &caller.actor(),
                &Entry::new("decrypt", "trigger-event", &uri, &row.description),
            )?;
            let secret = may_see.open(&key, &place(account, &uri), &row.secret);
            Ok(shown_event(&inner, scope, &row, secret))
        })
        .await?;
    Ok(Json(found))
}

/// Delete an event and its triggers.
#[utoipa::path(delete, path = "/api/hermes/events/{event}/{context}", tag = "triggers", params(("event" = String, Path), ("context" = String, Path)),
    responses((status = 200, body = String), (status = 404, body = ErrorBody)))]
pub(crate) async fn delete_event(
    State(server): State<Server>,
    caller: Caller,
    Path((event, _context)): Path<(String, String)>,
) -> Result<Json<String>, ApiError> {
    let uri = decoded(&event);
    server
        .change(move |tx| {
            let row = trigger_events::by_uri(tx, caller.scope(), &uri)?
                .ok_or_else(|| ApiError::not_found(format!("event `{uri}`")))?;
            trigger_events::delete(tx, caller.scope(), &uri)?;
            caller.trail.allowed(
                tx,
                &caller.actor(),
                &Entry::new("delete", "trigger-event", &uri, &row.description),
            )?;
            Ok(())
        })
        .await?;
    Ok(Json("ok".into()))
}

#[derive(Debug, Serialize, ToSchema)]
#[serde(rename_all = "kebab-case")]
pub(crate) struct EventKind {
    #[serde(rename = "type")]
    group: String,
    kind: String,
    uri_template: String,
    uri_regex: String,
    help_url: String,
    config: Vec<EventField>,
    filters: Vec<EventField>,
}

#[derive(Debug, Serialize, ToSchema)]
pub(crate) struct EventField {
    name: String,
    #[serde(rename = "type")]
    kind: String,
    required: bool,
    help: String,
}

/// Event types.
#[utoipa::path(get, path = "/api/hermes/types", tag = "triggers", responses((status = 200, body = [EventKind])))]
pub(crate) async fn types(_: Caller) -> Json<Vec<EventKind>> {
    let field = |name: &str, required: bool, help: &str| EventField {
        name: name.into(),
        kind: "string".into(),
        required,
        help: help.into(),
    };
    let schedule = EventKind {
        group: "cron".into(),
        kind: "codefresh".into(),
        uri_template: format!("{CRON}{{{{expression}}}}:{{{{message}}}}"),
        uri_regex: format!("^{CRON}.+:.+$"),
        help_url: String::new(),
        config: vec![
            field("expression", true, "five fields, or six with seconds first; in UTC"),
            field("message", true, "what it is for"),
        ],
        filters: Vec::new(),
    };
    let registries = KINDS.iter().filter(|(group, _)| *group == "registry");
    let kinds = registries.map(|(group, kind)| EventKind {
        group: (*group).into(),
        kind: (*kind).into(),
        uri_template: format!("{group}:{kind}:{{{{namespace}}}}:{{{{name}}}}:push"),
        uri_regex: format!("^{group}:{kind}:[a-z0-9_./-]+:[a-z0-9_./-]+:push:.+$"),
        help_url: String::new(),
        config: vec![
            field("namespace", true, "of the image, `library` for one without"),
            field("name", true, "of the image"),
        ],
        filters: vec![field("tag", false, "a regular expression that the tag must match")],
    });
    Json(kinds.chain([schedule]).collect())
}

#[derive(Debug, Deserialize)]
pub(crate) struct AnnounceQuery {
    account: String,
    secret: String,
}

/// What an announcement says of an image, by kind of registry.
fn image(kind: &str, body: &Value) -> Option<(String, String, String)> {
    let text = |path: &str| body.pointer(path).and_then(Value::as_str).map(str::to_owned);
    let (whole, tag) = match kind {
        "dockerhub" => (text("/repository/repo_name")?, text("/push_data/tag")?),
        "quay" => (text("/repository")?, text("/updated_tags/0")?),
        "azure" => (text("/target/repository")?, text("/target/tag")?),
        "jfrog" => (text("/data/image_name")?, text("/data/tag")?),
        _ => return None,
    };
    let (namespace, name) = whole.rsplit_once('/').unwrap_or(("library", &whole));
    Some((namespace.to_owned(), name.to_owned(), tag))
}

/// A registry announces a push. Durable before the answer; the same announcement again changes nothing.
pub(crate) async fn announce(
    State(server): State<Server>,
    Path(kind): Path<String>,
    Query(query): Query<AnnounceQuery>,
    body: axum::body::Bytes,
) -> Result<Json<Value>, ApiError> {
    let unknown = || ApiError::not_found("this event");
    let account: AccountId = query.account.parse().map_err(|_| unknown())?;
    if query.account == PUBLIC {
        return Err(unknown());
    }
    let scope = Scope::of(account);
    let key = server.data_key(account).await.map_err(|_| unknown())?;
    let all = server.store().read(move |tx| trigger_events::of_account(tx, account)).await?;
    // The secret first: what somebody without it sent is not even read.
    let knows = |event: &&TriggerEvent| {
        let opened = key.unseal(&place(account, &event.uri), &event.secret);
        opened.is_some_and(|secret| {
            aws_lc_rs::constant_time::verify_slices_are_equal(
                secret.expose().as_bytes(),
                query.secret.as_bytes(),
            )
            .is_ok()
        })
    };
    let known: Vec<_> =
        all.iter().filter(|event| event.kind == format!("registry:{kind}")).filter(knows).cloned().collect();
    if known.is_empty() {
        return Err(ApiError::unauthenticated());
    }
    let parsed: Value =
        serde_json::from_slice(&body).map_err(|_| ApiError::bad_request("the webhook's body is not JSON"))?;
    let (namespace, name, tag) =
        image(&kind, &parsed).ok_or_else(|| ApiError::bad_request("the webhook has no image and tag"))?;
    let prefix = format!("registry:{kind}:{namespace}:{name}:push:");
    let Some(event) = known.into_iter().find(|event| event.uri.starts_with(&prefix)) else {
        return Err(ApiError::not_found("an event of this image"));
    };
    let (pusher, pushed_at) = (pusher(&parsed), pushed_at(&parsed, server.now_ms()));
    let payload = parsed.to_string();
    let delivery = hex::encode(aws_lc_rs::digest::digest(&aws_lc_rs::digest::SHA256, &body));
    let now_ms = server.now_ms();
    let image = ImageEvent { event: event.uri, namespace, name, tag, pusher, pushed_at, payload, delivery };
    let started = server
        .change(move |tx| {
            if !inbox::first_time(tx, &format!("event:{}", image.event), &image.delivery, now_ms)? {
                return Ok(0);
            }
            let fits = images::candidates(tx, scope, &image)?.len();
            facts::note(tx, account, &Fact::ImagePushed { account, image: Box::new(image) }, now_ms)?;
            Ok(fits)
        })
        .await?;
    Ok(Json(json!({"started": started})))
}

/// Who pushed, where the registry says so.
fn pusher(announced: &Value) -> String {
    let places = ["/push_data/pusher", "/operator", "/events/0/actor/name", "/trigger_metadata/user", "/by"];
    let found = places.iter().find_map(|place| announced.pointer(place).and_then(Value::as_str));
    found.unwrap_or_default().to_owned()
}

/// When, in RFC 3339: what the registry says, or when it was heard.
fn pushed_at(announced: &Value, now_ms: i64) -> String {
    let seconds = ["/push_data/pushed_at", "/occur_at"]
        .iter()
        .find_map(|place| announced.pointer(place).and_then(Value::as_i64));
    let written = ["/events/0/timestamp", "/time", "/timestamp"]
        .iter()
        .find_map(|place| announced.pointer(place).and_then(Value::as_str));
    match (seconds, written) {
        (Some(seconds), _) => crate::seams::rfc3339(seconds.saturating_mul(1000)),
        (None, Some(text)) => text.to_owned(),
        (None, None) => crate::seams::rfc3339(now_ms),
    }
}
