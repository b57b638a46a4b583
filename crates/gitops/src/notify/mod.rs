//! Notifications: what `argocd-notifications-cm` says and an Application as it is become messages to be sent.
//!
//! Comes in: the ConfigMap's data, the Application, the time. Goes out: who is to hear what, and the state to be
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
    when: Expression,
    /// Tells this condition from others, in the words that the state uses.
    key: String,
    once_per: Option<Expression>,
    send: Vec<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct ConditionText {
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
                    when: Expression::parse(&one.when)?,
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
                let holds = match condition.when.is_true(&vars, now) {
                    Ok(holds) => holds,
                    Err(problem) => {
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
                        match self.content(&condition.send, app, &service, &recipient, secrets, now) {
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
        app: &Value,
        service: &str,
        recipient: &str,
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
            "app": app, "context": self.context, "secrets": secrets, "serviceType": kind, "recipient": recipient,
        }));
        fill(&Value::Object(content), &data, now)
    }
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
