//! How repositories of charts, registries, LFS servers and token services are asked: by the room `net`, with a client
//! for each set of certificates and proxy, and with errors in the words of charts.

use std::collections::HashMap;
use std::time::Duration;

pub(crate) use slipway_net::origin;
use slipway_net::{Answer, Client, Limits, NetError, Proxy, Request, Rules, Settings, Trust};

use super::{ChartError, shown};
use crate::git::Credentials;

const LIMITS: Limits = Limits {
    connect: Duration::from_secs(10),
    whole: Duration::from_secs(60),
    // Every question says how much it takes.
    bytes: 1 << 20,
    redirects: 5,
};
const CLIENTS_MAX: usize = 64;

/// Clients by what makes two connections differ.
pub(crate) struct Http {
    rules: Rules,
    clients: std::sync::Mutex<HashMap<String, Client>>,
}

/// One question.
pub(crate) struct Ask<'a> {
    pub(crate) url: &'a str,
    /// How the host is reached: certificates, proxy.
    pub(crate) credentials: Option<&'a Credentials>,
    /// Goes to the first host alone.
    pub(crate) authorization: Option<&'a str>,
    pub(crate) headers: &'a [(&'static str, &'a str)],
    /// With one it is a POST.
    pub(crate) body: Option<Vec<u8>>,
}

impl Http {
    pub(crate) fn new(rules: Rules) -> Self {
        Self { rules, clients: Default::default() }
    }

    /// The body of a successful answer.
    pub(super) async fn get(
        &self,
        url: &str,
        credentials: Option<&Credentials>,
        limit: u64,
    ) -> Result<Vec<u8>, ChartError> {
        let authorization = credentials.and_then(Credentials::authorization_value);
        let ask = Ask { url, credentials, authorization: authorization.as_deref(), headers: &[], body: None };
        self.answer(ask, limit).await
    }

    /// The same for any question.
    pub(crate) async fn answer(&self, ask: Ask<'_>, limit: u64) -> Result<Vec<u8>, ChartError> {
        let url = ask.url;
        Ok(accepted(self.send(ask, limit).await?, url)?.body)
    }

    /// Sends and follows redirects; the credential goes to the first host alone. The answer is given as it is.
    pub(super) async fn send(&self, ask: Ask<'_>, limit: u64) -> Result<Answer, ChartError> {
        let Ask { url, credentials, authorization, headers, body } = ask;
        let client = self.client(credentials).map_err(|error| of_net(error, url))?;
        let secrets: Vec<_> = authorization.iter().map(|value| ("authorization", *value)).collect();
        let request = Request {
            headers,
            secrets: &secrets,
            body: body.as_deref(),
            bytes_max: Some(limit),
            ..Request::get(url)
        };
        client.send(request).await.map_err(|error| of_net(error, url))
    }

    fn client(&self, credentials: Option<&Credentials>) -> Result<Client, NetError> {
        let none = Credentials::default();
        let credentials = credentials.unwrap_or(&none);
        let mut clients = self.clients.lock().expect("no panic while locked");
        let key = credentials.fingerprint();
        if let Some(known) = clients.get(&key) {
            return Ok(known.clone());
        }
        let identity = credentials.tls_client_cert.as_ref().zip(credentials.tls_client_key.as_ref());
        let client = Client::new(Settings {
            rules: self.rules.clone(),
            limits: LIMITS,
            trust: Trust {
                insecure: credentials.insecure,
                authorities: credentials.tls_ca.clone(),
                identity: identity.map(|(certificate, key)| {
                    slipway_model::Secret::new(format!("{}\n{}", certificate.expose(), key.expose()))
                }),
            },
            proxy: match credentials.proxy.as_str() {
                "" => Proxy::Environment,
                address => Proxy::Given(address.to_owned()),
            },
            names: None,
        })?;
        if clients.len() > CLIENTS_MAX {
            clients.clear();
        }
        clients.insert(key, client.clone());
        Ok(client)
    }
}

fn of_net(error: NetError, url: &str) -> ChartError {
    let url = shown(url);
    match error {
        NetError::Address(_) => ChartError::Address(url),
        NetError::TooLarge { bytes, .. } => ChartError::TooLarge { what: url, limit: bytes },
        NetError::Unreachable { detail, .. } => ChartError::Unreachable { url, detail },
        other => ChartError::Unreachable { url, detail: other.to_string() },
    }
}

pub(super) fn accepted(answer: Answer, url: &str) -> Result<Answer, ChartError> {
    match answer.status {
        _ if answer.is_success() => Ok(answer),
        401 | 403 => Err(ChartError::Credentials { url: shown(url) }),
        status => Err(ChartError::Refused { url: shown(url), status }),
    }
}
