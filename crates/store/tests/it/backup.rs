//! What one engine wrote the other reads.

use std::collections::BTreeMap;
use std::path::Path;

use slipway_model::{AccountId, BuildId, Fact, PipelineId};
use slipway_store::builds::{Holder, NewBuild};
use slipway_store::{Scope, Store, backup, builds, facts, identity, logs};

use crate::engines::{On, open};

async fn fill(store: &Store) {
    let account = AccountId::from_parts(1, [1; 5]);
    let (scope, build) = (Scope::of(account), BuildId::from_parts(2, [2; 5]));
    store
        .write(move |tx| {
            identity::create_account(tx, account, "acme 'quoted' \u{1f680}", 1)?;
            let pipeline = PipelineId::from_parts(3, [3; 5]);
            let order = "the order";
            let new = NewBuild {
                id: build,
                pipeline,
                pipeline_name: "p",
                order: &order,
                cause: "c",
                queue: Default::default(),
            };
            builds::create(tx, scope, &new, 5)?;
            let pieces: Vec<_> =
                (0..50i64).map(|index| ("step".to_owned(), index * 2, "x\n".to_owned())).collect();
            let nobody = Holder { runner: "", epoch: 0 };
            logs::append(tx, scope, build, nobody, &pieces)?;
            Ok(())
        })
        .await
        .unwrap();
}

fn files(folder: &Path) -> BTreeMap<String, Vec<String>> {
    std::fs::read_dir(folder)
        .unwrap()
        .map(|entry| {
            let path = entry.unwrap().path();
            let text = std::fs::read_to_string(&path).unwrap();
            let mut lines: Vec<_> = text.lines().map(str::to_owned).collect();
            lines.sort();
            (path.file_name().unwrap().to_string_lossy().into_owned(), lines)
        })
        .collect()
}

async fn dump(store: &Store) -> (tempfile::TempDir, BTreeMap<String, Vec<String>>) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().to_owned();
    store.read(move |tx| backup::dump(tx, &path)).await.unwrap();
    let rows = files(folder.path());
    (folder, rows)
}

async fn moved(from: On, to: On) {
    let folders = (tempfile::tempdir().unwrap(), tempfile::tempdir().unwrap());
    let (source, target) = (open(from, folders.0.path()), open(to, folders.1.path()));
    fill(&source).await;
    let (dumped, rows) = dump(&source).await;
    assert!(rows["builds.jsonl"].len() == 2 && rows["log_chunks.jsonl"].len() == 51);
    assert!(target.read(backup::is_empty).await.unwrap() && !source.read(backup::is_empty).await.unwrap());
    let path = dumped.path().to_owned();
    target.write(move |tx| backup::load(tx, &path)).await.unwrap();
    assert_eq!(dump(&target).await.1, rows);
    // Loading again replaces, and numbers go on after the ones that came.
    let path = dumped.path().to_owned();
    target.write(move |tx| backup::load(tx, &path)).await.unwrap();
    assert_eq!(dump(&target).await.1, rows);
    let last = source.read(facts::last_seq).await.unwrap();
    let account = AccountId::from_parts(1, [1; 5]);
    let (build, pipeline) = (BuildId::from_parts(9, [9; 5]), PipelineId::from_parts(3, [3; 5]));
    let fact = Fact::BuildCreated { account, build, pipeline };
    let next = target.write(move |tx| facts::append(tx, account, &fact, 1)).await.unwrap();
    assert!(next > last, "{next} is not after {last}");
}

#[tokio::test(flavor = "multi_thread")]
async fn from_sqlite_to_postgres_and_back() {
    moved(On::Sqlite, On::Postgres).await;
    moved(On::Postgres, On::Sqlite).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_backup_is_taken_beside_the_process_that_writes() {
    let folder = tempfile::tempdir().unwrap();
    let store = open(On::Sqlite, folder.path());
    fill(&store).await;
    let url = format!("sqlite:{}", folder.path().display()).parse().unwrap();
    let beside = Store::connect_to_read(&url).unwrap();
    assert_eq!(dump(&beside).await.1, dump(&store).await.1);
    assert!(beside.write(|_| Ok(())).await.is_err());
    let second = Store::open(folder.path()).err().expect("one process has the database").to_string();
    assert!(second.contains("in use by another slipway"), "{second}");
}
