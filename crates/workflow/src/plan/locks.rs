//! Mutexes and semaphores: what a workflow, or a node of one, has for itself while it runs.
//!
//! Who has what and who waits is in the status of each workflow, and nowhere else: whoever reads all of them knows everything, also after a restart.
//! A lock is written down before anything is begun under it, and given back when everything under it has ended and no pod of it runs.
//! Whoever plans sees to it that no two workflows that want locks are planned and written at the same time.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Value, json};
use slipway_crd::workflow::{NodeStatus, Synchronization, Template};

use super::execute::Call;
use super::nodes::{Fresh, is_completed};
use super::{Halt, Run};
use crate::scope::{Scope, text_of};

/// Limits of semaphores are looked at again after so many seconds; nobody says when they change.
const LOOK_AGAIN: i64 = 30;

/// A lock, and who has it or waits for it.
type Entry = (String, String);

/// What other workflows have and wait for.
#[derive(Debug, Clone, Default)]
pub struct Locks {
    holders: BTreeMap<String, BTreeSet<String>>,
    waiting: BTreeMap<String, Vec<Waiter>>,
}

/// Those with a higher priority go first, then those that came first.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
struct Waiter {
    priority: std::cmp::Reverse<i64>,
    created: String,
    holder: String,
}

impl Locks {
    /// Counts another workflow in, as it is in the cluster. One that is suspended keeps what it has and waits for nothing.
    pub fn add(&mut self, workflow: &Value) {
        let synchronization = &workflow["status"]["synchronization"];
        for (lock, holder) in entries(synchronization, "holding") {
            self.holders.entry(lock).or_default().insert(holder);
        }
        if workflow["spec"]["suspend"] == true || workflow["status"]["finishedAt"].is_string() {
            return;
        }
        for (lock, holder) in entries(synchronization, "waiting") {
            self.waiting.entry(lock).or_default().push(Waiter {
                priority: std::cmp::Reverse(workflow["spec"]["priority"].as_i64().unwrap_or_default()),
                created: text_of(&workflow["metadata"]["creationTimestamp"]),
                holder,
            });
        }
    }
}

/// Whether a workflow has locks or waits for some: others hear of its changes.
pub fn has_any(workflow: &Value) -> bool {
    let synchronization = &workflow["status"]["synchronization"];
    ["holding", "waiting"].iter().any(|word| !entries(synchronization, word).is_empty())
}

fn entries(synchronization: &Value, word: &str) -> Vec<Entry> {
    let list = |kind: &str| synchronization[kind][word].as_array().cloned().unwrap_or_default();
    let mut found = Vec::new();
    for one in list("mutex") {
        found.push((text_of(&one["mutex"]), text_of(&one["holder"])));
    }
    for one in list("semaphore") {
        let holders = one["holders"].as_array().cloned().unwrap_or_default();
        found.extend(holders.iter().map(|holder| (text_of(&one["semaphore"]), text_of(holder))));
    }
    found
}

/// As `argo` reads it; nothing at all is nothing.
fn written(holding: &BTreeSet<Entry>, waiting: &BTreeSet<Entry>) -> Option<Value> {
    let mut all = json!({});
    for (word, entries) in [("holding", holding), ("waiting", waiting)] {
        let mut semaphores: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
        let mut mutexes = Vec::new();
        for (lock, holder) in entries {
            if lock.contains("/Mutex/") {
                mutexes.push(json!({"mutex": lock, "holder": holder}));
            } else {
                semaphores.entry(lock).or_default().push(holder);
            }
        }
        if !mutexes.is_empty() {
            all["mutex"][word] = json!(mutexes);
        }
        if !semaphores.is_empty() {
            let list =
                semaphores.iter().map(|(lock, holders)| json!({"semaphore": lock, "holders": holders}));
            all["semaphore"][word] = list.collect();
        }
    }
    all.as_object().is_some_and(|all| !all.is_empty()).then_some(all)
}

/// The ConfigMaps that say how many places there are.
pub(super) fn maps_of(wanted: &Synchronization) -> Vec<String> {
    let semaphores = wanted.semaphores.iter().chain(&wanted.semaphore);
    semaphores.filter_map(|one| Some(one.config_map_key_ref.as_ref()?["name"].as_str()?.to_owned())).collect()
}

/// What is asked for and not there yet.
pub(super) fn unsupported(wanted: &Synchronization, namespace: &str) -> Vec<&'static str> {
    let mut found = Vec::new();
    for one in wanted.semaphores.iter().chain(&wanted.semaphore) {
        found.extend(one.database.is_some().then_some("a semaphore of a database"));
        found.extend((!one.selectors.is_empty()).then_some("selectors of a semaphore"));
        let other = !one.namespace.is_empty() && one.namespace != namespace;
        found.extend(other.then_some("a semaphore of another namespace"));
    }
    for one in wanted.mutexes.iter().chain(&wanted.mutex) {
        found.extend(one.database.then_some("a mutex of a database"));
        found.extend((!one.selectors.is_empty()).then_some("selectors of a mutex"));
        let other = !one.namespace.is_empty() && one.namespace != namespace;
        found.extend(other.then_some("a mutex of another namespace"));
    }
    found
}

/// What came of an attempt to have locks.
enum Taken {
    Before,
    /// Written down with this plan: what it is for begins with the next one.
    Now,
    Waits {
        lock: String,
        message: String,
    },
}

impl Run<'_> {
    /// Locks of the whole workflow. False: it has to wait for them, or for them to be written down.
    pub(super) fn may_begin_at_all(&mut self) -> bool {
        let begins = self.status.phase.is_empty() || self.status.phase == "Pending";
        let Some(wanted) = self.spec.synchronization.clone().filter(|_| begins && !self.is_ending()) else {
            return true;
        };
        let holder = format!("{}/{}", self.observed.workflow.metadata.namespace, self.name);
        let scope = self.globals.clone();
        match self.take(&holder, &wanted, &scope) {
            Ok(Taken::Before) => return true,
            Ok(Taken::Now) => {
                self.status.phase = "Pending".into();
                self.look_again_at(self.now);
            }
            Ok(Taken::Waits { message, .. }) => {
                self.status.phase = "Pending".into();
                self.status.message = message;
                self.look_later();
            }
            Err(why) => {
                self.status.started_at.get_or_insert_with(|| self.now.to_string());
                super::finish::end(&mut self.status, "Error", &why, self.now);
            }
        }
        false
    }

    /// Locks of a template. False: the node waits.
    pub(super) fn takes_locks(&mut self, call: &Call, template: &Template) -> Result<bool, Halt> {
        let Some(wanted) = &template.synchronization else { return Ok(true) };
        if self.is_ending()
            && !call.on_exit
            && self.node(&call.name).is_some_and(|node| node.synchronization_status.is_some())
        {
            self.mark(&call.name, "Failed", &format!("Stopped with strategy '{}'", self.spec.shutdown));
            return Ok(false);
        }
        let (_, scope) = self.inputs(template, &call.arguments)?;
        let id = crate::identity::node_id(&self.name, &call.name);
        let holder = format!("{}/{}/{id}", self.observed.workflow.metadata.namespace, self.name);
        let (message, status) = match self.take(&holder, wanted, &scope)? {
            Taken::Before => {
                if let Some(node) = self.status.nodes.get_mut(&id)
                    && node.phase == "Pending"
                    && node.r#type != "Pod"
                {
                    node.phase = "Running".into();
                    node.message.clear();
                    node.synchronization_status = None;
                }
                return Ok(true);
            }
            Taken::Now => {
                self.look_again_at(self.now);
                (String::new(), json!({}))
            }
            Taken::Waits { lock, message } => {
                self.look_later();
                (message, json!({"waiting": lock}))
            }
        };
        let retried = template.retry_strategy.is_some() || self.spec.retry_strategy.is_some();
        let kind = if retried { "Retry" } else { self.kind_of(call) };
        self.make_node(call, &Fresh { kind, phase: "Pending", message: "" });
        if let Some(node) = self.status.nodes.get_mut(&id) {
            node.message = message;
            node.synchronization_status = Some(status);
        }
        Ok(false)
    }

    fn look_later(&mut self) {
        let later = self.now.checked_add(jiff::SignedDuration::from_secs(LOOK_AGAIN));
        self.look_again_at(later.unwrap_or(jiff::Timestamp::MAX));
    }

    /// All of them or none.
    fn take(&mut self, holder: &str, wanted: &Synchronization, scope: &Scope) -> Result<Taken, String> {
        let wanted = self.named(wanted, scope)?;
        let (mut holding, mut waiting) = self.own();
        let of = |lock: &String| (lock.clone(), holder.to_owned());
        if wanted.iter().all(|(lock, _)| holding.contains(&of(lock))) {
            return Ok(Taken::Before);
        }
        let me = Waiter {
            priority: std::cmp::Reverse(self.spec.priority.unwrap_or_default()),
            created: self.observed.workflow.metadata.creation_timestamp.clone().unwrap_or_default(),
            holder: holder.to_owned(),
        };
        let others = self.observed.locks.clone().unwrap_or_default();
        let mut busy = None;
        for (lock, limit) in &wanted {
            let own = holding.iter().filter(|(held, by)| held == lock && by != holder).count();
            let held = own + others.holders.get(lock).map_or(0, BTreeSet::len);
            let ahead = others.waiting.get(lock).into_iter().flatten().filter(|other| **other < me).count();
            if held + ahead >= *limit {
                let free = limit.saturating_sub(held);
                let message = format!("Waiting for {lock} lock. Lock status: {free}/{limit}");
                busy.get_or_insert((lock.clone(), message));
            }
        }
        let entries: Vec<Entry> = wanted.iter().map(|(lock, _)| of(lock)).collect();
        let taken = match busy {
            Some((lock, message)) => {
                waiting.extend(entries);
                Taken::Waits { lock, message }
            }
            None => {
                waiting.retain(|(_, by)| by != holder);
                holding.extend(entries);
                Taken::Now
            }
        };
        self.status.synchronization = written(&holding, &waiting);
        Ok(taken)
    }

    fn own(&self) -> (BTreeSet<Entry>, BTreeSet<Entry>) {
        let own = self.status.synchronization.clone().unwrap_or_default();
        (entries(&own, "holding").into_iter().collect(), entries(&own, "waiting").into_iter().collect())
    }

    /// With how many places each has.
    fn named(&self, wanted: &Synchronization, scope: &Scope) -> Result<Vec<(String, usize)>, String> {
        let namespace = &self.observed.workflow.metadata.namespace;
        let mut found = Vec::new();
        for one in wanted.mutexes.iter().chain(&wanted.mutex) {
            let name = scope.fill_text(&one.name, self.now)?;
            found.push((format!("{namespace}/Mutex/{name}"), 1));
        }
        for one in wanted.semaphores.iter().chain(&wanted.semaphore) {
            let reference = one.config_map_key_ref.clone().unwrap_or_default();
            let map = text_of(&reference["name"]);
            let key = scope.fill_text(&text_of(&reference["key"]), self.now)?;
            let places = self.observed.config_maps.get(&map).map(|found| text_of(&found["data"][&key]));
            let places = places.and_then(|text| text.trim().parse::<usize>().ok());
            let places = places.ok_or_else(|| {
                format!("ConfigMap `{map}` does not say below `{key}` how many places the semaphore has")
            })?;
            found.push((format!("{namespace}/ConfigMap/{map}/{key}"), places));
        }
        found.sort();
        found.dedup();
        Ok(found)
    }

    /// Gives back what nobody of this workflow needs any more.
    pub(super) fn release_locks(&mut self) {
        if self.status.synchronization.is_none() {
            return;
        }
        let (mut holding, mut waiting) = self.own();
        let ended = self.status.finished_at.is_some();
        let whole = format!("{}/{}", self.observed.workflow.metadata.namespace, self.name);
        let needed = |(_, holder): &Entry, waits: bool| {
            let Some(id) = holder.strip_prefix(&format!("{whole}/")) else {
                return *holder == whole && (!ended || (!waits && self.runs_below("")));
            };
            let Some(node) = self.status.nodes.get(id) else { return false };
            let over = ended || has_ended(node);
            !over || (!waits && self.runs_below(&node.name))
        };
        holding.retain(|entry| needed(entry, false));
        waiting.retain(|entry| needed(entry, true));
        self.status.synchronization = written(&holding, &waiting);
    }

    /// Whether a pod of a node, or of one inside of it, still runs.
    fn runs_below(&self, node: &str) -> bool {
        self.pods.values().any(|pod| {
            let name = pod["metadata"]["annotations"][super::compose::NODE_NAME].as_str().unwrap_or_default();
            name.starts_with(node) && super::sweep::is_running(pod)
        })
    }
}

fn has_ended(node: &NodeStatus) -> bool {
    is_completed(node) || matches!(node.phase.as_str(), "Skipped" | "Omitted")
}
