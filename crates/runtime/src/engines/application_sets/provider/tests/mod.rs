//! The hosts' answers, as their documentation shows them, served by a small host of our own.

mod azure;
mod bitbucket;
mod code_commit;

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use axum::extract::State;
use axum::http::{HeaderMap, StatusCode, Uri};
use axum::response::IntoResponse;
use serde_json::json;

use super::*;

type Asked = Arc<Mutex<Vec<String>>>;

/// Serves these answers by path and query, and notes who asked with what token. `{status, body}` is an answer with
/// another status, `{link, items}` a page with a `Link` header.
async fn host(answers: Vec<(&'static str, Value)>) -> (String, Asked) {
    let answers: Arc<BTreeMap<&str, Value>> = Arc::new(answers.into_iter().collect());
    let asked = Asked::default();
    let notes = asked.clone();
    let router = axum::Router::new().fallback(move |State(()): State<()>, uri: Uri, headers: HeaderMap| {
        let (answers, notes) = (answers.clone(), notes.clone());
        async move {
            let token = ["authorization", "private-token"].iter().find_map(|name| headers.get(*name));
            let token = token.and_then(|value| value.to_str().ok()).unwrap_or("nobody").to_owned();
            let path = uri.path_and_query().map(|path| path.as_str().to_owned()).unwrap_or_default();
            notes.lock().expect("no panic").push(format!("{token} {path}"));
            match answers.get(path.as_str()) {
                None => StatusCode::NOT_FOUND.into_response(),
                Some(answer) if answer["status"].is_u64() => {
                    let status = answer["status"].as_u64().and_then(|code| u16::try_from(code).ok());
                    let status = status.and_then(|code| StatusCode::from_u16(code).ok()).expect("a status");
                    match &answer["body"] {
                        Value::Null => status.into_response(),
                        body => (status, axum::Json(body.clone())).into_response(),
                    }
                }
                Some(answer) => match answer["link"].as_str() {
                    Some(link) => ([("link", link)], axum::Json(answer["items"].clone())).into_response(),
                    None => axum::Json(answer.clone()).into_response(),
                },
            }
        }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, asked)
}

fn question(block: Value) -> Question {
    let draft = Draft::read(&block, None).unwrap_or_else(|error| panic!("{error}"));
    let token = (draft.key != Key::Nobody).then(|| Secret::new("t0ken".to_owned()));
    draft
        .open(token.as_ref(), None, &Rules::default().with_private())
        .unwrap_or_else(|error| panic!("{error}"))
}

async fn pulls(block: Value) -> Vec<PullRequest> {
    match pull_requests(&question(block)).await {
        Ok(Answer::PullRequests(found)) => found,
        other => panic!("pull requests, not {other:?}"),
    }
}

/// What a host hears of a name and a password.
fn basic(pair: &str) -> String {
    format!("Basic {}", base64::engine::general_purpose::STANDARD.encode(pair))
}

#[tokio::test]
async fn gitea_lists_pull_requests_and_filters_them() {
    let pull = |number: i64, branch: &str, label: &str| {
        json!({"number": number, "title": "T", "head": {"ref": branch, "sha": "abc"}, "base": {"ref": "main"},
            "user": {"login": "ada"}, "labels": [{"name": label}]})
    };
    let (api, asked) = host(vec![(
        "/api/v1/repos/o/r/pulls?state=open&limit=50",
        json!([pull(1, "feature-a", "preview"), pull(2, "feature-b", "other"), pull(3, "fix", "preview")]),
    )])
    .await;
    let block = json!({"gitea": {"api": api, "owner": "o", "repo": "r", "labels": ["preview"],
        "tokenRef": {"secretName": "s", "key": "k"}}, "filters": [{"branchMatch": "^feature-"}]});
    let found = pulls(block).await;
    assert_eq!(found.iter().map(|pull| pull.number).collect::<Vec<_>>(), [1]);
    assert_eq!((found[0].author.as_str(), found[0].head_sha.as_str()), ("ada", "abc"));
    assert_eq!(*asked.lock().expect("no panic"), ["token t0ken /api/v1/repos/o/r/pulls?state=open&limit=50"]);
}

#[tokio::test]
async fn a_repository_that_is_gone_is_told_apart_from_a_host_that_fails() {
    let (api, _) = host(vec![]).await;
    let block = json!({"github": {"api": api, "owner": "o", "repo": "gone"}});
    assert!(matches!(pull_requests(&question(block)).await, Ok(Answer::RepositoryNotFound(_))));
    let nobody = json!({"github": {"api": "http://127.0.0.1:1", "owner": "o", "repo": "r"}});
    let error = pull_requests(&question(nobody)).await.expect_err("nobody is there");
    assert!(error.contains("http://127.0.0.1:1/api/v3/repos/o/r/pulls"), "{error}");
}

#[tokio::test]
async fn gitlab_lists_merge_requests() {
    let merge = json!({"iid": 4, "title": "T", "source_branch": "f", "target_branch": "main", "sha": "abc",
        "author": {"username": "ada"}, "labels": ["preview"]});
    let (api, asked) =
        host(vec![("/api/v4/projects/g%2Fp/merge_requests?state=opened&per_page=100", json!([merge]))]).await;
    let block = json!({"gitlab": {"api": api, "project": "g/p", "tokenRef": {}}});
    let found = pulls(block).await;
    assert_eq!((found[0].number, found[0].labels.as_slice()), (4, &["preview".to_owned()][..]));
    assert!(asked.lock().expect("no panic")[0].starts_with("t0ken "));
}

#[tokio::test]
async fn github_lists_repositories_with_branches_and_paths() {
    let repository = |name: &str, archived: bool| {
        json!({"id": 7, "name": name, "owner": {"login": "o"}, "default_branch": "main", "archived": archived,
            "clone_url": format!("https://x/o/{name}.git"), "ssh_url": format!("git@x:o/{name}.git"), "topics": ["web"]})
    };
    let branch = |name: &str| json!({"name": name, "commit": {"sha": format!("sha-{name}")}});
    let (api, _) = host(vec![
        (
            "/api/v3/orgs/o/repos?per_page=100",
            json!([repository("shop", false), repository("old", true), repository("tool", false)]),
        ),
        ("/api/v3/repos/o/shop/branches?per_page=100", json!([branch("main"), branch("dev")])),
        ("/api/v3/repos/o/shop/contents/deploy/app.yaml?ref=main", json!({"path": "deploy/app.yaml"})),
    ])
    .await;
    let block = json!({"github": {"api": api, "organization": "o", "allBranches": true, "excludeArchivedRepos": true},
        "cloneProtocol": "https",
        "filters": [{"repositoryMatch": "^shop$", "labelMatch": "web", "pathsExist": ["deploy/app.yaml"]}]});
    let found = repositories(&question(block)).await.expect("answered");
    assert_eq!(found.len(), 1);
    assert_eq!(
        (found[0].url.as_str(), found[0].branch.as_str(), found[0].sha.as_str()),
        ("https://x/o/shop.git", "main", "sha-main")
    );
}

#[tokio::test]
async fn gitea_and_gitlab_list_repositories() {
    let (api, _) = host(vec![
        ("/api/v1/orgs/o/repos?limit=50", json!([{"id": 1, "name": "r", "owner": {"login": "o"}, "default_branch": "main", "ssh_url": "git@x:o/r.git"}])),
        ("/api/v1/repos/o/r/labels?limit=50", json!([{"name": "a"}, {"name": "b"}])),
        ("/api/v1/repos/o/r/branches/main", json!({"name": "main", "commit": {"id": "abc"}})),
    ])
    .await;
    let found =
        repositories(&question(json!({"gitea": {"api": api, "owner": "o"}}))).await.expect("answered");
    assert_eq!(
        (found[0].labels.join(","), found[0].sha.as_str(), found[0].url.as_str()),
        ("a,b".to_owned(), "abc", "git@x:o/r.git")
    );
    let (api, _) = host(vec![
        (
            "/api/v4/groups/g/projects?per_page=100&include_subgroups=false",
            json!([{"id": 9, "path": "r", "namespace": {"full_path": "g"},
            "default_branch": "main", "ssh_url_to_repo": "git@x:g/r.git", "topics": ["t"]}]),
        ),
        ("/api/v4/projects/9/repository/branches/main", json!({"name": "main", "commit": {"id": "abc"}})),
    ])
    .await;
    let found =
        repositories(&question(json!({"gitlab": {"api": api, "group": "g"}}))).await.expect("answered");
    assert_eq!(
        (found[0].organization.as_str(), found[0].repository.as_str(), found[0].sha.as_str()),
        ("g", "r", "abc")
    );
}

#[tokio::test]
async fn the_next_page_is_asked_of_the_same_host_whatever_it_calls_itself() {
    let pull = |number: i64| json!({"number": number, "head": {"ref": "f"}, "base": {"ref": "main"}});
    let (api, asked) = host(vec![
        (
            "/api/v1/repos/o/r/pulls?state=open&limit=50",
            json!({"link": "<https://evil.example/steal?state=open&limit=50&page=2>; rel=\"next\"",
                "items": [pull(1)]}),
        ),
        ("/api/v1/repos/o/r/pulls?state=open&limit=50&page=2", json!([pull(2)])),
    ])
    .await;
    let found = pulls(json!({"gitea": {"api": api, "owner": "o", "repo": "r"}})).await;
    assert_eq!(found.iter().map(|pull| pull.number).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(asked.lock().expect("no panic").len(), 2);
}

#[test]
fn a_host_that_is_not_allowed_is_refused_before_anybody_touches_a_token() {
    let block = json!({"github": {"api": "https://evil.example", "owner": "o", "repo": "r", "tokenRef": {}}});
    let list = "https://git.example/, https://api.github.com";
    let refused = |block: &Value, list| Draft::read(block, list).err().expect("refused");
    assert!(refused(&block, Some(list)).contains("allowed.scm.providers"));
    let server = json!({"bitbucketServer": {"api": "https://git.example.evil", "project": "P"}});
    assert!(refused(&server, Some(list)).contains("allowed.scm.providers"));
    assert!(refused(&json!({"svn": {}}), None).contains("no provider is named"));
    assert!(refused(&json!({"bitbucketServer": {}}), None).contains("needs the address of its host"));
    let protocol = json!({"github": {}, "cloneProtocol": "ftp"});
    assert!(refused(&protocol, None).contains("use ssh or https"));
}

#[test]
fn addresses_are_understood_as_users_write_them() {
    let api = |block: Value| Draft::read(&block, None).unwrap_or_else(|error| panic!("{error}")).api;
    for (block, expected) in [
        (json!({"github": {}}), "https://api.github.com"),
        (json!({"github": {"api": "https://git.example/"}}), "https://git.example/api/v3"),
        (json!({"github": {"api": "https://git.example/api/v3/"}}), "https://git.example/api/v3"),
        (json!({"github": {"api": "https://api.corp.ghe.com"}}), "https://api.corp.ghe.com"),
        (json!({"gitlab": {}}), "https://gitlab.com/api/v4"),
        (json!({"bitbucket": {}}), "https://api.bitbucket.org/2.0"),
        (json!({"bitbucketServer": {"api": "https://b.example/ctx"}}), "https://b.example/ctx/rest/api/1.0"),
        (json!({"bitbucketServer": {"api": "https://b.example/rest/"}}), "https://b.example/rest/api/1.0"),
        (json!({"azureDevOps": {"organization": "my org"}}), "https://dev.azure.com/my%20org"),
    ] {
        assert_eq!(api(block.clone()), expected, "{block}");
    }
}

#[test]
fn the_app_of_a_github_enterprise_says_where_that_is_unless_the_block_does() {
    let draft = |block: Value| Draft::read(&block, None).unwrap_or_else(|error| panic!("{error}"));
    let mut named = draft(json!({"github": {"appSecretName": "app"}}));
    assert_eq!(named.key, Key::App("app".into()));
    named.at_enterprise("https://git.example/api/v3/");
    assert_eq!(named.api, "https://git.example/api/v3");
    let mut own = draft(json!({"github": {"appSecretName": "app", "api": "https://other.example"}}));
    own.at_enterprise("https://git.example/api/v3");
    assert_eq!(own.api, "https://other.example/api/v3");
}
