//! The GitOps part of GraphQL: slices, filters, whole Applications, runtimes and clusters; and who sees what of it.

use serde_json::{Value, json};
use slipway_store::identity::Subject;

use crate::keys::{app, report};
use crate::knock::{limited, member_in};
use crate::reports::everything;
use crate::support::Platform;

const PATH: &str = "/2.0/api/graphql";

async fn ask(platform: &Platform, key: &str, query: &str, variables: Value) -> Value {
    let body = json!({"query": query, "variables": variables});
    let (status, answer) = platform.call("POST", PATH, key, Some(body)).await;
    assert_eq!(status, 200, "{answer}");
    answer
}

fn names(slice: &Value) -> Vec<&str> {
    let edges = slice["edges"].as_array().unwrap_or_else(|| panic!("{slice}"));
    edges.iter().map(|edge| edge["node"]["metadata"]["name"].as_str().unwrap()).collect()
}

fn named(name: &str, more: Value) -> Value {
    let mut all = app("argocd", more);
    all["name"] = name.into();
    all
}

const LIST: &str = "query($filters: ApplicationsFilterArgs, $pagination: SlicePaginationArgs) {
    applications(filters: $filters, pagination: $pagination) {
        edges { cursor node { metadata { name namespace runtime account labels { key value } } syncStatus healthStatus summary projects
            source { repoURL path revision commitAuthor } destination { server namespace } operationState { phase } } }
        pageInfo { startCursor endCursor hasNextPage hasPrevPage } } }";

#[tokio::test(flavor = "multi_thread")]
async fn applications_come_in_slices_that_follow_each_other_and_by_filter() {
    let platform = Platform::start().await;
    let runtime = platform.agent(Subject::Runtime, "local").await;
    let apps = vec![
        named(
            "a",
            json!({"labels": {"team": "blue"}, "destinationServer": "https://east:6443",
            "revision": {"sha": "abc", "author": "ada"}}),
        ),
        named("b", json!({"syncStatus": "OutOfSync"})),
        named(
            "c",
            json!({"healthStatus": "Degraded", "operation": {"phase": "Failed", "message": "no", "startedAt": ""}}),
        ),
        named("d", json!({"project": "shop"})),
        named("e", json!({"healthStatus": "Resting"})),
    ];
    report(&platform, &runtime, apps).await;
    let key = platform.admin_key.clone();
    let page = |after: Value| json!({"pagination": {"first": 2, "after": after}});
    let one = ask(&platform, &key, LIST, page("".into())).await["data"]["applications"].clone();
    assert_eq!(names(&one), ["a", "b"]);
    let info = &one["pageInfo"];
    assert_eq!((&info["hasNextPage"], &info["hasPrevPage"]), (&json!(true), &json!(false)));
    assert_eq!(info["endCursor"], one["edges"][1]["cursor"]);
    let first = &one["edges"][0]["node"];
    assert_eq!(first["metadata"]["labels"], json!([{"key": "team", "value": "blue"}]));
    assert_eq!((&first["syncStatus"], &first["healthStatus"]), (&json!("SYNCED"), &json!("HEALTHY")));
    assert_eq!(
        (&first["source"]["revision"], &first["source"]["commitAuthor"]),
        (&json!("abc"), &json!("ada"))
    );
    assert_eq!(first["destination"]["server"], "https://east:6443");
    let two =
        ask(&platform, &key, LIST, page(info["endCursor"].clone())).await["data"]["applications"].clone();
    assert_eq!(names(&two), ["c", "d"]);
    let three =
        ask(&platform, &key, LIST, page(two["pageInfo"]["endCursor"].clone())).await["data"]["applications"]
            .clone();
    assert_eq!(names(&three), ["e"]);
    assert_eq!(three["pageInfo"]["hasNextPage"], false);
    assert_eq!(
        three["edges"][0]["node"]["healthStatus"], "UNKNOWN",
        "a word that nobody knows is not called anything better"
    );
    for (filters, expected) in [
        (json!({"statuses": ["OUT_OF_SYNC"]}), &["b"][..]),
        (json!({"healthStatuses": ["DEGRADED", "HEALTHY"], "statuses": ["SYNCED"]}), &["a", "c", "d"]),
        (json!({"statuses": ["SYNCING"]}), &[]),
        (json!({"labels": ["team=blue"]}), &["a"]),
        (json!({"project": "shop"}), &["d"]),
        (json!({"applications": ["a", "d"]}), &["a", "d"]),
        (json!({"clusterUrls": ["https://east:6443"]}), &["a"]),
        (json!({"runtime": "other"}), &[]),
        (
            json!({"applications": [], "clusterUrls": [], "runtimes": [], "statuses": []}),
            &["a", "b", "c", "d", "e"],
        ),
        (
            json!({"runtimes": ["local"], "namespaces": ["argocd"], "sort": "problems", "statuses": ["SYNCED"]}),
            &["e", "c", "a", "d"],
        ),
    ] {
        let answer = ask(&platform, &key, LIST, json!({"filters": filters})).await;
        assert_eq!(names(&answer["data"]["applications"]), expected, "{filters}");
    }
    for wrong in [
        json!({"pagination": {"first": 501}}),
        json!({"pagination": {"after": "?"}}),
        json!({"filters": {"sort": "luck"}}),
    ] {
        let answer = ask(&platform, &key, LIST, wrong.clone()).await;
        assert!(answer["errors"][0]["message"].is_string() && answer["data"].is_null(), "{wrong}: {answer}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_whole_application_has_its_resources_errors_and_releases() {
    let platform = Platform::start().await;
    let runtime = platform.agent(Subject::Runtime, "local").await;
    let whole = json!({"images": ["web:2"], "conditions": [{"type": "ComparisonError", "message": "no such path"}, {"type": "OrphanedResourceWarning", "message": "1"}],
        "resources": [{"group": "apps", "version": "v1", "kind": "Deployment", "namespace": "d", "name": "web", "uid": "u1", "status": "Synced", "health": "Healthy"}],
        "history": [{"id": 1, "revision": {"sha": "two", "author": "ada"}, "deployedAt": "2026-01-02T00:00:00Z", "initiatedBy": "ada", "images": ["web:2"]},
            {"id": 0, "revision": {"sha": "one"}, "deployedAt": "2026-01-01T00:00:00Z", "initiatedBy": "automatic sync"}]});
    let source = named("apps", json!({}));
    report(
        &platform,
        &runtime,
        vec![named("web", whole), source, named("child", json!({"gitSources": ["apps"]}))],
    )
    .await;
    let query = "{ application(runtime: \"local\", namespace: \"argocd\", name: \"web\") { images errors { level title message }
        resources { kind name syncStatus healthStatus } history { historyId current revision } }
        gitopsReleases(runtime: \"local\", namespace: \"argocd\", name: \"web\", pagination: {first: 1}) {
            edges { node { applicationMetadata { name } historyId revision images commitAuthor } } pageInfo { hasNextPage } }
        gitSources(runtime: \"\") { edges { node { metadata { name } applications self { repoURL status { syncStatus } } } } }
        none: application(runtime: \"local\", namespace: \"argocd\", name: \"nothing\") { summary } }";
    let answer = ask(&platform, &platform.admin_key, query, json!({})).await;
    assert!(answer["errors"].is_null(), "{answer}");
    let data = &answer["data"];
    assert_eq!(data["none"], Value::Null);
    let shown = &data["application"];
    assert_eq!(shown["images"], json!(["web:2"]));
    assert_eq!(
        shown["errors"][0],
        json!({"level": "ERROR", "title": "ComparisonError", "message": "no such path"})
    );
    assert_eq!(shown["errors"][1]["level"], "WARNING");
    assert_eq!(
        shown["resources"],
        json!([{"kind": "Deployment", "name": "web", "syncStatus": "SYNCED", "healthStatus": "HEALTHY"}])
    );
    assert_eq!(shown["history"][0], json!({"historyId": 1, "current": true, "revision": "two"}));
    let releases = &data["gitopsReleases"];
    assert_eq!(releases["edges"][0]["node"]["commitAuthor"], "ada");
    assert_eq!(
        (releases["edges"].as_array().unwrap().len(), &releases["pageInfo"]["hasNextPage"]),
        (1, &json!(true))
    );
    assert_eq!(names(&data["gitSources"]), ["apps"]);
    assert_eq!(data["gitSources"]["edges"][0]["node"]["applications"], 1);
    let listed = "{ applications { edges { node { metadata { name } images } } } }";
    let answer = ask(&platform, &platform.admin_key, listed, json!({})).await;
    let images = |at: usize| &answer["data"]["applications"]["edges"][at]["node"]["images"];
    assert_eq!(names(&answer["data"]["applications"]), ["apps", "child", "web"]);
    assert_eq!([images(0), images(1), images(2)], [&json!([]), &json!([]), &json!(["web:2"])], "{answer}");
    let many = (0..51).map(|number| named(&format!("app-{number}"), json!({}))).collect();
    report(&platform, &runtime, many).await;
    let answer = ask(&platform, &platform.admin_key, listed, json!({})).await;
    assert!(answer["errors"][0]["message"].as_str().unwrap().contains("first: 50"), "{answer}");
}

#[tokio::test(flavor = "multi_thread")]
async fn graphql_shows_runtimes_components_clusters_and_who_asks() {
    let platform = Platform::start().await;
    let runtime = platform.agent(Subject::Runtime, "local").await;
    platform.post("/api/runtimes", json!({"name": "east"})).await;
    let body = json!({"name": "prod", "server": "https://prod:6443", "state": "Failed", "message": "no route", "serverVersion": "1.34.4", "applications": 3});
    let mut all = everything(Vec::new());
    all["entities"] =
        json!([{"kind": "slipway.io/Cluster", "namespace": "argocd", "name": "b", "uid": "", "body": body}]);
    all["health"] = json!({"namespace": "argocd", "installedBy": "helm", "components": [{"name": "applications", "state": "degraded", "message": "Git is away"}], "clusters": []});
    let (status, answer) = platform.call("POST", "/2.0/api/events", &runtime, Some(all)).await;
    assert_eq!(status, 200, "{answer}");
    let query = "query($runtime: String!) {
        me { id name email isAdmin accounts { id name } activeAccount { id name gitProvider admins features { gitopsPlanEnforcement } } }
        runtimes { edges { node { metadata { name namespace } self { syncStatus healthStatus healthMessage } cluster managed installationStatus installationType accessMode available } } }
        runtime(name: $runtime) { metadata { name } runtimeVersion ingressHost managedClustersNum healthStatus }
        none: runtime(name: \"nothing\") { managed }
        components(runtime: $runtime) { edges { node { metadata { name runtime } version self { status { healthStatus } errors { ... on SyncError { title message level } } } } } }
        clusters(runtime: \"\", pagination: {after: \"\"}) { edges { node { metadata { name runtime } server info { connectionState { status message } serverVersion cacheInfo { apisCount } applicationsCount } } } pageInfo { endCursor hasNextPage } }
        elsewhere: clusters(runtime: \"east\") { edges { cursor } }
        limitsStatus { usage { clusters applications } limits { clusters applications } status states { name used limit } } }";
    let answer = ask(&platform, &platform.admin_key, query, json!({"runtime": "local"})).await;
    assert!(answer["errors"].is_null(), "{answer}");
    let data = &answer["data"];
    assert_eq!((&data["me"]["isAdmin"], &data["none"]), (&json!(true), &Value::Null));
    assert_eq!(data["me"]["accounts"][0]["id"], data["me"]["activeAccount"]["id"]);
    assert_eq!(names(&data["runtimes"]), ["east", "local"]);
    let state = |at: usize| data["runtimes"]["edges"][at]["node"]["installationStatus"].as_str().unwrap();
    assert_eq!((state(0), state(1)), ("IN_PROGRESS", "COMPLETED"));
    let kind = |at: usize| &data["runtimes"]["edges"][at]["node"]["installationType"];
    assert_eq!((kind(0), kind(1)), (&Value::Null, &json!("HELM")), "what is not known is not made up");
    let part = &data["components"]["edges"][0]["node"];
    assert_eq!(
        (&part["metadata"]["name"], &part["self"]["status"]["healthStatus"]),
        (&json!("applications"), &json!("DEGRADED")),
        "{part}"
    );
    assert_eq!(part["self"]["errors"][0]["message"], "Git is away");
    let cluster = &data["clusters"]["edges"][0]["node"];
    assert_eq!(cluster["info"]["connectionState"], json!({"status": "Failed", "message": "no route"}));
    assert_eq!(
        (&cluster["server"], &cluster["info"]["applicationsCount"]),
        (&json!("https://prod:6443"), &json!(3))
    );
    assert_eq!(data["elsewhere"]["edges"], json!([]));
    assert_eq!(data["limitsStatus"]["status"], true);
    let unknown = "{ components(runtime: \"nothing\") { edges { cursor } } }";
    let answer = ask(&platform, &platform.admin_key, unknown, json!({})).await;
    assert!(answer["errors"][0]["message"].as_str().unwrap().contains("nothing"), "{answer}");
}

/// Every field that shows something of the account: without the scope it is refused by name, another account sees nothing of it, and what a rule
/// hides is in no list, no count and no cursor.
#[tokio::test(flavor = "multi_thread")]
async fn every_field_of_the_gitops_api_is_decided_for_its_caller() {
    let platform = Platform::start().await;
    let runtime = platform.agent(Subject::Runtime, "local").await;
    let apps = vec![
        named("hidden", json!({"labels": {"tier": "db"}})),
        named("seen", json!({"labels": {"tier": "web"}, "gitSources": ["hidden"]})),
    ];
    report(&platform, &runtime, apps).await;
    let (_, ada) = member_in(&platform, "ada@example.com", "devs").await;
    let rule = json!({"entityType": "gitopsApplications", "teams": ["devs"], "actions": ["VIEW"], "entityAttributes": [{"name": "LABEL", "key": "tier", "value": "web"}]});
    platform.post("/api/abac", rule).await;
    let one = |field: &str, name: &str| {
        format!("{{ {field}(runtime: \"local\", namespace: \"argocd\", name: \"{name}\") {{")
    };
    let fields = [
        "{ applications { edges { node { metadata { name } } } } }".to_owned(),
        "{ gitSources { edges { node { metadata { name } } } } }".to_owned(),
        one("application", "hidden") + " summary } }",
        one("gitopsReleases", "hidden") + " edges { cursor } } }",
        "{ runtimes { edges { node { metadata { name } } } } }".to_owned(),
        "{ runtime(name: \"local\") { healthMessage } }".to_owned(),
        "{ components(runtime: \"local\") { edges { cursor } } }".to_owned(),
        "{ clusters { edges { cursor } } }".to_owned(),
    ];
    let narrow = limited(&platform, &["build:read"]).await;
    let (_, elsewhere) = platform.account("elsewhere").await;
    for field in &fields {
        let refused = ask(&platform, &narrow, field, json!({})).await;
        assert!(
            refused["errors"][0]["message"].as_str().unwrap().contains("gitops:read"),
            "{field}: {refused}"
        );
        assert!(refused["data"].is_null(), "{field}: {refused}");
        let foreign = ask(&platform, &elsewhere, field, json!({})).await.to_string();
        assert!(
            !foreign.contains("\"local\"") && !foreign.contains("hidden") && !foreign.contains("seen"),
            "{field}: {foreign}"
        );
        let body = Some(json!({"query": field}));
        assert_eq!(platform.call("POST", PATH, "", body).await.0, 401, "{field}");
    }
    let listed = ask(&platform, &ada, &fields[0], json!({})).await;
    assert_eq!(names(&listed["data"]["applications"]), ["seen"]);
    assert_eq!(
        names(&ask(&platform, &ada, &fields[1], json!({})).await["data"]["gitSources"]),
        Vec::<&str>::new()
    );
    assert_eq!(ask(&platform, &ada, &fields[2], json!({})).await["data"]["application"], Value::Null);
    assert_eq!(
        ask(&platform, &ada, &fields[3], json!({})).await["data"]["gitopsReleases"]["edges"],
        json!([])
    );
}
