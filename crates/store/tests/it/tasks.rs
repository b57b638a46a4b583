//! Tasks of agents, their builds and runtime environments: handed out until their status arrives; and how old a waiting build is.

use slipway_model::{AccountId, AgentId, BuildId, PipelineId, TaskId};
use slipway_store::agent_builds::{self, AgentBuild};
use slipway_store::agents::{self, Agent, Task, TaskStatus};
use slipway_store::authorities::{self, Authority};
use slipway_store::builds::{self, NewBuild, Queue};
use slipway_store::runtime_environments::{self, RuntimeEnvironment};
use slipway_store::{Scope, StoreError, identity};

use crate::engines::{On, open};

crate::on_both!(
    a_task_comes_again_until_its_status_arrives,
    builds_that_wait_are_found_by_their_age_and_the_oldest_of_too_many,
    a_build_of_an_agent_is_begun_anew_and_is_over_once,
    runtime_environments_have_versions_and_one_is_the_default,
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
        agent: agent.id,
        kind: kind.into(),
        runtime: "ctx/ns".into(),
        build: "b1".into(),
        attempt: 1,
        object: "pod".into(),
        spec: r#"{"kind":"Pod"}"#.into(),
        status_revision: 0,
        status: None,
        problem: None,
        created_ms: at,
        done_ms: None,
    };
    let (later, earlier) = (task(second, "DeletePod", 20), task(first, "CreatePod", 10));
    store
        .write(move |tx| {
            identity::create_account(tx, account(), "acme", 1)?;
            agents::create(tx, &agent)?;
            agents::add_task(tx, &later)?;
            agents::add_task(tx, &earlier)
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
        .write(move |tx| {
            (1..=3).try_for_each(|number| builds::delayed(tx, Scope::of(account()), build(number), 400))
        })
        .await
        .unwrap();
    assert_eq!(ids(store.read(|tx| builds::waiting_since(tx, 900, &[], 9)).await.unwrap()), [build(4)]);
    assert_eq!(store.read(|tx| builds::waiting_before(tx, 900, 9)).await.unwrap().len(), 4);
    assert_eq!(ids(store.read(|tx| builds::delayed_beyond(tx, 2, 9)).await.unwrap()), [build(1)]);
}

async fn a_build_of_an_agent_is_begun_anew_and_is_over_once(on: On) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(on, folder.path());
    let (agent, build) = (AgentId::from_parts(1, [2; 5]), BuildId::from_parts(1, [3; 5]));
    let row = AgentBuild {
        build,
        account: account(),
        agent,
        runtime: "ctx/ns".into(),
        namespace: "ns".into(),
        attempt: 1,
        arrived: false,
        ended_ms: None,
        left: false,
        over: false,
    };
    let made = Agent {
        id: agent,
        account: account(),
        name: "a1".into(),
        runtimes: Vec::new(),
        message: String::new(),
        reported_ms: None,
        created_ms: 1,
    };
    let task = Task {
        id: TaskId::from_parts(1, [4; 5]),
        agent,
        kind: "CreatePod".into(),
        runtime: "ctx/ns".into(),
        build: build.to_string(),
        attempt: 1,
        object: "pod".into(),
        spec: "{}".into(),
        status_revision: 0,
        status: None,
        problem: None,
        created_ms: 5,
        done_ms: None,
    };
    let second = AgentBuild { attempt: 2, ..row.clone() };
    let seen = store
        .write(move |tx| {
            identity::create_account(tx, account(), "acme", 1)?;
            agents::create(tx, &made)?;
            let order = serde_json::json!({});
            let new = NewBuild {
                id: build,
                pipeline: PipelineId::from_parts(1, [2; 5]),
                pipeline_name: "demo/p",
                order: &order,
                cause: "c",
                queue: Queue::default(),
            };
            builds::create(tx, Scope::of(account()), &new, 1)?;
            agent_builds::begin(tx, &row)?;
            agent_builds::arrived(tx, build, 2)?;
            agent_builds::end_seen(tx, build, 3)?;
            agent_builds::begin(tx, &second)?;
            agents::add_task(tx, &task)?;
            agents::drop_creations(tx, build, 9)?;
            let row = agent_builds::of(tx, Scope::of(account()), build)?.unwrap();
            assert_eq!((row.attempt, row.arrived, row.ended_ms, row.over), (2, false, None, false));
            assert_eq!(agents::tasks_of_build(tx, build)?[0].done_ms, Some(9));
            assert_eq!(agents::open_tasks(tx, agent)?.len(), 0);
            assert_eq!((agent_builds::open(tx, agent)?.len(), agent_builds::ended(tx, 9)?.len()), (1, 0));
            builds::terminate(tx, Scope::of(account()), build, "somebody", 10)?;
            assert_eq!(agent_builds::ended(tx, 9)?.len(), 1);
            agent_builds::over(tx, build, 11)?;
            assert_eq!(agent_builds::ended(tx, 9)?.len(), 0);
            agents::forget_tasks_before(tx, 10)?;
            Ok((agent_builds::open(tx, agent)?.len(), agents::tasks_of_build(tx, build)?.len()))
        })
        .await
        .unwrap();
    assert_eq!(seen, (0, 0));
    // What belongs to an agent goes with it.
    store.write(move |tx| agents::delete(tx, Scope::of(account()), agent)).await.unwrap();
    let left = store.read(move |tx| agent_builds::of(tx, Scope::of(account()), build)).await.unwrap();
    assert!(left.is_none());
}

async fn runtime_environments_have_versions_and_one_is_the_default(on: On) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(on, folder.path());
    let row = |name: &str, body: &str| RuntimeEnvironment {
        name: name.into(),
        version: 0,
        body: body.into(),
        description: String::new(),
        changed_by: "somebody".into(),
        at_ms: 1,
    };
    let (first, second, other) = (row("a", "1"), row("a", "2"), row("b", "1"));
    store
        .write(move |tx| {
            let scope = Scope::of(account());
            identity::create_account(tx, account(), "acme", 1)?;
            let versions =
                [&first, &second, &other].map(|row| runtime_environments::put(tx, scope, row).unwrap());
            assert_eq!(versions, [1, 2, 1]);
            let newest: Vec<_> = runtime_environments::list(tx, scope)?
                .into_iter()
                .map(|row| (row.name, row.version))
                .collect();
            assert_eq!(newest, [("a".to_owned(), 2), ("b".to_owned(), 1)]);
            assert_eq!(runtime_environments::find(tx, scope, "a")?.unwrap().body, "2");
            assert_eq!(runtime_environments::versions(tx, scope, "a")?.len(), 2);
            runtime_environments::make_default(tx, scope, "a")?;
            runtime_environments::make_default(tx, scope, "b")?;
            assert_eq!(runtime_environments::default_name(tx, scope)?.as_deref(), Some("b"));
            assert!(runtime_environments::delete(tx, scope, "b")?);
            assert_eq!(runtime_environments::default_name(tx, scope)?, None);
            let made = |text: &str| Authority {
                certificate: text.into(),
                sealed_key: "sealed".into(),
                created_ms: 1,
            };
            authorities::keep(tx, scope, &made("one"))?;
            authorities::keep(tx, scope, &made("two"))?;
            assert_eq!(authorities::of(tx, scope)?.unwrap().certificate, "one");
            Ok(())
        })
        .await
        .unwrap();
}
