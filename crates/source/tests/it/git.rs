//! Against real repositories on disk and the real git.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use slipway_source::git::{
    Change, CloneOptions, Git, GitCache, GitError, GitOptions, Identity, Pushed, Remote, Repository, Since,
};

struct Place {
    dir: tempfile::TempDir,
}

impl Place {
    fn new() -> Self {
        let place = Self { dir: tempfile::tempdir().unwrap() };
        let bare = place.path("owner/app.git");
        std::fs::create_dir_all(&bare).unwrap();
        sh(&bare, "git init -q --bare -b main .");
        let work = place.path("author");
        std::fs::create_dir_all(&work).unwrap();
        sh(&work, "git init -q -b main . && git remote add origin ../owner/app.git");
        place.push("version.txt", "1\n", "First");
        place
    }

    fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    fn fresh(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        std::fs::create_dir_all(&path).unwrap();
        path
    }

    fn remote(&self) -> Remote {
        Remote::parse(&format!("file://{}", self.path("owner/app.git").display()), None).unwrap()
    }

    /// What another person does: change a file and push it.
    fn push(&self, file: &str, text: &str, message: &str) -> String {
        let work = self.path("author");
        sh(&work, "git fetch -q origin && (git reset -q --hard origin/main 2>/dev/null || true)");
        std::fs::write(work.join(file), text).unwrap();
        sh(&work, &format!("git add -A && git commit -q -m '{message}' && git push -q origin HEAD:main"));
        sh(&work, "git rev-parse HEAD")
    }

    fn show(&self, object: &str) -> String {
        sh(&self.path("owner/app.git"), &format!("git show {object}"))
    }

    fn commit(&self, folder: &Path, scratch: &str, mark: &str) -> Change {
        Change {
            folder: folder.to_owned(),
            add: Vec::new(),
            branch: None,
            message: "Deploy version 2".into(),
            author: Identity { name: "Slipway".into(), email: "slipway@localhost".into() },
            mark: Some(("Slipway-Build".into(), mark.into())),
            scratch: self.fresh(scratch),
        }
    }
}

fn sh(dir: &Path, script: &str) -> String {
    let output = Command::new("sh")
        .args(["-ec", script])
        .current_dir(dir)
        .envs([
            ("GIT_AUTHOR_NAME", "Ada"),
            ("GIT_AUTHOR_EMAIL", "ada@example.org"),
            ("GIT_COMMITTER_NAME", "Ada"),
            ("GIT_COMMITTER_EMAIL", "ada@example.org"),
            ("GIT_CONFIG_GLOBAL", "/dev/null"),
        ])
        .output()
        .unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim().to_owned()
}

fn git() -> Git {
    Git::new().allow_file().deadline(Duration::from_secs(30))
}

#[tokio::test]
async fn a_clone_is_at_the_revision_that_was_asked_for() {
    let place = Place::new();
    let first = sh(&place.path("author"), "git rev-parse HEAD");
    sh(&place.path("author"), "git tag -a v1 -m v1 && git push -q origin v1");
    let second = place.push("version.txt", "2\n", "Second");
    let (git, remote) = (git(), place.remote());

    let whole = git.clone_at(&remote, None, &place.path("a"), &CloneOptions::default()).await.unwrap();
    assert_eq!((whole.sha.as_str(), whole.branch.as_deref()), (second.as_str(), Some("main")));
    assert_eq!(
        sh(&place.path("a"), "git tag && git status --porcelain && git branch --show-current"),
        "v1\nmain"
    );

    for revision in ["v1", &first, &first[..8]] {
        let into = place.path(&format!("at-{revision}"));
        let old = git.clone_at(&remote, Some(revision), &into, &CloneOptions::default()).await.unwrap();
        assert_eq!((old.sha.as_str(), old.branch), (first.as_str(), None));
        assert_eq!(std::fs::read_to_string(into.join("version.txt")).unwrap(), "1\n");
    }
    let shallow = CloneOptions { depth: Some(1), ..Default::default() };
    git.clone_at(&remote, Some("main"), &place.path("shallow"), &shallow).await.unwrap();
    assert_eq!(sh(&place.path("shallow"), "git rev-list --count HEAD"), "1");
}

#[tokio::test]
async fn cloning_again_brings_the_folder_up_to_date_and_removes_leftovers() {
    let place = Place::new();
    let (git, remote, into) = (git(), place.remote(), place.path("a"));
    git.clone_at(&remote, None, &into, &CloneOptions::default()).await.unwrap();
    std::fs::write(into.join("leftover"), "x").unwrap();
    std::fs::write(into.join("version.txt"), "changed by a build").unwrap();
    let sha = place.push("version.txt", "2\n", "Second");
    let again = git.clone_at(&remote, None, &into, &CloneOptions::default()).await.unwrap();
    assert_eq!(again.sha, sha);
    assert_eq!(std::fs::read_to_string(into.join("version.txt")).unwrap(), "2\n");
    assert!(!into.join("leftover").exists());
}

#[tokio::test]
async fn errors_name_the_repository_and_what_to_do() {
    let place = Place::new();
    let (git, remote) = (git(), place.remote());
    let error =
        git.clone_at(&remote, Some("nope"), &place.path("a"), &CloneOptions::default()).await.unwrap_err();
    assert_eq!(
        error.to_string(),
        "owner/app has no branch, tag or commit `nope`: check the name, or push it first"
    );
    let missing = Remote::parse(&format!("file://{}", place.path("owner/gone.git").display()), None).unwrap();
    let options = CloneOptions::default();
    let error = git.clone_at(&missing, None, &place.path("b"), &options).await.unwrap_err();
    assert!(matches!(&error, GitError::NotFound { repo } if repo == "owner/gone"), "{error}");
    let nobody = Remote::parse("http://127.0.0.1:9/owner/app.git", None).unwrap();
    let error = git.clone_at(&nobody, None, &place.path("c"), &options).await.unwrap_err();
    assert!(matches!(&error, GitError::Unreachable { repo, .. } if repo == "owner/app"), "{error}");
    let error = Git::new().clone_at(&remote, None, &place.path("d"), &options).await.unwrap_err();
    assert!(error.to_string().contains("transport 'file' not allowed"), "{error}");
}

#[tokio::test]
async fn a_server_that_never_answers_is_given_up_at_the_deadline() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/owner/app.git", listener.local_addr().unwrap());
    let remote = Remote::parse(&url, None).unwrap();
    let (git, scratch) = (Git::new().deadline(Duration::from_millis(300)), tempfile::tempdir().unwrap());
    let error = git.read_remote(&remote, None, "a", scratch.path(), 10).await.unwrap_err();
    assert!(matches!(error, GitError::Deadline { .. }), "{error}");
}

#[tokio::test]
async fn a_file_is_read_at_a_revision_and_a_clone_says_who_made_it() {
    let place = Place::new();
    let first = sh(&place.path("author"), "git rev-parse HEAD");
    let second = place.push("version.txt", "2\n", "Second line\n\nwith a body");
    let (git, remote, clone) = (git(), place.remote(), place.path("clone"));
    git.clone_at(&remote, None, &clone, &CloneOptions::default()).await.unwrap();
    let info = git.commit_info(&clone, "owner/app", &second).await.unwrap();
    assert_eq!((info.author_name.as_str(), info.message.as_str()), ("Ada", "Second line\n\nwith a body"));
    let read = async |revision: Option<&str>, path: &str, most: u64| {
        let scratch = tempfile::tempdir_in(place.dir.path()).unwrap();
        git.read_remote(&remote, revision, path, scratch.path(), most).await
    };
    assert_eq!(read(None, "version.txt", 10).await.unwrap(), (b"2\n".to_vec(), second));
    assert_eq!(read(Some(&first), "version.txt", 10).await.unwrap(), (b"1\n".to_vec(), first.clone()));
    assert!(matches!(read(None, "version.txt", 1).await, Err(GitError::TooLarge { .. })));
    assert!(matches!(read(None, "none.yaml", 10).await, Err(GitError::FileNotFound { .. })));
}

/// Makes `main` of the remote a commit with this tree (as `git mktree` reads it) and these words in its header.
fn put_commit(place: &Place, tree: &str, author: &str) -> String {
    let bare = place.path("owner/app.git");
    let script = format!(
        "blob=$(printf x | git hash-object -w --stdin); tree=$(printf '{tree}' \"$blob\" | git mktree); \
         commit=$(printf 'tree %s\\nauthor {author}\\ncommitter {author}\\n\\nx\\n' \"$tree\" \
           | git hash-object -t commit -w --literally --stdin); \
         git update-ref refs/heads/main \"$commit\"; echo \"$commit\""
    );
    sh(&bare, &script)
}

/// The hardening is one for working clones and for mirrors.
#[tokio::test]
async fn objects_that_would_harm_are_fetched_by_nobody_and_old_slips_by_all() {
    for (tree, author, good) in [
        ("100644 blob %s\\t.git\\n", "A <a@b> 1700000000 +0000", false),
        ("100644 blob %s\\ta\\n", "A <a@b> 1700000000 +0000", true),
        ("100644 blob %s\\ta\\n", "A <a@b> 1700000000 +051800", true),
        ("100644 blob %s\\ta\\n", "A <a@b 1700000000", false),
    ] {
        let place = Place::new();
        let sha = put_commit(&place, tree, author);
        let case = format!("{tree} {author}");
        let cloned = git().clone_at(&place.remote(), None, &place.path("a"), &CloneOptions::default()).await;
        assert_eq!(cloned.is_ok(), good, "clone of {case}: {cloned:?}");
        let options = GitOptions { allow_local: true, ..GitOptions::default() };
        let cache = GitCache::open(place.path("mirrors"), options).unwrap();
        let repository = Repository::public(place.remote().url());
        let mirrored = cache.resolve(&repository, "main", Since::now()).await;
        assert_eq!(mirrored.is_ok(), good, "mirror of {case}: {mirrored:?}");
        assert!(mirrored.is_err() || mirrored.is_ok_and(|commit| commit.sha == sha));
    }
}

#[tokio::test]
async fn a_change_is_pushed_once_however_often_it_is_tried() {
    let place = Place::new();
    let (git, remote, folder) = (git(), place.remote(), place.path("clone"));
    git.clone_at(&remote, None, &folder, &CloneOptions::default()).await.unwrap();
    std::fs::write(folder.join("version.txt"), "2\n").unwrap();
    let first = git.commit_and_push(&remote, &place.commit(&folder, "s1", "b1/deploy")).await.unwrap();
    let Pushed::Pushed { sha, branch } = first else { panic!("{first:?}") };
    assert_eq!(branch, "main");
    assert_eq!(place.show("main:version.txt"), "2");
    assert_eq!(
        place.show("-s --format=%an%n%B main"),
        "Slipway\nDeploy version 2\n\nSlipway-Build: b1/deploy"
    );

    // Others go on; the same build tries again after a crash.
    place.push("other.txt", "x\n", "Other");
    let again = git.commit_and_push(&remote, &place.commit(&folder, "s2", "b1/deploy")).await.unwrap();
    assert_eq!(again, Pushed::Already { sha, branch: "main".into() });
    // A mark that only begins with the same letters is another change.
    std::fs::write(folder.join("version.txt"), "3\n").unwrap();
    let other = git.commit_and_push(&remote, &place.commit(&folder, "s3", "b1/dep")).await;
    assert!(matches!(other, Err(GitError::Conflict { .. })), "{other:?}");
}

#[tokio::test]
async fn a_branch_that_moved_gets_the_change_on_top() {
    let place = Place::new();
    let (git, remote, folder) = (git(), place.remote(), place.path("clone"));
    git.clone_at(&remote, None, &folder, &CloneOptions::default()).await.unwrap();
    let tip = place.push("other.txt", "x\n", "Other");
    std::fs::write(folder.join("version.txt"), "2\n").unwrap();
    let pushed = git.commit_and_push(&remote, &place.commit(&folder, "s1", "b1/deploy")).await.unwrap();
    assert!(matches!(pushed, Pushed::Pushed { .. }));
    assert_eq!(place.show("-s --format=%P main"), tip);
    assert_eq!((place.show("main:version.txt"), place.show("main:other.txt")), ("2".into(), "x".into()));
}

#[tokio::test]
async fn two_changes_of_one_line_are_a_conflict_that_names_the_file() {
    let place = Place::new();
    let (git, remote, folder) = (git(), place.remote(), place.path("clone"));
    git.clone_at(&remote, None, &folder, &CloneOptions::default()).await.unwrap();
    place.push("version.txt", "theirs\n", "Other");
    std::fs::write(folder.join("version.txt"), "ours\n").unwrap();
    let error = git.commit_and_push(&remote, &place.commit(&folder, "s1", "b1/deploy")).await.unwrap_err();
    assert!(matches!(&error, GitError::Conflict { files, .. } if files == "version.txt"), "{error}");
}

#[tokio::test]
async fn nothing_is_committed_when_nothing_changed() {
    let place = Place::new();
    let (git, remote, folder) = (git(), place.remote(), place.path("clone"));
    let at = git.clone_at(&remote, None, &folder, &CloneOptions::default()).await.unwrap();
    let pushed = git.commit_and_push(&remote, &place.commit(&folder, "s1", "b1/deploy")).await.unwrap();
    assert_eq!(pushed, Pushed::Nothing { sha: Some(at.sha), branch: "main".into() });
}

#[tokio::test]
async fn a_commit_on_another_branch_carries_only_the_change() {
    let place = Place::new();
    sh(&place.path("author"), "git push -q origin HEAD:refs/heads/release");
    place.push("other.txt", "only on main\n", "Other");
    let (git, remote, folder) = (git(), place.remote(), place.path("clone"));
    git.clone_at(&remote, None, &folder, &CloneOptions::default()).await.unwrap();
    std::fs::write(folder.join("version.txt"), "2\n").unwrap();
    let commit = Change { branch: Some("release".into()), ..place.commit(&folder, "s1", "b1/deploy") };
    git.commit_and_push(&remote, &commit).await.unwrap();
    assert_eq!(sh(&place.path("owner/app.git"), "git ls-tree --name-only release"), "version.txt");
    let commit = Change { branch: Some("new".into()), ..place.commit(&folder, "s2", "b1/other") };
    git.commit_and_push(&remote, &commit).await.unwrap();
    assert_eq!(sh(&place.path("owner/app.git"), "git ls-tree --name-only new"), "other.txt\nversion.txt");
}

#[tokio::test]
async fn what_a_build_wrote_into_the_clones_configuration_is_not_run() {
    let place = Place::new();
    let (git, remote, folder) = (git(), place.remote(), place.path("clone"));
    git.clone_at(&remote, None, &folder, &CloneOptions::default()).await.unwrap();
    let witness = place.path("witness");
    let run = format!("touch {}", witness.display());
    for (key, value) in [
        ("core.fsmonitor", run.as_str()),
        ("filter.x.clean", &run),
        ("core.sshCommand", &run),
        ("credential.helper", &format!("!{run}")),
        ("url.file:///nowhere/.insteadOf", "file://"),
        ("core.hooksPath", "hooks"),
    ] {
        sh(&folder, &format!("git config '{key}' '{value}'"));
    }
    std::fs::create_dir(folder.join("hooks")).unwrap();
    std::fs::write(folder.join("hooks/pre-push"), format!("#!/bin/sh\n{run}\n")).unwrap();
    sh(&folder, "chmod +x hooks/pre-push");
    std::fs::write(folder.join(".gitattributes"), "* filter=x\n").unwrap();
    std::fs::write(folder.join("version.txt"), "2\n").unwrap();
    let pushed = git.commit_and_push(&remote, &place.commit(&folder, "s1", "b1/deploy")).await.unwrap();
    assert!(matches!(pushed, Pushed::Pushed { .. }));
    assert_eq!(place.show("main:version.txt"), "2");
    assert!(!witness.exists(), "a program of the clone's configuration ran");
}

#[tokio::test]
async fn six_builds_that_push_to_one_branch_at_once_all_get_through() {
    let place = Place::new();
    let (git, remote) = (git(), place.remote());
    let mut tasks = tokio::task::JoinSet::new();
    for n in 0..6 {
        let folder = place.path(&format!("clone{n}"));
        git.clone_at(&remote, None, &folder, &CloneOptions::default()).await.unwrap();
        std::fs::write(folder.join(format!("file{n}")), "x").unwrap();
        let commit = place.commit(&folder, &format!("s{n}"), &format!("b{n}/deploy"));
        let (git, remote) = (git.clone(), remote.clone());
        tasks.spawn(async move { git.commit_and_push(&remote, &commit).await });
    }
    while let Some(done) = tasks.join_next().await {
        assert!(matches!(done.unwrap().unwrap(), Pushed::Pushed { .. }));
    }
    let marks = sh(&place.path("owner/app.git"), "git log --format=%B main | grep -c Slipway-Build");
    assert_eq!(marks, "6");
}
