//! Tokens of GitHub Apps for git: who the App is comes from a repository Secret, how GitHub is asked from `forge`, and
//! where this runtime may connect to from its rules.

use slipway_forge::{APP_USER, GithubApp};
use slipway_net::{Proxy, Rules, Trust};
use slipway_source::Repository;
use slipway_source::git::{Giving, Token, Tokens};

use crate::engines::application_sets::github_way;

pub(crate) struct AppTokens {
    pub(crate) app: GithubApp,
    pub(crate) rules: Rules,
}

impl Tokens for AppTokens {
    fn fingerprint(&self) -> String {
        self.app.identity()
    }

    fn token<'a>(&'a self, repo: &'a Repository) -> Giving<'a> {
        Box::pin(async move {
            let credentials = &repo.credentials;
            let trust = Trust {
                insecure: credentials.insecure,
                authorities: credentials.tls_ca.clone(),
                identity: None,
            };
            let proxy = match credentials.proxy.as_str() {
                "" => Proxy::Environment,
                address => Proxy::Given(address.to_owned()),
            };
            let way = github_way(&self.rules, &self.app, trust, proxy)?;
            let token = self.app.token(&way, &repo.url).await?;
            Ok(Token { username: APP_USER.to_owned(), password: token.value, until: token.until })
        })
    }
}
