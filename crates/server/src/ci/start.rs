//! The one way to start a build.
//!
//! In: a pipeline as it is now, why it starts ([`Cause`]) and what the run is made of ([`Run`]). Out: the build's id, whether it
//! was made now or for the same cause before. The order, the build with its fact, what it ends by the pipeline's policy, and the
//! audit record are one transaction, the caller's. A cause is either something that happened ([`Happened`]) or somebody's request
//! ([`Asked`]), which carries the access decision that allowed it: without one there is no way to call this. Which pipelines
//! start is decided elsewhere: by triggers for what happens, by the caller's request otherwise.

use slipway_api::pipeline::Pipeline;
use slipway_model::{BuildId, PipelineId, RepoEvent};
use slipway_store::builds::{self, Build, NewBuild};
use slipway_store::{Scope, StoreError, Tx, pipelines, projects};

use crate::ci::orders::{Order, Run};
use crate::ci::queue;
use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::access::{Granted, project_of};
use crate::identity::auth::Caller;
use crate::identity::trail::Entry;

/// Something happened that a pipeline waits for: its owner allowed the build by saying so in the pipeline. The same gives the
/// same build, however often it is told.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Happened<'a> {
    /// A Git trigger fired: a push, a pull request, a release or a comment, at whichever host.
    Repository { event: &'a RepoEvent, trigger: &'a str },
    /// A build of another pipeline has ended.
    Ended { build: BuildId, trigger: &'a str },
    /// A schedule was due at this moment.
    Schedule { name: &'a str, due_ms: i64 },
    /// A registry announced an image.
    Image { event: &'a str, delivery: &'a str },
}

/// How somebody asks for a build.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Wish<'a> {
    /// They may ask again with the same id.
    Request(&'a str),
    /// They mean another build each time.
    Manual,
    /// They want the same order once more.
    Restart,
}

/// A person's or a robot's request: that they may, and what is recorded of it.
pub(crate) struct Asked<'a> {
    pub(crate) granted: Granted,
    pub(crate) wish: Wish<'a>,
    pub(crate) caller: &'a Caller,
    pub(crate) entry: Entry,
}

/// Why a build starts.
pub(crate) enum Cause<'a> {
    Happened(Happened<'a>),
    Asked(Box<Asked<'a>>),
}

impl<'a> From<Happened<'a>> for Cause<'a> {
    fn from(happened: Happened<'a>) -> Self {
        Self::Happened(happened)
    }
}

impl<'a> From<Asked<'a>> for Cause<'a> {
    fn from(asked: Asked<'a>) -> Self {
        Self::Asked(Box::new(asked))
    }
}

/// Rights that let somebody start a build.
const STARTING: [&str; 2] = ["run", "debug"];

impl Happened<'_> {
    /// As it is kept with the build. Texts of older versions are in databases: they stay as they are.
    pub(crate) fn text(self, pipeline: PipelineId) -> String {
        match self {
            Self::Repository { event, trigger } => {
                let place = match event.context.as_str() {
                    "" => String::new(),
                    context => format!("{context}:{}:", event.repo),
                };
                format!("{place}{}:{pipeline}:{trigger}", event.cause)
            }
            Self::Ended { build, trigger } => format!("after:{build}:{pipeline}:{trigger}"),
            Self::Schedule { name, due_ms } => format!("cron:{pipeline}:{name}:{due_ms}"),
            Self::Image { event, delivery } => format!("event:{event}:{delivery}:{pipeline}"),
        }
    }
}

impl Wish<'_> {
    /// The same.
    fn text(self, server: &Server) -> String {
        let random = || hex::encode(server.seams().random::<12>());
        match self {
            Self::Request(id) => format!("request:{id}"),
            Self::Manual => format!("run:{}", random()),
            Self::Restart => format!("restart:{}", random()),
        }
    }

    /// No build can be there for it yet.
    fn is_new(self) -> bool {
        matches!(self, Self::Manual | Self::Restart)
    }
}

/// A right to something else is a defect of ours, and starts nothing.
fn misused() -> StoreError {
    StoreError::Refused { why: "the decision that allowed this is about something else".into() }
}

/// A pipeline as it is now.
#[derive(Clone, Copy)]
pub(crate) struct Current<'a> {
    pub(crate) row: &'a pipelines::Pipeline,
    pub(crate) pipeline: &'a Pipeline,
}

/// What a run becomes by this pipeline.
pub(crate) fn order(tx: &mut Tx<'_>, scope: Scope, of: Current<'_>, run: Run<'_>) -> Result<Order, ApiError> {
    let project = projects::by_name(tx, scope, project_of(&of.row.name))?;
    Order::new(of.pipeline, Run { project: project.as_ref(), ..run })
}

/// Starts what was ordered.
pub(crate) fn start<'a>(
    server: &Server,
    tx: &mut Tx<'_>,
    scope: Scope,
    of: Current<'_>,
    order: &Order,
    cause: impl Into<Cause<'a>>,
) -> Result<BuildId, StoreError> {
    let (text, is_new, asked) = match cause.into() {
        Cause::Happened(happened) => (happened.text(of.row.id), false, None),
        Cause::Asked(asked) => {
            if !asked.granted.covers("pipeline", &of.row.name, &STARTING) {
                return Err(misused());
            }
            (asked.wish.text(server), asked.wish.is_new(), Some(asked))
        }
    };
    let why = queue::Why { cause: &text, is_new };
    let made = queue::enqueue(server, tx, scope, of.row, of.pipeline, order, why)?;
    if let Some(asked) = asked {
        let Asked { caller, entry, .. } = *asked;
        caller.trail.allowed(tx, &caller.actor(), &entry.after(made))?;
    }
    Ok(made)
}

/// The same order once more of a build whose pipeline is gone: it stands in the queue as the old one did.
pub(crate) fn again(
    server: &Server,
    tx: &mut Tx<'_>,
    scope: Scope,
    old: &Build,
    order: &Order,
    asked: Asked<'_>,
) -> Result<BuildId, StoreError> {
    if !asked.granted.covers_gone("pipeline", &STARTING) {
        return Err(misused());
    }
    let cause = Wish::Restart.text(server);
    let revision = order.commit.as_ref().map(|commit| commit.sha.as_str()).unwrap_or_default();
    let new = NewBuild {
        id: server.seams().new_id(),
        pipeline: old.pipeline,
        pipeline_name: &old.pipeline_name,
        order,
        cause: &cause,
        queue: builds::Queue { priority: old.priority, trigger: &old.trigger, branch: &old.branch, revision },
    };
    let made = builds::create_new(tx, scope, &new, server.now_ms())?;
    asked.caller.trail.allowed(tx, &asked.caller.actor(), &asked.entry.after(made))?;
    Ok(made)
}
