use std::time::{Duration, Instant};

use slipway_source::{GitCache, GitError, GitOptions, Repository, Since};

use crate::repo::Repo;

#[tokio::test]
async fn a_revision_resolves_to_the_commit_it_means_now() {
    let repo = Repo::new();
    let first = repo.write("a.txt", "1").commit("First\n\nwith a body");
    repo.git(&["tag", "--annotate", "v1.0.0", "--message", "one"]);
    repo.git(&["branch", "feature/x"]);
    let cache = repo.cache();
    let at = |revision: &'static str| {
        let (cache, repository) = (cache.clone(), repo.repository());
        async move { cache.resolve(&repository, revision, Since::now()).await }
    };
    let head = at("HEAD").await.expect("HEAD is there");
    assert_eq!((head.sha.as_str(), head.author.as_str()), (first.as_str(), "Ada"));
    assert_eq!(head.message, "First\n\nwith a body");
    for revision in ["", "main", "feature/x", "refs/heads/main", "v1.0.0", "v1.*"] {
        assert_eq!(at(revision).await.expect(revision).sha, first, "{revision}");
    }
    let second = repo.write("a.txt", "2").commit("Second");
    assert_eq!(at("main").await.expect("main moved").sha, second);
    assert_eq!(at("feature/x").await.expect("it did not").sha, first);
    let short = &first[..8];
    let found = cache.resolve(&repo.repository(), short, Since::now()).await.expect("short ids work");
    assert_eq!(found.sha, first);
    let error = at("nope").await.expect_err("no such branch");
    assert!(error.to_string().contains("branches there: feature/x, main"), "{error}");
}

#[tokio::test]
async fn an_old_commit_is_fetched_although_only_the_tip_was() {
    let repo = Repo::new();
    let first = repo.write("a.txt", "1").commit("First");
    repo.write("a.txt", "2").commit("Second");
    let cache = repo.cache();
    cache.resolve(&repo.repository(), "main", Since::now()).await.expect("the tip");
    let commit = cache.resolve(&repo.repository(), &first, Since::now()).await.expect("the first");
    let file = cache.file(&repo.repository(), &commit, "a.txt").await.expect("readable").expect("there");
    assert_eq!(file, b"1");
}

#[tokio::test]
async fn a_hundred_questions_at_once_are_one_question() {
    let repo = Repo::new();
    let sha = repo.write("a.txt", "1").commit("First");
    let cache = repo.cache();
    let announced = Instant::now();
    let asks = (0..100).map(|_| {
        let (cache, repository) = (cache.clone(), repo.repository());
        tokio::spawn(async move { cache.resolve(&repository, "main", Since::Asked(announced)).await })
    });
    for ask in asks.collect::<Vec<_>>() {
        assert_eq!(ask.await.expect("no panic").expect("resolved").sha, sha);
    }
    assert_eq!(cache.remote_calls(), 2, "one ls-remote and one fetch");
    let second = repo.write("a.txt", "2").commit("Second");
    let old = cache.resolve(&repo.repository(), "main", Since::Within(Duration::from_secs(60))).await;
    assert_eq!(old.expect("known").sha, sha);
    let new = cache.resolve(&repo.repository(), "main", Since::now()).await;
    assert_eq!(new.expect("asked again").sha, second);
    assert_eq!(cache.remote_calls(), 4);
}

#[tokio::test]
async fn what_a_killed_process_left_is_cleared() {
    let repo = Repo::new();
    repo.write("a.txt", "1").commit("First");
    let cache = repo.cache();
    cache.resolve(&repo.repository(), "main", Since::now()).await.expect("resolved");
    drop(cache);
    let mirrors = repo.root.path().join("mirrors");
    let mirror = std::fs::read_dir(&mirrors)
        .expect("readable")
        .flatten()
        .find(|entry| entry.path().is_dir() && entry.file_name() != ".keys")
        .expect("a mirror")
        .path();
    std::fs::write(mirror.join("shallow.lock"), "").expect("written");
    let second = repo.write("a.txt", "2").commit("Second");
    let cache = repo.cache();
    let commit = cache.resolve(&repo.repository(), "main", Since::now()).await.expect("resolved again");
    assert_eq!(commit.sha, second);
    drop(cache);
    std::fs::remove_file(mirror.join("HEAD")).expect("removed");
    let commit = repo.cache().resolve(&repo.repository(), "main", Since::now()).await.expect("made again");
    assert_eq!(commit.sha, second);
}

#[tokio::test]
async fn a_folder_belongs_to_one_process() {
    let repo = Repo::new();
    let _cache = repo.cache();
    let second = GitCache::open(repo.root.path().join("mirrors"), GitOptions::default());
    assert!(matches!(second, Err(GitError::FolderInUse { .. })));
}

#[tokio::test]
async fn hostile_addresses_and_revisions_never_reach_git() {
    let repo = Repo::new();
    let marker = repo.root.path().join("pwned");
    let cache = GitCache::open(repo.root.path().join("strict"), GitOptions::default()).expect("a cache");
    for url in [
        format!("ext::touch {}", marker.display()),
        format!("--upload-pack=touch {}", marker.display()),
        format!("ssh://-oProxyCommand=touch%20{}/x", marker.display()),
        repo.repository().url,
    ] {
        let result = cache.resolve(&Repository::public(url.clone()), "main", Since::now()).await;
        assert!(matches!(result, Err(GitError::BadUrl { .. })), "{url}");
    }
    let open = repo.cache();
    for revision in ["--upload-pack=x", "-x", "a..b", "x\ny"] {
        let result = open.resolve(&repo.repository(), revision, Since::now()).await;
        assert!(matches!(result, Err(GitError::BadRevision(_))), "{revision}");
    }
    assert!(!marker.exists());
}

#[tokio::test]
async fn an_unreachable_repository_says_so_and_may_be_tried_again() {
    let repo = Repo::new();
    let cache = repo.cache();
    let nowhere = Repository::public(format!("file://{}/nowhere", repo.root.path().display()));
    let error = cache.resolve(&nowhere, "main", Since::now()).await.expect_err("nothing there");
    assert!(matches!(error, GitError::Unreachable { .. }), "{error}");
    assert_eq!(error.next(), slipway_model::Next::Retry);
}

#[tokio::test]
async fn a_reader_that_goes_away_leaves_nothing_broken() {
    let repo = Repo::new();
    for index in 0..200 {
        repo.write(&format!("d/{index}.txt"), &"x".repeat(10_000));
    }
    repo.commit("Many");
    let cache = repo.cache();
    let commit = cache.resolve(&repo.repository(), "main", Since::now()).await.expect("resolved");
    for wait in 0..20 {
        let read = async {
            let tree = cache.tree(&repo.repository(), &commit, "d", true).await.expect("readable");
            for entry in tree.entries.values() {
                cache.blob(&repo.repository(), &entry.id).await.expect("readable");
            }
        };
        let _ = tokio::time::timeout(Duration::from_micros(wait * 200), read).await;
    }
    let file = cache.file(&repo.repository(), &commit, "d/7.txt").await.expect("readable").expect("there");
    assert_eq!(file.len(), 10_000);
}
