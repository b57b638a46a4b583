//! Runtime environments and certificates, as the published installer asks for them.

use serde_json::{Value, json};
use slipway_store::identity::Subject;

use crate::support::Platform;

async fn registered(platform: &Platform, name: &str) -> Value {
    let body = json!({"runtimeEnvironmentName": name, "storageClassName": "fast", "serviceAccount": "codefresh-engine",
        "nodeSelector": {"pool": "builds"}, "clusterName": "east", "namespace": "cf", "agent": true});
    platform.post("/api/custom_clusters/register", body).await
}

#[tokio::test]
async fn a_runtime_environment_is_registered_described_otherwise_made_the_default_and_deleted() {
    let platform = Platform::start().await;
    let admin = platform.admin_key.clone();
    let made = registered(&platform, "east/cf").await;
    assert_eq!((&made["version"], &made["metadata"]["agent"]), (&json!(1), &json!(true)));
    let path = "/api/runtime-environments/east%2Fcf";
    let body =
        json!({"metadata": {"name": "east/cf"}, "runtimeScheduler": {"cluster": {"namespace": "other"}}});
    let query = format!("{path}?extend=one&extend=two&description=ours");
    let (status, changed) = platform.call("PUT", &query, &admin, Some(body)).await;
    assert_eq!(status, 200, "{changed}");
    assert_eq!((&changed["version"], &changed["extends"]), (&json!(2), &json!(["one", "two"])));
    // What was given is there as it was given; what was not stays.
    assert_eq!(changed["runtimeScheduler"], json!({"cluster": {"namespace": "other"}}));
    assert_eq!(changed["dockerDaemonScheduler"]["pvcs"][0]["storageClassName"], "fast");
    assert_eq!((&changed["metadata"]["agent"], &changed["description"]), (&json!(true), &json!("ours")));
    let first = platform.get(&format!("{path}?version=1")).await;
    assert_eq!(first["runtimeScheduler"]["cluster"]["namespace"], "cf");
    assert_eq!(platform.get(&format!("{path}?history=true")).await.as_array().unwrap().len(), 2);
    assert_eq!(platform.call("GET", &format!("{path}?version=9"), &admin, None).await.0, 404);

    // What agents serve and runners of ours are runtime environments too.
    platform.post("/api/agents", json!({"name": "a1", "runtimes": ["west/cf", "east/cf"]})).await;
    let runner = platform.agent(Subject::Runner, "r1").await;
    let sync =
        json!({"runner": "r1", "version": "1", "executor": "host", "free": 0, "running": [], "waitMs": 0});
    assert_eq!(platform.call("POST", "/api/agent/runner/sync", &runner, Some(sync)).await.0, 200);
    let all = platform.get("/api/runtime-environments").await;
    let names: Vec<_> =
        all.as_array().unwrap().iter().map(|one| one["metadata"]["name"].as_str().unwrap()).collect();
    assert_eq!(names, ["east/cf", "r1", "west/cf"]);
    assert_eq!(platform.get("/api/runtime-environments?limit=1&offset=1").await.as_array().unwrap().len(), 1);

    let default = "/api/runtime-environments/default/east%2Fcf";
    assert_eq!(platform.call("PUT", default, &admin, None).await.0, 200);
    assert_eq!(platform.get(path).await["isDefault"], true);
    let (status, refused) = platform.call("DELETE", path, &admin, None).await;
    assert_eq!(status, 409, "{refused}");
    assert_eq!(platform.call("DELETE", &format!("{path}?force=true"), &admin, None).await.0, 200);
    assert_eq!(platform.call("GET", path, &admin, None).await.0, 404);
    assert_eq!(
        platform.get("/api/agent/a1").await["runtimes"],
        json!(["west/cf"]),
        "nobody serves it any more"
    );
    assert_eq!(platform.call("DELETE", "/api/runtime-environments/r1", &admin, None).await.0, 409);
    let (_, member) = platform.member("m@example.com", "User").await;
    assert_eq!(platform.call("PUT", path, &member, Some(json!({}))).await.0, 403);
}

#[tokio::test]
async fn what_cannot_be_a_runtime_environment_is_refused_by_name() {
    let platform = Platform::start().await;
    for (path, body, word) in [
        ("/api/runtime-environments/a%2Fb", json!({"runtimeScheduler": []}), "runtimeScheduler"),
        ("/api/runtime-environments/a%2Fb", json!({"metadata": {"name": "c/d"}}), "c/d"),
        ("/api/runtime-environments/a%20b", json!({}), "a b"),
    ] {
        let (status, answer) = platform.call("PUT", path, &platform.admin_key, Some(body)).await;
        assert_eq!(status, 400, "{answer}");
        assert!(answer["message"].as_str().unwrap().contains(word), "{answer}");
    }
    let body = json!({"runtimeEnvironmentName": "a/b", "namespace": "Not A Name"});
    let (status, answer) =
        platform.call("POST", "/api/custom_clusters/register", &platform.admin_key, Some(body)).await;
    assert_eq!(status, 400, "{answer}");
}

#[tokio::test]
async fn the_default_runtime_and_what_was_described_decide_where_a_build_runs() {
    let platform = Platform::start().await;
    registered(&platform, "east/cf").await;
    let agent = platform.post("/api/agents", json!({"name": "a1", "runtimes": ["east/cf"]})).await;
    assert_eq!(
        platform
            .call("PUT", "/api/runtime-environments/default/east%2Fcf", &platform.admin_key, None)
            .await
            .0,
        200
    );
    platform.pipeline("demo/build", "demo/app").await;
    platform.post("/api/pipelines/run/demo%2Fbuild", json!({})).await;
    let path = "/api/agent/a1/tasks?waitForStatusReport=true";
    let (_, tasks) = platform.call("GET", path, agent["token"].as_str().unwrap(), None).await;
    assert_eq!(tasks[0]["spec"]["spec"]["storageClassName"], "fast", "{tasks}");
    let pod = &tasks[1]["spec"];
    assert_eq!(
        (&pod["metadata"]["namespace"], &pod["spec"]["nodeSelector"]["pool"]),
        (&json!("cf"), &json!("builds"))
    );
}

#[tokio::test]
async fn a_docker_daemon_gets_a_certificate_of_the_accounts_authority() {
    let platform = Platform::start().await;
    let folder = platform.folder.path().join("certificates");
    std::fs::create_dir(&folder).unwrap();
    let run = |program: &str, words: &[&str]| {
        let done = std::process::Command::new(program).args(words).current_dir(&folder).output().unwrap();
        assert!(done.status.success(), "{program} {words:?}: {}", String::from_utf8_lossy(&done.stderr));
        String::from_utf8(done.stdout).unwrap()
    };
    // As the published chart's job makes its request.
    run(
        "openssl",
        &[
            "req",
            "-new",
            "-newkey",
            "rsa:2048",
            "-nodes",
            "-keyout",
            "key.pem",
            "-out",
            "csr.pem",
            "-subj",
            "/CN=docker.codefresh.io",
        ],
    );
    let csr = std::fs::read_to_string(folder.join("csr.pem")).unwrap();
    let ask = async |names: &str, csr: &str| {
        let request = platform.http().post(format!("{}/api/custom_clusters/signServerCerts", platform.url));
        let body = json!({"reqSubjectAltName": names, "csr": csr});
        let answer = request.header("authorization", &platform.admin_key).json(&body).send().await.unwrap();
        (answer.status().as_u16(), answer.bytes().await.unwrap())
    };
    let mut authorities = Vec::new();
    for _ in 0..2 {
        let (status, zip) = ask("IP:127.0.0.1,DNS:dind,DNS:*.dind.cf,DNS:*.cf.svc", &csr).await;
        assert_eq!(status, 200, "{}", String::from_utf8_lossy(&zip));
        std::fs::write(folder.join("certs.zip"), &zip).unwrap();
        run(
            "python3",
            &[
                "-c",
                "import zipfile; z = zipfile.ZipFile('certs.zip'); assert z.testzip() is None; z.extractall()",
            ],
        );
        run(
            "openssl",
            &[
                "verify",
                "-x509_strict",
                "-purpose",
                "sslserver",
                "-CAfile",
                "cf-ca.pem",
                "-verify_hostname",
                "a.dind.cf",
                "cf-server-cert.pem",
            ],
        );
        let told = run("openssl", &["x509", "-in", "cf-server-cert.pem", "-noout", "-text"]);
        assert!(
            told.contains("IP Address:127.0.0.1") && told.contains("CN") && told.contains("CA:FALSE"),
            "{told}"
        );
        let of_key = run("openssl", &["pkey", "-in", "key.pem", "-pubout"]);
        assert_eq!(run("openssl", &["x509", "-in", "cf-server-cert.pem", "-noout", "-pubkey"]), of_key);
        authorities.push(std::fs::read(folder.join("cf-ca.pem")).unwrap());
    }
    assert_eq!(authorities[0], authorities[1], "an account has one authority");
    for (names, csr) in [
        ("IP:nowhere", csr.as_str()),
        ("", &csr),
        ("DNS:dind", "no request"),
        ("DNS:dind", &csr.replace('A', "B")),
    ] {
        assert_eq!(ask(names, csr).await.0, 400, "{names}");
    }
    let (_, member) = platform.member("m@example.com", "User").await;
    let (status, _) =
        platform.call("POST", "/api/custom_clusters/signServerCerts", &member, Some(json!({}))).await;
    assert_eq!(status, 403);
}

#[tokio::test]
async fn whose_key_an_agents_is_the_administrator_may_know() {
    let platform = Platform::start().await;
    let agent = platform.post("/api/agents", json!({"name": "a1"})).await;
    let id = agent["token"].as_str().unwrap().split('.').next().unwrap().to_owned();
    let key = platform.get(&format!("/api/auth/key/{id}")).await;
    assert_eq!((&key["subject"]["type"], &key["subject"]["ref"]), (&json!("agent"), &agent["id"]));
    let (_, member) = platform.member("m@example.com", "User").await;
    assert_eq!(platform.call("GET", &format!("/api/auth/key/{id}"), &member, None).await.0, 404);
}
