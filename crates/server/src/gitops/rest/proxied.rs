//! The question that a runtime's app-proxy asks for its caller: may they do this to that Application?
//!
//! In: the caller's own credential, the runtime's key beside it, and the operation, which says what a rule has to allow,
//! what a limited key has to hold, and whether a browser has to prove that its page asked. Out: the caller's name, or why
//! not. What changes something is recorded here, at the moment of the decision, as are all refusals; how an operation went
//! on, the runtime's next report tells.

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderMap, Method, header};
use slipway_access::{Principal, Resource, Verb, Who, decide_on, lacks_scope};
use slipway_api::application::{Application, ProxyAnswer, ProxyOperation, ProxyQuestion};
use slipway_api::error::ErrorBody;
use slipway_store::{Tx, applications};

use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::access;
use crate::identity::auth::{self, Caller};
use crate::identity::trail::Entry;

/// Longer ones are not kept: nothing that can be asked for is.
const DETAIL_BYTES_MAX: usize = 4 << 10;

/// Asked by a runtime's app-proxy with its caller's credential and, in `X-Slipway-Runtime`, its own key: may the caller
/// do this to that Application of the runtime? Every operation that changes something is asked about, and recorded.
#[utoipa::path(post, path = "/api/access/application", tag = "rules", request_body = ProxyQuestion,
    responses((status = 200, body = ProxyAnswer), (status = 400, body = ErrorBody), (status = 403, body = ErrorBody), (status = 404, body = ErrorBody)))]
pub(crate) async fn application(
    State(server): State<Server>,
    caller: Caller,
    headers: HeaderMap,
    Json(question): Json<ProxyQuestion>,
) -> Result<Json<ProxyAnswer>, ApiError> {
    let (account, runtime) = asking_runtime(&server, &headers).await?;
    let place = format!("{runtime}/{}/{}", question.namespace, question.name);
    let detail = question.detail.clone().filter(|detail| detail.to_string().len() <= DETAIL_BYTES_MAX);
    let entry = Entry::new(question.operation.word(), "application", &place, &question.name).after(&detail);
    let asked = Asked { caller: caller.clone(), question, runtime, entry: entry.clone() };
    let decided = match asked.admissible(account, &headers) {
        Ok(()) => asked.decided(&server).await,
        Err(refusal) => Err(refusal),
    };
    if let Err(refusal) = &decided {
        let refused = entry.because(refusal.reason());
        caller.trail.afterwards(caller.actor(), refused, "denied", refusal.status().as_u16()).await?;
    }
    decided?;
    let user_name = match &caller.principal.who {
        Who::User { name, .. } | Who::ServiceAccount { name, .. } => name.clone(),
        _ => caller.principal.display_name(),
    };
    Ok(Json(ProxyAnswer { user_name }))
}

/// Which runtime asks, and of which account it is.
async fn asking_runtime(
    server: &Server,
    headers: &HeaderMap,
) -> Result<(slipway_model::AccountId, String), ApiError> {
    let mut own = HeaderMap::new();
    if let Some(key) = headers.get("x-slipway-runtime") {
        own.insert(header::AUTHORIZATION, key.clone());
    }
    match auth::authenticate(server, &own).await? {
        Some((Principal { account, who: Who::Runtime { name }, .. }, _)) => Ok((account, name)),
        _ => Err(ApiError::bad_request("only a runtime can ask this, with its own key in X-Slipway-Runtime")),
    }
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
        format!("application `{namespace}/{name}` of runtime `{}`", self.runtime)
    }

    fn admissible(&self, account: slipway_model::AccountId, headers: &HeaderMap) -> Result<(), ApiError> {
        // A person of another account learns nothing of what this runtime runs.
        if account != self.caller.principal.account {
            return Err(ApiError::hidden(self.what(), "the runtime belongs to another account"));
        }
        let (operation, principal) = (self.operation(), &self.caller.principal);
        // Said before anything is looked for, so that it tells of nothing.
        if let Some(reason) = lacks_scope(principal, Resource::Gitops, operation.verb()) {
            return Err(ApiError::forbidden(reason));
        }
        match operation.verb() {
            Verb::Read => Ok(()),
            // A cookie is sent by any page that the browser shows; the token only by ours.
            Verb::Write => auth::check_csrf(&self.caller, &Method::POST, true, headers),
        }
    }

    async fn decided(self, server: &Server) -> Result<(), ApiError> {
        match self.operation().verb() {
            Verb::Read => server.look(move |tx| self.decide(tx)).await,
            // Allowed and recorded, or neither.
            Verb::Write => {
                let work = move |tx: &mut Tx<'_>| {
                    self.decide(tx)?;
                    self.caller.trail.allowed(tx, &self.caller.actor(), &self.entry)?;
                    Ok(())
                };
                server.change(work).await
            }
        }
    }

    fn decide(&self, tx: &mut Tx<'_>) -> Result<(), ApiError> {
        let ProxyQuestion { namespace, name, .. } = &self.question;
        let body = applications::one(tx, self.caller.scope(), &self.runtime, namespace, name)?;
        let app: Option<Application> = body.and_then(|body| serde_json::from_str(&body).ok());
        let entity = match &app {
            Some(app) => access::application_entity(app),
            None => access::unreported_application(&self.runtime, namespace, name),
        };
        let rules = access::rules_about(tx, &self.caller, entity.kind)?;
        let may = |action| decide_on(&self.caller.principal, &rules, action, &entity);
        let (decision, sees) = (may(self.operation().action()), may("VIEW").allowed);
        access::refuse(decision, sees, &self.what())
    }
}
