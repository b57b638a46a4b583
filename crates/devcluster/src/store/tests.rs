use serde_json::json;

use super::*;

fn key(name: &str) -> Key {
    Key { kind: Arc::from("configmaps"), namespace: "default".into(), name: name.into() }
}

async fn put(store: &Store, name: &str, data: &str) -> u64 {
    store
        .transact::<_, StoreError>(false, |tx| {
            let mut value = json!({"metadata": {"name": name, "namespace": "default", "uid": name}, "data": data});
            tx.put(key(name), &mut value);
            Ok(tx.version)
        })
        .await
        .expect("commits")
}

#[tokio::test]
async fn what_was_acknowledged_is_there_after_reopening_and_versions_go_on() {
    let dir = tempfile::tempdir().expect("temp dir");
    let path = dir.path().join("objects.db");
    let store = Store::open(&path).expect("opens");
    for index in 0..20 {
        put(&store, &format!("a{index}"), "x").await;
    }
    let last = store.version();
    store.close();
    let store = Store::open(&path).expect("opens again");
    assert_eq!(store.version(), last);
    assert_eq!(store.list("configmaps", Some("default")).1.len(), 20);
    assert_eq!(put(&store, "b", "y").await, last + 1);
}

#[tokio::test]
async fn a_watch_sees_changes_in_order_and_one_that_is_too_old_is_refused() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = Store::open(&dir.path().join("objects.db")).expect("opens");
    let start = put(&store, "a", "1").await;
    let mut watcher = store.watch("configmaps", start).expect("not too old");
    put(&store, "a", "2").await;
    store
        .transact::<_, StoreError>(false, |tx| {
            let mut last = tx.get(&key("a")).expect("is there").value();
            tx.delete(key("a"), &mut last);
            Ok(())
        })
        .await
        .expect("commits");
    let mut seen = Vec::new();
    while seen.len() < 2 {
        seen.extend(watcher.next().await.expect("not too slow").into_iter().map(|e| (e.change, e.version)));
    }
    assert_eq!(seen, [(Change::Modified, start + 1), (Change::Deleted, start + 2)]);
    for index in 0..1100 {
        put(&store, &format!("n{index}"), "x").await;
    }
    assert!(store.watch("configmaps", start).is_none());
}

#[tokio::test]
async fn a_dry_run_leaves_no_trace() {
    let dir = tempfile::tempdir().expect("temp dir");
    let store = Store::open(&dir.path().join("objects.db")).expect("opens");
    let before = store.version();
    store
        .transact::<_, StoreError>(true, |tx| {
            tx.put(key("a"), &mut json!({"metadata": {"name": "a"}}));
            Ok(())
        })
        .await
        .expect("runs");
    assert_eq!(store.version(), before);
    assert!(store.get("configmaps", "default", "a").is_none());
}
