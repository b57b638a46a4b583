//! Work that one process of the platform does at a time: whoever holds its lease.
//!
//! A leader renews its lease while it works and loses it when it cannot; its writes ask for the lease's epoch in
//! their own transaction ([`Lead::checked`]), so one that was paused and overtaken changes nothing.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use slipway_store::{Ask, Database, StoreError, Tx, leases};

use crate::ctx::Server;

/// How long the others wait for a leader that died.
const LEASE: Duration = Duration::from_secs(10);
/// On SQLite there are no others, and an idle platform leaves the disk alone.
const LEASE_ALONE: Duration = Duration::from_secs(60 * 60);
const LOOK_EVERY: Duration = Duration::from_secs(2);

#[derive(Debug, Clone)]
pub(crate) struct Lead {
    name: &'static str,
    holder: String,
    epoch: i64,
    /// A transaction found out that another leads now.
    lost: Arc<AtomicBool>,
}

impl Lead {
    /// Fails when another leads now; asked inside the transaction that does the work.
    pub(crate) fn checked(&self, tx: &mut Tx<'_>) -> Result<(), StoreError> {
        let held = leases::still_held(tx, self.name, &self.holder, self.epoch);
        if matches!(held, Err(StoreError::Conflict { .. })) {
            self.lost.store(true, Ordering::Relaxed);
        }
        held
    }

    /// What [`Self::checked`] asks.
    pub(crate) fn asks(&self, database: Database) -> Vec<Ask> {
        leases::asks_still_held(database, self.name, &self.holder, self.epoch).into()
    }

    pub(crate) fn is_lost(&self) -> bool {
        self.lost.load(Ordering::Relaxed)
    }
}

#[cfg(test)]
pub(crate) async fn lead(server: &Server, name: &'static str) -> Lead {
    let epoch = take(server, name).await.unwrap().unwrap();
    Lead { name, holder: server.inner.holder.clone(), epoch, lost: Arc::default() }
}

/// Runs `work` while this process leads, again whenever it comes to lead, until shutdown.
pub(crate) async fn hold<W>(server: &Server, name: &'static str, work: impl Fn(Lead) -> W)
where
    W: Future<Output = ()>,
{
    let shutdown = server.inner.shutdown.clone();
    loop {
        if let Ok(Some(epoch)) = take(server, name).await {
            let lead = Lead { name, holder: server.inner.holder.clone(), epoch, lost: Arc::default() };
            tracing::info!(work = name, epoch, "This process is now the leader.");
            server.inner.jobs.leads(name, Some(epoch));
            tokio::select! {
                () = work(lead.clone()) => {}
                why = lost(server, name, epoch) => match why {
                    Lost::Taken => tracing::warn!(work = name, "Another process is now the leader."),
                    Lost::Unrenewed => tracing::warn!(
                        work = name,
                        "This process is no longer the leader: the database did not answer and its lease expired."
                    ),
                },
                () = shutdown.cancelled() => {}
            }
            server.inner.jobs.leads(name, None);
            give_back(server, lead).await;
        }
        tokio::select! {
            () = shutdown.cancelled() => return,
            () = tokio::time::sleep(LOOK_EVERY) => {}
        }
    }
}

fn lease(server: &Server) -> Duration {
    match server.store().database() {
        Database::Sqlite => LEASE_ALONE,
        Database::Postgres => LEASE,
    }
}

async fn take(server: &Server, name: &'static str) -> Result<Option<i64>, StoreError> {
    let holder = server.inner.holder.clone();
    let for_ms = i64::try_from(lease(server).as_millis()).expect("seconds");
    server.store().write(move |tx| leases::take(tx, name, &holder, for_ms)).await
}

/// Why a process that led does not any more.
enum Lost {
    Taken,
    Unrenewed,
}

/// Returns when the lease is another's, or could not be renewed for as long as it runs.
async fn lost(server: &Server, name: &'static str, epoch: i64) -> Lost {
    let mut renewed = Instant::now();
    loop {
        tokio::time::sleep(lease(server) / 3).await;
        match take(server, name).await {
            Ok(Some(held)) if held == epoch => renewed = Instant::now(),
            Ok(_) => return Lost::Taken,
            Err(_) if renewed.elapsed() > lease(server) => return Lost::Unrenewed,
            Err(error) => tracing::warn!(%error, work = name, "Cannot renew a lease; retrying."),
        }
    }
}

async fn give_back(server: &Server, lead: Lead) {
    let given = server.store().write(move |tx| leases::give_back(tx, lead.name, &lead.holder, lead.epoch));
    // Whoever waits takes it when it runs out.
    let _ = tokio::time::timeout(Duration::from_secs(2), given).await;
}
