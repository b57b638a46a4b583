//! Steps that need no image: they run here, as a process of their own, and may be killed like any other.
//!
//! The work comes in as one line of JSON on stdin, a socket; the outcome goes back the same way. What
//! is printed is the step's log. It works in a folder that no other step ever sees, and knows nothing of
//! the volume: its supervisor brings what is needed and hands over what was made ([`super::private`]).

use std::collections::BTreeMap;
use std::io::{self, BufRead, BufReader, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::OpenOptionsExt;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::time::Duration;

use slipway_model::{Next, Secret};
use slipway_source::git::{
    Change, CloneOptions, Credentials, Git, GitError, Identity, Pushed, Remote, authorities,
};

use super::{private, rights};
use crate::layout::VOLUME;
use crate::task::{Builtin, GitClone, GitCommit, Login, Outcome};

const MARK: &str = "Slipway-Build";
/// About a minute in all: longer than a restart, shorter than anybody's patience.
const PAUSES: [Duration; 7] = [
    Duration::from_millis(500),
    Duration::from_secs(1),
    Duration::from_secs(2),
    Duration::from_secs(5),
    Duration::from_secs(10),
    Duration::from_secs(20),
    Duration::from_secs(20),
];

pub(super) fn main(place: &Path, alone: bool) -> ExitCode {
    // What is made here is for everybody who gets it, whatever the runner keeps for itself.
    nix::sys::stat::umask(nix::sys::stat::Mode::from_bits_truncate(0o022));
    let _ = nix::sys::prctl::set_pdeathsig(nix::sys::signal::Signal::SIGKILL);
    let renounced =
        if alone { rights::renounce().and_then(|()| rights::drop_capabilities()) } else { Ok(()) };
    let done = renounced.and_then(|()| socket()).and_then(|mut socket| {
        let mut line = String::new();
        BufReader::new(&socket).read_line(&mut line)?;
        let work: Builtin = serde_json::from_str(&line).map_err(io::Error::other)?;
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
        let outcome = runtime.block_on(perform(&work, place));
        if let Some(error) = &outcome.error {
            println!("{error}");
        }
        socket.write_all(&serde_json::to_vec(&outcome).map_err(io::Error::other)?)?;
        Ok(outcome.error.is_none())
    });
    match done {
        Ok(true) => ExitCode::SUCCESS,
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            println!("slipway: the step could not be run: {error}");
            ExitCode::FAILURE
        }
    }
}

fn socket() -> io::Result<UnixStream> {
    Ok(UnixStream::from(io::stdin().as_fd().try_clone_to_owned()?))
}

async fn perform(work: &Builtin, place: &Path) -> Outcome {
    let done = match work {
        Builtin::GitClone(work) => clone(work, place).await,
        Builtin::GitCommit(work) => commit(work, place).await,
        Builtin::Deploy(work) => super::deploy::deploy(work, place).await,
    };
    done.unwrap_or_else(|error| Outcome { error: Some(error), ..Outcome::default() })
}

async fn clone(work: &GitClone, place: &Path) -> Result<Outcome, String> {
    let believed = work.authority.as_deref().map(|pem| Believed::write(place, pem)).transpose()?;
    let remote = remote(&work.url, work.login.as_ref(), believed.as_ref())?;
    let shown = format!("{VOLUME}/{}", work.into.display());
    match &work.revision {
        Some(revision) => println!("Cloning {} at {revision} into {shown}", remote.url()),
        None => println!("Cloning the default branch of {} into {shown}", remote.url()),
    }
    let into = place.join(private::TREE);
    let options =
        CloneOptions { depth: work.depth, exclude_blobs: work.exclude_blobs, skip_tags: work.skip_tags };
    let git = Git::new();
    let at =
        patiently(async || git.clone_at(&remote, work.revision.as_deref(), &into, &options).await).await?;
    keep_ignored(&git, remote.name(), place, &into).await;
    let info = git.commit_info(&into, remote.name(), &at.sha).await.map_err(|error| chain(&error))?;
    let subject = info.message.lines().next().unwrap_or_default();
    println!("At {} \"{subject}\" by {}", &at.sha[..at.sha.len().min(12)], info.author_name);
    let mut members = BTreeMap::from([
        ("revision".to_owned(), at.sha),
        ("repo".to_owned(), remote.name().to_owned()),
        ("commit.author".to_owned(), info.author_name),
        ("commit.message".to_owned(), info.message),
    ]);
    members.extend(at.branch.map(|branch| ("branch".to_owned(), branch)));
    Ok(Outcome { error: None, members, working_directory: Some(shown) })
}

/// Files that Git ignores stay in a folder that is cloned into again: dependencies, caches of compilers. Only names of
/// what was there are known here, and asked of the rules of the new tree.
async fn keep_ignored(git: &Git, repo: &str, place: &Path, tree: &Path) {
    let Ok(existing) = std::fs::read(place.join(private::EXISTING)) else { return };
    let mut asked = Vec::with_capacity(existing.len());
    let mut under: Option<Vec<u8>> = None;
    for path in existing.split_inclusive(|byte| *byte == 0) {
        // What was a folder and is a link or a file now is not gone through.
        if under.as_ref().is_some_and(|under| path.starts_with(under)) {
            continue;
        }
        if let Some(folder) = path.strip_suffix(b"/\0") {
            let new = tree.join(std::ffi::OsStr::from_bytes(folder)).symlink_metadata();
            if new.is_ok_and(|about| !about.is_dir()) {
                under = Some([folder, b"/"].concat());
                continue;
            }
        }
        asked.extend(path);
    }
    match git.ignored(tree, repo, asked).await {
        Ok(kept) => {
            if let Err(error) = std::fs::write(place.join(private::KEEP), kept) {
                println!("Files that Git ignores are not kept: {error}");
            }
        }
        Err(error) => println!("Files that Git ignores are not kept: {}", chain(&error)),
    }
}

async fn commit(work: &GitCommit, place: &Path) -> Result<Outcome, String> {
    let believed = work.authority.as_deref().map(|pem| Believed::write(place, pem)).transpose()?;
    let remote = remote(&work.url, work.login.as_ref(), believed.as_ref())?;
    let folder = place.join(private::FOLDER);
    let scratch = place.join("repository");
    crate::layout::create_private_dir(&scratch).map_err(|error| error.to_string())?;
    println!("Committing {VOLUME}/{} to {}", work.folder.display(), remote.url());
    let request = Change {
        folder,
        add: work.add.clone(),
        branch: work.branch.clone(),
        message: work.message.clone(),
        author: Identity { name: work.name.clone(), email: work.email.clone() },
        mark: Some((MARK.to_owned(), work.mark.clone())),
        scratch: scratch.clone(),
    };
    // Safe to repeat: it looks for its own mark on the branch before it pushes.
    let pushed = patiently(async || Git::new().commit_and_push(&remote, &request).await).await;
    let _ = std::fs::remove_dir_all(&scratch);
    let (sha, branch) = match pushed? {
        Pushed::Pushed { sha, branch } => {
            println!("Pushed {sha} to `{branch}`");
            (Some(sha), branch)
        }
        Pushed::Already { sha, branch } => {
            println!("Commit {sha} on `{branch}` is of an earlier attempt of this step; nothing to do");
            (Some(sha), branch)
        }
        Pushed::Nothing { sha, branch } => {
            println!("Nothing has changed on `{branch}`; there is nothing to commit");
            (sha, branch)
        }
    };
    let mut members =
        BTreeMap::from([("branch".to_owned(), branch), ("repo".to_owned(), remote.name().to_owned())]);
    members.extend(sha.map(|sha| ("revision".to_owned(), sha)));
    Ok(Outcome { error: None, members, working_directory: None })
}

/// A Git host that is away for a moment (it restarts, a connection breaks) does not fail a build.
async fn patiently<T>(mut work: impl AsyncFnMut() -> Result<T, GitError>) -> Result<T, String> {
    for wait in PAUSES {
        match work().await {
            Err(error) if error.next() == Next::Retry => {
                println!("{}; trying again in {} s", chain(&error), wait.as_secs_f32());
                tokio::time::sleep(wait).await;
            }
            done => return done.map_err(|error| chain(&error)),
        }
    }
    work().await.map_err(|error| chain(&error))
}

fn remote(url: &str, login: Option<&Login>, believed: Option<&Believed>) -> Result<Remote, String> {
    let credential =
        login.map(|login| Credentials::basic(&login.username, Secret::new(login.password.clone())));
    let remote = Remote::parse(url, credential).map_err(|error| chain(&error))?;
    Ok(match believed {
        Some(file) => remote.trusting(file.0.clone()),
        None => remote,
    })
}

/// A file with authorities, as long as a step needs it.
struct Believed(PathBuf);

impl Believed {
    fn write(place: &Path, besides: &str) -> Result<Self, String> {
        let mut random = [0; 8];
        getrandom::fill(&mut random).map_err(|error| error.to_string())?;
        let path = place.join(format!("authorities-{}.pem", hex::encode(random)));
        let made = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
        made.and_then(|mut file| file.write_all(authorities(besides).as_bytes()))
            .map_err(|error| format!("{} cannot be written: {error}", path.display()))?;
        Ok(Self(path))
    }
}

impl Drop for Believed {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

fn chain(error: &GitError) -> String {
    let mut text = error.to_string();
    let mut source = std::error::Error::source(error);
    while let Some(cause) = source {
        text.push_str(&format!(": {cause}"));
        source = cause.source();
    }
    text
}
