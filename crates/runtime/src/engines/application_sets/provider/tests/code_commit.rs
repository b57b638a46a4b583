//! AWS CodeCommit.

use super::*;
use crate::engines::application_sets::aws::Session;

/// Answers by target and input, and notes what was asked.
async fn amazon(answers: Vec<(&'static str, Value, Value)>) -> (String, Asked) {
    let asked = Asked::default();
    let notes = asked.clone();
    let answers = Arc::new(answers);
    let router = axum::Router::new().fallback(move |headers: HeaderMap, body: String| {
        let (answers, notes) = (answers.clone(), notes.clone());
        async move {
            let header =
                |name: &str| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
            let target = header("x-amz-target").rsplit('.').next().unwrap_or_default().to_owned();
            let by = header("authorization");
            notes.lock().expect("no panic").push(format!("{target} {by} {}", header("x-amz-security-token")));
            if body.starts_with("Action=AssumeRole&") {
                return "<AssumeRoleResponse><AssumeRoleResult><Credentials><AccessKeyId>ROLE</AccessKeyId>\
                    <SecretAccessKey>s</SecretAccessKey><SessionToken>st</SessionToken></Credentials>\
                    </AssumeRoleResult></AssumeRoleResponse>"
                    .into_response();
            }
            let input: Value = serde_json::from_str(&body).expect("JSON");
            match answers.iter().find(|(action, wanted, _)| *action == target && *wanted == input) {
                Some((_, _, answer)) if !answer["__type"].is_null() => {
                    (StatusCode::BAD_REQUEST, axum::Json(answer.clone())).into_response()
                }
                Some((_, _, answer)) => axum::Json(answer.clone()).into_response(),
                None => panic!("{target} {input}"),
            }
        }
    });
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = format!("http://{}", listener.local_addr().expect("an address"));
    tokio::spawn(async move { axum::serve(listener, router).await });
    (address, asked)
}

async fn at(address: &str, block: Value) -> Question {
    let mut draft = Draft::read(&block, None).unwrap_or_else(|error| panic!("{error}"));
    let Key::Amazon { role, region } = draft.key.clone() else { panic!("another key") };
    let environment = |name: &str| {
        Some(match name {
            "AWS_ACCESS_KEY_ID" => "AKID".to_owned(),
            "AWS_SECRET_ACCESS_KEY" => "secret".to_owned(),
            "AWS_ENDPOINT_URL" => address.to_owned(),
            _ => return None,
        })
    };
    draft.session = Some(
        Session::open(&Rules::default().with_private(), &environment, &role, &region)
            .await
            .expect("signed in"),
    );
    draft.open(None, None, &Rules::default().with_private()).unwrap_or_else(|error| panic!("{error}"))
}

fn repository(name: &str, branch: Value) -> Value {
    json!({"repositoryMetadata": {"accountId": "111122223333", "repositoryName": name, "defaultBranch": branch,
        "repositoryId": "f7579e13", "cloneUrlHttp": format!("https://git-codecommit.eu-west-1.amazonaws.com/v1/repos/{name}"),
        "cloneUrlSsh": format!("ssh://git-codecommit.eu-west-1.amazonaws.com/v1/repos/{name}")}})
}

#[tokio::test]
async fn repositories_are_listed_and_their_folders_looked_into() {
    let (address, asked) = amazon(vec![
        (
            "ListRepositories",
            json!({}),
            json!({"repositories": [{"repositoryName": "shop"}, {"repositoryName": "empty"}], "nextToken": "n"}),
        ),
        ("ListRepositories", json!({"nextToken": "n"}), json!({"repositories": [{"repositoryName": "tool"}]})),
        ("GetRepository", json!({"repositoryName": "shop"}), repository("shop", json!("main"))),
        ("GetRepository", json!({"repositoryName": "empty"}), repository("empty", Value::Null)),
        ("GetRepository", json!({"repositoryName": "tool"}), repository("tool", json!("main"))),
        (
            "GetFolder",
            json!({"repositoryName": "shop", "commitSpecifier": "main", "folderPath": "/deploy"}),
            json!({"commitId": "c", "folderPath": "deploy", "files": [{"relativePath": "app.yaml"}], "subFolders": []}),
        ),
        (
            "GetFolder",
            json!({"repositoryName": "tool", "commitSpecifier": "main", "folderPath": "/deploy"}),
            json!({"__type": "com.amazonaws.codecommit#FolderDoesNotExistException", "message": "…"}),
        ),
    ])
    .await;
    let block = json!({"awsCodeCommit": {"region": "eu-west-1"}, "cloneProtocol": "https-fips",
        "filters": [{"pathsExist": ["deploy/app.yaml"]}]});
    let found = repositories(&at(&address, block).await).await.expect("answered");
    assert_eq!(
        found,
        [RepositoryEntry {
            organization: "111122223333".into(),
            repository: "shop".into(),
            repository_id: json!("f7579e13"),
            url: "https://git-codecommit-fips.eu-west-1.amazonaws.com/v1/repos/shop".into(),
            branch: "main".into(),
            sha: String::new(),
            labels: Vec::new(),
        }]
    );
    let asked = asked.lock().expect("no panic").clone();
    let signed = "AWS4-HMAC-SHA256 Credential=AKID/";
    assert!(
        asked.iter().all(|line| line.contains(signed) && line.contains("/eu-west-1/codecommit/aws4_request")),
        "{asked:?}"
    );
}

#[tokio::test]
async fn tags_choose_repositories_and_a_role_asks_for_them() {
    let arn =
        |name: &str| json!({"ResourceARN": format!("arn:aws:codecommit:eu-west-1:111122223333:{name}")});
    let tags = json!({"ResourceTypeFilters": ["codecommit:repository"],
        "TagFilters": [{"Key": "env", "Values": ["dev", "test"]}, {"Key": "team"}]});
    let (address, asked) = amazon(vec![
        ("GetResources", tags, json!({"PaginationToken": "", "ResourceTagMappingList": [arn("shop")]})),
        ("GetRepository", json!({"repositoryName": "shop"}), repository("shop", json!("main"))),
        ("ListBranches", json!({"repositoryName": "shop"}), json!({"branches": ["main", "dev"]})),
    ])
    .await;
    let block = json!({"awsCodeCommit": {"region": "eu-west-1", "role": "arn:aws:iam::1:role/r", "allBranches": true,
        "tagFilters": [{"key": "env", "value": "dev"}, {"key": "team"}, {"key": "env", "value": "test"}]}});
    let found = repositories(&at(&address, block).await).await.expect("answered");
    assert_eq!(found.iter().map(|entry| entry.branch.as_str()).collect::<Vec<_>>(), ["main", "dev"]);
    assert_eq!(found[0].url, "ssh://git-codecommit.eu-west-1.amazonaws.com/v1/repos/shop");
    let asked = asked.lock().expect("no panic").clone();
    assert!(asked[0].contains("Credential=AKID/") && asked[0].contains("/sts/"), "{asked:?}");
    assert!(
        asked[1..].iter().all(|line| line.contains("Credential=ROLE/") && line.ends_with(" st")),
        "{asked:?}"
    );
}
