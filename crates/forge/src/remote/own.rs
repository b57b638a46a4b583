//! What the owner of a token is and sees: who they are, and what organisations they are in.

use serde_json::Value;

use super::Provider;
use super::call::{Answer, Call, CallError};

/// Whose token it is, as commits name them.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Myself {
    pub login: String,
    pub name: String,
    /// Empty where the provider does not say.
    pub email: String,
}

impl Provider {
    /// By the name that [`Provider::name`] gives.
    pub fn of_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|provider| provider.name() == name)
    }

    /// `None`: its API does not tell a token whose it is.
    pub fn myself(self) -> Option<Call> {
        match self {
            Self::GitHub | Self::GitLab | Self::Gitea | Self::BitbucketCloud => {
                Some(Call::get("/user".to_owned()))
            }
            Self::BitbucketServer => None,
        }
    }

    pub fn read_myself(self, answer: &Answer) -> Result<Myself, CallError> {
        let value = self.json(answer)?;
        let text = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        let (login, name, email) = match self {
            Self::GitLab => {
                let email = [text("commit_email"), text("email"), text("public_email")];
                (text("username"), text("name"), email.into_iter().find(|one| !one.is_empty()))
            }
            Self::BitbucketCloud => (text("username"), text("display_name"), None),
            Self::Gitea => (text("login"), text("full_name"), Some(text("email"))),
            Self::GitHub | Self::BitbucketServer => {
                // One who hides their address has one that GitHub knows them by.
                let hidden = value.get("id").and_then(Value::as_i64);
                let hidden = hidden.map(|id| format!("{id}+{}@users.noreply.github.com", text("login")));
                (text("login"), text("name"), Some(text("email")).filter(|one| !one.is_empty()).or(hidden))
            }
        };
        if login.is_empty() {
            return Err(self.unexpected());
        }
        let name = if name.is_empty() { login.clone() } else { name };
        Ok(Myself { login, name, email: email.unwrap_or_default() })
    }

    /// Organisations, groups, workspaces or projects, page by page.
    pub fn organizations(self) -> Call {
        Call::get(
            match self {
                Self::GitHub => "/user/orgs?per_page=100",
                Self::Gitea => "/user/orgs?limit=50",
                Self::GitLab => "/groups?min_access_level=10&per_page=100",
                Self::BitbucketCloud => "/workspaces?pagelen=100",
                Self::BitbucketServer => "/projects?limit=100",
            }
            .to_owned(),
        )
    }

    pub fn read_organizations(self, answer: &Answer) -> Result<Vec<String>, CallError> {
        let value = self.json(answer)?;
        let field = match self {
            Self::GitHub => "login",
            Self::Gitea => "username",
            Self::GitLab => "full_path",
            Self::BitbucketCloud => "slug",
            Self::BitbucketServer => "key",
        };
        let named = |item: &Value| item.get(field).and_then(Value::as_str).map(str::to_owned);
        self.items(&value).iter().map(named).collect::<Option<_>>().ok_or(self.unexpected())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(body: Value) -> Answer {
        Answer { status: 200, body: body.to_string().into_bytes(), link: None }
    }

    #[test]
    fn the_owner_of_a_token_is_read_as_commits_name_them() {
        for (provider, body, expected) in [
            (
                Provider::Gitea,
                json!({"login": "ada", "full_name": "", "email": "ada@x.test"}),
                ("ada", "ada", "ada@x.test"),
            ),
            (
                Provider::GitHub,
                json!({"login": "ada", "id": 7, "name": "Ada L", "email": null}),
                ("ada", "Ada L", "7+ada@users.noreply.github.com"),
            ),
            (
                Provider::GitLab,
                json!({"username": "ada", "name": "Ada", "commit_email": "", "email": "a@x.test"}),
                ("ada", "Ada", "a@x.test"),
            ),
            (Provider::BitbucketCloud, json!({"username": "ada", "display_name": "Ada"}), ("ada", "Ada", "")),
        ] {
            let Myself { login, name, email } = provider.read_myself(&answer(body)).unwrap();
            assert_eq!((login.as_str(), name.as_str(), email.as_str()), expected, "{provider:?}");
        }
        assert!(Provider::Gitea.read_myself(&answer(json!({"login": ""}))).is_err());
        let refused = Answer { status: 401, ..Answer::default() };
        assert!(matches!(Provider::Gitea.read_myself(&refused), Err(CallError::Refused { status: 401, .. })));
    }

    #[test]
    fn organisations_have_the_name_that_addresses_use() {
        for (provider, body, expected) in [
            (Provider::Gitea, json!([{"username": "tools", "full_name": "The Tools"}]), vec!["tools"]),
            (Provider::GitLab, json!([{"full_path": "a/b", "name": "b"}]), vec!["a/b"]),
            (Provider::BitbucketServer, json!({"values": [{"key": "OPS"}]}), vec!["OPS"]),
        ] {
            assert_eq!(provider.read_organizations(&answer(body)).unwrap(), expected, "{provider:?}");
        }
    }
}
