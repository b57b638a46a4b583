//! Telling others how builds go: commit statuses at Git providers, messages by Slack-shaped and generic webhooks and e-mail.
//!
//! A fact becomes rows of `outgoing` in one transaction with its inbox note; one process at a time sends what is due,
//! with growing pauses, and gives up after a day. Whoever is told sees each thing at least once.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use slipway_bus::Queue;
use slipway_dialect::path_glob;
use slipway_forge::remote::{CommitState, CommitStatus};
use slipway_model::{AccountId, BuildId, BuildStatus, Fact};
use slipway_store::facts::Recorded;
use slipway_store::outgoing::{self, Outgoing};
use slipway_store::{Scope, Store, StoreError, Tx, builds, contexts};

use crate::background::driver::{Outcome, Round, Turn};
use crate::background::lease::Lead;
use crate::ci::errands::{self, Ask};
use crate::ci::orders::Order;
use crate::ci::{mail, providers};
use crate::ctx::Server;
use crate::facts::consuming::Consumer;
use crate::facts::later;

pub(crate) const CONSUMER: &str = "reports";
/// Kinds of contexts that messages go by begin so.
const NOTIFICATION: &str = "notification.";
const PAUSE_FIRST_MS: i64 = 2_000;
const PAUSE_MAX_MS: i64 = 30 * 60_000;
const GIVE_UP_MS: i64 = 24 * 60 * 60_000;

/// What is told: enough to write any message of.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
struct Report {
    build: String,
    pipeline: String,
    /// `pending`, `success`, `error`, `terminated`, `pending-approval`.
    status: String,
    message: Option<String>,
    url: String,
    repo: Option<String>,
    branch: Option<String>,
    sha: Option<String>,
    /// Of a commit status.
    title: String,
}

/// Turns facts about builds into messages to others.
pub(crate) struct Notifications;

impl Consumer for Notifications {
    const QUEUE: Queue<'static> = Queue {
        name: CONSUMER,
        topics: &["facts.buildCreated", "facts.buildFinished", "facts.approvalAsked"],
    };
    type Work = Vec<Outgoing>;

    async fn prepare(
        server: &Server,
        facts: Vec<Recorded>,
    ) -> Vec<Result<Option<Self::Work>, later::Trouble>> {
        let (inner, count) = (server.clone(), facts.len());
        let found = server.store().read(move |tx| {
            let mut contexts = HashMap::new();
            let about =
                facts.iter().filter_map(|recorded| Some((recorded.account, build_of(&recorded.fact)?.0)));
            tx.fetch(about.map(|(account, build)| builds::asks_by_id(Scope::of(account), build)))?;
            Ok(facts.iter().map(|fact| outgoing_of(&inner, tx, fact, &mut contexts)).collect::<Vec<_>>())
        });
        match found.await {
            Ok(found) => found
                .into_iter()
                .map(|one| Ok(Some(one?).filter(|outgoing: &Vec<_>| !outgoing.is_empty())))
                .collect(),
            Err(error) => (0..count).map(|_| Err(error.again().into())).collect(),
        }
    }

    fn carry_out(_: &Server, tx: &mut Tx<'_>, work: &Self::Work) -> Result<(), StoreError> {
        work.iter().try_for_each(|new| outgoing::add(tx, new))
    }

    fn store(server: &Server) -> Store {
        server.store().clone()
    }
}

/// Contexts of accounts that messages go by, each account looked up once.
type Known = HashMap<AccountId, Vec<contexts::Context>>;

/// Which build a fact is about, and how that stands.
fn build_of(fact: &Fact) -> Option<(BuildId, &str)> {
    Some(match fact {
        Fact::BuildCreated { build, .. } => (*build, "pending"),
        Fact::BuildFinished { build, status, .. } => (*build, status.as_str()),
        Fact::ApprovalAsked { build, .. } => (*build, BuildStatus::PendingApproval.as_str()),
        _ => return None,
    })
}

/// What has to be told to whom.
fn outgoing_of(
    server: &Server,
    tx: &mut Tx<'_>,
    recorded: &Recorded,
    known: &mut Known,
) -> Result<Vec<Outgoing>, StoreError> {
    let Some((build, status)) = build_of(&recorded.fact) else { return Ok(Vec::new()) };
    let (account, scope) = (recorded.account, Scope::of(recorded.account));
    if let Entry::Vacant(place) = known.entry(account) {
        let mut told = contexts::list(tx, scope)?;
        told.retain(|context| context.kind.starts_with(NOTIFICATION));
        place.insert(told);
    }
    let contexts = &known[&account];
    let Some(row) = builds::by_id(tx, scope, build)? else { return Ok(Vec::new()) };
    let order: Order = row.order()?;
    let commit = order.commit.as_ref();
    let report = Report {
        build: build.to_string(),
        pipeline: row.pipeline_name.clone(),
        status: status.to_owned(),
        message: row.message.clone(),
        url: format!("{}/builds/{build}", server.public_url()),
        repo: commit.map(|commit| commit.repo.clone()),
        branch: commit.map(|commit| commit.branch.clone()),
        sha: commit.map(|commit| commit.sha.clone()).filter(|sha| !sha.is_empty()),
        title: order.status_title.clone().unwrap_or_else(|| row.pipeline_name.clone()),
    };
    let tells = order.webhook || order.options.enable_notifications;
    let mut targets = Vec::new();
    if let (Some(context), Some(_), true) = (&order.git_context, &report.sha, tells) {
        targets.push(("commit-status".to_owned(), context.clone()));
    }
    for context in contexts {
        let spec: Value = serde_json::from_str(&context.spec).unwrap_or_default();
        if let Some(kind) = context.kind.strip_prefix(NOTIFICATION)
            && wants(&spec["data"], &report)
        {
            targets.push((kind.to_owned(), context.name.clone()));
        }
    }
    let outgoing = targets.into_iter().map(|(kind, target)| {
        Ok(Outgoing {
            id: server.seams().new_id(),
            account,
            kind,
            target,
            build: report.build.clone(),
            body: serde_json::to_string(&report).map_err(StoreError::corrupt)?,
            attempts: 0,
            problem: None,
            created_ms: server.now_ms(),
            done_ms: None,
        })
    });
    outgoing.collect()
}

/// `on`: a list of statuses, all ends and questions when left out. `pipelines`: patterns, all when left out.
fn wants(data: &Value, report: &Report) -> bool {
    let listed = |name: &str| -> Option<Vec<&str>> {
        Some(data.get(name)?.as_array()?.iter().filter_map(Value::as_str).collect())
    };
    let status = match listed("on") {
        Some(wanted) => wanted.contains(&report.status.as_str()),
        None => report.status != "pending",
    };
    let pipeline = listed("pipelines").is_none_or(|patterns| {
        patterns
            .iter()
            .any(|pattern| path_glob::compile(pattern).is_ok_and(|glob| glob.matches(&report.pipeline)))
    });
    status && pipeline
}

/// What is due. A commit may be news; the clock is the safety net.
pub(crate) async fn round(turn: &Turn) -> Outcome {
    Ok(send_due(&turn.server, turn.lead()).await?)
}

/// What stands in the way of telling somebody.
enum Trouble {
    MayPass(String),
    NeedsHuman(String),
}

async fn send_due(server: &Server, lead: &Lead) -> Result<Round, StoreError> {
    let now_ms = server.now_ms();
    let due = server.store().read(move |tx| outgoing::due(tx, now_ms)).await?;
    let found = !due.is_empty();
    // Of one build to one place it is one at a time; whoever does not answer holds up nobody else of this round.
    let sent = due.into_iter().map(|row| async move {
        let outcome = send_one(server, &row).await;
        note_outcome(server, lead.clone(), row, outcome).await
    });
    futures::future::try_join_all(sent).await?;
    // What waited for one of these may be due now.
    Ok(if found { Round::Again } else { Round::Done })
}

async fn note_outcome(
    server: &Server,
    lead: Lead,
    row: Outgoing,
    outcome: Result<(), Trouble>,
) -> Result<(), StoreError> {
    // Whoever was silent for long is not asked again at once.
    let now_ms = server.now_ms();
    // Asked ahead for all that are noted at once, and nothing in it is waited for.
    let asked = lead.asks(server.store().database());
    let noted = server.store().write_asking(asked, move |tx| {
        lead.checked(tx)?;
        let pause = (PAUSE_FIRST_MS << row.attempts.min(16)).min(PAUSE_MAX_MS);
        match outcome {
            Ok(()) => outgoing::done(tx, row.id, None, now_ms),
            Err(Trouble::MayPass(why)) if now_ms - row.created_ms < GIVE_UP_MS => {
                outgoing::later(tx, row.id, &why, now_ms + pause)
            }
            Err(Trouble::MayPass(why) | Trouble::NeedsHuman(why)) => {
                outgoing::done(tx, row.id, Some(&why), now_ms)
            }
        }
    });
    noted.await
}

async fn send_one(server: &Server, row: &Outgoing) -> Result<(), Trouble> {
    let report: Report =
        serde_json::from_str(&row.body).map_err(|error| Trouble::NeedsHuman(error.to_string()))?;
    if row.kind == "commit-status" {
        return commit_status(server, row, &report).await;
    }
    let (scope, name) = (Scope::of(row.account), row.target.clone());
    let passing = |error: StoreError| Trouble::MayPass(error.to_string());
    let key = server.data_key(row.account).await.map_err(passing)?;
    let found = server.store().read(move |tx| contexts::by_name(tx, scope, &name)).await.map_err(passing)?;
    let context =
        found.ok_or_else(|| Trouble::NeedsHuman(format!("context `{}` no longer exists", row.target)))?;
    let data = crate::ci::contexts::opened(&key, scope, &context);
    match row.kind.as_str() {
        // Who reads it elsewhere has nothing else to come here by.
        "email" => {
            mail::send(server, &data, &subject(&report), &format!("{}\n\n{}\n", text(&report), report.url))
                .await
                .map_err(|error| match error.may_pass() {
                    true => Trouble::MayPass(error.to_string()),
                    false => Trouble::NeedsHuman(error.to_string()),
                })
        }
        kind => {
            let inside = crate::ci::contexts::is_behind_firewall(&context).then_some(row.account);
            web(server, kind, &data, &report, inside).await
        }
    }
}

async fn commit_status(server: &Server, row: &Outgoing, report: &Report) -> Result<(), Trouble> {
    let trouble = |error: providers::ProviderError| match error.may_pass() {
        true => Trouble::MayPass(error.to_string()),
        false => Trouble::NeedsHuman(error.to_string()),
    };
    let (Some(repo), Some(sha)) = (&report.repo, &report.sha) else { return Ok(()) };
    let connection = providers::connect(server, row.account, &row.target).await.map_err(trouble)?;
    let (state, description) = match report.status.as_str() {
        "success" => (CommitState::Success, "The build succeeded"),
        "error" => (CommitState::Failure, "The build failed"),
        "terminated" => (CommitState::Error, "The build was terminated"),
        "pending-approval" => (CommitState::Pending, "The build is waiting for approval"),
        _ => (CommitState::Pending, "The build is in progress"),
    };
    let status = CommitStatus { state, title: &report.title, description, url: &report.url };
    let call = connection.provider.status(repo, sha, &status);
    let answer = connection.send(server, &call).await.map_err(trouble)?;
    connection.provider.check(&answer).map_err(|error| trouble(error.into()))
}

/// A Slack-shaped message is `{"text": …}`; a generic one is the report, signed when the context has a secret.
/// `inside`: it is behind a firewall, and a runner of this account sends it.
async fn web(
    server: &Server,
    kind: &str,
    data: &Value,
    report: &Report,
    inside: Option<AccountId>,
) -> Result<(), Trouble> {
    let url = data["url"].as_str().ok_or_else(|| Trouble::NeedsHuman("the context has no `url`".into()))?;
    let body = match kind {
        "slack" => json!({"text": format!("{}\n{}", text(report), report.url)}),
        _ => serde_json::to_value(report).map_err(|error| Trouble::NeedsHuman(error.to_string()))?,
    };
    let signature = data["secret"].as_str().map(|secret| {
        let key = aws_lc_rs::hmac::Key::new(aws_lc_rs::hmac::HMAC_SHA256, secret.as_bytes());
        format!("sha256={}", hex::encode(aws_lc_rs::hmac::sign(&key, body.to_string().as_bytes())))
    });
    let headers: Vec<_> = signature.iter().map(|value| ("x-slipway-signature", value.as_str())).collect();
    let sent = match inside {
        Some(account) => {
            let ask = Ask { method: "POST", url, headers: &headers, body: Some(&body) };
            errands::ask(server, account, ask).await
        }
        None => server.inner.egress.call("POST", url, &headers, Some(&body)).await,
    };
    match sent {
        Ok(answer) if (200..300).contains(&answer.status) => Ok(()),
        Ok(answer) if answer.status == 429 || answer.status >= 500 => {
            Err(Trouble::MayPass(format!("it answered {}", answer.status)))
        }
        Ok(answer) => Err(Trouble::NeedsHuman(format!("it answered {}", answer.status))),
        Err(error) if error.may_pass() => Err(Trouble::MayPass(error.to_string())),
        Err(error) => Err(Trouble::NeedsHuman(error.to_string())),
    }
}

fn subject(report: &Report) -> String {
    format!("{}: {}", report.pipeline, words(&report.status))
}

fn words(status: &str) -> &str {
    match status {
        "success" => "the build succeeded",
        "error" => "the build failed",
        "terminated" => "the build was terminated",
        "pending-approval" => "the build is waiting for approval",
        _ => "a build is in progress",
    }
}

fn text(report: &Report) -> String {
    let place = match (&report.repo, &report.branch) {
        (Some(repo), Some(branch)) => format!(" of {repo}, branch {branch}"),
        _ => String::new(),
    };
    let why = report.message.as_ref().map(|message| format!(": {message}")).unwrap_or_default();
    format!("{}{place}: {}{why}", report.pipeline, words(&report.status))
}
