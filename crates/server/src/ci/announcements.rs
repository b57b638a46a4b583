//! From what a Git provider announced to a fact.

use slipway_model::{Fact, RepoEvent};
use slipway_store::hooks::{self, Hook};
use slipway_store::{Tx, facts};

/// A fact for whoever follows up, and which commit the branch is at now for whoever looks for missed ones.
pub(crate) fn note(
    tx: &mut Tx<'_>,
    hook: &Hook,
    mut event: RepoEvent,
    now_ms: i64,
) -> Result<(), slipway_store::StoreError> {
    hook.context.clone_into(&mut event.context);
    hook.repo.clone_into(&mut event.repo);
    if event.events.iter().any(|name| name == "push.heads") {
        hooks::note_ref(tx, hook.id, &event.branch, Some(&event.sha))?;
    } else if event.events.iter().any(|name| name == "push.deleteBranch") {
        hooks::note_ref(tx, hook.id, &event.branch, None)?;
    }
    let fact = Fact::Repository { account: hook.account, event: Box::new(event) };
    facts::note(tx, hook.account, &fact, now_ms)
}
