//! Passes: what somebody shows to a runtime's app-proxy instead of who they are.
//!
//! In: what was decided about a caller and an operation. Out: a sealed text that is good for that operation on that Application of
//! that runtime, for two minutes, and back again. A runtime can neither read nor make one, and one that it keeps opens nothing
//! elsewhere. Does not know who may do what.

use aws_lc_rs::digest;
use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use slipway_api::application::{PassMoment, ProxyOperation, ProxyQuestion};

use crate::identity::auth::Credential;
use crate::seal::DataKey;
use crate::seams::Seams;

pub(crate) const LIVES_MS: i64 = 2 * 60 * 1000;

/// What was opened with a pass in time may go on for so long: nobody follows a log for longer, nor leaves a shell open.
const GOES_ON_MS: i64 = 24 * 60 * 60 * 1000;

/// A pass is known by its beginning wherever it comes by.
pub(crate) const PREFIX: &str = "pass.";

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Claims {
    pub(crate) runtime: String,
    operation: ProxyOperation,
    namespace: String,
    name: String,
    /// Of the body.
    detail: String,
    /// Whose it is: asked about again when the pass is shown.
    pub(crate) bearer: Bearer,
    expires_ms: i64,
    /// No two are alike, so that one can be used up; beginning and end of what it opens are recorded with it.
    pub(crate) nonce: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Bearer {
    Key(String),
    /// By the digest that a session is kept by.
    Session(String),
}

impl Bearer {
    pub(crate) fn of(credential: &Credential) -> Self {
        match credential {
            Credential::Key(id) => Self::Key(id.to_string()),
            Credential::Session(session) => Self::Session(session.token_hash.clone()),
        }
    }
}

impl Claims {
    pub(crate) fn new(
        seams: &Seams,
        runtime: &str,
        question: &ProxyQuestion,
        bearer: Bearer,
        now_ms: i64,
    ) -> Self {
        Self {
            nonce: hex::encode(seams.random::<8>()),
            runtime: runtime.to_owned(),
            operation: question.operation,
            namespace: question.namespace.clone(),
            name: question.name.clone(),
            detail: fingerprint(question.detail.as_ref()),
            bearer,
            expires_ms: now_ms + LIVES_MS,
        }
    }

    pub(crate) fn seal(&self, seams: &Seams, key: &DataKey) -> String {
        let text = serde_json::to_string(self).expect("claims are JSON");
        format!("{PREFIX}{}", URL_SAFE_NO_PAD.encode(key.seal(seams, PLACE, &text)))
    }

    /// `None` when it was not made here, for this account.
    pub(crate) fn open(key: &DataKey, pass: &str) -> Option<Self> {
        let sealed = URL_SAFE_NO_PAD.decode(pass.strip_prefix(PREFIX)?).ok()?;
        let text = key.unseal(PLACE, std::str::from_utf8(&sealed).ok()?)?;
        serde_json::from_str(text.expose()).ok()
    }

    /// Why this pass is not for that, shown by this runtime at this moment; `None` when it is.
    pub(crate) fn unfit(
        &self,
        runtime: &str,
        question: &ProxyQuestion,
        moment: PassMoment,
        now_ms: i64,
    ) -> Option<&'static str> {
        if self.runtime != runtime {
            return Some("this pass is for another runtime");
        }
        let same = self.operation == question.operation
            && self.namespace == question.namespace
            && self.name == question.name;
        if !same {
            return Some("this pass is for another operation or another Application");
        }
        if self.detail != fingerprint(question.detail.as_ref()) {
            return Some("this pass is for another body: what it was given for is what is recorded");
        }
        if !moment.is_shown() && !self.operation.goes_on() {
            return Some("what this pass is for is over when it is answered");
        }
        let longer = if moment.is_shown() { 0 } else { GOES_ON_MS };
        (self.expires_ms + longer < now_ms).then_some("this pass has expired: ask for a new one")
    }
}

const PLACE: &str = "app-proxy pass";

/// The same for the same JSON, however its writer orders names.
fn fingerprint(detail: Option<&Value>) -> String {
    let mut text = String::new();
    if let Some(detail) = detail {
        canonical(detail, &mut text);
    }
    hex::encode(digest::digest(&digest::SHA256, text.as_bytes()))
}

fn canonical(value: &Value, into: &mut String) {
    match value {
        Value::Object(fields) => {
            let mut fields: Vec<_> = fields.iter().collect();
            fields.sort_by_key(|(name, _)| name.as_str());
            into.push('{');
            for (name, value) in fields {
                into.push_str(&Value::from(name.as_str()).to_string());
                into.push(':');
                canonical(value, into);
                into.push(',');
            }
            into.push('}');
        }
        Value::Array(items) => {
            into.push('[');
            for item in items {
                canonical(item, into);
                into.push(',');
            }
            into.push(']');
        }
        other => into.push_str(&other.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn question(operation: ProxyOperation, detail: Option<Value>) -> ProxyQuestion {
        ProxyQuestion { operation, namespace: "argocd".into(), name: "shop".into(), detail }
    }

    const SHOWN: PassMoment = PassMoment::Shown;

    #[test]
    fn a_pass_is_for_one_thing_at_one_runtime_for_two_minutes() {
        let asked = question(ProxyOperation::Sync, Some(json!({"prune": true, "revision": "a"})));
        let claims = Claims::new(&Seams::system(), "prod", &asked, Bearer::Key("k".into()), 1_000);
        let turned = question(ProxyOperation::Sync, Some(json!({"revision": "a", "prune": true})));
        assert_eq!(claims.unfit("prod", &turned, SHOWN, 1_000 + LIVES_MS), None, "names have no order");
        assert!(claims.unfit("prod", &asked, SHOWN, 1_001 + LIVES_MS).is_some(), "too late");
        assert!(claims.unfit("dev", &asked, SHOWN, 1_000).is_some(), "another runtime");
        for other in [
            question(ProxyOperation::Rollback, asked.detail.clone()),
            question(ProxyOperation::Sync, None),
            question(ProxyOperation::Sync, Some(json!({"prune": true, "revision": "b"}))),
            ProxyQuestion { name: "till".into(), ..asked.clone() },
            ProxyQuestion { namespace: "other".into(), ..asked.clone() },
        ] {
            assert!(claims.unfit("prod", &other, SHOWN, 1_000).is_some(), "{other:?}");
        }
    }
    #[test]
    fn what_was_opened_in_time_goes_on_for_a_day_and_nothing_else_does() {
        let later = 1_001 + LIVES_MS;
        for operation in ProxyOperation::ALL.iter().copied() {
            let asked = question(operation, None);
            let claims = Claims::new(&Seams::system(), "prod", &asked, Bearer::Key("k".into()), 1_000);
            for moment in [PassMoment::Ongoing, PassMoment::Ended] {
                let fits = |now_ms| claims.unfit("prod", &asked, moment, now_ms).is_none();
                assert_eq!(fits(later), operation.goes_on(), "{operation:?} {moment:?}");
                assert!(!fits(later + GOES_ON_MS), "{operation:?} {moment:?}");
            }
        }
    }
}
