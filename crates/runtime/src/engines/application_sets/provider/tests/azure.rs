//! Azure DevOps.

use super::*;

const REPOSITORIES: &str = "/acme/web%20team/_apis/git/repositories?api-version=7.0";

fn repository(name: &str, id: &str) -> Value {
    json!({"id": id, "name": name, "project": {"name": "web team", "state": "wellFormed"},
        "defaultBranch": "refs/heads/main", "size": 728, "isDisabled": false,
        "remoteUrl": format!("https://acme@dev.azure.com/acme/web%20team/_git/{name}"),
        "sshUrl": format!("git@ssh.dev.azure.com:v3/acme/web%20team/{name}")})
}

fn branch(name: &str, sha: &str) -> Value {
    json!({"name": name, "aheadCount": 0, "behindCount": 0, "isBaseVersion": name == "main",
        "commit": {"commitId": sha, "comment": "c"}})
}

fn missing(kind: &str) -> Value {
    json!({"status": 404, "body": {"$id": "1", "message": "TF401174: …", "typeKey": kind, "errorCode": 0}})
}

#[tokio::test]
async fn repositories_are_listed_with_their_default_branch() {
    let mut disabled = repository("old", "id-old");
    disabled["isDisabled"] = true.into();
    let mut empty = repository("empty", "id-empty");
    empty.as_object_mut().expect("an object").remove("defaultBranch");
    let (api, asked) = host(vec![
        (
            REPOSITORIES,
            json!({"count": 4, "value": [repository("shop", "id-shop"), disabled, empty, repository("left", "id-left")]}),
        ),
        (
            "/acme/web%20team/_apis/git/repositories/id-shop/stats/branches?name=main&api-version=7.0",
            branch("main", "be67f8871a4d"),
        ),
        (
            "/acme/web%20team/_apis/git/repositories/id-left/stats/branches?name=main&api-version=7.0",
            missing("GitRepositoryNotFoundException"),
        ),
    ])
    .await;
    let block = json!({"azureDevOps": {"api": api, "organization": "acme", "teamProject": "web team",
        "accessTokenRef": {"secretName": "s", "key": "k"}}});
    let found = repositories(&question(block)).await.expect("answered");
    assert_eq!(
        found,
        [RepositoryEntry {
            organization: "acme".into(),
            repository: "shop".into(),
            repository_id: json!("id-shop"),
            url: "https://acme@dev.azure.com/acme/web%20team/_git/shop".into(),
            branch: "main".into(),
            sha: "be67f8871a4d".into(),
            labels: Vec::new(),
        }]
    );
    let asked = asked.lock().expect("no panic").clone();
    assert!(asked.iter().all(|line| line.starts_with(&basic(":t0ken"))), "{asked:?}");
}

#[tokio::test]
async fn paths_are_looked_for_on_every_branch_and_other_absences_are_faults() {
    macro_rules! item {
        ($branch:literal) => {
            concat!(
                "/acme/web%20team/_apis/git/repositories/id-shop/items?path=deploy%2Fapp.yaml",
                "&versionDescriptor.versionType=branch&versionDescriptor.version=",
                $branch,
                "&$format=json&api-version=7.0"
            )
        };
    }
    let common = || {
        vec![
            (REPOSITORIES, json!({"count": 1, "value": [repository("shop", "id-shop")]})),
            (
                "/acme/web%20team/_apis/git/repositories/id-shop/stats/branches?api-version=7.0",
                json!({"count": 2, "value": [branch("main", "a"), branch("dev", "b")]}),
            ),
            (item!("main"), json!({"objectId": "x", "gitObjectType": "blob", "path": "/deploy/app.yaml"})),
        ]
    };
    let block = |api: &str| {
        json!({"azureDevOps": {"api": api, "organization": "acme", "teamProject": "web team", "allBranches": true},
            "filters": [{"pathsExist": ["/deploy/app.yaml"]}]})
    };
    let mut answers = common();
    answers.push((item!("dev"), missing("GitItemNotFoundException")));
    let (api, _) = host(answers).await;
    let found = repositories(&question(block(&api))).await.expect("answered");
    assert_eq!(found.iter().map(|entry| entry.branch.as_str()).collect::<Vec<_>>(), ["main"]);

    let mut answers = common();
    answers.push((item!("dev"), missing("GitUnresolvableToCommitException")));
    let (api, _) = host(answers).await;
    let error = repositories(&question(block(&api))).await.expect_err("the path was not even looked for");
    assert!(error.contains("404"), "{error}");
}

#[tokio::test]
async fn pull_requests_are_skipped_through_and_filtered_by_labels() {
    let pull = |number: i64, label: &str| {
        json!({"pullRequestId": number, "title": "T", "status": "active", "repository": {"name": "shop"},
            "sourceRefName": format!("refs/heads/feature/{number}"), "targetRefName": "refs/heads/main",
            "lastMergeSourceCommit": {"commitId": format!("sha{number}")},
            "createdBy": {"displayName": "Ada", "uniqueName": "ada@example.org"},
            "labels": [{"id": "l", "name": label, "active": true}]})
    };
    let mut first: Vec<Value> = (1..=100).map(|number| pull(number, "other")).collect();
    // Its merge is not computed yet.
    first[0]["labels"][0]["name"] = "preview".into();
    first[0].as_object_mut().expect("an object").remove("lastMergeSourceCommit");
    let (api, asked) = host(vec![
        (
            "/acme/web/_apis/git/repositories/shop/pullrequests?searchCriteria.status=active&$top=100&api-version=7.0",
            json!({"count": 100, "value": first}),
        ),
        (
            "/acme/web/_apis/git/repositories/shop/pullrequests?searchCriteria.status=active&$top=100&api-version=7.0&$skip=100",
            json!({"count": 1, "value": [pull(101, "preview")]}),
        ),
    ])
    .await;
    let block = |project: &str| {
        json!({"azuredevops": {"api": api, "organization": "acme", "project": project, "repo": "shop",
            "tokenRef": {"secretName": "s", "key": "k"}, "labels": ["preview"]}})
    };
    let found = pulls(block("web")).await;
    assert_eq!(
        found,
        [PullRequest {
            number: 101,
            title: "T".into(),
            branch: "feature/101".into(),
            target_branch: "main".into(),
            head_sha: "sha101".into(),
            author: "ada".into(),
            labels: vec!["preview".into()],
        }]
    );
    assert!(asked.lock().expect("no panic")[0].starts_with(&basic(":t0ken")));
    assert!(matches!(pull_requests(&question(block("gone"))).await, Ok(Answer::RepositoryNotFound(_))));
}

#[tokio::test]
async fn a_wrong_token_is_named_although_azure_shows_a_page() {
    let router = axum::Router::new()
        .fallback(|| async { (StatusCode::NON_AUTHORITATIVE_INFORMATION, "<html>Sign in</html>") });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let api = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let block = json!({"azureDevOps": {"api": api, "organization": "acme", "teamProject": "web"}});
    let error = repositories(&question(block)).await.expect_err("nobody signed in");
    assert!(error.contains("check the token"), "{error}");
}
