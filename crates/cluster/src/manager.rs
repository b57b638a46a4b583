//! Whose fields are written: work is wrapped once, and every write inside of it carries the name.

tokio::task_local! {
    static MANAGER: &'static str;
}

/// Runs the future; its writes to any cluster are this field manager's.
pub async fn managed<F: Future>(manager: &'static str, future: F) -> F::Output {
    MANAGER.scope(manager, future).await
}

pub(crate) fn current() -> Option<&'static str> {
    MANAGER.try_with(|manager| *manager).ok()
}
