//! Gitea and Forgejo, where they differ from GitHub: pages of fifty, and labels that are asked for by repository.

use slipway_dialect::percent::encode;

use super::github::{labels, read};
use super::{AskError, Carrier, Listed, Question};

pub(super) fn api(given: &str) -> Result<String, String> {
    match given {
        "" => Err("gitea needs the address of its host in api".into()),
        given => Ok(format!("{}/api/v1", given.trim_end_matches("/api/v1"))),
    }
}

pub(super) async fn listed<C: Carrier>(question: &Question<'_, C>) -> Result<Vec<Listed>, AskError> {
    let path = format!("/orgs/{}/repos", encode(&question.scope.owner));
    let mut all = Vec::new();
    for repository in question.linked(&path, "limit=50").await? {
        let Some(mut listed) = read(question, &repository) else { continue };
        let found = question.linked(&format!("/repos/{}/labels", listed.key), "limit=50").await?;
        listed.entry.labels = labels(&found.into());
        all.push(listed);
    }
    Ok(all)
}
