//! What a project lets a source bring along, and whose signature it asks for.

use std::sync::Arc;

use slipway_gitops::project;
use slipway_source::{Commit, Repositories, Repository, Submodules};

use super::{SourceError, Surroundings};

/// What a commit brings along of other repositories. Those that the project does not permit are read with the
/// credentials of this one, if they are on its host, as git itself would.
pub(super) async fn submodules(
    around: &Surroundings<'_>,
    repository: &Repository,
    commit: &Commit,
) -> Result<Submodules, SourceError> {
    if !around.submodules {
        return Ok(Submodules::default());
    }
    let (access, project, parent) = (around.access.clone(), around.project.clone(), repository.clone());
    let choose = move |url: &str| {
        if project::permits_source(&project, url) {
            return access.repository(url);
        }
        let host =
            |url: &str| url.split_once("://").map(|(_, rest)| rest.split('/').next().map(str::to_owned));
        if host(url).is_some() && host(url) == host(&parent.url) {
            Repository { url: url.to_owned(), credentials: parent.credentials.clone() }
        } else {
            Repository::public(url)
        }
    };
    Ok(Submodules::read(around.renderer.git(), repository, commit, Arc::new(choose)).await?)
}

/// Refuses a commit that the project wants to be signed by somebody else than it is.
pub(super) async fn check_signature(
    around: &Surroundings<'_>,
    repository: &Repository,
    commit: &Commit,
    names: &[&str],
) -> Result<(), SourceError> {
    let rules = project::signature_rules(&around.project, &repository.url).map_err(SourceError::Spec)?;
    if rules.is_empty() {
        return Ok(());
    }
    let (git, keys) = (around.renderer.git(), &around.access.keys);
    let stranger = |commit: &str, signer: &[String]| {
        SourceError::Signer(format!(
            "commit {commit} has a good signature by {}, which is not a key that project '{}' trusts",
            signer.first().map_or("", String::as_str),
            around.project.metadata.name
        ))
    };
    let signer = git.signer(repository, commit, names, keys).await?;
    if !rules.iter().all(|rule| project::is_signer(&rule.keys, &signer)) {
        return Err(stranger(&commit.sha, &signer));
    }
    for rule in rules.iter().filter(|rule| rule.history) {
        let trusts = |signer: &[String]| project::is_signer(&rule.keys, signer);
        if let Some((found, signer)) = git.distrusted(repository, commit, keys, &trusts).await? {
            return Err(stranger(&found, &signer));
        }
    }
    Ok(())
}

/// Chart repositories that the project lets its charts depend on.
pub(super) fn permitted(around: &Surroundings<'_>) -> Repositories {
    let (access, project) = (around.access.clone(), around.project.clone());
    Repositories(Arc::new(move |url| {
        project::permits_source(&project, url).then(|| access.chart_repository(url))
    }))
}
