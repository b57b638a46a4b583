//! The nouns of the path: typed ids, secrets, facts, statuses, and what to do after an error.
//!
//! In: nothing. Out: plain values that every other room shares. It knows no clock, no randomness,
//! no storage and no wire; those who need a new id bring the time and the random bytes.

mod backoff;
mod build;
mod fact;
mod id;
mod next;
mod secret;
mod share;
mod words;

pub use backoff::Backoff;
pub use build::BuildStatus;
pub use fact::{
    ApplicationEvent, Change, ChangeKind, Comment, Fact, ImageEvent, PullRequestEvent, PushedCommit,
    RepoEvent,
};
pub use id::{
    AccountId, AgentId, ApiKeyId, BuildId, ContextId, DeliveryId, HookId, Id, InvitationId, PipelineId,
    ProjectId, RepoId, RuleId, ServiceAccountId, SessionId, SsoClientId, TaskId, TeamId, UserId,
};
pub use next::Next;
pub use secret::Secret;
pub use share::{SHARES, share_of};
pub use words::{HealthCode, SyncCode, Vocabulary, Word};
