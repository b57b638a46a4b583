//! One contract for all providers; the payloads are ours, in the shapes that each provider documents.

use aws_lc_rs::hmac;
use serde_json::{Value, json};

use super::*;

const SECRET: &str = "a-secret-of-this-hook-alone";
const OLD: &str = "1111111111111111111111111111111111111111";
const NEW: &str = "2222222222222222222222222222222222222222";
const NONE: &str = "0000000000000000000000000000000000000000";

fn sign(body: &[u8], secret: &str) -> String {
    hex::encode(hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, secret.as_bytes()), body))
}

/// Headers as the provider sends them, signed with `secret`.
fn headers(provider: Provider, event: &str, body: &[u8], secret: &str) -> Headers {
    let all: Vec<(&str, String)> = match provider {
        Provider::GitHub => vec![
            ("X-GitHub-Event", event.into()),
            ("X-GitHub-Delivery", "d-1".into()),
            ("X-Hub-Signature-256", format!("sha256={}", sign(body, secret))),
        ],
        Provider::Gitea => vec![
            ("X-Gitea-Event", event.into()),
            ("X-Gitea-Delivery", "d-1".into()),
            ("X-Gitea-Signature", sign(body, secret)),
        ],
        Provider::GitLab => vec![
            ("X-Gitlab-Event", event.into()),
            ("X-Gitlab-Event-UUID", "d-1".into()),
            ("X-Gitlab-Token", secret.into()),
        ],
        Provider::BitbucketCloud => vec![
            ("X-Event-Key", event.into()),
            ("X-Request-UUID", "d-1".into()),
            ("X-Hub-Signature", format!("sha256={}", sign(body, secret))),
        ],
        Provider::BitbucketServer => vec![
            ("X-Event-Key", event.into()),
            ("X-Request-Id", "d-1".into()),
            ("X-Hub-Signature", format!("sha256={}", sign(body, secret))),
        ],
    };
    Headers::new(all)
}

fn push(provider: Provider, reference: &str, before: &str, after: &str) -> (&'static str, Value) {
    let (kind, name) = reference.strip_prefix("refs/").unwrap().split_once('/').unwrap();
    let commit = json!({
        "id": after, "message": "Fix it\n", "url": "https://h/c", "author": {"name": "Ada"},
        "added": ["docs/new.md"], "modified": ["src/a.rs"], "removed": [],
    });
    match provider {
        Provider::GitHub | Provider::Gitea => (
            "push",
            json!({
                "ref": reference, "before": before, "after": after, "repository": {"full_name": "acme/app"},
                "head_commit": commit, "commits": [commit], "sender": {"login": "ada"}, "pusher": {"login": "ada"},
            }),
        ),
        Provider::GitLab => (
            if kind == "tags" { "Tag Push Hook" } else { "Push Hook" },
            json!({
                "ref": reference, "before": before, "after": after, "user_username": "ada", "user_name": "Ada",
                "project": {"path_with_namespace": "acme/app"}, "commits": [commit], "total_commits_count": 1,
            }),
        ),
        Provider::BitbucketCloud => {
            let kind = if kind == "tags" { "tag" } else { "branch" };
            let side = |sha: &str| match sha {
                NONE => Value::Null,
                sha => json!({"type": kind, "name": name, "target": {
                    "hash": sha, "message": "Fix it\n", "author": {"user": {"display_name": "Ada"}},
                    "links": {"html": {"href": "https://h/c"}},
                }}),
            };
            let change = json!({"old": side(before), "new": side(after)});
            (
                "repo:push",
                json!({"repository": {"full_name": "acme/app"}, "actor": {"nickname": "ada"}, "push": {"changes": [change]}}),
            )
        }
        Provider::BitbucketServer => (
            "repo:refs_changed",
            json!({
                "repository": {"slug": "app", "project": {"key": "acme"}}, "actor": {"name": "ada", "displayName": "Ada"},
                "changes": [{"refId": reference, "fromHash": before, "toHash": after, "type": "UPDATE"}],
            }),
        ),
    }
}

fn pull_request(provider: Provider, fork: bool) -> (&'static str, Value) {
    let (base, head) = (7, if fork { 8 } else { 7 });
    match provider {
        Provider::GitHub | Provider::Gitea => (
            "pull_request",
            json!({
                "action": "opened", "repository": {"full_name": "acme/app"}, "sender": {"login": "ada"},
                "pull_request": {
                    "number": 5, "title": "Better", "html_url": "https://h/pr/5", "merged": false, "user": {"login": "ada"},
                    "labels": [{"name": "now"}], "base": {"ref": "main", "repo": {"id": base, "full_name": "acme/app"}},
                    "head": {"ref": "feature", "sha": NEW, "repo": {"id": head, "full_name": "acme/app"}},
                },
            }),
        ),
        Provider::GitLab => (
            "Merge Request Hook",
            json!({
                "project": {"path_with_namespace": "acme/app"}, "user": {"username": "ada"}, "labels": [{"title": "now"}],
                "object_attributes": {
                    "iid": 5, "action": "open", "title": "Better", "url": "https://h/pr/5", "source_branch": "feature",
                    "target_branch": "main", "source_project_id": head, "target_project_id": base, "state": "opened",
                    "source": {"path_with_namespace": "acme/app"}, "last_commit": {"id": NEW, "author": {"name": "Ada"}},
                },
            }),
        ),
        Provider::BitbucketCloud => (
            "pullrequest:created",
            json!({
                "repository": {"full_name": "acme/app"}, "actor": {"nickname": "ada"},
                "pullrequest": {
                    "id": 5, "title": "Better", "state": "OPEN", "author": {"display_name": "Ada"},
                    "links": {"html": {"href": "https://h/pr/5"}},
                    "source": {"branch": {"name": "feature"}, "commit": {"hash": NEW}, "repository": {"uuid": format!("{{{head}}}"), "full_name": "acme/app"}},
                    "destination": {"branch": {"name": "main"}, "repository": {"uuid": format!("{{{base}}}")}},
                },
            }),
        ),
        Provider::BitbucketServer => (
            "pr:opened",
            json!({
                "actor": {"name": "ada"},
                "pullRequest": {
                    "id": 5, "title": "Better", "state": "OPEN", "author": {"user": {"displayName": "Ada"}},
                    "links": {"self": [{"href": "https://h/pr/5"}]},
                    "fromRef": {"displayId": "feature", "latestCommit": NEW, "repository": {"id": head, "slug": "app", "project": {"key": "acme"}}},
                    "toRef": {"displayId": "main", "repository": {"id": base, "slug": "app", "project": {"key": "acme"}}},
                },
            }),
        ),
    }
}

fn read(provider: Provider, (event, body): (&str, Value)) -> Result<Vec<RepoEvent>, Malformed> {
    let bytes = body.to_string().into_bytes();
    provider.parse(&headers(provider, event, &bytes, SECRET), &bytes)
}

#[track_caller]
fn one(provider: Provider, what: (&str, Value)) -> RepoEvent {
    let mut events = read(provider, what).unwrap();
    assert_eq!(events.len(), 1, "{provider:?}");
    events.remove(0)
}

#[test]
fn a_push_is_read_alike_from_all() {
    for provider in Provider::ALL {
        let event = one(provider, push(provider, "refs/heads/release/1.x", OLD, NEW));
        assert_eq!(event.repo, "acme/app", "{provider:?}");
        assert_eq!(event.events, ["push", "push.heads"], "{provider:?}");
        assert_eq!((event.branch.as_str(), event.sha.as_str()), ("release/1.x", NEW), "{provider:?}");
        assert_eq!((event.author.as_str(), event.sender.as_str()), ("Ada", "ada"), "{provider:?}");
        assert_eq!(event.cause, format!("push:refs/heads/release/1.x:{OLD}:{NEW}"), "{provider:?}");
        assert_eq!(event.provider, provider.name());
        let told = matches!(provider, Provider::GitHub | Provider::Gitea | Provider::GitLab);
        let paths = told.then(|| vec!["docs/new.md".to_owned(), "src/a.rs".to_owned()]);
        assert_eq!(event.changed_paths, paths, "{provider:?}");

        let made = one(provider, push(provider, "refs/heads/new", NONE, NEW));
        assert_eq!(made.events, ["push", "push.heads", "push.newBranch"], "{provider:?}");
        let tag = one(provider, push(provider, "refs/tags/v1", NONE, NEW));
        assert_eq!(tag.events, ["push", "push.tags"], "{provider:?}");
        let gone = one(provider, push(provider, "refs/heads/old", OLD, NONE));
        assert_eq!(
            (gone.events.as_slice(), gone.sha.as_str()),
            (&["push.deleteBranch".to_owned()][..], ""),
            "{provider:?}"
        );
    }
}

#[test]
fn a_pull_request_is_read_alike_and_a_fork_is_known_by_ids_not_names() {
    for provider in Provider::ALL {
        for fork in [false, true] {
            let event = one(provider, pull_request(provider, fork));
            assert!(event.events.contains(&"pullrequest".to_owned()), "{provider:?}: {:?}", event.events);
            assert!(
                event.events.contains(&"pullrequest.opened".to_owned()),
                "{provider:?}: {:?}",
                event.events
            );
            let pull_request = event.pull_request.unwrap();
            // Both say that they are `acme/app`.
            assert_eq!(pull_request.is_fork, fork, "{provider:?}");
            assert_eq!((pull_request.number, pull_request.target.as_str()), (5, "main"), "{provider:?}");
            assert_eq!((event.branch.as_str(), event.sha.as_str()), ("feature", NEW), "{provider:?}");
        }
    }
}

/// K24: whatever is not signed with this hook's secret over exactly this body is refused.
#[test]
fn only_the_right_signature_over_the_right_body_is_believed() {
    for provider in Provider::ALL {
        let (event, body) = push(provider, "refs/heads/main", OLD, NEW);
        let body = body.to_string().into_bytes();
        let good = headers(provider, event, &body, SECRET);
        assert_eq!(provider.verify(&good, &body, SECRET), Ok(()), "{provider:?}");
        assert_eq!(provider.verify(&good, &body, "another hook's"), Err(Rejected::Wrong), "{provider:?}");
        assert_eq!(
            provider.verify(&Headers::default(), &body, SECRET),
            Err(Rejected::Missing),
            "{provider:?}"
        );
        let twice = Headers([good.0.clone(), good.0.clone()].concat());
        assert_eq!(provider.verify(&twice, &body, SECRET), Err(Rejected::Missing), "{provider:?}: twice");
        if provider == Provider::GitLab {
            continue;
        }
        assert_eq!(provider.verify(&good, b"", SECRET), Err(Rejected::Wrong), "{provider:?}: another body");
        let with = |value: &str| {
            let names = ["x-hub-signature-256", "x-hub-signature", "x-gitea-signature"];
            Headers::new(names.map(|name| (name, value.to_owned())))
        };
        let sha1 = "sha1=da39a3ee5e6b4b0d3255bfef95601890afd80709";
        for bad in
            ["", "sha256=", "sha256=00", sha1, "sha512=00", &format!("sha256={}zz", sign(&body, SECRET))]
        {
            assert_eq!(
                provider.verify(&with(bad), &body, SECRET),
                Err(Rejected::Shape),
                "{provider:?}: {bad}"
            );
        }
    }
}

/// K25: a body that is signed and nonsense is refused with a sentence; nothing ends the process.
#[test]
fn nonsense_is_refused_and_nothing_more_happens() {
    for provider in Provider::ALL {
        for (event, body) in [push(provider, "refs/heads/main", OLD, NEW), pull_request(provider, false)] {
            // Every value of the body replaced by something of another kind, one at a time.
            let paths = paths_of(&body, String::new());
            assert!(paths.len() > 5);
            for path in &paths {
                for wrong in
                    [Value::Null, json!([]), json!({}), json!(-1), json!("x"), json!([null, {"a": []}])]
                {
                    let mut changed = body.clone();
                    *changed.pointer_mut(path).unwrap() = wrong;
                    let _ = read(provider, (event, changed));
                }
            }
            for bytes in [&b"null"[..], b"[]", b"", b"{", b"\xff\xfe", &[b'['; 100_000], &[b'{'; 1000]] {
                assert!(
                    provider.parse(&headers(provider, event, bytes, SECRET), bytes).is_err(),
                    "{provider:?}"
                );
            }
        }
        assert!(read(provider, ("something.new", json!({}))).unwrap().is_empty(), "{provider:?}");
    }
}

fn paths_of(value: &Value, at: String) -> Vec<String> {
    let children: Vec<_> = match value {
        Value::Object(map) => map.iter().map(|(name, value)| (name.clone(), value)).collect(),
        Value::Array(list) => {
            list.iter().enumerate().map(|(index, value)| (index.to_string(), value)).collect()
        }
        _ => Vec::new(),
    };
    let mut all: Vec<_> =
        children.iter().flat_map(|(name, value)| paths_of(value, format!("{at}/{name}"))).collect();
    all.push(at);
    all
}

/// K29: names from outside follow Git's rules or are refused.
#[test]
fn references_that_git_would_refuse_are_refused() {
    for bad in
        ["a b", "a..b", "a@{1}", "-x", "a\nb", "$(touch x)", "`x`", "a/", "/a", "x.lock", "a\\b", "a:b"]
    {
        let pushed = push(Provider::GitHub, &format!("refs/heads/{bad}"), OLD, NEW);
        assert!(read(Provider::GitHub, pushed).is_err(), "{bad}");
    }
    assert!(read(Provider::GitHub, push(Provider::GitHub, "refs/notes/x", OLD, NEW)).unwrap().is_empty());
    let not_a_commit = push(Provider::GitHub, "refs/heads/main", OLD, "HEAD; rm -rf /");
    assert!(read(Provider::GitHub, not_a_commit).is_err());
}

#[test]
fn comments_count_as_much_as_their_author() {
    let body = |association: &str| {
        json!({
            "action": "created", "repository": {"full_name": "acme/app"}, "sender": {"login": "eve"},
            "issue": {"number": 5, "title": "Better", "user": {"login": "ada"}, "pull_request": {"url": "x"}},
            "comment": {"body": "/test", "user": {"login": "eve"}, "author_association": association},
        })
    };
    let stranger = one(Provider::GitHub, ("issue_comment", body("CONTRIBUTOR")));
    assert_eq!(stranger.events, ["pullrequest.commentAddedUnrestricted"]);
    let member = one(Provider::GitHub, ("issue_comment", body("MEMBER")));
    assert_eq!(member.events, ["pullrequest.commentAddedUnrestricted", "pullrequest.commentAdded"]);
    assert!(member.pull_request.unwrap().is_fork, "a fork until the provider says otherwise");
    let mut on_issue = body("OWNER");
    on_issue["issue"].as_object_mut().unwrap().remove("pull_request");
    assert!(read(Provider::GitHub, ("issue_comment", on_issue)).unwrap().is_empty());
}

#[test]
fn calls_are_what_each_api_documents() {
    let status =
        CommitStatus { state: CommitState::Failure, title: "ci/build", description: "d", url: "https://s/b" };
    for (provider, path, state) in [
        (Provider::GitHub, format!("/repos/acme/app/statuses/{NEW}"), "failure"),
        (Provider::Gitea, format!("/repos/acme/app/statuses/{NEW}"), "failure"),
        (Provider::GitLab, format!("/projects/acme%2Fapp/statuses/{NEW}"), "failed"),
        (Provider::BitbucketCloud, format!("/repositories/acme/app/commit/{NEW}/statuses/build"), "FAILED"),
        (Provider::BitbucketServer, format!("/../../build-status/1.0/commits/{NEW}"), "FAILED"),
    ] {
        let call = provider.status("acme/app", NEW, &status);
        assert_eq!((call.method, call.path), ("POST", path), "{provider:?}");
        assert_eq!(call.body.unwrap()["state"], state, "{provider:?}");
        let register = provider.register("acme/app", "https://s/hook", SECRET).body.unwrap().to_string();
        assert!(register.contains("https://s/hook") && register.contains(SECRET), "{provider:?}");
        assert!(provider.file("acme/app", "main", "a b/c.yml").path.contains("a%20b"), "{provider:?}");
    }
    let answer = |value: Value| Answer { status: 200, body: value.to_string().into_bytes(), link: None };
    for (provider, list) in [
        (Provider::GitHub, json!([{"name": "main", "commit": {"sha": NEW}}])),
        (Provider::Gitea, json!([{"name": "main", "commit": {"id": NEW}}])),
        (Provider::GitLab, json!([{"name": "main", "commit": {"id": NEW}}])),
        (Provider::BitbucketCloud, json!({"values": [{"name": "main", "target": {"hash": NEW}}]})),
        (Provider::BitbucketServer, json!({"values": [{"displayId": "main", "latestCommit": NEW}]})),
    ] {
        let branches = provider.read_branches(&answer(list)).unwrap();
        assert_eq!(branches, [("main".to_owned(), NEW.to_owned())], "{provider:?}");
        let refused = Answer { status: 503, body: b"later".to_vec(), link: None };
        assert!(provider.read_branches(&refused).unwrap_err().may_pass(), "{provider:?}");
    }
}

#[test]
fn a_list_is_read_to_its_last_page() {
    let answer = |value: Value| Answer { status: 200, body: value.to_string().into_bytes(), link: None };
    let list = |count: usize| Value::Array(vec![json!({"name": "b"}); count]);
    for (provider, full) in [(Provider::GitHub, 100), (Provider::GitLab, 100), (Provider::Gitea, 50)] {
        let first = provider.branches("acme/app");
        let second = provider.next_page(&first, &answer(list(full))).unwrap();
        assert_eq!(second.path, format!("{}&page=2", first.path), "{provider:?}");
        let third = provider.next_page(&second, &answer(list(full))).unwrap();
        assert_eq!(third.path, format!("{}&page=3", first.path), "{provider:?}");
        for last in [full - 1, 0] {
            assert_eq!(provider.next_page(&third, &answer(list(last))), None, "{provider:?}");
        }
        // What they say in a header counts, however long their pages are.
        let linked = |count, link: &str| Answer { link: Some(link.into()), ..answer(list(count)) };
        let more = linked(30, "<https://x/y?page=2>; rel=\"next\", <https://x/y?page=4>; rel=\"last\"");
        assert_eq!(provider.next_page(&first, &more).unwrap().path, second.path, "{provider:?}");
        let last = linked(full, "<https://x/y?page=1>; rel=\"first\"");
        assert_eq!(provider.next_page(&first, &last), None, "{provider:?}");
    }
    let (cloud, first) = (Provider::BitbucketCloud, Provider::BitbucketCloud.hooks("acme/app"));
    let page = json!({"values": [], "next": "https://api.bitbucket.org/2.0/x?page=2"});
    assert_eq!(cloud.next_page(&first, &answer(page)).unwrap().path, format!("{}&page=2", first.path));
    assert_eq!(cloud.next_page(&first, &answer(json!({"values": []}))), None);
    let (server, first) = (Provider::BitbucketServer, Provider::BitbucketServer.branches("acme/app"));
    let page =
        |last: bool, start: u64| answer(json!({"values": [], "isLastPage": last, "nextPageStart": start}));
    let second = server.next_page(&first, &page(false, 100)).unwrap();
    assert_eq!(second.path, format!("{}&start=100", first.path));
    let third = server.next_page(&second, &page(false, 200)).unwrap();
    assert_eq!(third.path, format!("{}&start=200", first.path));
    assert_eq!(server.next_page(&third, &page(true, 300)), None);
    let refused = Answer { status: 404, body: b"[]".to_vec(), link: None };
    assert_eq!(Provider::GitHub.next_page(&Provider::GitHub.hooks("acme/app"), &refused), None);
}

/// Which files a pull request or a push changed, with both names of one that was renamed.
#[test]
fn changed_files_are_asked_for_and_read_of_every_provider() {
    let cases = [
        (
            Provider::GitHub,
            "/repos/acme/app/pulls/7/files?per_page=100",
            json!([{"filename": "new.rs", "previous_filename": "old.rs"}]),
        ),
        (
            Provider::Gitea,
            "/repos/acme/app/pulls/7/files?limit=50",
            json!([{"filename": "new.rs", "previous_filename": "old.rs"}]),
        ),
        (
            Provider::GitLab,
            "/projects/acme%2Fapp/merge_requests/7/diffs?per_page=100",
            json!([{"new_path": "new.rs", "old_path": "old.rs"}]),
        ),
        (
            Provider::BitbucketCloud,
            "/repositories/acme/app/pullrequests/7/diffstat?pagelen=100",
            json!({"values": [{"new": {"path": "new.rs"}, "old": {"path": "old.rs"}}]}),
        ),
        (
            Provider::BitbucketServer,
            "/projects/acme/repos/app/pull-requests/7/changes?limit=100",
            json!({"values": [{"path": {"toString": "new.rs"}, "srcPath": {"toString": "old.rs"}}], "isLastPage": true}),
        ),
    ];
    for (provider, path, body) in cases {
        assert_eq!(provider.pull_request_files("acme/app", 7).path, path, "{provider:?}");
        let answer = |body: &Value| Answer { status: 200, body: body.to_string().into_bytes(), link: None };
        let files = provider.read_changed_files(&answer(&body)).unwrap();
        assert_eq!(files, ["new.rs", "old.rs"], "{provider:?}");
        let unknown = provider.read_changed_files(&answer(&json!([{"x": 1}])));
        assert!(unknown.is_err(), "{provider:?}: what is not understood is not an empty list");
    }
    let compared = json!({"commits": [], "files": [{"filename": "a"}]});
    let answer = Answer { status: 200, body: compared.to_string().into_bytes(), link: None };
    assert_eq!(Provider::GitHub.read_changed_files(&answer).unwrap(), ["a"]);
    let by_commit = json!({"total_commits": 1, "commits": [{"files": [{"filename": "a"}]}, {"files": [{"filename": "b"}]}]});
    let answer = Answer { status: 200, body: by_commit.to_string().into_bytes(), link: None };
    assert_eq!(Provider::Gitea.read_changed_files(&answer).unwrap(), ["a", "b"]);
    let call = Provider::BitbucketCloud.changed_files("acme/app", "1111111", "2222222");
    assert_eq!(call.path, "/repositories/acme/app/diffstat/2222222..1111111?pagelen=100");
}

#[test]
fn pull_requests_are_opened_merged_and_closed_in_the_words_of_each_provider() {
    let new = NewPullRequest { title: "t", body: "b", branch: "promote/x", target: "main" };
    let (number, version) = (7, 3);
    for (provider, opened, merge, close) in [
        (
            Provider::GitHub,
            json!({"number": 7, "html_url": "u", "head": {"sha": "abc"}}),
            "PUT /repos/o/r/pulls/7/merge",
            "PATCH /repos/o/r/pulls/7",
        ),
        (
            Provider::Gitea,
            json!({"number": 7, "html_url": "u", "head": {"sha": "abc"}}),
            "POST /repos/o/r/pulls/7/merge",
            "PATCH /repos/o/r/pulls/7",
        ),
        (
            Provider::GitLab,
            json!({"iid": 7, "web_url": "u", "sha": "abc"}),
            "PUT /projects/o%2Fr/merge_requests/7/merge",
            "PUT /projects/o%2Fr/merge_requests/7",
        ),
        (
            Provider::BitbucketCloud,
            json!({"id": 7, "links": {"html": {"href": "u"}}, "source": {"commit": {"hash": "abc"}}}),
            "POST /repositories/o/r/pullrequests/7/merge",
            "POST /repositories/o/r/pullrequests/7/decline",
        ),
        (
            Provider::BitbucketServer,
            json!({"id": 7, "version": 3, "links": {"self": [{"href": "u"}]}, "fromRef": {"latestCommit": "abc"}}),
            "POST /projects/o/repos/r/pull-requests/7/merge?version=3",
            "POST /projects/o/repos/r/pull-requests/7/decline?version=3",
        ),
    ] {
        let call = provider.open_pull_request("o/r", &new);
        let body = call.body.expect("a body").to_string();
        assert!(
            call.method == "POST" && body.contains("promote/x") && body.contains("main"),
            "{provider:?}: {body}"
        );
        let answer = Answer { status: 201, body: opened.to_string().into_bytes(), link: None };
        let seen = provider.read_opened(&answer).unwrap();
        let expected = OpenedPullRequest {
            number,
            version: if provider == Provider::BitbucketServer { version } else { 0 },
            url: "u".into(),
            head_sha: "abc".into(),
        };
        assert_eq!(seen, expected, "{provider:?}");
        let words = |call: Call| format!("{} {}", call.method, call.path);
        assert_eq!(words(provider.merge_pull_request("o/r", &seen)), merge);
        assert_eq!(words(provider.close_pull_request("o/r", &seen)), close);
        let odd = Answer { status: 200, body: b"{\"id\": \"x\"}".to_vec(), link: None };
        assert!(provider.read_opened(&odd).is_err(), "{provider:?}");
    }
}
