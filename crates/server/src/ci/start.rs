//! The one way to start a build.
//!
//! In: a pipeline as it is now, why it starts ([`Cause`]), what the run is made of ([`Run`]) and, when somebody asked for it,
//! who ([`Asked`]). Out: the build's id, whether it was made now or for the same cause before. The order, the build with its
//! fact, what it ends by the pipeline's policy, and the audit record are one transaction, the caller's. Which pipelines start
//! is decided elsewhere: by triggers for what happens, by the caller's request otherwise.

use slipway_api::pipeline::Pipeline;
use slipway_model::{BuildId, PipelineId, RepoEvent};
use slipway_store::builds::{self, Build, NewBuild};
use slipway_store::{Scope, StoreError, Tx, pipelines, projects};

use crate::ci::orders::{Order, Run};
use crate::ci::queue;
use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::access::project_of;
use crate::identity::auth::Caller;
use crate::identity::trail::Entry;

/// Why a build starts. The same cause gives the same build, however often it is told.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Cause<'a> {
    /// A Git trigger fired: a push, a pull request, a release or a comment, at whichever host.
    Repository { event: &'a RepoEvent, trigger: &'a str },
    /// A build of another pipeline has ended.
    Ended { build: BuildId, trigger: &'a str },
    /// A schedule was due at this moment.
    Schedule { name: &'a str, due_ms: i64 },
    /// A registry announced an image.
    Image { event: &'a str, delivery: &'a str },
    /// Somebody asked, and may ask again with the same id.
    Request(&'a str),
    /// Somebody asked, and means another build each time.
    Manual,
    /// Somebody wants the same order once more.
    Restart,
}

impl Cause<'_> {
    /// As it is kept with the build. Texts of older versions are in databases: they stay as they are.
    fn text(self, server: &Server, pipeline: PipelineId) -> String {
        let random = || hex::encode(server.seams().random::<12>());
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

/// A person's or a robot's request: what is recorded of it. Their right to it is asked before, where it is known which.
pub(crate) struct Asked<'a> {
    pub(crate) caller: &'a Caller,
    pub(crate) entry: Entry,
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
pub(crate) fn start(
    server: &Server,
    tx: &mut Tx<'_>,
    scope: Scope,
    of: Current<'_>,
    order: &Order,
    cause: Cause<'_>,
    asked: Option<Asked<'_>>,
) -> Result<BuildId, StoreError> {
    let text = cause.text(server, of.row.id);
    let why = queue::Why { cause: &text, is_new: cause.is_new() };
    let made = queue::enqueue(server, tx, scope, of.row, of.pipeline, order, why)?;
    if let Some(Asked { caller, entry }) = asked {
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
    let cause = Cause::Restart.text(server, old.pipeline);
    let new = NewBuild {
        id: server.seams().new_id(),
        pipeline: old.pipeline,
        pipeline_name: &old.pipeline_name,
        order,
        cause: &cause,
        queue: builds::Queue { priority: old.priority, trigger: &old.trigger, branch: &old.branch },
    };
    let made = builds::create_new(tx, scope, &new, server.now_ms())?;
    asked.caller.trail.allowed(tx, &asked.caller.actor(), &asked.entry.after(made))?;
    Ok(made)
}
