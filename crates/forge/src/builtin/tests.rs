use super::*;

#[test]
fn names_that_could_leave_the_folder_or_be_taken_for_an_option_are_refused() {
    for good in ["demo/app", "a.b/c_d-e", "A/1"] {
        assert!(check_name(good).is_ok(), "{good}");
    }
    for bad in
        ["app", "a/b/c", "../x", "a/..", "a/-x", "/a", "a/", "a/b.git", "a b/c", "a/.hidden", "a/x.lock"]
    {
        assert!(check_name(bad).is_err(), "{bad}");
    }
}

#[tokio::test]
async fn a_seeded_repository_has_its_branch_its_author_and_its_paths() {
    let folder = tempfile::tempdir().unwrap();
    let repository = Repository::at(folder.path().join("r.git"));
    repository.create("main").await.unwrap();
    assert!(repository.references().await.unwrap().is_empty());
    let file = SeedFile { path: "deploy/run.sh", content: "echo hi\n", executable: true };
    repository.seed("main", "demo", "First light", &[file]).await.unwrap();
    let sha = repository.references().await.unwrap()["refs/heads/main"].clone();
    let commit = repository.commit(&sha).await.unwrap();
    assert_eq!((commit.author.as_str(), commit.message.as_str()), ("demo", "First light"));
    // Again is nothing new.
    repository.seed("main", "demo", "Another", &[]).await.unwrap();
    assert_eq!(repository.references().await.unwrap()["refs/heads/main"], sha);
    assert!(repository.changed_paths(None, &sha).await.unwrap().is_empty());
    assert!(repository.commit("0000000000000000000000000000000000000000").await.is_err());
}
