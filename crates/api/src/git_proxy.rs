//! What is asked of a runtime's app-proxy with the asker's own Git token, which the runtime keeps and nobody else sees.
//!
//! `provider` is `github`, `gitlab`, `gitea`, `bitbucket` or `bitbucket-server`; `host` its address, empty for the public one.

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use sha2::{Digest as _, Sha256};
use slipway_access::Operation;
use utoipa::ToSchema;

/// `POST /app-proxy/api/git/git-register`: keeps a token, after its provider said whose it is. An earlier one is replaced.
#[derive(Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct GitRegister {
    pub provider: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    pub token: String,
    /// Who makes the commits, where the provider does not say.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub author_name: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub author_email: String,
}

/// `POST /app-proxy/api/git/git-forget`
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GitForget {
    pub provider: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
}

/// `POST /app-proxy/api/git/git-authorize`: begins to sign in to a provider, instead of giving it a token.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GitAuthorize {
    pub provider: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// SHA-256, in hex, of a word that whoever begins thinks of and keeps: only who knows it can end it.
    pub challenge: String,
}

/// Where the person goes to say yes.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GitAuthorization {
    pub url: String,
    /// What the provider sends back with its code.
    pub state: String,
    /// RFC 3339.
    pub expires: String,
}

/// `POST /app-proxy/api/git/git-connect`: ends it, with what the provider sent the browser back with. Once, by the person who began.
#[derive(Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GitConnect {
    pub state: String,
    pub code: String,
    /// The word whose digest it was begun with.
    pub word: String,
}

/// A provider that this runtime can be signed in to with.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GitSignIn {
    pub provider: String,
    pub host: String,
}

/// A token that the runtime keeps, without it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitAccount {
    pub provider: String,
    pub host: String,
    pub login: String,
    /// Author and committer of commits that are made with it.
    pub name: String,
    pub email: String,
    /// RFC 3339.
    pub registered: String,
    /// By signing in at the provider; otherwise it is a personal token.
    #[serde(default)]
    pub signed_in: bool,
}

/// `GET /app-proxy/api/git/git-tokens`
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(rename_all = "camelCase")]
pub struct GitAccounts {
    pub tokens: Vec<GitAccount>,
    /// Where one can sign in instead of giving a token.
    #[serde(default)]
    pub sign_in: Vec<GitSignIn>,
}

/// Whose lists are asked for: `GET /app-proxy/api/git/git-organizations?provider=&host=`
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct GitPlace {
    pub provider: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
}

/// `GET /app-proxy/api/git/git-branches?provider=&host=&repository=`
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct GitRepository {
    pub provider: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// `owner/name`
    pub repository: String,
}

/// `GET /app-proxy/api/git/git-organizations?provider=&host=` and `…/git-repositories`: all pages.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct GitNames {
    pub names: Vec<String>,
}

/// `GET /app-proxy/api/git/git-branches?provider=&host=&repository=`
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
pub struct GitBranches {
    pub branches: Vec<GitBranch>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GitBranch {
    pub name: String,
    pub sha: String,
}

/// `POST /app-proxy/api/git/git-commit`: one commit by the owner of the token.
#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GitCommit {
    pub provider: String,
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub host: String,
    /// `owner/name`
    pub repository: String,
    /// The default branch when absent.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub branch: String,
    /// The commit that was looked at: what others changed in the same lines since then is a conflict. Without it the files are
    /// written over whatever is there.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub base: String,
    pub message: String,
    pub files: Vec<GitFile>,
}

#[derive(Debug, Clone, Default, Serialize, Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub struct GitFile {
    pub path: String,
    /// Absent: the file is deleted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub content: Option<String>,
}

#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, ToSchema)]
pub struct GitCommitted {
    /// `committed`, `first-commit` (the repository was empty) or `no-change`.
    pub outcome: String,
    pub commit: String,
    pub branch: String,
    /// `Name <address>`
    pub author: String,
}

/// What the platform hears of a body, and binds the pass to: no token, and of files no more than a digest.
pub fn told(operation: Operation, body: &Value) -> Value {
    if matches!(operation, Operation::Create | Operation::Edit | Operation::Delete) {
        return crate::declaration::told(operation, body);
    }
    let mut told = body.clone();
    match operation {
        Operation::GitRegister | Operation::ClusterAdd => {
            told.as_object_mut().map(|fields| fields.remove("token"));
        }
        Operation::GitConnect => {
            for secret in ["code", "word"] {
                told.as_object_mut().map(|fields| fields.remove(secret));
            }
        }
        Operation::GitCommit => {
            for file in told["files"].as_array_mut().into_iter().flatten() {
                if let Some(content) = file["content"].as_str() {
                    *file = json!({"path": file["path"], "sha256": digest(content)});
                }
            }
        }
        _ => {}
    }
    told
}

fn digest(text: &str) -> String {
    Sha256::digest(text.as_bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn no_token_and_no_content_is_told() {
        let told_of = |operation, body: Value| told(operation, &body).to_string();
        let register = told_of(Operation::GitRegister, json!({"provider": "gitea", "token": "canary"}));
        assert!(!register.contains("canary") && register.contains("gitea"), "{register}");
        let commit = json!({"message": "m", "files": [{"path": "a", "content": "canary"}, {"path": "b"}]});
        let cluster = told_of(Operation::ClusterAdd, json!({"name": "prod", "token": "canary"}));
        assert!(cluster.contains("prod") && !cluster.contains("canary"), "{cluster}");
        let connect = json!({"state": "s", "code": "canary", "word": "canary"});
        let connect = told_of(Operation::GitConnect, connect);
        assert_eq!(connect, r#"{"state":"s"}"#);
        let commit = told_of(Operation::GitCommit, commit);
        assert!(!commit.contains("canary") && commit.contains("\"path\":\"b\""), "{commit}");
    }
}
