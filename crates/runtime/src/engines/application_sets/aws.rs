//! Amazon's way to be asked: JSON posted to the address of a region, signed with Signature Version 4.
//!
//! In: the environment that the engine runs in, a role and a region, then actions with their input. Out: answers. It
//! knows three sources of credentials: keys in the environment, a web identity (a service account's role) and the
//! container's agent. Configuration files and the machine's metadata are left alone.

use std::fmt::Write as _;
use std::time::Duration;

use aws_lc_rs::hmac;
use jiff::Timestamp;
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use slipway_dialect::percent::encode;
use slipway_forge::lists::AskError;
use slipway_forge::remote::Answer;
use slipway_model::Secret;
use slipway_net::{Client, Request as Ask, Rules, Trust};

use super::http;

const PATIENCE: Duration = Duration::from_secs(30);
const JSON: &str = "application/x-amz-json-1.1";
const FORM: &str = "application/x-www-form-urlencoded; charset=utf-8";
const STS_VERSION: &str = "2011-06-15";

/// What stands in the environment under a name.
pub(crate) type Environment<'a> = &'a (dyn Fn(&str) -> Option<String> + Send + Sync);

#[derive(Clone)]
pub(crate) struct Credentials {
    pub(super) id: String,
    pub(super) secret: Secret<String>,
    /// Of a role, for a while.
    pub(super) token: Option<Secret<String>>,
}

/// Somebody known to Amazon, in a region.
pub(crate) struct Session {
    client: Client,
    region: String,
    credentials: Credentials,
    /// Instead of Amazon's own: `AWS_ENDPOINT_URL`.
    endpoint: Option<String>,
}

impl Session {
    /// `role` and `region` as the generator names them; empty: the engine's own.
    pub(crate) async fn open(
        rules: &Rules,
        environment: Environment<'_>,
        role: &str,
        region: &str,
    ) -> Result<Self, String> {
        let given = |name: &str| environment(name).filter(|text| !text.is_empty());
        let region = Some(region.to_owned())
            .filter(|region| !region.is_empty())
            .or_else(|| given("AWS_REGION"))
            .or_else(|| given("AWS_DEFAULT_REGION"))
            .ok_or("no region is named; set region in the generator, or AWS_REGION for the engine")?;
        if !region.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-') {
            // It becomes a part of the host that credentials are shown to.
            return Err(format!("{region:?} is not a region"));
        }
        let client = http::client(rules, PATIENCE, Trust::default())?;
        let endpoint = given("AWS_ENDPOINT_URL");
        let nobody = Credentials { id: String::new(), secret: Secret::new(String::new()), token: None };
        let mut session = Self { client, region, credentials: nobody, endpoint };
        session.credentials = if let (Some(id), Some(secret)) =
            (given("AWS_ACCESS_KEY_ID"), given("AWS_SECRET_ACCESS_KEY"))
        {
            Credentials {
                id,
                secret: Secret::new(secret),
                token: given("AWS_SESSION_TOKEN").map(Secret::new),
            }
        } else if let (Some(file), Some(role)) = (given("AWS_WEB_IDENTITY_TOKEN_FILE"), given("AWS_ROLE_ARN"))
        {
            let token = read(&file).await?;
            let name = given("AWS_ROLE_SESSION_NAME").unwrap_or_else(|| "slipway".to_owned());
            let form = form(&[
                ("Action", "AssumeRoleWithWebIdentity"),
                ("Version", STS_VERSION),
                ("RoleArn", &role),
                ("RoleSessionName", &name),
                ("WebIdentityToken", token.trim()),
            ]);
            session.role(&form, false).await?
        } else if let Some(agent) = given("AWS_CONTAINER_CREDENTIALS_FULL_URI") {
            let token = match given("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE") {
                Some(file) => Some(read(&file).await?.trim().to_owned()),
                None => given("AWS_CONTAINER_AUTHORIZATION_TOKEN"),
            };
            ask_agent(&agent, token).await?
        } else {
            return Err("the engine has no AWS credentials; give it AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY, a web identity, or a pod identity".into());
        };
        if !role.is_empty() {
            let form = form(&[
                ("Action", "AssumeRole"),
                ("Version", STS_VERSION),
                ("RoleArn", role),
                ("RoleSessionName", "slipway"),
            ]);
            session.credentials = session.role(&form, true).await?;
        }
        Ok(session)
    }

    /// Carries an action out, and gives its answer. Faults carry Amazon's `__type`.
    pub(super) async fn act(&self, service: &str, target: &str, input: &Value) -> Result<Answer, String> {
        self.act_in(JSON, service, target, input).await
    }

    /// The same in the version of the protocol that the service speaks.
    pub(crate) async fn act_in(
        &self,
        protocol: &str,
        service: &str,
        target: &str,
        input: &Value,
    ) -> Result<Answer, String> {
        let url = self.address(service);
        let body = input.to_string();
        let mut headers = vec![("content-type", protocol.to_owned()), ("x-amz-target", target.to_owned())];
        headers = self.signed(service, &url, headers, &body)?;
        http::post(&self.client, &url, &headers, &body).await
    }

    fn address(&self, service: &str) -> String {
        let region = &self.region;
        let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
        match &self.endpoint {
            Some(endpoint) => format!("{}/", endpoint.trim_end_matches('/')),
            None => format!("https://{service}.{region}.{domain}/"),
        }
    }

    /// Credentials of a role, by the token service.
    async fn role(&self, form: &str, signed: bool) -> Result<Credentials, String> {
        let url = self.address("sts");
        let mut headers = vec![("content-type", FORM.to_owned())];
        if signed {
            headers = self.signed("sts", &url, headers, form)?;
        }
        let refused = |error: String| format!("the role is not given: {error}");
        let answer = http::post(&self.client, &url, &headers, form).await.map_err(refused)?;
        if !(200..300).contains(&answer.status) {
            let error = answer.read(&url).map_err(AskError::into_message).err();
            return Err(refused(error.unwrap_or_default()));
        }
        let text = String::from_utf8_lossy(&answer.body);
        let field = |name: &str| element(&text, name).ok_or(format!("{url} gives a role without {name}"));
        Ok(Credentials {
            id: field("AccessKeyId")?,
            secret: Secret::new(field("SecretAccessKey")?),
            token: Some(Secret::new(field("SessionToken")?)),
        })
    }

    fn signed(
        &self,
        service: &str,
        url: &str,
        mut headers: Vec<(&'static str, String)>,
        body: &str,
    ) -> Result<Vec<(&'static str, String)>, String> {
        let url: reqwest::Url = url.parse().map_err(|_| format!("{url:?} is not an address"))?;
        let host = url.host_str().unwrap_or_default();
        let host = url.port().map_or(host.to_owned(), |port| format!("{host}:{port}"));
        headers.push(("host", host));
        headers.push(("x-amz-date", Timestamp::now().strftime("%Y%m%dT%H%M%SZ").to_string()));
        if let Some(token) = &self.credentials.token {
            headers.push(("x-amz-security-token", token.expose().clone()));
        }
        let request = Request { method: "POST", query: "", headers: &headers, body };
        let authorization = request.authorization(&self.credentials, &self.region, service);
        headers.retain(|(name, _)| *name != "host");
        headers.push(("authorization", authorization));
        Ok(headers)
    }
}

/// The container's agent lives at an address of the machine room, which is allowed here: it stands in the engine's
/// own environment, and no generator can write there.
async fn ask_agent(url: &str, token: Option<String>) -> Result<Credentials, String> {
    let failed = |error: String| format!("the container's credentials: {error}");
    let parsed: reqwest::Url = url.parse().map_err(|_| failed("its address is not one".into()))?;
    let host = parsed.host_str().unwrap_or_default().trim_matches(['[', ']']);
    let rules = Rules::parse(&[host]).map_err(failed)?.with_private();
    let client = http::client(&rules, PATIENCE, Trust::default()).map_err(failed)?;
    let secrets: Vec<_> = token.iter().map(|token| ("authorization", token.as_str())).collect();
    let answer = client.send(Ask { secrets: &secrets, ..Ask::get(url) }).await;
    let answer = answer.map_err(|error| failed(error.to_string()))?;
    if !answer.is_success() {
        return Err(failed(format!("it answers {}", answer.status)));
    }
    let answer: Value = serde_json::from_slice(&answer.body).map_err(|error| failed(error.to_string()))?;
    let field = |name: &str| {
        let found = answer[name].as_str().map(str::to_owned);
        found.ok_or_else(|| format!("the container's credentials have no {name}"))
    };
    Ok(Credentials {
        id: field("AccessKeyId")?,
        secret: Secret::new(field("SecretAccessKey")?),
        token: field("Token").ok().map(Secret::new),
    })
}

/// What is signed. The path is always the root.
struct Request<'a> {
    method: &'a str,
    query: &'a str,
    headers: &'a [(&'static str, String)],
    body: &'a str,
}

impl Request<'_> {
    fn authorization(&self, credentials: &Credentials, region: &str, service: &str) -> String {
        let mut headers: Vec<_> = self.headers.iter().collect();
        headers.sort();
        let names: Vec<&str> = headers.iter().map(|(name, _)| *name).collect();
        let names = names.join(";");
        let listed: String =
            headers.iter().map(|(name, value)| format!("{name}:{}\n", value.trim())).collect();
        let (method, query) = (self.method, self.query);
        let canonical = format!("{method}\n/\n{query}\n{listed}\n{names}\n{}", hash(self.body));
        let moment = headers.iter().find(|(name, _)| *name == "x-amz-date").map_or("", |(_, value)| value);
        let day = moment.get(..8).unwrap_or_default();
        let scope = format!("{day}/{region}/{service}/aws4_request");
        let text = format!("AWS4-HMAC-SHA256\n{moment}\n{scope}\n{}", hash(&canonical));
        let mut key = format!("AWS4{}", credentials.secret.expose()).into_bytes();
        for part in [day, region, service, "aws4_request"] {
            key = sign(&key, part);
        }
        let signature = hex::encode(sign(&key, &text));
        format!(
            "AWS4-HMAC-SHA256 Credential={}/{scope}, SignedHeaders={names}, Signature={signature}",
            credentials.id
        )
    }
}

fn hash(text: &str) -> String {
    hex::encode(Sha256::digest(text.as_bytes()))
}

fn sign(key: &[u8], text: &str) -> Vec<u8> {
    let key = hmac::Key::new(hmac::HMAC_SHA256, key);
    hmac::sign(&key, text.as_bytes()).as_ref().to_vec()
}

fn form(fields: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in fields {
        let _ = write!(text, "{}{name}={}", if text.is_empty() { "" } else { "&" }, encode(value));
    }
    text
}

/// The text of an element. What is looked for are keys and tokens, which hold nothing that XML would escape.
fn element(xml: &str, name: &str) -> Option<String> {
    let (_, rest) = xml.split_once(&format!("<{name}>"))?;
    let (text, _) = rest.split_once(&format!("</{name}>"))?;
    Some(text.trim().to_owned())
}

async fn read(file: &str) -> Result<String, String> {
    tokio::fs::read_to_string(file).await.map_err(|error| format!("{file} cannot be read: {error}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Amazon's own example of a signature.
    #[test]
    fn a_request_is_signed_as_amazon_shows_it() {
        let headers = [
            ("content-type", "application/x-www-form-urlencoded; charset=utf-8".to_owned()),
            ("host", "iam.amazonaws.com".to_owned()),
            ("x-amz-date", "20150830T123600Z".to_owned()),
        ];
        let request = Request {
            method: "GET",
            query: "Action=ListUsers&Version=2010-05-08",
            headers: &headers,
            body: "",
        };
        let credentials = Credentials {
            id: "AKIDEXAMPLE".into(),
            secret: Secret::new("wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY".into()),
            token: None,
        };
        assert_eq!(
            request.authorization(&credentials, "us-east-1", "iam"),
            "AWS4-HMAC-SHA256 Credential=AKIDEXAMPLE/20150830/us-east-1/iam/aws4_request, \
             SignedHeaders=content-type;host;x-amz-date, \
             Signature=5d672d79c15b13162d9279b0855cfba6789a8edb4c82c400e06b5924a6f2b5d7"
        );
    }

    #[tokio::test]
    async fn a_region_is_no_way_to_another_host() {
        let keys = |name: &str| name.starts_with("AWS_").then(|| "x".to_owned());
        let error =
            Session::open(&Rules::default(), &keys, "", "evil.example/?").await.err().expect("refused");
        assert!(error.contains("is not a region"), "{error}");
        let nothing = |_: &str| None;
        let error = Session::open(&Rules::default(), &nothing, "", "eu-west-1").await.err().expect("refused");
        assert!(error.contains("no AWS credentials"), "{error}");
    }
}
