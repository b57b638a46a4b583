//! Tasks of agents: handed out until their status arrives; and how old a waiting build is.

use slipway_model::{AccountId, AgentId, BuildId, PipelineId, TaskId};
use slipway_store::agents::{self, Agent, Task, TaskStatus};
use slipway_store::builds::{self, NewBuild, Queue};
use slipway_store::{Scope, StoreError, identity};

use crate::engines::{On, open};

crate::on_both!(
    a_task_comes_again_until_its_status_arrives,
    builds_that_wait_are_found_by_their_age_and_the_oldest_of_too_many,
);

fn account() -> AccountId {
    AccountId::from_parts(1, [1; 5])
}

async fn a_task_comes_again_until_its_status_arrives(on: On) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(on, folder.path());
    let agent = Agent {
        id: AgentId::from_parts(1, [2; 5]),
        account: account(),
        name: "ctx_ns".into(),
        runtimes: vec!["ctx/ns".into()],
        message: String::new(),
        reported_ms: None,
        created_ms: 1,
    };
    let id = agent.id;
    let (first, second) = (TaskId::from_parts(1, [3; 5]), TaskId::from_parts(1, [4; 5]));
    let task = |id: TaskId, kind: &str, at: i64| Task {
        id,
        kind: kind.into(),
        runtime: "ctx/ns".into(),
        build: "b1".into(),
        spec: r#"{"kind":"Pod"}"#.into(),
        status_revision: 0,
        status: None,
        problem: None,
        created_ms: at,
    };
    let (later, earlier) = (task(second, "DeletePod", 20), task(first, "CreatePod", 10));
    store
        .write(move |tx| {
            identity::create_account(tx, account(), "acme", 1)?;
            agents::create(tx, &agent)?;
            agents::add_task(tx, id, &later)?;
            agents::add_task(tx, id, &earlier)
        })
        .await
        .unwrap();
    let open_now = async || {
        let open = store.read(move |tx| agents::open_tasks(tx, id)).await.unwrap();
        open.into_iter().map(|task| (task.id, task.status_revision)).collect::<Vec<_>>()
    };
    assert_eq!(open_now().await, [(first, 0), (second, 0)], "oldest first");
    assert_eq!(open_now().await.len(), 2, "asking is not taking");
    let report = async |task: TaskId, status: &'static str, revision: i64, ends: bool| {
        let work = move |tx: &mut slipway_store::Tx<'_>| {
            let new = TaskStatus { status, revision, problem: Some("why"), ends };
            agents::task_status(tx, id, task, &new, 30)
        };
        store.write(work).await
    };
    report(first, "Error", 1, false).await.unwrap();
    assert_eq!(open_now().await, [(first, 1), (second, 0)], "a failure that may be tried again keeps it");
    report(first, "Success", 1, true).await.unwrap();
    assert_eq!(open_now().await.len(), 2, "a report that is not newer changes nothing");
    report(first, "Success", 2, true).await.unwrap();
    assert_eq!(open_now().await, [(second, 0)]);
    let unknown = report(TaskId::from_parts(1, [9; 5]), "Success", 1, true).await;
    assert!(matches!(unknown, Err(StoreError::NotFound { .. })), "{unknown:?}");
    store.write(move |tx| agents::delivered(tx, id, second, 40)).await.unwrap();
    assert_eq!(open_now().await, []);
}

async fn builds_that_wait_are_found_by_their_age_and_the_oldest_of_too_many(on: On) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(on, folder.path());
    let pipeline = PipelineId::from_parts(1, [2; 5]);
    let build = |number: u8| BuildId::from_parts(1, [number; 5]);
    store
        .write(move |tx| {
            identity::create_account(tx, account(), "acme", 1)?;
            for number in 1..=4 {
                let cause = format!("c{number}");
                let new = NewBuild {
                    id: build(number),
                    pipeline,
                    pipeline_name: "demo/p",
                    order: &serde_json::json!({}),
                    cause: &cause,
                    queue: Queue::default(),
                };
                builds::create(tx, Scope::of(account()), &new, i64::from(number) * 100)?;
            }
            Ok(())
        })
        .await
        .unwrap();
    let ids = |found: Vec<builds::Build>| found.into_iter().map(|build| build.id).collect::<Vec<_>>();
    let waiting = store.read(|tx| builds::waiting_since(tx, 350, &[], 2)).await.unwrap();
    assert_eq!(ids(waiting), [build(1), build(2)], "oldest first, no more than asked for");
    assert_eq!(store.read(move |tx| builds::waiting_since(tx, 350, &[pipeline], 9)).await.unwrap().len(), 0);
    store
        .write(move |tx| (1..=3).try_for_each(|number| builds::delayed(tx, build(number), 400)))
        .await
        .unwrap();
    assert_eq!(ids(store.read(|tx| builds::waiting_since(tx, 900, &[], 9)).await.unwrap()), [build(4)]);
    assert_eq!(store.read(|tx| builds::waiting_before(tx, 900, 9)).await.unwrap().len(), 4);
    assert_eq!(ids(store.read(|tx| builds::delayed_beyond(tx, 2, 9)).await.unwrap()), [build(1)]);
}
