//! One way to ask a host: a single answer, or all pages of a list, however the host says where the next one is.

use std::time::Duration;

use serde_json::Value;

use super::Question;
use crate::engines::application_sets::http::{self, Answered, HttpError};

/// Pages of one list; a host that never ends must not keep us.
const PAGES_MAX: usize = 100;
pub(super) const PATIENCE: Duration = Duration::from_secs(30);

/// One page of a list.
pub(super) struct Page {
    pub(super) items: Vec<Value>,
    /// The query of the next page. Its path is the list's own, so that nobody can send the token elsewhere, and a
    /// host that knows itself by another name is still understood.
    pub(super) next: Option<String>,
}

impl Question {
    pub(super) async fn one(&self, path: &str) -> Result<Value, HttpError> {
        let url = format!("{}{path}", self.api);
        http::get(&self.client, &url, &self.headers).await.map(|answered| answered.body)
    }

    /// Like [`Question::one`]; what is not there is `None`.
    pub(super) async fn perhaps(&self, path: &str) -> Result<Option<Value>, HttpError> {
        match self.one(path).await {
            Ok(found) => Ok(Some(found)),
            Err(HttpError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Every page of a list. `page` takes an answer apart; none: it is not such a list.
    pub(super) async fn pages(
        &self,
        path: &str,
        query: &str,
        mut page: impl FnMut(Answered) -> Option<Page>,
    ) -> Result<Vec<Value>, HttpError> {
        let mut query = query.to_owned();
        let mut all = Vec::new();
        for _ in 0..PAGES_MAX {
            let url = format!("{}{path}?{query}", self.api);
            let Some(found) = page(http::get(&self.client, &url, &self.headers).await?) else {
                return Err(HttpError::Failed(format!("{}{path} does not answer a list", self.api)));
            };
            all.extend(found.items);
            match found.next {
                Some(next) => query = next,
                None => return Ok(all),
            }
        }
        Err(HttpError::Failed(format!("{}{path} has more than {PAGES_MAX} pages", self.api)))
    }

    /// A list whose next page is named in the `Link` header.
    pub(super) async fn linked(&self, path: &str, query: &str) -> Result<Vec<Value>, HttpError> {
        self.pages(path, query, |answered| {
            let Value::Array(items) = answered.body else { return None };
            Some(Page { items, next: answered.next.as_deref().and_then(query_of) })
        })
        .await
    }
}

/// The query of an address.
pub(super) fn query_of(address: &str) -> Option<String> {
    let (_, query) = address.split_once('?')?;
    Some(query.split('#').next().unwrap_or(query).to_owned()).filter(|query| !query.is_empty())
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// The items of a list under a field.
pub(super) fn items(body: &Value, field: &str) -> Option<Vec<Value>> {
    body[field].as_array().cloned()
}

/// The address under `links.clone` with this name, as both Bitbuckets list them. None at all is a fault: left out, the
/// repository would look deleted.
pub(super) fn clone_address(repository: &Value, name: &str) -> Result<String, HttpError> {
    let links = repository["links"]["clone"].as_array();
    let link = links.into_iter().flatten().find(|link| link["name"] == name);
    link.and_then(|link| link["href"].as_str()).map(str::to_owned).ok_or_else(|| {
        let slug = &repository["slug"];
        HttpError::Failed(format!("the repository {slug} offers no {name} address; set cloneProtocol"))
    })
}

/// Percent-encodes one segment of a path, or one value of a query.
pub(in crate::engines::application_sets) fn encode(text: &str) -> String {
    let mut out = String::new();
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'~') {
            out.push(byte as char);
        } else {
            out.push_str(&format!("%{byte:02X}"));
        }
    }
    out
}

pub(super) fn encode_path(path: &str) -> String {
    path.split('/').map(encode).collect::<Vec<_>>().join("/")
}
