//! Stands where `slipway_source::GithubApp` goes, with its shape: at the merge this file goes, and `reach` uses that one.

use slipway_model::Secret;

pub(super) struct GithubApp {
    pub(super) id: String,
    pub(super) installation: String,
    pub(super) private_key: Secret<String>,
    pub(super) api: String,
}

impl GithubApp {
    pub(super) async fn access_token(&self) -> Result<Secret<String>, String> {
        let _ = (&self.installation, &self.private_key);
        Err(format!(
            "App {} at {}: GitHub Apps are not used yet; give a token by tokenRef",
            self.id, self.api
        ))
    }
}
