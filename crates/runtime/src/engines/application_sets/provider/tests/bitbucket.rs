//! Both Bitbuckets.

use super::*;

fn cloud_repository(slug: &str, branch: Value) -> Value {
    json!({"uuid": "{76606e75-8aeb-4a87-9396-4abee652ec63}", "slug": slug, "name": slug.to_uppercase(),
        "full_name": format!("team/{slug}"), "mainbranch": branch,
        "links": {"clone": [
            {"name": "https", "href": format!("https://ada@bitbucket.org/team/{slug}.git")},
            {"name": "ssh", "href": format!("git@bitbucket.org:team/{slug}.git")}]}})
}

#[tokio::test]
async fn cloud_lists_repositories_page_by_page_with_the_app_password() {
    let main = json!({"type": "branch", "name": "main"});
    let (api, asked) = host(vec![
        (
            "/repositories/team?role=member&pagelen=100",
            json!({"pagelen": 100, "size": 3, "page": 1,
                "next": "https://api.bitbucket.org/2.0/repositories/team?role=member&pagelen=100&page=2",
                "values": [cloud_repository("shop", main.clone()), cloud_repository("empty", Value::Null)]}),
        ),
        (
            "/repositories/team?role=member&pagelen=100&page=2",
            json!({"pagelen": 100, "size": 3, "page": 2, "values": [cloud_repository("tool", main)]}),
        ),
        (
            "/repositories/team/shop/refs/branches/main",
            json!({"name": "main", "type": "branch", "target": {"hash": "dc1edb6"}}),
        ),
        (
            "/repositories/team/tool/refs/branches/main",
            json!({"name": "main", "type": "branch", "target": {"hash": "4d2b1aa"}}),
        ),
        (
            "/repositories/team/shop/src/dc1edb6/deploy%20it/app.yaml?format=meta",
            json!({"path": "deploy it/app.yaml", "type": "commit_file"}),
        ),
    ])
    .await;
    let block = json!({"bitbucket": {"api": api, "owner": "team", "user": "ada",
        "appPasswordRef": {"secretName": "s", "key": "k"}}});
    let mut all = block.clone();
    all["cloneProtocol"] = "https".into();
    let found = repositories(&question(all)).await.expect("answered");
    let named: Vec<(&str, &str)> =
        found.iter().map(|entry| (entry.repository.as_str(), entry.sha.as_str())).collect();
    assert_eq!(named, [("shop", "dc1edb6"), ("tool", "4d2b1aa")], "an empty repository has no branch");
    assert_eq!(found[0].organization, "team");
    assert_eq!(found[0].url, "https://ada@bitbucket.org/team/shop.git");
    assert_eq!(found[0].repository_id, "{76606e75-8aeb-4a87-9396-4abee652ec63}");
    let asked = asked.lock().expect("no panic").clone();
    assert!(asked.iter().all(|line| line.starts_with(&basic("ada:t0ken"))), "{asked:?}");

    let mut some = block;
    some["filters"] = json!([{"pathsExist": ["deploy it/app.yaml"]}]);
    let found = repositories(&question(some)).await.expect("answered");
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].url, "git@bitbucket.org:team/shop.git", "ssh unless something else is said");
}

#[tokio::test]
async fn cloud_lists_all_branches() {
    let (api, _) = host(vec![
        (
            "/repositories/team?role=member&pagelen=100",
            json!({"values": [cloud_repository("shop", json!({"name": "main"}))]}),
        ),
        (
            "/repositories/team/shop/refs/branches?pagelen=100",
            json!({"values": [{"name": "main", "target": {"hash": "a"}}, {"name": "dev", "target": {"hash": "b"}}]}),
        ),
    ])
    .await;
    let block = json!({"bitbucket": {"api": api, "owner": "team", "allBranches": true},
        "filters": [{"branchMatch": "^dev"}]});
    let found = repositories(&question(block)).await.expect("answered");
    assert_eq!(found.iter().map(|entry| entry.branch.as_str()).collect::<Vec<_>>(), ["dev"]);
}

#[tokio::test]
async fn cloud_lists_pull_requests_by_each_login() {
    let pull = json!({"id": 101, "title": "feat(foo-bar)", "state": "OPEN",
        "source": {"branch": {"name": "feature/foo-bar"}, "commit": {"type": "commit", "hash": "1a8dd249c04a"}},
        "destination": {"branch": {"name": "main"}, "commit": {"hash": "ff"}},
        "author": {"display_name": "Ada", "nickname": "ada"}});
    let path = "/repositories/team/shop/pullrequests?state=OPEN&pagelen=50";
    let (api, asked) = host(vec![(path, json!({"pagelen": 50, "size": 1, "values": [pull]}))]).await;
    let logins = [
        (json!({"bearerToken": {"tokenRef": {}}}), "Bearer t0ken".to_owned()),
        (json!({"basicAuth": {"username": "ada", "passwordRef": {}}}), basic("ada:t0ken")),
        (json!({}), "nobody".to_owned()),
    ];
    for (login, expected) in logins {
        let mut block = json!({"api": api, "owner": "team", "repo": "shop"});
        block.as_object_mut().expect("an object").extend(login.as_object().expect("an object").clone());
        let found = pulls(json!({"bitbucket": block})).await;
        assert_eq!(
            found,
            [PullRequest {
                number: 101,
                title: "feat(foo-bar)".into(),
                branch: "feature/foo-bar".into(),
                target_branch: "main".into(),
                head_sha: "1a8dd249c04a".into(),
                author: "ada".into(),
                labels: Vec::new(),
            }]
        );
        assert_eq!(asked.lock().expect("no panic").pop(), Some(format!("{expected} {path}")));
    }
}

fn server_repository(slug: &str, name: &str) -> Value {
    json!({"slug": slug, "id": 7, "name": name, "scmId": "git", "state": "AVAILABLE",
        "project": {"key": "PRJ", "id": 1, "name": "Project"},
        "links": {"clone": [
            {"href": format!("https://b.example/scm/prj/{slug}.git"), "name": "http"},
            {"href": format!("ssh://git@b.example:7999/prj/{slug}.git"), "name": "ssh"}]}})
}

fn server_branch(name: &str, sha: &str) -> Value {
    json!({"id": format!("refs/heads/{name}"), "displayId": name, "type": "BRANCH", "latestCommit": sha,
        "isDefault": name == "main"})
}

#[tokio::test]
async fn server_lists_repositories_and_skips_those_without_a_commit() {
    let base = "/rest/api/1.0/projects/PRJ/repos";
    let (api, asked) = host(vec![
        (
            "/rest/api/1.0/projects/PRJ/repos?limit=100",
            json!({"size": 2, "limit": 100, "isLastPage": false, "start": 0, "nextPageStart": 2,
                "values": [server_repository("my-shop", "My Shop"), server_repository("unset", "unset")]}),
        ),
        (
            "/rest/api/1.0/projects/PRJ/repos?limit=100&start=2",
            json!({"size": 1, "limit": 100, "isLastPage": true, "start": 2, "nextPageStart": null,
                "values": [server_repository("gone", "gone")]}),
        ),
        ("/rest/api/1.0/projects/PRJ/repos/my-shop/branches/default", server_branch("main", "8d51122def")),
        // No default branch is set: an answer without a body.
        ("/rest/api/1.0/projects/PRJ/repos/unset/branches/default", json!({"status": 204})),
        (
            "/rest/api/1.0/projects/PRJ/repos/my-shop/browse/deploy/app.yaml?at=main&type=true&limit=100",
            json!({"type": "FILE"}),
        ),
    ])
    .await;
    let block = json!({"bitbucketServer": {"api": api, "project": "PRJ",
        "basicAuth": {"username": "ada", "passwordRef": {"secretName": "s", "key": "k"}}},
        "filters": [{"pathsExist": ["deploy/app.yaml"], "pathsDoNotExist": ["skip"]}]});
    let found = repositories(&question(block)).await.expect("answered");
    assert_eq!(
        found,
        [RepositoryEntry {
            organization: "PRJ".into(),
            repository: "My Shop".into(),
            repository_id: json!(7),
            url: "ssh://git@b.example:7999/prj/my-shop.git".into(),
            branch: "main".into(),
            sha: "8d51122def".into(),
            labels: Vec::new(),
        }]
    );
    let asked = asked.lock().expect("no panic").clone();
    assert!(
        asked.iter().all(|line| line.starts_with(&format!("{} {base}", basic("ada:t0ken")))),
        "{asked:?}"
    );
}

#[tokio::test]
async fn server_lists_all_branches_and_wants_an_address_to_clone() {
    let (api, _) = host(vec![
        (
            "/rest/api/1.0/projects/PRJ/repos?limit=100",
            json!({"isLastPage": true, "values": [server_repository("shop", "shop")]}),
        ),
        ("/rest/api/1.0/projects/PRJ/repos/shop/branches/default", server_branch("main", "a")),
        (
            "/rest/api/1.0/projects/PRJ/repos/shop/branches?limit=100",
            json!({"isLastPage": false, "nextPageStart": 1, "values": [server_branch("main", "a")]}),
        ),
        (
            "/rest/api/1.0/projects/PRJ/repos/shop/branches?limit=100&start=1",
            json!({"isLastPage": true, "values": [server_branch("feature/x", "b")]}),
        ),
    ])
    .await;
    let block = json!({"bitbucketServer": {"api": format!("{api}/rest"), "project": "PRJ", "allBranches": true},
        "cloneProtocol": "https"});
    let found = repositories(&question(block)).await.expect("answered");
    assert_eq!(found.iter().map(|entry| entry.branch.as_str()).collect::<Vec<_>>(), ["main", "feature/x"]);
    assert_eq!(found[0].url, "https://b.example/scm/prj/shop.git");

    let mut bare = server_repository("shop", "shop");
    bare["links"]["clone"] = json!([]);
    let (api, _) = host(vec![(
        "/rest/api/1.0/projects/PRJ/repos?limit=100",
        json!({"isLastPage": true, "values": [bare]}),
    )])
    .await;
    let block = json!({"bitbucketServer": {"api": api, "project": "PRJ"}});
    let error = repositories(&question(block)).await.expect_err("it cannot be cloned");
    assert!(error.contains("no ssh address; set cloneProtocol"), "{error}");
}

#[tokio::test]
async fn server_lists_pull_requests() {
    let pull = json!({"id": 101, "title": "feat(ABC) : 123", "state": "OPEN",
        "fromRef": {"id": "refs/heads/feature-ABC-123", "displayId": "feature-ABC-123", "latestCommit": "cb3cf2e4"},
        "toRef": {"id": "refs/heads/main", "displayId": "main", "latestCommit": "7454bd"},
        "author": {"user": {"name": "ada", "emailAddress": "ada@example.org"}}});
    let path = "/rest/api/1.0/projects/PRJ/repos/shop/pull-requests?limit=100";
    let (api, asked) = host(vec![(path, json!({"isLastPage": true, "values": [pull]}))]).await;
    let block = |repo: &str| {
        json!({"bitbucketServer": {"api": api, "project": "PRJ", "repo": repo,
        "bearerToken": {"tokenRef": {}}}, "filters": [{"targetBranchMatch": "main", "titleMatch": "ABC"}]})
    };
    let found = pulls(block("shop")).await;
    assert_eq!((found[0].number, found[0].branch.as_str()), (101, "feature-ABC-123"));
    assert_eq!((found[0].head_sha.as_str(), found[0].author.as_str()), ("cb3cf2e4", "ada"));
    assert_eq!(*asked.lock().expect("no panic"), [format!("Bearer t0ken {path}")]);
    assert!(matches!(pull_requests(&question(block("gone"))).await, Ok(Answer::RepositoryNotFound(_))));
}
