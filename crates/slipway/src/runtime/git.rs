//! `slipway runtime git`: one's own Git token at a runtime, what it sees, and commits with it.

use std::io::{IsTerminal as _, Read as _};
use std::path::PathBuf;
use std::process::ExitCode;

use anyhow::{Context as _, bail};
use clap::{Args, Subcommand};
use serde_json::Value;
use sha2::{Digest as _, Sha256};
use slipway_api::git_proxy::{
    GitAccount, GitAccounts, GitAuthorization, GitAuthorize, GitBranch, GitBranches, GitCommit, GitCommitted,
    GitConnect, GitFile, GitForget, GitNames, GitRegister,
};

use crate::cli::nouns::part;
use crate::cli::output::{OutputArguments, done, print};
use crate::cli::{context, proxy};

#[derive(Args)]
pub(crate) struct Place {
    /// The runtime
    runtime: String,
    /// github, gitlab, gitea, bitbucket or bitbucket-server
    #[arg(long)]
    provider: String,
    /// Its address, https://HOST; without it, the public one. The runtime has to know the host by one of its repository Secrets
    #[arg(long, default_value = "")]
    host: String,
}

impl Place {
    fn query(&self) -> String {
        format!("?provider={}&host={}", part(&self.provider), part(&self.host))
    }
}

#[derive(Subcommand)]
pub(crate) enum GitCommand {
    /// List the tokens that you gave a runtime, without them
    Tokens {
        runtime: String,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Give a runtime your personal token for a Git provider: it is read from SLIPWAY_GIT_TOKEN or standard input, and kept in the cluster alone
    Register {
        #[command(flatten)]
        place: Place,
        /// Your name in commits, where the provider does not say
        #[arg(long, default_value = "")]
        author_name: String,
        /// Your address in commits, where the provider does not say
        #[arg(long, default_value = "")]
        author_email: String,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Sign in to a Git provider in your browser, instead of giving a token: what comes of it is kept in the cluster alone
    SignIn {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Delete your token from a runtime
    Forget {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// List the organisations that your token sees
    Organizations {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// List the repositories that your token sees
    Repositories {
        #[command(flatten)]
        place: Place,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// List the branches of a repository
    Branches {
        #[command(flatten)]
        place: Place,
        /// OWNER/NAME
        repository: String,
        #[command(flatten)]
        output: OutputArguments,
    },
    /// Commit files as yourself, from the runtime
    Commit(CommitArguments),
}

#[derive(Args)]
pub(crate) struct CommitArguments {
    #[command(flatten)]
    place: Place,
    /// OWNER/NAME
    repository: String,
    /// The branch; without it, the default one
    #[arg(long, default_value = "")]
    branch: String,
    /// The whole id of the commit that you looked at: what others changed in the same place since then is a conflict
    #[arg(long, default_value = "")]
    base: String,
    #[arg(short = 'm', long)]
    message: String,
    /// A file of the repository and where its content is, as PATH=FILE; may be given several times
    #[arg(long = "file", value_name = "PATH=FILE")]
    files: Vec<String>,
    /// A file to delete; may be given several times
    #[arg(long = "delete", value_name = "PATH")]
    deleted: Vec<String>,
    #[command(flatten)]
    output: OutputArguments,
}

pub(crate) async fn run(command: GitCommand) -> anyhow::Result<ExitCode> {
    let client = context::client()?;
    match command {
        GitCommand::Tokens { runtime, output } => {
            let all: GitAccounts = proxy::git(&client, &runtime, "git-tokens", "", None).await?;
            let row = |account: &GitAccount| {
                let GitAccount { provider, host, login, name, email, registered, signed_in } =
                    account.clone();
                let how = if signed_in { "sign-in" } else { "token" };
                vec![provider, host, login, format!("{name} <{email}>"), how.to_owned(), registered]
            };
            let heads = ["PROVIDER", "HOST", "LOGIN", "COMMITS AS", "BY", "REGISTERED"];
            print(output.output, &all.tokens, &heads, row, "You have given this runtime no token.")?;
        }
        GitCommand::Register { place, author_name, author_email, output } => {
            let Place { runtime, provider, host } = place;
            let request = GitRegister { provider, host, token: token()?, author_name, author_email };
            let body = serde_json::to_value(&request)?;
            let account: GitAccount = proxy::git(&client, &runtime, "git-register", "", Some(body)).await?;
            let said = format!("Runtime {runtime} commits as {} <{}> for you", account.name, account.email);
            done(output, &account, &account.login, &said)?;
        }
        GitCommand::SignIn { place, output } => {
            let Place { runtime, provider, host } = place;
            let word = word();
            let request = GitAuthorize { provider, host, challenge: hex(&Sha256::digest(word.as_bytes())) };
            let body = serde_json::to_value(&request)?;
            let begun: GitAuthorization =
                proxy::git(&client, &runtime, "git-authorize", "", Some(body)).await?;
            note!(
                "Open this in your browser, sign in, and paste the code that it shows here:\n{}",
                begun.url
            );
            let mut code = String::new();
            std::io::stdin().read_line(&mut code)?;
            let code = code.trim().to_owned();
            if code.is_empty() {
                bail!("no code was given: nothing was changed; begin again with the same command");
            }
            let request = GitConnect { state: begun.state, code, word };
            let body = serde_json::to_value(&request)?;
            let account: GitAccount = proxy::git(&client, &runtime, "git-connect", "", Some(body)).await?;
            let said = format!("Runtime {runtime} commits as {} <{}> for you", account.name, account.email);
            done(output, &account, &account.login, &said)?;
        }
        GitCommand::Forget { place, output } => {
            let Place { runtime, provider, host } = place;
            let body = serde_json::to_value(GitForget { provider, host })?;
            let answer: Value = proxy::git(&client, &runtime, "git-forget", "", Some(body)).await?;
            done(output, &answer, &runtime, answer["message"].as_str().unwrap_or("done"))?;
        }
        GitCommand::Organizations { place, output } => {
            names(&client, &place, "git-organizations", output).await?
        }
        GitCommand::Repositories { place, output } => {
            names(&client, &place, "git-repositories", output).await?
        }
        GitCommand::Branches { place, repository, output } => {
            let query = format!("{}&repository={}", place.query(), part(&repository));
            let all: GitBranches = proxy::git(&client, &place.runtime, "git-branches", &query, None).await?;
            let row = |branch: &GitBranch| vec![branch.name.clone(), branch.sha.clone()];
            print(output.output, &all.branches, &["NAME", "COMMIT"], row, "It has no branch yet.")?;
        }
        GitCommand::Commit(arguments) => commit(&client, arguments).await?,
    }
    Ok(ExitCode::SUCCESS)
}

async fn names(
    client: &slipway_api::Client,
    place: &Place,
    word: &str,
    output: OutputArguments,
) -> anyhow::Result<()> {
    let all: GitNames = proxy::git(client, &place.runtime, word, &place.query(), None).await?;
    print(output.output, &all.names, &["NAME"], |name| vec![name.clone()], "Your token sees none.")
}

async fn commit(client: &slipway_api::Client, arguments: CommitArguments) -> anyhow::Result<()> {
    let CommitArguments { place, repository, branch, base, message, files, deleted, output } = arguments;
    let mut all = Vec::new();
    for text in files {
        let (path, file) = text.split_once('=').with_context(|| format!("`{text}` is not PATH=FILE"))?;
        let content =
            std::fs::read_to_string(PathBuf::from(file)).with_context(|| format!("cannot read {file}"))?;
        all.push(GitFile { path: path.to_owned(), content: Some(content) });
    }
    all.extend(deleted.into_iter().map(|path| GitFile { path, content: None }));
    if all.is_empty() {
        bail!("nothing to commit: give --file or --delete");
    }
    let Place { runtime, provider, host } = place;
    let request = GitCommit { provider, host, repository, branch, base, message, files: all };
    let body = serde_json::to_value(&request)?;
    let made: GitCommitted = proxy::git(client, &runtime, "git-commit", "", Some(body)).await?;
    let short: String = made.commit.chars().take(8).collect();
    let said = match made.outcome.as_str() {
        "no-change" => format!("{} holds this already, at {short}", made.branch),
        "first-commit" => format!("{short} is the first commit of {}, by {}", made.branch, made.author),
        _ => format!("{short} is on {}, by {}", made.branch, made.author),
    };
    done(output, &made, &made.commit, &said)
}

/// Nobody else knows it: what it was begun with, and what is needed to end it.
fn word() -> String {
    let mut random = [0; 32];
    let provider = rustls::crypto::aws_lc_rs::default_provider();
    provider.secure_random.fill(&mut random).expect("the system has randomness");
    hex(&random)
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Arguments are seen by others on the machine.
fn token() -> anyhow::Result<String> {
    let token = match std::env::var("SLIPWAY_GIT_TOKEN") {
        Ok(token) => token,
        Err(_) => {
            if std::io::stdin().is_terminal() {
                note!("Paste the token, then press Enter and Ctrl-D:");
            }
            let mut text = String::new();
            std::io::stdin().read_to_string(&mut text)?;
            text
        }
    };
    let token = token.trim().to_owned();
    if token.is_empty() {
        bail!("no token: set SLIPWAY_GIT_TOKEN, or write it to standard input");
    }
    Ok(token)
}
