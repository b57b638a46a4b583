//! Passes for a runtime's app-proxy: may they do this to that Application? Asked by the caller, who gets a pass for it; and again by the
//! runtime, who is shown the pass.
//!
//! In: the caller's own credential and the operation, which says what a rule has to allow, what a limited key has to hold, and
//! whether a browser has to prove that its page asked. Out: a pass, or why not. What changes something is recorded here, at
//! the moment of the decision, as are all refusals; how an operation went on, the runtime's next report tells. A runtime sees
//! no cookie and no key: it asks about the pass with a key of its own, and hears the caller's name.

use axum::Json;
use axum::extract::{Path, State};
use axum::http::{HeaderMap, Method};
use serde_json::{Value, json};
use slipway_access::{About, Policy, Resource, Role, Verb, Who, decide, decide_on, lacks_scope};
use slipway_api::application::{
    Application, Pass, PassMoment, PassQuestion, ProxyAnswer, ProxyOperation, ProxyQuestion,
};
use slipway_api::error::ErrorBody;
use slipway_store::{Tx, applications, inbox, runtimes};

use crate::ctx::Server;
use crate::gitops::passes::{Bearer, Claims, LIVES_MS};
use crate::gitops::reach;
use crate::http::error::ApiError;
use crate::identity::access;
use crate::identity::auth::{self, Caller};
use crate::identity::trail::Entry;
use crate::seams;

/// Longer ones are not kept: nothing that can be asked for is.
const DETAIL_BYTES_MAX: usize = 4 << 10;

const OUTCOME_CHARS_MAX: usize = 200;
const CLUSTER_NAME_CHARS_MAX: usize = 63;

/// A pass for one operation on one Application of a runtime, and where to show it. Every pass for something that changes anything is
/// recorded.
#[utoipa::path(post, path = "/api/runtimes/{runtime}/pass", tag = "gitops", params(("runtime" = String, Path)), request_body = ProxyQuestion,
    responses((status = 200, body = Pass), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn pass(
    State(server): State<Server>,
    caller: Caller,
    Path(runtime): Path<String>,
    headers: HeaderMap,
    Json(question): Json<ProxyQuestion>,
) -> Result<Json<Pass>, ApiError> {
    let (kind, place, name) = match question.operation.about() {
        About::Application => {
            let place = format!("{runtime}/{}/{}", question.namespace, question.name);
            ("application", place, question.name.clone())
        }
        About::Git | About::Runtime => ("runtime", runtime.clone(), runtime.clone()),
        About::Cluster => {
            let named = question.detail.as_ref().and_then(|detail| detail["name"].as_str());
            let name: String = named.unwrap_or_default().chars().take(CLUSTER_NAME_CHARS_MAX).collect();
            ("cluster", format!("{runtime}/{name}"), name)
        }
    };
    let detail = question.detail.clone().filter(|detail| detail.to_string().len() <= DETAIL_BYTES_MAX);
    let account = caller.principal.account;
    let now_ms = server.now_ms();
    let claims = Claims::new(server.seams(), &runtime, &question, Bearer::of(&caller.credential), now_ms);
    let entry = Entry::new(question.operation.word(), kind, &place, &name);
    let entry = match question.operation {
        // Its end is recorded too, and found by this.
        ProxyOperation::Exec => entry.after(json!({"session": claims.nonce, "request": detail})),
        _ => entry.after(&detail),
    };
    let asked = Asked { caller: caller.clone(), question, runtime, entry: entry.clone() };
    let decided = match asked.admissible(&headers) {
        Ok(()) => asked.clone().decided(&server).await,
        Err(refusal) => Err(refusal),
    };
    if let Err(refusal) = &decided {
        let refused = entry.because(refusal.reason());
        caller.trail.afterwards(caller.actor(), refused, "denied", refusal.status().as_u16()).await?;
    }
    let address = decided?;
    let url = reach::url(&server, account, &asked.runtime, &address);
    if url.is_empty() {
        return Err(ApiError::conflict(format!(
            "runtime `{}` has no address: its name is none that a tunnel can have; rename it, or give it an ingress URL",
            asked.runtime
        )));
    }
    let token = claims.seal(server.seams(), server.data_key(account).await?.as_ref());
    Ok(Json(Pass { token, url, expires: seams::rfc3339(now_ms + LIVES_MS) }))
}

/// Asked by a runtime's app-proxy with its own key: is this pass good for what its bearer asks for? Whose pass it is may do that now,
/// or the answer is no, whatever was so when it was given.
#[utoipa::path(post, path = "/api/access/application", tag = "rules", request_body = PassQuestion,
    responses((status = 200, body = ProxyAnswer), (status = 401, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn application(
    State(server): State<Server>,
    caller: Caller,
    Json(PassQuestion { pass, question, moment, outcome }): Json<PassQuestion>,
) -> Result<Json<ProxyAnswer>, ApiError> {
    let Who::Runtime { name: runtime } = caller.principal.who.clone() else {
        return Err(ApiError::forbidden("this needs a runtime's key"));
    };
    let key = server.data_key(caller.principal.account).await?;
    let claims = Claims::open(&key, &pass)
        .ok_or_else(|| ApiError::refused_credential("this pass was not given for this runtime"))?;
    if let Some(why) = claims.unfit(&runtime, &question, moment, server.now_ms()) {
        return Err(ApiError::refused_credential(why));
    }
    if moment == PassMoment::Ended {
        return ended(&server, caller, &claims, &question, outcome).await;
    }
    let bearer = auth::bearer_now(&server, &claims.bearer, &caller.trail).await;
    let gone = || ApiError::refused_credential("whose pass this is has signed out, or their key was revoked");
    let bearer = bearer.filter(|bearer| bearer.principal.account == caller.principal.account);
    let bearer = bearer.ok_or_else(gone)?;
    decide(Some(&bearer.principal), Policy::Proxied, question.operation.verb())?;
    let user_name = match &bearer.principal.who {
        Who::User { name, .. } | Who::ServiceAccount { name, .. } => name.clone(),
        _ => bearer.principal.display_name(),
    };
    let (kind, id) = bearer.principal.reference();
    let user_id = format!("{kind}/{id}");
    let asked = Asked { caller: bearer, question, runtime, entry: Entry::default() };
    asked.scoped()?;
    server.look(move |tx| asked.decide(tx)).await?;
    Ok(Json(ProxyAnswer { user_name, user_id }))
}

/// A runtime says that what a pass opened is over. The record is the runtime's word: its bearer may be nobody by now.
async fn ended(
    server: &Server,
    caller: Caller,
    claims: &Claims,
    question: &ProxyQuestion,
    outcome: Option<String>,
) -> Result<Json<ProxyAnswer>, ApiError> {
    let place = format!("{}/{}/{}", claims.runtime, question.namespace, question.name);
    let outcome: String = outcome.unwrap_or_default().chars().take(OUTCOME_CHARS_MAX).collect();
    let action = format!("{}-end", question.operation.word());
    let (session, now_ms) = (claims.nonce.clone(), server.now_ms());
    let entry = Entry::new(&action, "application", &place, &question.name)
        .after(json!({"session": claims.nonce, "outcome": outcome}));
    server
        .change(move |tx: &mut Tx<'_>| {
            // It ends once: what a runtime repeats, or says anew, fills no trail.
            if inbox::first_time(tx, "ends of sessions", &session, now_ms)? {
                caller.trail.allowed(tx, &caller.actor(), &entry)?;
            }
            Ok(())
        })
        .await?;
    Ok(Json(ProxyAnswer { user_name: String::new(), user_id: String::new() }))
}

/// One question.
#[derive(Clone)]
struct Asked {
    caller: Caller,
    question: ProxyQuestion,
    runtime: String,
    entry: Entry,
}

impl Asked {
    fn operation(&self) -> ProxyOperation {
        self.question.operation
    }

    fn what(&self) -> String {
        let ProxyQuestion { namespace, name, .. } = &self.question;
        if self.operation().about() != About::Application {
            return format!("runtime `{}`", self.runtime);
        }
        format!("application `{namespace}/{name}` of runtime `{}`", self.runtime)
    }

    fn scoped(&self) -> Result<(), ApiError> {
        match lacks_scope(&self.caller.principal, Resource::Gitops, self.operation().verb()) {
            Some(reason) => Err(ApiError::forbidden(reason)),
            None => Ok(()),
        }
    }

    fn admissible(&self, headers: &HeaderMap) -> Result<(), ApiError> {
        // Said before anything is looked for, so that it tells of nothing.
        self.scoped()?;
        match self.operation().verb() {
            Verb::Read => Ok(()),
            // A cookie is sent by any page that the browser shows; the token only by ours.
            Verb::Write => auth::check_csrf(&self.caller, &Method::POST, true, headers),
        }
    }

    /// Where an administrator says that the runtime is reached.
    async fn decided(self, server: &Server) -> Result<String, ApiError> {
        match self.operation().is_recorded() {
            false => server.look(move |tx| self.decide(tx)).await,
            // Allowed and recorded, or neither.
            true => {
                let work = move |tx: &mut Tx<'_>| {
                    let address = self.decide(tx)?;
                    self.caller.trail.allowed(tx, &self.caller.actor(), &self.entry)?;
                    Ok(address)
                };
                server.change(work).await
            }
        }
    }

    fn decide(&self, tx: &mut Tx<'_>) -> Result<String, ApiError> {
        let ProxyQuestion { namespace, name, .. } = &self.question;
        let scope = self.caller.scope();
        // A person of another account learns nothing of what this runtime runs.
        let row = runtimes::one(tx, scope, &self.runtime)?;
        let row =
            row.ok_or_else(|| ApiError::hidden(self.what(), "there is no such runtime in the account"))?;
        if matches!(self.operation().about(), About::Cluster | About::Runtime)
            && self.caller.principal.role() != Some(Role::Administrator)
        {
            let who = self.caller.principal.display_name();
            return Err(ApiError::forbidden(format!("{who} needs the Administrator role to do this")));
        }
        let Some(action) = self.operation().action() else {
            // With one's own token: whoever is of the account may, and the Git provider decides what it opens.
            return match namespace.is_empty() && name.is_empty() {
                true => Ok(row.address),
                false => Err(ApiError::bad_request(
                    "this operation is about no Application: leave namespace and name out",
                )),
            };
        };
        let body = applications::one(tx, scope, &self.runtime, namespace, name)?;
        let app: Option<Application> = body.and_then(|body| serde_json::from_str(&body).ok());
        let said = self.operation().declares().then(|| self.question.detail.as_ref()?.get("declares"));
        let wanted = said.flatten().map(|said| {
            let before = app.clone().unwrap_or_else(|| Application {
                runtime: self.runtime.clone(),
                namespace: namespace.clone(),
                name: name.clone(),
                ..Application::default()
            });
            declared(before, said)
        });
        let mut entities: Vec<_> = app.iter().chain(&wanted).map(access::application_entity).collect();
        if entities.is_empty() {
            entities.push(access::unreported_application(&self.runtime, namespace, name));
        }
        // What it is, and what it would be: who may change one thing may not make another of it.
        for entity in &entities {
            let rules = access::rules_about(tx, &self.caller, entity.kind)?;
            let may = |action| decide_on(&self.caller.principal, &rules, action, entity);
            let (decision, sees) = (may(action), may("VIEW").allowed);
            access::refuse(decision, sees, &self.what())?;
        }
        Ok(row.address)
    }
}

/// The Application as it would be, as far as rules look at it. A cluster that is named anew is known by that name alone: what the
/// runtime said of the one before says nothing about it.
fn declared(mut app: Application, said: &Value) -> Application {
    match said.get("destination") {
        None => {}
        Some(Value::Object(to)) if !to.contains_key("name") && !to.contains_key("server") => {}
        Some(to) => {
            let text = |name: &str| to[name].as_str().unwrap_or_default().trim_end_matches('/').to_owned();
            (app.destination_name, app.destination_server) = (text("name"), text("server"));
        }
    }
    match said.get("labels") {
        None => {}
        Some(Value::Object(labels)) => {
            for (key, value) in labels {
                match value.as_str() {
                    Some(value) => app.labels.insert(key.clone(), value.to_owned()),
                    None => app.labels.remove(key),
                };
            }
        }
        Some(_) => app.labels.clear(),
    }
    app
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_declared_lies_over_what_was_reported() {
        let labels = [("team".to_owned(), "a".to_owned()), ("tier".to_owned(), "1".to_owned())];
        let before = Application {
            destination_name: "dev".into(),
            destination_server: "https://dev".into(),
            labels: labels.into(),
            ..Application::default()
        };
        let after = |said: Value| declared(before.clone(), &said);
        assert_eq!(after(json!({})), before);
        assert_eq!(after(json!({"destination": {"namespace": "x"}})), before);
        let moved = after(json!({"destination": {"server": "https://prod/"}}));
        assert_eq!((&*moved.destination_name, &*moved.destination_server), ("", "https://prod"));
        let nowhere = after(json!({"destination": null}));
        assert_eq!((&*nowhere.destination_name, &*nowhere.destination_server), ("", ""));
        let relabelled = after(json!({"labels": {"team": "b", "tier": null}}));
        assert_eq!(relabelled.labels, [("team".to_owned(), "b".to_owned())].into());
        assert!(after(json!({"labels": null})).labels.is_empty());
    }
}
