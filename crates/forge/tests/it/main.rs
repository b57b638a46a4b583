//! Calls and lists against the real Gitea.

use serde_json::{Value, json};
use slipway_forge::lists::{Carrier, Host, Question, Scope};
use slipway_forge::remote::{Answer, Call, NewPullRequest, OpenedPullRequest, Provider};
use slipway_testkit::gitea;

/// Carries calls to the test's Gitea, and counts them.
struct Way {
    server: &'static gitea::Server,
    token: String,
    api: String,
    calls: std::sync::atomic::AtomicUsize,
}

impl Way {
    fn send(&self, call: &Call) -> Answer {
        self.calls.fetch_add(1, std::sync::atomic::Ordering::SeqCst);
        let url = format!("{}{}", self.api, call.path);
        let method = call.method.to_owned();
        let (token, body) = (self.token.clone(), call.body.clone());
        std::thread::spawn(move || carry(&url, &method, &token, body)).join().expect("carried")
    }
}

/// By curl: the room itself opens no connection, and neither do its dependencies.
fn carry(url: &str, method: &str, token: &str, body: Option<Value>) -> Answer {
    let mut curl = std::process::Command::new("curl");
    curl.args(["-sS", "-i", "-X", method, "-H", &format!("Authorization: token {token}")]);
    if let Some(body) = body {
        curl.args(["-H", "content-type: application/json", "-d", &body.to_string()]);
    }
    let output = curl.arg(url).output().expect("curl runs");
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let (head, body) = text.split_once("\r\n\r\n").expect("an answer");
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status");
    let link = head.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("link").then(|| value.trim().to_owned())
    });
    Answer { status, body: body.as_bytes().to_vec(), link }
}

impl Carrier for Way {
    fn api(&self) -> &str {
        &self.api
    }

    async fn carry(&self, call: &Call) -> Result<Answer, String> {
        Ok(self.send(call))
    }
}

fn way() -> (Way, String, String) {
    let server = gitea::shared();
    let org = server.name("org");
    server.org(&org);
    server.repo(&org, "app");
    let (api, token) = (format!("{}/api/v1", server.url()), server.admin_token().to_owned());
    let way = Way { server, token, api, calls: Default::default() };
    let repo = format!("{org}/app");
    (way, org, repo)
}

/// A branch with one more file than `main`.
fn branch(way: &Way, repo: &str, name: &str) {
    let content = "eA==";
    let body = json!({"content": content, "message": "x", "branch": "main", "new_branch": name});
    way.server.api("POST", &format!("/repos/{repo}/contents/{name}.txt"), Some(body));
}

fn open(way: &Way, repo: &str, branch: &str) -> OpenedPullRequest {
    let new = NewPullRequest { title: "Promote", body: "to production", branch, target: "main" };
    let answer = way.send(&Provider::Gitea.open_pull_request(repo, &new));
    Provider::Gitea.read_opened(&answer).expect("opened")
}

async fn listed(way: &Way, org: &str) -> Vec<(i64, String, String)> {
    let scope = Scope { owner: org.to_owned(), repo: "app".into(), ..Scope::default() };
    let question = Question { host: Host::Gitea, scope: &scope, carrier: way };
    let found = question.pull_requests().await.expect("a list");
    found.into_iter().map(|pull| (pull.number, pull.branch, pull.head_sha)).collect()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_pull_request_is_opened_listed_merged_or_closed() {
    let (way, org, repo) = tokio::task::spawn_blocking(way).await.expect("a Gitea");
    branch(&way, &repo, "promote-a");
    branch(&way, &repo, "promote-b");
    let (a, b) = (open(&way, &repo, "promote-a"), open(&way, &repo, "promote-b"));
    assert!(a.url.contains(&repo) && a.head_sha.len() == 40, "{a:?}");
    let expected = [
        (b.number, "promote-b".to_owned(), b.head_sha.clone()),
        (a.number, "promote-a".to_owned(), a.head_sha.clone()),
    ];
    let mut found = listed(&way, &org).await;
    found.sort_by_key(|(number, ..)| std::cmp::Reverse(*number));
    assert_eq!(found, expected);

    // Not one that has moved since it was seen.
    let moved = OpenedPullRequest { head_sha: "0".repeat(40), ..a.clone() };
    let refused = way.send(&Provider::Gitea.merge_pull_request(&repo, &moved));
    assert!(Provider::Gitea.check(&refused).is_err(), "{refused:?}");
    let merge = Provider::Gitea.merge_pull_request(&repo, &a);
    let end = std::time::Instant::now() + slipway_testkit::PATIENCE;
    // Gitea looks for conflicts in the background, and says 405 until it knows.
    while let Err(error) = Provider::Gitea.check(&way.send(&merge)) {
        assert!(std::time::Instant::now() < end, "{error}");
        tokio::time::sleep(std::time::Duration::from_millis(200)).await;
    }
    let close = Provider::Gitea.close_pull_request(&repo, &b);
    assert_eq!(Provider::Gitea.check(&way.send(&close)), Ok(()));
    assert_eq!(listed(&way, &org).await, []);
    let there = way.send(&Provider::Gitea.file(&repo, "main", "promote-a.txt"));
    assert_eq!(Provider::Gitea.read_file(&there).expect("merged"), b"x");
    assert_eq!(way.send(&Provider::Gitea.file(&repo, "main", "promote-b.txt")).status, 404);
}

#[tokio::test(flavor = "multi_thread")]
async fn repositories_are_listed_page_by_page() {
    let (way, org, _) = tokio::task::spawn_blocking(way).await.expect("a Gitea");
    for number in 0..54 {
        way.server.repo(&org, &format!("more-{number:02}"));
    }
    let scope = Scope { owner: org.clone(), https: true, archived: true, ..Scope::default() };
    let question = Question { host: Host::Gitea, scope: &scope, carrier: &way };
    let found = question.repositories().await.expect("a list");
    assert_eq!(found.len(), 55, "pages of fifty");
    let app = found.iter().find(|listed| listed.entry.repository == "app").expect("the first one");
    assert!(app.entry.url.ends_with(&format!("/{org}/app.git")), "{}", app.entry.url);
    let branches = question.branches(app).await.expect("branches");
    assert_eq!(branches.len(), 1);
    assert!(question.has_path(app, &branches[0], "README.md").await.expect("asked"));
    assert!(!question.has_path(app, &branches[0], "none/at/all").await.expect("asked"));
}
