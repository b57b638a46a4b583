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

#[tokio::test]
async fn http_backend_sees_its_repository_and_nothing_else() {
    const TEST: &str = "builtin::tests::http_backend_sees_its_repository_and_nothing_else";
    if slipway_testkit::inside::again_in_place_of("/usr/bin/git", TEST) {
        return;
    }
    let folder = tempfile::tempdir().unwrap();
    for name in ["r.git", "other.git"] {
        std::fs::create_dir(folder.path().join(name)).unwrap();
    }
    let request = CgiRequest {
        borrows: Vec::new(),
        repository: folder.path().join("r.git"),
        path: "/info/refs".into(),
        method: "GET".into(),
        query: "service=git-upload-pack".into(),
        content_type: String::new(),
        content_encoding: String::new(),
        git_protocol: String::new(),
        user: "alice".into(),
        body: tokio::io::empty(),
    };
    assert!(serve(request).await.is_err(), "the probe speaks no CGI");
    let seen = slipway_testkit::inside::Seen::in_folder(&folder.path().join("r.git"));
    seen.assert_caged().assert_no_network();
    // The files are ours and so is the user, who has no capability.
    assert_eq!(seen.number("uid"), 0);
    assert!(seen.texts("arguments").contains(&"http-backend".to_owned()));
    let outside = folder.path().file_name().unwrap().to_string_lossy().into_owned();
    assert_eq!(seen.texts("tmp"), [outside], "the folder above holds nothing but this repository");

    let repository = Repository::at(folder.path().join("r.git"));
    let _ = repository.references().await;
    let seen = slipway_testkit::inside::Seen::in_folder(&folder.path().join("r.git"));
    seen.assert_caged().assert_no_network();
    assert!(seen.texts("arguments").contains(&"for-each-ref".to_owned()));
}

#[tokio::test]
async fn a_bundle_and_what_is_made_of_it_hold_the_same() {
    let folder = tempfile::tempdir().unwrap();
    let (one, two) =
        (Repository::at(folder.path().join("1.git")), Repository::at(folder.path().join("2.git")));
    one.create("main").await.unwrap();
    let file = SeedFile { path: "a", content: "b", executable: false };
    one.seed("main", "demo", "First", &[file]).await.unwrap();
    let bundle = folder.path().join("bundle");
    one.bundle(&bundle).await.unwrap();
    two.restore(&bundle, "main").await.unwrap();
    assert_eq!(one.references().await.unwrap(), two.references().await.unwrap());
}
