//! Every background task of the control plane, in one table.
//!
//! What a round does lives with what it is about; when it runs and who runs it stands here. Names of leases are kept in the
//! database, and both names are in metrics: they stay as they are.

use std::time::Duration;

use slipway_store::Committed;

use super::driver::{Task, Wake};
use crate::ci::{git_host, notifications, schedules, triggers, webhook_sync};
use crate::facts::{consuming, later, relay};
use crate::gitops::peers;
use crate::http::roles::Role;
use crate::identity::anchor;
use crate::{agents, background, http};

const fn seconds(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn has_facts(commit: &Committed) -> bool {
    commit.facts || commit.missed
}

/// Settings of accounts and rights are told alike, and belong to no account.
fn may_be_settings(commit: &Committed) -> bool {
    commit.changes.iter().any(|change| change.account.is_none())
}

pub(crate) static TASKS: [Task; 16] = [
    Task {
        name: "relay",
        description: "Hands facts from the database to the message bus, in their order.",
        role: Some(Role::EventHandler),
        lease: Some(relay::CURSOR),
        wake: Wake::Commits { news: has_facts, or_every: seconds(5), gap: Duration::ZERO },
        run: |turn| Box::pin(async move { relay::round(&turn).await }),
    },
    Task {
        name: triggers::CONSUMER,
        description: "Starts the builds that follow from pushes, announcements and ends of other builds.",
        role: Some(Role::PipelineManager),
        lease: None,
        wake: Wake::Always,
        run: |turn| Box::pin(async move { consuming::run::<triggers::Triggers>(&turn.server).await }),
    },
    Task {
        name: notifications::CONSUMER,
        description: "Writes down whom to tell about what happened to builds.",
        role: Some(Role::PipelineManager),
        lease: None,
        wake: Wake::Always,
        run: |turn| {
            Box::pin(async move { consuming::run::<notifications::Notifications>(&turn.server).await })
        },
    },
    Task {
        name: later::NAME,
        description: "Tries messages again that could not be followed up, for up to five days.",
        role: Some(Role::PipelineManager),
        lease: Some(later::NAME),
        wake: Wake::Every(seconds(2)),
        run: |turn| Box::pin(async move { later::round(&turn).await }),
    },
    Task {
        name: "reports-sender",
        description: "Sends commit statuses, mails and messages that are due.",
        role: Some(Role::CronExecutor),
        lease: Some("reports"),
        wake: Wake::Commits { news: |_| true, or_every: seconds(1), gap: Duration::from_millis(50) },
        run: |turn| Box::pin(async move { notifications::round(&turn).await }),
    },
    Task {
        name: schedules::NAME,
        description: "Finds schedules that are due, and writes down that they were.",
        role: Some(Role::CronExecutor),
        // Older versions call it `clock`: beside one of them both look, and a moment is written once by whoever comes first.
        lease: Some(schedules::NAME),
        wake: Wake::Every(seconds(2)),
        run: |turn| Box::pin(async move { schedules::round(&turn).await }),
    },
    Task {
        name: "hooks",
        description: "Registers webhooks at Git providers, and looks for pushes that they did not announce.",
        role: Some(Role::CronExecutor),
        lease: Some("hooks"),
        wake: Wake::Every(seconds(2)),
        run: |turn| Box::pin(async move { webhook_sync::round(&turn).await }),
    },
    Task {
        name: "git-sweep",
        description: "Finds pushes to the built-in Git host that a crash kept from being announced.",
        role: Some(Role::CronExecutor),
        lease: Some("sweep"),
        wake: Wake::Pauses(&[1, 2, 5, 10, 60]),
        run: |turn| Box::pin(async move { git_host::round(&turn).await }),
    },
    Task {
        name: background::retention::NAME,
        description: "Deletes builds, logs and records that are older than they are to be kept.",
        role: Some(Role::CronExecutor),
        lease: Some(background::retention::NAME),
        wake: Wake::Commits { news: may_be_settings, or_every: seconds(60), gap: seconds(1) },
        run: |turn| Box::pin(async move { background::retention::round(&turn).await }),
    },
    Task {
        name: "audit-anchor",
        description: "Writes the ends of audit logs to a file outside of the database.",
        role: Some(Role::CronExecutor),
        lease: Some("audit-anchor"),
        wake: Wake::Every(anchor::EVERY),
        run: |turn| Box::pin(async move { anchor::round(&turn).await }),
    },
    Task {
        name: "housekeeping",
        description: "Ends old sessions and sign-ins, marks builds as delayed, and clears up after agents.",
        role: None,
        lease: Some("housekeeping"),
        wake: Wake::After(seconds(20)),
        run: |turn| Box::pin(async move { background::housekeeping::round(&turn).await }),
    },
    Task {
        name: "key-usage",
        description: "Records when API keys were last used with this process.",
        role: None,
        lease: None,
        wake: Wake::After(seconds(20)),
        run: |turn| Box::pin(async move { background::housekeeping::note_used_keys(&turn.server).await }),
    },
    Task {
        name: agents::heard::NAME,
        description: "Records when runners were last connected to this process.",
        role: Some(Role::RuntimeManager),
        lease: None,
        // With the time that a call is held this stays below what pages wait before they call a runner offline.
        wake: Wake::After(seconds(10)),
        run: |turn| Box::pin(async move { agents::heard::round(&turn).await }),
    },
    Task {
        name: agents::polls::NAME,
        description: "Wakes runners that wait when there is a build for them.",
        role: Some(Role::RuntimeManager),
        lease: None,
        wake: Wake::Always,
        run: |turn| Box::pin(async move { agents::polls::run(&turn.server).await }),
    },
    Task {
        name: "tunnel-table",
        description: "Tells other processes through the cache which tunnels this one holds.",
        role: Some(Role::TunnelServer),
        lease: None,
        wake: Wake::Every(seconds(5)),
        run: |turn| Box::pin(async move { peers::round(&turn.server).await }),
    },
    Task {
        name: "live-fan-out",
        description: "Tells other processes through the cache that logs have grown, and passes on what is typed into shells.",
        role: None,
        lease: None,
        wake: Wake::Always,
        run: |turn| Box::pin(async move { http::fan_out::run(&turn.server).await }),
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_task_has_a_name_of_its_own_and_says_what_it_is_for() {
        let mut names: Vec<_> = TASKS.iter().map(|task| task.name).collect();
        names.sort_unstable();
        names.dedup();
        assert_eq!(names.len(), TASKS.len());
        let mut leases: Vec<_> = TASKS.iter().filter_map(|task| task.lease).collect();
        leases.sort_unstable();
        leases.dedup();
        assert_eq!(leases.len(), TASKS.iter().filter(|task| task.lease.is_some()).count());
        assert!(TASKS.iter().all(|task| task.description.ends_with('.')));
    }
}
