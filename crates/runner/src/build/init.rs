//! The first step of every build: say who runs it, set its variables, read and check its pipeline.

use std::sync::atomic::Ordering;
use std::time::Duration;

use serde_json::value::RawValue;
use slipway_api::agent::{PipelineSource, StepTypesWanted};
use slipway_model::{Next, Secret};
use slipway_pipeline::lint::Finding;
use slipway_pipeline::{BuildStatus, Pipeline};
use slipway_source::git::{Credentials, Git, GitError, Remote, authorities};

use super::{Build, masker};
use crate::journal::INIT;
use crate::layout::{Lasting, create_private_dir, now_ms, write_json};
use crate::uplink::Backoff;
use crate::variables::{About, variables};

const PIPELINE_BYTES_MAX: u64 = 1 << 20;
/// Passing trouble with the Git host is waited out this long.
const FETCH_PATIENCE: Duration = Duration::from_secs(60);

impl Build {
    /// The head of the log and the variables; once per build.
    pub(super) fn introduce(&mut self) {
        let about = About { server_url: self.context.client.base(), executor: self.context.executor.name() };
        let (variables, refused) = variables(&self.taken, &about);
        self.journal.state.variables = variables;
        self.journal.state.branch.branch = self.taken.commit.as_ref().map(|commit| commit.branch.clone());
        self.journal.state.only_steps = self.taken.options.only.iter().cloned().collect();
        self.journal.state.skip_steps = self.taken.options.skip.iter().cloned().collect();
        let given = self.taken.decisions.iter().map(|decision| (decision.step.clone(), decision.clone()));
        self.journal.decisions = given.collect();
        self.journal.say(
            INIT,
            &format!(
                "Build {} of {} is run by runner {} (slipway {})",
                self.taken.id,
                self.taken.pipeline_name,
                self.context.name,
                env!("CARGO_PKG_VERSION")
            ),
        );
        let describe = self.context.executor.describe().to_owned();
        self.journal.say(INIT, &describe);
        if let Some(commit) = &self.taken.commit {
            let subject = commit.message.lines().next().unwrap_or_default().to_owned();
            let line = format!(
                "Triggered by \"{subject}\" of {} on `{}` of {} at {}",
                commit.author, commit.branch, commit.repo, commit.sha
            );
            self.journal.say(INIT, &line);
        }
        for sentence in refused {
            self.journal.say(INIT, &format!("Not set: {sentence}"));
        }
        self.masker = masker(&self.journal, &self.taken);
    }

    /// Reads the pipeline. Findings end the build; trouble with the network is tried again first.
    pub(super) async fn initialize(&mut self) -> anyhow::Result<()> {
        let read = match self.taken.source.clone() {
            PipelineSource::Inline { yaml } => Ok((yaml, "Using the pipeline's own text".to_owned())),
            PipelineSource::Git { repo, path, revision } => self.fetch(&repo, &path, revision).await,
            PipelineSource::Url { url } => download(&url).await,
        };
        let (yaml, said) = match read {
            Ok(read) => read,
            Err(error) => return self.fail(&error),
        };
        self.journal.say(INIT, &said);
        let (pipeline, findings) = Pipeline::parse(&yaml);
        for finding in &findings {
            self.journal.say(INIT, &line(finding));
        }
        let Some(pipeline) = pipeline else {
            let errors = findings.iter().filter(|finding| finding.is_error()).count();
            return self.fail(&format!(
                "the pipeline has {errors} error{}: the log of \"{INIT}\" lists {}",
                if errors == 1 { "" } else { "s" },
                if errors == 1 { "it" } else { "them" },
            ));
        };
        match self.context.trusted.as_ref().map(|trusted| trusted.check(&yaml)) {
            Some(Err(refusal)) => return self.fail(&refusal),
            // The account's definitions come from the control plane, which is not who is trusted here.
            Some(Ok(key)) => self.journal.say(INIT, &format!("Signed with `{key}`")),
            None => {
                if let Err(error) = self.ask_for_types(&pipeline).await? {
                    return self.fail(&error);
                }
            }
        }
        self.journal.yaml = Some(yaml);
        self.read_pipeline()?;
        self.journal.init.finished_ms = Some(now_ms());
        self.save()
    }

    /// Definitions that the account has of its own, as far as the pipeline names them. They are kept: a version that
    /// is replaced meanwhile does not change a build that has begun.
    async fn ask_for_types(&mut self, pipeline: &Pipeline) -> anyhow::Result<Result<(), String>> {
        let names = self.context.types.reached(pipeline.named_types());
        if names.is_empty() {
            return Ok(Ok(()));
        }
        let path = format!("/api/agent/runner/builds/{}/step-types", self.taken.id);
        let mut backoff = Backoff::new(Duration::from_secs(5));
        loop {
            let epoch = self.uplink.epoch.load(Ordering::Relaxed);
            let wanted = StepTypesWanted { epoch, names: names.iter().cloned().collect() };
            match self.context.client.post::<_, Vec<Box<RawValue>>>(&path, &wanted).await {
                Ok(given) => {
                    // Nobody counts on it before the journal beside it says that the pipeline was read.
                    write_json(&self.dir.types(), &given, Lasting::InOrder)?;
                    self.types = self.context.types.with(&given);
                    return Ok(Ok(()));
                }
                // Whoever runs this build hears of the fence and stops here.
                Err(error) if error.next() == Next::Retry || error.status() == Some(409) => {
                    self.uplink.is_lost(&error, epoch).await;
                    backoff.pause().await;
                }
                Err(error) => return Ok(Err(format!("the step types cannot be asked for: {error}"))),
            }
        }
    }

    fn fail(&mut self, error: &str) -> anyhow::Result<()> {
        self.journal.say(INIT, error);
        self.journal.init.finished_ms = Some(now_ms());
        self.journal.init.error = Some(error.to_owned());
        self.finish(BuildStatus::Error, error)
    }

    async fn fetch(
        &mut self,
        repo: &str,
        path: &str,
        revision: Option<String>,
    ) -> Result<(String, String), String> {
        let path = path.trim_start_matches("./").trim_start_matches('/');
        let access = &self.taken.git;
        let credential = Credentials::basic(&access.username, Secret::new(access.password.clone()));
        let base = access.base_url.trim_end_matches('/');
        let (url, credential) = if repo.contains("://") {
            (repo.to_owned(), repo.starts_with(&access.base_url).then_some(credential))
        } else {
            (format!("{base}/{}.git", repo.trim_matches('/').trim_end_matches(".git")), Some(credential))
        };
        let git = Git::new().deadline(Duration::from_secs(120));
        let mut remote = Remote::parse(&url, credential).map_err(|error| error.to_string())?;
        if let Some(more) = self.context.authority.as_ref().and_then(|authority| authority.of(&url)) {
            let file = self.dir.0.join("authorities.pem");
            std::fs::write(&file, authorities(&more))
                .map_err(|error| format!("{} cannot be written: {error}", file.display()))?;
            remote = remote.trusting(file);
        }
        // The commit that triggered the build, if it is of this repository: never a later one.
        let commit = self.taken.commit.as_ref().filter(|commit| commit.repo == repo);
        let revision = revision.or_else(|| commit.map(|commit| commit.sha.clone()));
        let until = tokio::time::Instant::now() + FETCH_PATIENCE;
        let mut backoff = Backoff::new(Duration::from_secs(5));
        loop {
            match self.read(&git, &remote, revision.as_deref(), path).await {
                Ok((text, sha)) => {
                    let said = format!("Read {path} of {} at {sha}", remote.name());
                    return Ok((text, said));
                }
                Err(error) if error.next() == Next::Retry && tokio::time::Instant::now() < until => {
                    tracing::info!(build = %self.taken.id, %error, "Pipeline not read yet.");
                    backoff.pause().await;
                }
                Err(error) => return Err(error.to_string()),
            }
        }
    }

    async fn read(
        &self,
        git: &Git,
        remote: &Remote,
        revision: Option<&str>,
        path: &str,
    ) -> Result<(String, String), GitError> {
        let scratch = self.dir.0.join("pipeline.git");
        let _ = std::fs::remove_dir_all(&scratch);
        create_private_dir(&scratch).map_err(|source| GitError::Io { path: scratch.clone(), source })?;
        let read = git.read_remote(remote, revision, path, &scratch, PIPELINE_BYTES_MAX).await;
        let _ = std::fs::remove_dir_all(&scratch);
        read.map(|(bytes, sha)| (String::from_utf8_lossy(&bytes).into_owned(), sha))
    }
}

fn line(finding: &Finding) -> String {
    let level = if finding.is_error() { "error" } else { "warning" };
    let mut text = format!("line {}, column {}: {level}: {}", finding.line, finding.column, finding.message);
    if let Some(hint) = &finding.hint {
        text.push_str(&format!(" ({hint})"));
    }
    text
}

/// A pipeline at a public address. Trouble with the network is waited out like that of a Git host.
async fn download(url: &str) -> Result<(String, String), String> {
    let http = reqwest::Client::builder()
        .connect_timeout(Duration::from_secs(5))
        .timeout(Duration::from_secs(30))
        .build()
        .map_err(|error| error.to_string())?;
    let until = tokio::time::Instant::now() + FETCH_PATIENCE;
    let mut backoff = Backoff::new(Duration::from_secs(5));
    loop {
        let error = match http.get(url).send().await {
            Ok(mut answer) if answer.status().is_success() => {
                let mut bytes = Vec::new();
                while let Some(piece) = answer.chunk().await.map_err(|error| error.to_string())? {
                    bytes.extend_from_slice(&piece);
                    if bytes.len() as u64 > PIPELINE_BYTES_MAX {
                        return Err(format!(
                            "{url} is larger than a pipeline may be ({PIPELINE_BYTES_MAX} bytes)"
                        ));
                    }
                }
                return Ok((String::from_utf8_lossy(&bytes).into_owned(), format!("Read {url}")));
            }
            Ok(answer) if answer.status().is_server_error() => format!("{url} answered {}", answer.status()),
            Ok(answer) => {
                return Err(format!("{url} answered {}: is the address right and public?", answer.status()));
            }
            Err(error) => format!("{url} cannot be read: {error}"),
        };
        if tokio::time::Instant::now() >= until {
            return Err(error);
        }
        backoff.pause().await;
    }
}
