//! What a door has to hold against, in a line each: another account, a narrow key, a missing right; and the record of it.
//!
//! A new route gets `Knock::new(&platform, "POST", "/api/…").body(…)` and then the lines that apply to it.

use serde_json::{Value, json};

use crate::support::Platform;

/// Every scope that a key can be limited to.
pub(crate) const SCOPES: [&str; 17] = [
    "account",
    "user",
    "team",
    "service-account",
    "auth",
    "abac",
    "audit",
    "context",
    "usage",
    "sso",
    "pipeline",
    "build",
    "repos",
    "gitops",
    "agent",
    "admin",
    "metrics",
];

/// One call, as somebody.
pub(crate) struct Knock<'p> {
    platform: &'p Platform,
    method: String,
    path: String,
    body: Option<Value>,
    headers: Vec<(String, String)>,
}

impl<'p> Knock<'p> {
    pub(crate) fn new(platform: &'p Platform, method: &str, path: &str) -> Self {
        Self { platform, method: method.into(), path: path.into(), body: None, headers: Vec::new() }
    }

    pub(crate) fn body(mut self, body: Value) -> Self {
        self.body = Some(body);
        self
    }

    pub(crate) fn header(mut self, name: &str, value: &str) -> Self {
        self.headers.push((name.into(), value.into()));
        self
    }

    pub(crate) async fn by(&self, key: &str) -> (u16, Value) {
        let url = format!("{}{}", self.platform.url, self.path);
        let mut request = self.platform.http().request(self.method.parse().unwrap(), url);
        for (name, value) in &self.headers {
            request = request.header(name, value);
        }
        if !key.is_empty() {
            request = request.header("authorization", key);
        }
        if let Some(body) = &self.body {
            request = request.json(body);
        }
        let answer = request.send().await.unwrap();
        let status = answer.status().as_u16();
        let text = answer.text().await.unwrap();
        (status, serde_json::from_str(&text).unwrap_or(Value::String(text)))
    }

    fn what(&self) -> String {
        format!("{} {} {}", self.method, self.path, self.body.clone().unwrap_or_default())
    }

    /// An Administrator's keys: those that hold `scope` (or more) get in, all others are refused.
    pub(crate) async fn needs_scope(&self, scope: &str) {
        for word in SCOPES {
            for held in [word.to_owned(), format!("{word}:read")] {
                let key = limited(self.platform, &[&held]).await;
                let (status, answer) = self.by(&key).await;
                forget(self.platform, &key).await;
                let enough = held == scope || format!("{held}:read") == scope;
                assert_eq!(status != 403, enough, "{} with `{held}`: {status} {answer}", self.what());
            }
        }
        let reads = limited(self.platform, &["*:read"]).await;
        let (status, answer) = self.by(&reads).await;
        assert_eq!(status != 403, scope.ends_with(":read"), "{} with `*:read`: {answer}", self.what());
    }

    /// The Administrator of another account finds nothing.
    pub(crate) async fn is_hidden_from(&self, elsewhere: &str) {
        let (status, answer) = self.by(elsewhere).await;
        assert_eq!(status, 404, "{} from elsewhere: {answer}", self.what());
    }

    /// Nobody, and nobody's key, get in.
    pub(crate) async fn needs_somebody(&self) {
        for key in ["", "nonsense", "Basic YWJj", "Basic !!", "acacacacacacacacacacacac.00"] {
            assert_eq!(self.by(key).await.0, 401, "{} with `{key}`", self.what());
        }
    }

    /// A member is refused before the rule, and let in after it. The team is the member's.
    pub(crate) async fn needs_right(&self, member: &str, team: &str, rule: Value) {
        let (status, answer) = self.by(member).await;
        assert!(matches!(status, 403 | 404), "{} without the right: {status} {answer}", self.what());
        let mut rule = rule;
        rule["teams"] = json!([team]);
        let made = self.platform.post("/api/abac", rule).await[0]["id"].as_str().unwrap().to_owned();
        let (status, answer) = self.by(member).await;
        assert!(status < 400, "{} with the right: {status} {answer}", self.what());
        let (status, _) =
            self.platform.call("DELETE", &format!("/api/abac/{made}"), &self.platform.admin_key, None).await;
        assert_eq!(status, 200);
    }

    /// A call leaves a record: who, what, to what, with which outcome.
    pub(crate) async fn leaves(&self, key: &str, action: &str, entity: &str, outcome: &str) -> Value {
        let filter = format!("/api/audit?limit=1000&action={action}&entity={entity}&outcome={outcome}");
        let before = self.platform.get(&filter).await["total"].as_i64().unwrap();
        let (status, answer) = self.by(key).await;
        let found = self.platform.get(&filter).await;
        let after = found["total"].as_i64().unwrap();
        assert_eq!(after, before + 1, "{} → {status} {answer}: {action} {entity} {outcome}", self.what());
        found["docs"][0].clone()
    }
}

/// A key of the platform's first administrator, limited to scopes.
pub(crate) async fn limited(platform: &Platform, scopes: &[&str]) -> String {
    let key = platform.post("/api/auth/key", json!({"name": scopes.join(" "), "scopes": scopes})).await;
    key.as_str().unwrap().to_owned()
}

/// There are so many keys that somebody may have.
async fn forget(platform: &Platform, key: &str) {
    let path = format!("/api/auth/key/{}", key.split('.').next().unwrap());
    assert_eq!(platform.call("DELETE", &path, &platform.admin_key, None).await.0, 200);
}

/// Takes away the rules that a new account starts with.
pub(crate) async fn without_rules(platform: &Platform) {
    for rule in platform.get("/api/abac").await.as_array().unwrap() {
        let path = format!("/api/abac/{}", rule["id"].as_str().unwrap());
        assert_eq!(platform.call("DELETE", &path, &platform.admin_key, None).await.0, 200);
    }
}

/// A member in a team of that name, which nobody else is in: their id and a key.
pub(crate) async fn member_in(platform: &Platform, email: &str, team: &str) -> (String, String) {
    let (user, key) = platform.member(email, "User").await;
    platform.post("/api/team", json!({"name": team, "users": [user]})).await;
    (user, key)
}
