use crate::support::Platform;

/// The committed document is what the server serves; `UPDATE=1 cargo test -p slipway-server` rewrites it.
#[tokio::test]
async fn the_committed_document_is_the_served_one() {
    let platform = Platform::start().await;
    let served = slipway_server::openapi(&platform.server);
    let path = "../../openapi/slipway.json";
    if std::env::var_os("UPDATE").is_some() {
        std::fs::create_dir_all("../../openapi").unwrap();
        std::fs::write(path, &served).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == served,
        "openapi/slipway.json is out of date: run UPDATE=1 cargo test -p slipway-server openapi"
    );
    let over_http = platform.get("/api/openapi.json").await;
    assert_eq!(over_http["openapi"], "3.1.0");
    let mut ids = std::collections::BTreeSet::new();
    for methods in over_http["paths"].as_object().unwrap().values() {
        for operation in methods.as_object().unwrap().values() {
            let id = operation["operationId"].as_str().unwrap().to_owned();
            assert!(ids.insert(id.clone()), "two operations are called {id}");
        }
    }
}

/// The same for GraphQL, for those who generate their clients.
#[test]
fn the_committed_schema_is_the_served_one() {
    let (served, path) = (slipway_server::graphql_schema(), "../../openapi/slipway.graphql");
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(path, &served).unwrap();
    }
    let committed = std::fs::read_to_string(path).unwrap_or_default();
    assert!(
        committed == served,
        "openapi/slipway.graphql is out of date: run UPDATE=1 cargo test -p slipway-server openapi"
    );
}
