//! The commit of a group: manifests go in, and what is on the branch afterwards comes out.

use jiff::Timestamp;
use slipway_crd::SourceHydrator;
use slipway_gitops::hydration::{self, DryCommit};
use slipway_source::Repository;
use slipway_source::git::{Change, Credentials, Git, Identity, Pushed, Remote};

use super::Hydrated;
use crate::context::Context;

/// The trailer that says what a commit was made from.
const MARK: &str = "Slipway-Hydrated-From";
const AUTHOR: (&str, &str) = ("Slipway", "slipway@localhost");

/// Git hosts fold what is generated away; the manifests stay open, because they are what one reviews.
const ATTRIBUTES: &str =
    "**/README.md linguist-generated=true\n**/hydrator.metadata linguist-generated=true\n";

pub(super) async fn push(
    context: &Context,
    repository: &Repository,
    branch: &str,
    dry: &str,
    changed: &[Hydrated],
) -> Result<String, String> {
    let io = |error: std::io::Error| format!("cannot write the manifests down: {error}");
    let data = std::path::absolute(&context.config.data).map_err(io)?;
    let folder = tempfile::tempdir_in(data).map_err(io)?;
    let (files, scratch) = (folder.path().join("files"), folder.path().join("git"));
    std::fs::create_dir_all(&files).and_then(|()| std::fs::create_dir(&scratch)).map_err(io)?;
    let first = &changed.first().expect("somebody has manifests to push").hydrator;
    let commit = dry_commit_named(context, first, dry).await;
    let metadata = format!("{:#}\n", commit.metadata());
    let mut add = Vec::new();
    for (name, content) in [("hydrator.metadata", metadata.as_str()), (".gitattributes", ATTRIBUTES)] {
        std::fs::write(files.join(name), content).map_err(io)?;
        add.push(name.to_owned());
    }
    for Hydrated { hydrator, text, .. } in changed {
        let path = hydrator.sync_source.path.trim_matches('/');
        let place = files.join(path);
        std::fs::create_dir_all(&place).map_err(io)?;
        for (name, content) in
            [("manifest.yaml", text), ("hydrator.metadata", &metadata), ("README.md", &readme(hydrator, dry))]
        {
            std::fs::write(place.join(name), content).map_err(io)?;
        }
        add.push(path.to_owned());
    }
    let mut message = match &context.settings.get().commit_message {
        Some(template) => hydration::commit_message(template, &commit, Timestamp::now())?,
        None => {
            let names: Vec<&str> = changed.iter().map(|made| made.key.name.as_str()).collect();
            hydration::default_message(&names, dry)
        }
    };
    message.push_str(&format!("\n\n{MARK}: {dry}"));
    let remote = Remote::parse(&repository.url, credential(repository).await?);
    let remote = remote.map_err(|error| error.to_string())?;
    let git = Git::new().caged(folder.path());
    let git = if context.config.allow_local_repositories { git.allow_file() } else { git };
    let change = Change {
        folder: files,
        add,
        branch: Some(branch.to_owned()),
        message,
        author: Identity { name: AUTHOR.0.into(), email: AUTHOR.1.into() },
        // The same manifests are not pushed twice; other manifests of the same commit are, whatever was before.
        mark: None,
        scratch,
    };
    match git.commit_and_push(&remote, &change).await {
        Ok(Pushed::Pushed { sha, .. } | Pushed::Already { sha, .. }) => Ok(sha),
        Ok(Pushed::Nothing { sha, .. }) => Ok(sha.unwrap_or_default()),
        Err(error) => Err(error.to_string()),
    }
}

/// What is known of the commit that is rendered; it was fetched a moment ago.
async fn dry_commit_named(context: &Context, hydrator: &SourceHydrator, dry: &str) -> DryCommit {
    let url = &hydrator.dry_source.repo_url;
    let known = context.renderer.git().known(&context.settings.access().repository(url), dry).await;
    let named = DryCommit { repo_url: url.clone(), sha: dry.to_owned(), ..DryCommit::default() };
    match known {
        Ok(Some(commit)) => DryCommit {
            author: format!("{} <{}>", commit.author, commit.author_email),
            date: commit.date,
            message: commit.message,
            ..named
        },
        _ => named,
    }
}

/// With what is pushed.
async fn credential(repository: &Repository) -> Result<Option<Credentials>, String> {
    let credentials = &repository.credentials;
    if credentials.ssh_private_key.is_some() || credentials.bearer_token.is_some() {
        return Err(format!(
            "{} is written to with a user name and a password; its Secret has neither",
            repository.url
        ));
    }
    Ok(match &credentials.tokens {
        Some(tokens) => {
            let token = tokens.token(repository).await?;
            Some(Credentials::basic(token.username, token.password))
        }
        None => {
            credentials.password.clone().map(|password| Credentials::basic(&credentials.username, password))
        }
    })
}

fn readme(hydrator: &SourceHydrator, dry: &str) -> String {
    format!(
        "# Rendered manifests\n\nMade by Slipway from `{}` of {} at `{dry}`. Change them there: whatever is changed here is overwritten.\n",
        hydrator.dry_source.path, hydrator.dry_source.repo_url
    )
}
