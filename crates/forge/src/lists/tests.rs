//! What each host calls a branch and a path, answered by a table. The runtime's tests ask the same over HTTP.

use std::collections::BTreeMap;

use serde_json::json;

use super::*;

/// Answers by path; everything else is not there.
struct Table(BTreeMap<&'static str, Value>);

impl Carrier for Table {
    fn api(&self) -> &str {
        "https://host.example"
    }

    async fn carry(&self, call: &Call) -> Result<Answer, String> {
        Ok(match self.0.get(call.path.as_str()) {
            Some(found) => Answer { status: 200, body: found.to_string().into_bytes(), link: None },
            None => Answer {
                status: 404,
                body: br#"{"typeKey": "GitItemNotFoundException"}"#.to_vec(),
                link: None,
            },
        })
    }
}

fn listed(key: &str) -> Listed {
    Listed { key: key.to_owned(), entry: Entry { branch: "main".into(), ..Entry::default() } }
}

#[tokio::test]
async fn branches_and_paths_are_read_as_each_host_names_them() {
    let main = |sha: Value| json!({"name": "main", "commit": sha});
    for (host, key, answers) in [
        (
            Host::GitHub,
            "o/r",
            vec![
                ("/repos/o/r/branches/main", main(json!({"sha": "abc"}))),
                ("/repos/o/r/contents/a/b?ref=main", json!([{"name": "x"}])),
            ],
        ),
        (
            Host::GitLab,
            "9",
            vec![
                ("/projects/9/repository/branches/main", main(json!({"id": "abc"}))),
                ("/projects/9/repository/files/a%2Fb?ref=main", json!({})),
            ],
        ),
        (
            Host::Bitbucket,
            "/repositories/o/r",
            vec![
                ("/repositories/o/r/refs/branches/main", json!({"name": "main", "target": {"hash": "abc"}})),
                ("/repositories/o/r/src/abc/a/b?format=meta", json!({})),
            ],
        ),
        (
            Host::BitbucketServer,
            "/projects/o/repos/r",
            vec![
                ("/projects/o/repos/r/branches/default", json!({"displayId": "main", "latestCommit": "abc"})),
                ("/projects/o/repos/r/browse/a/b?at=main&type=true&limit=100", json!({"type": "FILE"})),
            ],
        ),
        (
            Host::Azure,
            "/p/r",
            vec![
                ("/p/r/stats/branches?name=main&api-version=7.0", main(json!({"commitId": "abc"}))),
                (
                    "/p/r/items?path=a%2Fb&versionDescriptor.versionType=branch&versionDescriptor.version=main&$format=json&api-version=7.0",
                    json!({}),
                ),
            ],
        ),
    ] {
        let (table, scope, listed) = (Table(answers.into_iter().collect()), Scope::default(), listed(key));
        let question = Question { host, scope: &scope, carrier: &table };
        let branches = question.branches(&listed).await.unwrap_or_else(|error| panic!("{host:?}: {error:?}"));
        assert_eq!(branches, [Branch { name: "main".into(), sha: "abc".into() }], "{host:?}");
        for (path, there) in [("/a/b/", true), ("a/c", false)] {
            let found = question.has_path(&listed, &branches[0], path).await;
            assert_eq!(found.unwrap_or_else(|error| panic!("{host:?}: {error:?}")), there, "{host:?} {path}");
        }
    }
}

#[tokio::test]
async fn an_answer_that_is_no_list_is_an_error_and_never_an_empty_list() {
    for (host, path) in [
        (Host::GitHub, "/orgs/o/repos?per_page=100"),
        (Host::GitLab, "/groups/o/projects?per_page=100&include_subgroups=false&with_shared=false"),
        (Host::Bitbucket, "/repositories/o?role=member&pagelen=100"),
        (Host::BitbucketServer, "/projects/o/repos?limit=100"),
    ] {
        let table = Table(BTreeMap::from([(path, json!({"message": "sign in"}))]));
        let scope = Scope { owner: "o".into(), ..Scope::default() };
        let question = Question { host, scope: &scope, carrier: &table };
        let error = question.repositories().await.expect_err("no list").into_message();
        assert!(error.contains("does not answer a list"), "{host:?}: {error}");
    }
}
