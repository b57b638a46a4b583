//! Notifications: what `argocd-notifications-cm` says and an Application as it is become messages to be sent. And what
//! `argo-rollouts-notification-configmap` says about something that happened to a Rollout ([`Catalog::happened`]).
//!
//! Comes in: the ConfigMap's data, the object, the time. Goes out: who is to hear what, and the state to be
//! written on the Application so that nobody hears it twice. Nothing is sent here.

use std::collections::BTreeMap;

use base64::Engine as _;
use jiff::Timestamp;
use serde::Deserialize;
use serde_json::{Map, Value, json};
use sha1::{Digest, Sha1};
use slipway_dialect::selector::Selector;
use slipway_template::{Data, Environment, Functions, Limits, Template};

use slipway_dialect::expr::Expression;

/// Where it is written who heard what.
pub const NOTIFIED: &str = "notified.notifications.argoproj.io";
const SUBSCRIBE: &str = "notifications.argoproj.io/subscribe.";
/// Entries of the state that are kept at most.
const STATE_MAX: usize = 100;

/// What an installation set.
#[derive(Default)]
pub struct Catalog {
    /// By the name that subscriptions use.
    pub services: BTreeMap<String, Service>,
    templates: BTreeMap<String, Value>,
    triggers: BTreeMap<String, Vec<Condition>>,
    default_triggers: Vec<String>,
    subscriptions: Vec<Subscription>,
    context: BTreeMap<String, String>,
}

/// `service.<type>[.<name>]`; `$key` in it stands for a value of the notifications Secret.
#[derive(Debug, Clone, PartialEq)]
pub struct Service {
    pub kind: String,
    pub config: Value,
}

struct Condition {
    /// Of an Application, nothing never holds; of something that happened, it always does.
    when: Option<Expression>,
    /// Tells this condition from others, in the words that the state uses.
    key: String,
    once_per: Option<Expression>,
    send: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConditionText {
    #[serde(default)]
    when: String,
    #[serde(default)]
    once_per: String,
    #[serde(default)]
    send: Vec<String>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Subscription {
    recipients: Vec<String>,
    triggers: Vec<String>,
    selector: String,
}

/// One message to one recipient.
#[derive(Debug, Clone, PartialEq)]
pub struct Notice {
    pub service: String,
    pub recipient: String,
    /// The filled templates, one over the other.
    pub content: Value,
    /// What is written into the state when it was sent.
    pub key: String,
}

/// What is to be done about one Application.
#[derive(Debug, Default, PartialEq)]
pub struct Plan {
    pub notices: Vec<Notice>,
    /// Keys that are over: when it happens again, it is told again.
    pub forget: Vec<String>,
    /// What cannot be evaluated, in sentences.
    pub problems: Vec<String>,
}

impl Catalog {
    /// Reads the ConfigMap. What cannot be used is left out and named.
    pub fn parse(data: &BTreeMap<String, String>) -> (Self, Vec<String>) {
        let mut catalog = Self::default();
        let mut problems = Vec::new();
        for (key, text) in data {
            if let Err(problem) = catalog.add(key, text) {
                problems.push(format!("{key}: {problem}"));
            }
        }
        (catalog, problems)
    }

    pub fn is_empty(&self) -> bool {
        self.services.is_empty() || self.triggers.is_empty()
    }

    fn add(&mut self, key: &str, text: &str) -> Result<(), String> {
        let yaml = |text: &str| -> Result<Value, String> {
            let documents = slipway_yaml::load_all_json(text).map_err(|errors| errors[0].to_string())?;
            Ok(documents.into_iter().next().map(|(value, _)| value).unwrap_or_default())
        };
        let read = |value: Value| {
            serde_json::from_value(value).map_err(|error: serde_json::Error| error.to_string())
        };
        if let Some(name) = key.strip_prefix("service.") {
            let (kind, name) = name.split_once('.').unwrap_or((name, name));
            self.services.insert(name.to_owned(), Service { kind: kind.to_owned(), config: yaml(text)? });
        } else if let Some(name) = key.strip_prefix("template.") {
            self.templates.insert(name.to_owned(), yaml(text)?);
        } else if let Some(name) = key.strip_prefix("trigger.") {
            let list: Vec<ConditionText> =
                serde_json::from_value(yaml(text)?).map_err(|error| error.to_string())?;
            let mut conditions = Vec::new();
            for (index, one) in list.into_iter().enumerate() {
                let once = Some(one.once_per.as_str()).filter(|text| !text.is_empty());
                conditions.push(Condition {
                    when: Some(one.when.as_str())
                        .filter(|text| !text.is_empty())
                        .map(Expression::parse)
                        .transpose()?,
                    key: format!("[{index}].{}", hash(&one.when)),
                    once_per: once.map(Expression::parse).transpose()?,
                    send: one.send,
                });
            }
            self.triggers.insert(name.to_owned(), conditions);
        } else if key == "defaultTriggers" {
            self.default_triggers = read(yaml(text)?)?;
        } else if key == "subscriptions" {
            self.subscriptions = serde_json::from_value(yaml(text)?).map_err(|error| error.to_string())?;
        } else if key == "context" {
            self.context = serde_json::from_value(yaml(text)?).map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// What is to be told of this Application now. `state` is what was told before, as it stands on it.
    pub fn plan(&self, app: &Value, secrets: &BTreeMap<String, String>, now: Timestamp) -> Plan {
        let mut plan = Plan::default();
        let state = state(app);
        for (trigger, service, recipient) in self.destinations(app) {
            let Some(conditions) = self.triggers.get(&trigger) else {
                plan.problems.push(format!("there is no trigger `{trigger}`"));
                continue;
            };
            for condition in conditions {
                let vars = json!({"app": app, "context": self.context});
                let holds = match condition.when.as_ref().map(|when| when.is_true(&vars, now)) {
                    None => false,
                    Some(Ok(holds)) => holds,
                    Some(Err(problem)) => {
                        plan.problems.push(format!("trigger {trigger}: {problem}"));
                        continue;
                    }
                };
                let mut key = format!("{trigger}:{}:{service}:{recipient}", condition.key);
                if let Some(once) = &condition.once_per {
                    match once.text(&vars, now) {
                        Ok(value) => key = format!("{value}:{key}"),
                        Err(problem) => {
                            plan.problems.push(format!("trigger {trigger}: oncePer: {problem}"));
                            continue;
                        }
                    }
                }
                match (holds, state.contains_key(&key)) {
                    (true, false) => {
                        match self.content(
                            &condition.send,
                            ("app", app),
                            (&service, &recipient),
                            secrets,
                            now,
                        ) {
                            Ok(content) => plan.notices.push(Notice {
                                service: service.clone(),
                                recipient: recipient.clone(),
                                content,
                                key,
                            }),
                            Err(problem) => plan.problems.push(format!("trigger {trigger}: {problem}")),
                        }
                    }
                    (false, true) if condition.once_per.is_none() => plan.forget.push(key),
                    _ => {}
                }
            }
        }
        plan
    }

    /// What is to be told because this happened to a Rollout: the trigger is named after the reason (`RolloutCompleted`:
    /// `on-rollout-completed`). Each time it happens it is told; a condition is asked where a trigger has one.
    pub fn happened(
        &self,
        reason: &str,
        rollout: &Value,
        secrets: &BTreeMap<String, String>,
        now: Timestamp,
    ) -> Plan {
        let mut plan = Plan::default();
        let wanted = trigger_of(reason);
        let all = self.destinations(rollout).into_iter().filter(|(trigger, ..)| *trigger == wanted);
        for (trigger, service, recipient) in all {
            let Some(conditions) = self.triggers.get(&trigger) else {
                plan.problems.push(format!("there is no trigger `{trigger}`"));
                continue;
            };
            let vars = json!({"rollout": rollout, "context": self.context});
            for condition in conditions {
                match condition.when.as_ref().map(|when| when.is_true(&vars, now)) {
                    None | Some(Ok(true)) => {}
                    Some(Ok(false)) => continue,
                    Some(Err(problem)) => {
                        plan.problems.push(format!("trigger {trigger}: {problem}"));
                        continue;
                    }
                }
                let to = (service.as_str(), recipient.as_str());
                match self.content(&condition.send, ("rollout", rollout), to, secrets, now) {
                    Ok(content) => {
                        let key = format!("{trigger}:{}:{service}:{recipient}", condition.key);
                        let (service, recipient) = (service.clone(), recipient.clone());
                        plan.notices.push(Notice { service, recipient, content, key });
                    }
                    Err(problem) => plan.problems.push(format!("trigger {trigger}: {problem}")),
                }
            }
        }
        plan
    }

    /// Trigger, service and recipient of every subscription, each once.
    fn destinations(&self, app: &Value) -> Vec<(String, String, String)> {
        let mut out = Vec::new();
        for (name, recipients) in app["metadata"]["annotations"].as_object().into_iter().flatten() {
            let Some(rest) = name.strip_prefix(SUBSCRIBE) else { continue };
            let recipients = recipients.as_str().unwrap_or_default().split(';').map(str::trim);
            // `<trigger>.<service>`, or a service alone with the default triggers. Names may hold dots.
            let known = self.triggers.keys().find_map(|trigger| {
                let service = rest.strip_prefix(trigger.as_str())?.strip_prefix('.')?;
                Some((vec![trigger.clone()], service))
            });
            let (triggers, service) = known.unwrap_or_else(|| match rest.split_once('.') {
                Some((trigger, service)) if !self.services.contains_key(rest) => {
                    (vec![trigger.to_owned()], service)
                }
                _ => (self.default_triggers.clone(), rest),
            });
            for recipient in recipients {
                out.extend(
                    triggers
                        .iter()
                        .map(|trigger| (trigger.clone(), service.to_owned(), recipient.to_owned())),
                );
            }
        }
        for subscription in &self.subscriptions {
            if !selects(&subscription.selector, &app["metadata"]["labels"]) {
                continue;
            }
            let triggers = if subscription.triggers.is_empty() {
                &self.default_triggers
            } else {
                &subscription.triggers
            };
            for recipient in &subscription.recipients {
                let (service, recipient) = recipient.split_once(':').unwrap_or((recipient, ""));
                out.extend(triggers.iter().map(|t| (t.clone(), service.to_owned(), recipient.to_owned())));
            }
        }
        out.sort();
        out.dedup();
        out
    }

    fn content(
        &self,
        names: &[String],
        (called, object): (&str, &Value),
        (service, recipient): (&str, &str),
        secrets: &BTreeMap<String, String>,
        now: Timestamp,
    ) -> Result<Value, String> {
        let mut content = Map::new();
        for name in names {
            let template =
                self.templates.get(name).ok_or_else(|| format!("there is no template `{name}`"))?;
            for (key, value) in template.as_object().into_iter().flatten() {
                content.insert(key.clone(), value.clone());
            }
        }
        let kind = self.services.get(service).map_or(service, |service| service.kind.as_str());
        let data = Data::Json(json!({
            called: object, "context": self.context, "secrets": secrets, "serviceType": kind, "recipient": recipient,
        }));
        fill(&Value::Object(content), &data, now)
    }
}

/// `RolloutStepCompleted` is `on-rollout-step-completed`.
fn trigger_of(reason: &str) -> String {
    let mut trigger = "on".to_owned();
    let mut before = ' ';
    let mut letters = reason.chars().peekable();
    while let Some(letter) = letters.next() {
        let begins = letter.is_uppercase()
            && (!before.is_uppercase() || letters.peek().is_some_and(|next| next.is_lowercase()));
        if begins {
            trigger.push('-');
        }
        trigger.extend(letter.to_lowercase());
        before = letter;
    }
    trigger
}

/// The state after these were sent and those were forgotten; `None`: as it was.
pub fn next_state(app: &Value, sent: &[String], forget: &[String], now: Timestamp) -> Option<String> {
    if sent.is_empty() && forget.is_empty() {
        return None;
    }
    let mut state = state(app);
    for key in forget {
        state.remove(key);
    }
    for key in sent {
        state.insert(key.clone(), now.as_second());
    }
    while state.len() > STATE_MAX {
        let oldest = state.iter().min_by_key(|(_, at)| **at).map(|(key, _)| key.clone())?;
        state.remove(&oldest);
    }
    serde_json::to_string(&state).ok()
}

fn state(app: &Value) -> BTreeMap<String, i64> {
    let text = app["metadata"]["annotations"][NOTIFIED].as_str().unwrap_or_default();
    serde_json::from_str(text).unwrap_or_default()
}

fn hash(text: &str) -> String {
    base64::engine::general_purpose::URL_SAFE_NO_PAD.encode(Sha1::digest(text.as_bytes()))
}

/// One that cannot be read selects nothing.
fn selects(selector: &str, labels: &Value) -> bool {
    let labels = labels.as_object().into_iter().flatten();
    let labels =
        labels.map(|(name, value)| (name.clone(), value.as_str().unwrap_or_default().to_owned())).collect();
    Selector::parse_text(selector).is_ok_and(|selector| selector.matches(&labels))
}

/// Every text of a template, filled.
fn fill(value: &Value, data: &Data, now: Timestamp) -> Result<Value, String> {
    Ok(match value {
        Value::String(text) if text.contains("{{") => {
            let none: [&str; 0] = [];
            let template = Template::parse("template", text, &none, Functions::application_set())
                .map_err(|error| error.to_string())?;
            let mut random = || 4;
            let mut environment = Environment { now, random: &mut random, limits: Limits::default() };
            Value::String(template.render(data, &mut environment).map_err(|error| error.to_string())?)
        }
        Value::Array(items) => items.iter().map(|item| fill(item, data, now)).collect::<Result<_, _>>()?,
        Value::Object(entries) => {
            let filled = entries.iter().map(|(key, value)| Ok((key.clone(), fill(value, data, now)?)));
            Value::Object(filled.collect::<Result<_, String>>()?)
        }
        other => other.clone(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn catalog() -> Catalog {
        let data = [
            ("service.webhook.hook", "url: http://x\n"),
            ("service.slack", "token: $slack-token\n"),
            (
                "template.failed",
                "message: \"{{.app.metadata.name}} failed in {{.context.env}} ({{.serviceType}})\"\nwebhook:\n  hook:\n    method: POST\n    body: '{\"app\": \"{{.app.metadata.name}}\"}'\n",
            ),
            (
                "trigger.on-failed",
                "- when: app.status.operationState.phase in ['Error', 'Failed']\n  send: [failed]\n",
            ),
            (
                "trigger.on-deployed",
                "- when: app.status.health.status == 'Healthy'\n  oncePer: app.status.sync.revision\n  send: [failed]\n",
            ),
            ("defaultTriggers", "[on-failed]"),
            (
                "subscriptions",
                "- recipients: [\"slack:ops\"]\n  triggers: [on-deployed]\n  selector: team=blue\n",
            ),
            ("context", "env: prod\n"),
        ];
        let data = data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let (catalog, problems) = Catalog::parse(&data);
        assert_eq!(problems, Vec::<String>::new());
        catalog
    }

    fn app(phase: &str) -> Value {
        json!({"metadata": {"name": "shop", "annotations": {
                "notifications.argoproj.io/subscribe.on-failed.hook": "",
                "notifications.argoproj.io/subscribe.slack": "dev;qa"}},
            "status": {"operationState": {"phase": phase}, "health": {"status": "Healthy"}, "sync": {"revision": "abc"}}})
    }

    #[test]
    fn everybody_who_asked_hears_it_once_and_again_when_it_happens_again() {
        let (catalog, now, none) = (catalog(), Timestamp::UNIX_EPOCH, BTreeMap::new());
        let mut failed = app("Failed");
        let plan = catalog.plan(&failed, &none, now);
        let heard: Vec<_> = plan.notices.iter().map(|n| (n.service.as_str(), n.recipient.as_str())).collect();
        assert_eq!(heard, [("hook", ""), ("slack", "dev"), ("slack", "qa")]);
        assert_eq!(plan.notices[1].content["message"], "shop failed in prod (slack)");
        assert_eq!(plan.notices[0].content["webhook"]["hook"]["body"], "{\"app\": \"shop\"}");
        assert!(plan.notices[0].key.starts_with("on-failed:[0]."), "{}", plan.notices[0].key);

        let keys: Vec<String> = plan.notices.iter().map(|notice| notice.key.clone()).collect();
        failed["metadata"]["annotations"][NOTIFIED] =
            next_state(&failed, &keys, &[], now).expect("changed").into();
        assert_eq!(catalog.plan(&failed, &none, now), Plan::default());
        let mut well = failed.clone();
        well["status"]["operationState"]["phase"] = "Succeeded".into();
        let plan = catalog.plan(&well, &none, now);
        assert_eq!((plan.notices.len(), plan.forget.len()), (0, 3));
        well["metadata"]["annotations"][NOTIFIED] =
            next_state(&well, &[], &plan.forget, now).expect("changed").into();
        well["status"]["operationState"]["phase"] = "Failed".into();
        assert_eq!(catalog.plan(&well, &none, now).notices.len(), 3);
    }

    #[test]
    fn what_happened_to_a_rollout_is_told_to_whoever_asked_for_that() {
        let data = [
            ("service.webhook.hook", "url: http://x\n"),
            ("template.done", "message: \"{{.rollout.metadata.name}} is done, {{.recipient}}\"\n"),
            ("trigger.on-rollout-completed", "- send: [done]\n"),
            ("trigger.on-rollout-aborted", "- when: rollout.spec.replicas > 3\n  send: [done]\n"),
        ];
        let data = data.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect();
        let (catalog, problems) = Catalog::parse(&data);
        assert_eq!(problems, Vec::<String>::new());
        let subscribe = |trigger: &str| format!("notifications.argoproj.io/subscribe.{trigger}.hook");
        let (done, aborted) = (subscribe("on-rollout-completed"), subscribe("on-rollout-aborted"));
        let mut rollout = json!({"metadata": {"name": "web", "annotations": {done: "a;b", aborted: "c"}}, "spec": {"replicas": 2}});
        let tell = |rollout: &Value, reason: &str| {
            let plan = catalog.happened(reason, rollout, &BTreeMap::new(), Timestamp::UNIX_EPOCH);
            assert_eq!(plan.problems, Vec::<String>::new());
            plan.notices.into_iter().map(|notice| notice.content["message"].clone()).collect::<Vec<_>>()
        };
        assert_eq!(tell(&rollout, "RolloutCompleted"), ["web is done, a", "web is done, b"]);
        assert_eq!(tell(&rollout, "RolloutCompleted").len(), 2, "each time it happens");
        assert_eq!(tell(&rollout, "RolloutPaused"), Vec::<Value>::new(), "nobody asked for it");
        assert_eq!(tell(&rollout, "RolloutAborted"), Vec::<Value>::new(), "its condition does not hold");
        rollout["spec"]["replicas"] = 4.into();
        assert_eq!(tell(&rollout, "RolloutAborted"), ["web is done, c"]);
        for (reason, expected) in [
            ("RolloutStepCompleted", "on-rollout-step-completed"),
            ("ScalingReplicaSet", "on-scaling-replica-set"),
            ("AnalysisRunFailed", "on-analysis-run-failed"),
        ] {
            assert_eq!(trigger_of(reason), expected);
        }
    }

    #[test]
    fn once_per_revision_is_once_per_revision() {
        let (catalog, now, none) = (catalog(), Timestamp::UNIX_EPOCH, BTreeMap::new());
        let mut app = app("Succeeded");
        app["metadata"]["labels"] = json!({"team": "blue"});
        let plan = catalog.plan(&app, &none, now);
        assert_eq!(plan.notices.len(), 1);
        assert!(plan.notices[0].key.starts_with("abc:on-deployed:"), "{}", plan.notices[0].key);
        app["metadata"]["annotations"][NOTIFIED] =
            next_state(&app, &[plan.notices[0].key.clone()], &[], now).expect("changed").into();
        app["status"]["health"]["status"] = "Degraded".into();
        assert_eq!(catalog.plan(&app, &none, now), Plan::default(), "what was told once stays told");
        app["status"]["health"]["status"] = "Healthy".into();
        assert_eq!(catalog.plan(&app, &none, now).notices.len(), 0);
        app["status"]["sync"]["revision"] = "def".into();
        assert_eq!(catalog.plan(&app, &none, now).notices.len(), 1);
    }
}
