//! One way to ask a host: a single answer, or all pages of a list, however the host says where the next one is.

use serde_json::Value;
use slipway_dialect::percent::encode;

use super::{AskError, Branch, Carrier, Listed, Question};
use crate::remote::Call;

/// Pages of one list; a host that never ends must not keep us.
const PAGES_MAX: usize = 100;

/// One page of a list.
pub(super) struct Page {
    pub(super) items: Vec<Value>,
    /// The query of the next page. Its path is the list's own, so that nobody can send the token elsewhere, and a
    /// host that knows itself by another name is still understood.
    pub(super) next: Option<String>,
}

/// JSON, and the address of the next page.
pub(super) struct Answered {
    pub(super) body: Value,
    pub(super) next: Option<String>,
}

impl<C: Carrier> Question<'_, C> {
    async fn get(&self, path: &str) -> Result<Answered, AskError> {
        let address = format!("{}{}", self.carrier.api(), path.split('?').next().unwrap_or_default());
        let answer = self.carrier.carry(&Call::get(path.to_owned())).await.map_err(AskError::Failed)?;
        let next = answer.link.as_deref().and_then(next_page).map(str::to_owned);
        Ok(Answered { body: answer.read(&address)?, next })
    }

    /// An action of Amazon, whose host and signature are the carrier's.
    pub(super) async fn act(&self, service: &str, target: &str, input: &Value) -> Result<Value, AskError> {
        let answer = self.carrier.act(service, target, input).await.map_err(AskError::Failed)?;
        answer.read(service)
    }

    pub(super) async fn one(&self, path: &str) -> Result<Value, AskError> {
        self.get(path).await.map(|answered| answered.body)
    }

    /// Like [`Question::one`]; what is not there is `None`.
    pub(super) async fn perhaps(&self, path: &str) -> Result<Option<Value>, AskError> {
        match self.one(path).await {
            Ok(found) => Ok(Some(found)),
            Err(AskError::NotFound { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The default branch alone. A repository without a commit has one only by name.
    pub(super) async fn default_branch(&self, base: &str, listed: &Listed) -> Result<Vec<Value>, AskError> {
        let path = format!("{base}/{}", encode(&listed.entry.branch));
        Ok(self.perhaps(&path).await?.into_iter().collect())
    }

    /// Every page of a list. `page` takes an answer apart; none: it is not such a list.
    pub(super) async fn pages(
        &self,
        path: &str,
        query: &str,
        mut page: impl FnMut(Answered) -> Option<Page> + Send,
    ) -> Result<Vec<Value>, AskError> {
        let mut query = query.to_owned();
        let mut all = Vec::new();
        let address = format!("{}{path}", self.carrier.api());
        for _ in 0..PAGES_MAX {
            let Some(found) = page(self.get(&format!("{path}?{query}")).await?) else {
                return Err(AskError::Failed(format!("{address} does not answer a list")));
            };
            all.extend(found.items);
            match found.next {
                Some(next) => query = next,
                None => return Ok(all),
            }
        }
        Err(AskError::Failed(format!("{address} has more than {PAGES_MAX} pages")))
    }

    /// A list whose next page is named in the `Link` header.
    pub(super) async fn linked(&self, path: &str, query: &str) -> Result<Vec<Value>, AskError> {
        self.pages(path, query, |answered| {
            let Value::Array(items) = answered.body else { return None };
            Some(Page { items, next: answered.next.as_deref().and_then(query_of) })
        })
        .await
    }
}

/// `<https://…>; rel="next"`.
pub(crate) fn next_page(link: &str) -> Option<&str> {
    link.split(',').find_map(|part| {
        let (address, rest) = part.trim().strip_prefix('<')?.split_once('>')?;
        rest.contains("rel=\"next\"").then_some(address)
    })
}

/// The query of an address.
pub(super) fn query_of(address: &str) -> Option<String> {
    let (_, query) = address.split_once('?')?;
    Some(query.split('#').next().unwrap_or(query).to_owned()).filter(|query| !query.is_empty())
}

pub(super) fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

/// Branches by where their name and their commit stand; what has neither is left out.
pub(super) fn read_branches(found: &[Value], name: &str, sha: &[&str]) -> Vec<Branch> {
    let read = |branch: &Value| {
        let text = |path: &str| branch.pointer(path).and_then(Value::as_str).map(str::to_owned);
        Some(Branch { name: text(name)?, sha: sha.iter().find_map(|path| text(path))? })
    };
    found.iter().filter_map(read).collect()
}

/// The items of a list under a field.
pub(super) fn items(body: &Value, field: &str) -> Option<Vec<Value>> {
    body[field].as_array().cloned()
}

/// The address under `links.clone` with this name, as both Bitbuckets list them. None at all is a fault: left out, the
/// repository would look deleted.
pub(super) fn clone_address(repository: &Value, name: &str) -> Result<String, AskError> {
    let links = repository["links"]["clone"].as_array();
    let link = links.into_iter().flatten().find(|link| link["name"] == name);
    link.and_then(|link| link["href"].as_str()).map(str::to_owned).ok_or_else(|| {
        let slug = &repository["slug"];
        AskError::Failed(format!("the repository {slug} offers no {name} address; set cloneProtocol"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_found() {
        let link = "<https://x/?page=1>; rel=\"prev\", <https://x/?page=3>; rel=\"next\"";
        assert_eq!(next_page(link), Some("https://x/?page=3"));
        assert_eq!(next_page("<https://x>; rel=\"last\""), None);
    }
}
