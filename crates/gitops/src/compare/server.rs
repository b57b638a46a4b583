//! A comparison that the API server has the last word in: which objects it is asked about, and what follows from its
//! answers.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use jiff::Timestamp;
use serde_json::Value;
use slipway_crd::{Application, ConditionType};

use super::summary::condition;
use super::{Comparison, ResourceState, SyncCode, counts_as_drift};
use crate::diff::{self, DiffMode, Mutations};
use crate::object::ResourceKey;

impl Comparison {
    /// The objects that an apply would meet: wanted, there, and permitted.
    pub fn asks_server(&self) -> impl Iterator<Item = &ResourceState> {
        self.resources.iter().filter(|resource| {
            let judged = matches!(resource.status, Some(SyncCode::Synced | SyncCode::OutOfSync));
            judged && !resource.hook && resource.target.is_some() && resource.live.is_some()
        })
    }

    /// Judges by the answers. An object without one stays judged by our own prediction; `problems` say why.
    pub fn judged_by_server(
        mut self,
        application: &Application,
        answers: &HashMap<ResourceKey, Arc<Value>>,
        problems: &BTreeMap<ResourceKey, String>,
        mutations: Mutations,
        now: Timestamp,
    ) -> Self {
        let asked: Vec<ResourceKey> = self.asks_server().map(|resource| resource.key.clone()).collect();
        for resource in self.resources.iter_mut().filter(|resource| asked.contains(&resource.key)) {
            let (Some(answer), Some(live), Some(target)) =
                (answers.get(&resource.key), &resource.live, &resource.target)
            else {
                continue;
            };
            let mode = if self.context.sync_options.is_true_for(target, "ServerSideApply") {
                DiffMode::ServerSide
            } else {
                DiffMode::ThreeWay
            };
            let diff = diff::diff_by_server(target, live, answer, mutations, &self.context.rules, mode);
            resource.status = Some(if diff.modified { SyncCode::OutOfSync } else { SyncCode::Synced });
            resource.diff = Some(diff).filter(|diff| diff.modified);
        }
        for (key, problem) in problems {
            let message =
                format!("server-side diff of {}: {problem}; it was compared without the server", key.short());
            self.conditions.push(condition(application, ConditionType::ServerSideDiffWarning, &message, now));
        }
        if self.sync_status != SyncCode::Unknown {
            let drifted = self.resources.iter().any(counts_as_drift);
            self.sync_status = if drifted { SyncCode::OutOfSync } else { SyncCode::Synced };
        }
        self
    }
}
