//! What only PostgreSQL has: many processes, settings that others made, rights.

use std::collections::BTreeSet;
use std::time::Duration;

use slipway_model::{AccountId, BuildId, ChangeKind, Fact, PipelineId};
use slipway_store::builds::NewBuild;
use slipway_store::{
    Committed, DatabaseUrl, Service, Store, StoreError, audit, builds, entities, facts, identity, inbox,
    pipelines, projects,
};
use slipway_testkit::postgres;
use tokio::sync::broadcast::Receiver;

fn database() -> DatabaseUrl {
    postgres::shared().database().parse().unwrap()
}

fn account() -> AccountId {
    AccountId::from_parts(1, [1; 5])
}

fn fact() -> Fact {
    let (build, pipeline) = (BuildId::from_parts(1, [2; 5]), PipelineId::from_parts(1, [3; 5]));
    Fact::BuildCreated { account: account(), build, pipeline }
}

async fn hear(commits: &mut Receiver<Committed>) -> Committed {
    tokio::time::timeout(slipway_testkit::PATIENCE, commits.recv()).await.expect("a commit is heard").unwrap()
}

/// Numbers are given before a commit; were they seen out of order, a cursor would pass over the late ones.
#[tokio::test(flavor = "multi_thread")]
async fn a_cursor_passes_over_no_fact_of_any_process() {
    const PROCESSES: usize = 3;
    const WRITERS: usize = 6;
    const EACH: usize = 40;
    let url = database();
    let stores: Vec<_> = (0..PROCESSES).map(|_| Store::connect(&url).unwrap()).collect();
    let reader = Store::connect(&url).unwrap();
    let reading = tokio::spawn(async move {
        let (mut after, mut seen) = (0, BTreeSet::new());
        let until = std::time::Instant::now() + slipway_testkit::PATIENCE;
        while seen.len() < PROCESSES * WRITERS * EACH && std::time::Instant::now() < until {
            for recorded in reader.read(move |tx| facts::after(tx, after, None, 100)).await.unwrap() {
                assert!(recorded.seq > after);
                after = recorded.seq;
                seen.insert(recorded.seq);
            }
        }
        seen
    });
    let writers: Vec<_> = (0..PROCESSES * WRITERS)
        .map(|index| {
            let store = stores[index % PROCESSES].clone();
            tokio::spawn(async move {
                let mut given = Vec::new();
                for turn in 0..EACH {
                    let append = move |tx: &mut slipway_store::Tx<'_>| {
                        let seq = facts::append(tx, account(), &fact(), 1)?;
                        // Some change their mind after a number was given: it stays a hole for ever.
                        if turn % 7 == 3 { Err(StoreError::Closed) } else { Ok(seq) }
                    };
                    let seq = match store.write(append).await {
                        Ok(seq) => seq,
                        Err(_) => {
                            store.write(move |tx| facts::append(tx, account(), &fact(), 1)).await.unwrap()
                        }
                    };
                    given.push(seq);
                }
                given
            })
        })
        .collect();
    let mut acknowledged = BTreeSet::new();
    for writer in writers {
        acknowledged.extend(writer.await.unwrap());
    }
    assert_eq!(acknowledged.len(), PROCESSES * WRITERS * EACH);
    assert_eq!(reading.await.unwrap(), acknowledged);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_wakes_other_processes_once_and_its_own_too() {
    let url = database();
    let (one, two) = (Store::connect(&url).unwrap(), Store::connect(&url).unwrap());
    let (mut at_one, mut at_two) = (one.subscribe(), two.subscribe());
    one.write(|tx| {
        tx.changed(account(), ChangeKind::Build, "it's");
        facts::append(tx, account(), &fact(), 1)
    })
    .await
    .unwrap();
    for heard in [hear(&mut at_one).await, hear(&mut at_two).await] {
        assert!(heard.facts && !heard.missed);
        assert_eq!(heard.changes[0].id, "it's");
        assert!(heard.changes[0].is_of(account()), "whose it is goes with it");
    }
    two.write(|tx| {
        (0..2000).for_each(|index| tx.changed(account(), ChangeKind::Build, index));
        Ok(())
    })
    .await
    .unwrap();
    let heard = hear(&mut at_one).await;
    assert!(heard.missed, "too much for one announcement: look again; heard {} changes", heard.changes.len());
    assert_eq!(hear(&mut at_two).await.changes.len(), 2000);
    assert!(at_one.is_empty() && at_two.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn after_a_restart_everybody_looks_again_and_work_goes_on() {
    let server = std::sync::Arc::new(postgres::Server::start(&[]));
    let url: DatabaseUrl = server.database().parse().unwrap();
    let (one, two) = (Store::connect(&url).unwrap(), Store::connect(&url).unwrap());
    let mut heard_at_two = two.subscribe();
    let before = one.write(|tx| facts::append(tx, account(), &fact(), 1)).await.unwrap();
    assert!(hear(&mut heard_at_two).await.facts);
    let restarting = server.clone();
    let restart = tokio::task::spawn_blocking(move || {
        restarting.stop();
        restarting.run();
    });
    // Asked while it is away: the answer comes when it is back, or says that nothing is certain.
    let during = one.write(|tx| facts::append(tx, account(), &fact(), 1)).await;
    assert!(matches!(during, Ok(_) | Err(StoreError::Unavailable { .. })), "{during:?}");
    restart.await.unwrap();
    assert!(one.write(|tx| facts::append(tx, account(), &fact(), 1)).await.unwrap() > before);
    let mut missed = false;
    while !missed {
        missed = hear(&mut heard_at_two).await.missed;
    }
    let kept = two.read(|tx| facts::after(tx, 0, None, 10)).await.unwrap();
    assert!(kept.iter().any(|recorded| recorded.seq == before));
}

/// A process that is stopped in the middle of a write must not stop all others.
#[tokio::test(flavor = "multi_thread")]
async fn a_writer_that_stops_in_the_middle_loses_its_turn() {
    let url = database();
    let (one, two) = (Store::connect(&url).unwrap(), Store::connect(&url).unwrap());
    let (wake, wakes) = std::sync::mpsc::channel::<()>();
    let stuck = tokio::spawn(async move {
        one.write(move |tx| {
            let seq = facts::append(tx, account(), &fact(), 1)?;
            let _ = wakes.recv_timeout(Duration::from_secs(60));
            Ok(seq)
        })
        .await
    });
    tokio::time::sleep(Duration::from_millis(300)).await;
    let other = two.write(|tx| facts::append(tx, account(), &fact(), 2));
    let seq = tokio::time::timeout(Duration::from_secs(50), other)
        .await
        .expect("before the stuck one wakes")
        .unwrap();
    wake.send(()).unwrap();
    assert!(matches!(stuck.await.unwrap(), Err(StoreError::Unavailable { .. })));
    let kept = two.read(|tx| facts::after(tx, 0, None, 10)).await.unwrap();
    assert_eq!(kept.iter().map(|recorded| recorded.seq).collect::<Vec<_>>(), [seq]);
}

#[tokio::test(flavor = "multi_thread")]
async fn processes_that_start_together_make_the_schema_once() {
    let url = database();
    let opening: Vec<_> = (0..4)
        .map(|_| {
            let url = url.clone();
            std::thread::spawn(move || Store::connect(&url).unwrap())
        })
        .collect();
    let stores: Vec<_> = opening.into_iter().map(|thread| thread.join().unwrap()).collect();
    stores[0].write(|tx| identity::create_account(tx, account(), "acme", 1)).await.unwrap();
    assert_eq!(stores[3].read(identity::first_account).await.unwrap(), Some(account()));
}

fn name_of(url: &DatabaseUrl) -> String {
    url.to_string().rsplit('/').next().unwrap().to_owned()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_schema_of_a_newer_slipway_is_refused() {
    let url = database();
    drop(Store::connect(&url).unwrap());
    let newer = "UPDATE slipway.schema_version SET version = 999";
    postgres::shared().psql(&name_of(&url), newer).unwrap();
    let said = Store::connect(&url).err().expect("refused").to_string();
    assert!(said.contains("newer slipway (schema 999"), "{said}");
}

#[tokio::test(flavor = "multi_thread")]
async fn settings_that_could_lose_a_commit_are_refused_by_name() {
    let server = postgres::Server::start(&["fsync=off", "full_page_writes=off"]);
    let url: DatabaseUrl = server.database().parse().unwrap();
    let refused = || Store::connect(&url).err().map(|error| error.to_string());
    assert!(refused().expect("refused").contains("`fsync` = `off`"));
    let set = |sql: &str| {
        server.psql("postgres", sql).unwrap();
        server.psql("postgres", "SELECT pg_reload_conf()").unwrap();
    };
    let until_said = |what: &str| {
        let until = std::time::Instant::now() + slipway_testkit::PATIENCE;
        while !refused().is_some_and(|said| said.contains(what)) {
            assert!(std::time::Instant::now() < until, "{what} is not what is refused: {:?}", refused());
            std::thread::sleep(Duration::from_millis(50));
        }
    };
    set("ALTER SYSTEM SET fsync = on");
    until_said("`full_page_writes` = `off`");
    set("ALTER SYSTEM SET full_page_writes = on");
    server.psql("postgres", "ALTER ROLE slipway SET synchronous_commit = off").unwrap();
    until_said("`synchronous_commit` = `off`");
    server.psql("postgres", "ALTER ROLE slipway RESET synchronous_commit").unwrap();
    assert_eq!(refused(), None);
}

/// Each service alone reads and writes its tables, and it is the database that says so.
#[tokio::test(flavor = "multi_thread")]
async fn a_service_is_refused_what_is_not_its_own() {
    let url = database();
    let store = Store::connect(&url).unwrap();
    store.write(|tx| identity::create_account(tx, account(), "acme", 1)).await.unwrap();
    let mut tables: Vec<(Service, &str)> = Vec::new();
    for (owner, table) in
        Service::ALL.into_iter().flat_map(|owner| owner.tables().iter().map(move |&table| (owner, table)))
    {
        let there = store
            .read(move |tx| tx.one("SELECT to_regclass($1) IS NOT NULL", &[table.into()]))
            .await
            .unwrap();
        if there.unwrap().bool(0).unwrap() {
            tables.push((owner, table));
        }
    }
    assert!(tables.len() >= 13);
    for service in Service::ALL {
        let acting = store.acting_as(service);
        for &(owner, table) in &tables {
            let allowed = owner == service || service.also().iter().any(|(also, _)| *also == table);
            let count = acting.read(move |tx| tx.all(&format!("SELECT 1 FROM {table}"), &[])).await;
            match (&count, allowed) {
                (Ok(_), true) => {}
                (Err(StoreError::Refused { why }), false) => {
                    assert!(why.contains("permission denied") && why.contains(table), "{why}");
                }
                _ => panic!("{service:?} reading {table}: {count:?}"),
            }
            if owner != service {
                let gone = acting.write(move |tx| tx.execute(&format!("DELETE FROM {table}"), &[])).await;
                assert!(
                    matches!(gone, Err(StoreError::Refused { .. })),
                    "{service:?} emptying {table}: {gone:?}"
                );
            }
        }
        // Facts are appended, never edited.
        acting.write(|tx| facts::append(tx, account(), &fact(), 1)).await.unwrap();
        let edited = acting.write(|tx| tx.execute("UPDATE facts SET body = ''", &[])).await;
        assert!(matches!(edited, Err(StoreError::Refused { .. })), "{service:?}");
    }
    // The same connection, another service: rights do not stick.
    let scope = slipway_store::Scope::of(account());
    assert!(store.acting_as(Service::AuditManager).read(move |tx| pipelines::list(tx, scope)).await.is_err());
    assert!(
        store.acting_as(Service::PipelineManager).read(move |tx| pipelines::list(tx, scope)).await.is_ok()
    );
    assert!(store.read(identity::first_account).await.unwrap().is_some());
}

/// A login that is a member of one service's role cannot even log in to the rest.
#[tokio::test(flavor = "multi_thread")]
async fn a_credential_of_one_service_is_no_credential_of_another() {
    let url = database();
    drop(Store::connect(&url).unwrap());
    let (server, name) = (postgres::shared(), name_of(&url));
    let role = Service::PipelineManager.role();
    server.psql(&name, &format!("CREATE ROLE only_pipelines LOGIN IN ROLE {role}")).unwrap();
    let narrow = Store::connect(&server.url("only_pipelines", &name).parse().unwrap()).unwrap();
    let scope = slipway_store::Scope::of(account());
    assert!(narrow.read(move |tx| pipelines::list(tx, scope)).await.unwrap().is_empty());
    let stolen = narrow.read(|tx| identity::user_by_email(tx, "admin@slipway.local")).await;
    assert!(matches!(stolen, Err(StoreError::Refused { .. })), "{stolen:?}");
    narrow.write(|tx| facts::append(tx, account(), &fact(), 1)).await.unwrap();
}

/// S5: a table that takes minutes to read is still backed up. S8: who beside the platform changes it sees whether it runs.
#[tokio::test(flavor = "multi_thread")]
async fn a_backup_has_no_limit_of_time_and_whoever_serves_is_seen() {
    let url = database();
    let beside = Store::connect_beside(&url).unwrap();
    assert!(!beside.is_served().await.unwrap(), "an administrator's command is no part of the platform");
    let serving = Store::connect(&url).unwrap();
    serving.read(|tx| facts::after(tx, 0, None, 1)).await.unwrap();
    assert!(beside.is_served().await.unwrap());
    let backing_up = Store::connect_to_read(&url).unwrap();
    let limit = |store: &Store| {
        let store = store.clone();
        async move {
            let sql = "SELECT current_setting('statement_timeout')";
            store.read(move |tx| tx.one(sql, &[])?.unwrap().text(0)).await.unwrap()
        }
    };
    assert_eq!((limit(&backing_up).await.as_str(), limit(&serving).await.as_str()), ("0", "1min"));
    assert!(serving.stats().connections > 0);
}

/// Counted, not timed: what a writer waits for is what all other writers wait for.
#[tokio::test(flavor = "multi_thread")]
async fn only_answers_that_decide_something_are_waited_for() {
    let store = Store::connect(&database()).unwrap();
    let scope = slipway_store::Scope::of(account());
    store.write(|tx| identity::create_account(tx, account(), "acme", 1)).await.unwrap();
    let trips = async |store: &Store, number: u8| {
        let before = store.stats().round_trips;
        let make = move |tx: &mut slipway_store::Tx<'_>| {
            let asked = vec![pipelines::asks_by_name(scope, "demo/p"), projects::asks_list(scope)];
            audit::fetch_with(tx, "chain", asked)?;
            pipelines::by_name(tx, scope, "demo/p")?;
            projects::list(tx, scope)?;
            let cause = number.to_string();
            let new = NewBuild {
                id: BuildId::from_parts(u64::from(number), [number; 5]),
                pipeline: PipelineId::from_parts(1, [3; 5]),
                pipeline_name: "demo/p",
                order: &"{}",
                cause: &cause,
                queue: Default::default(),
            };
            builds::create(tx, scope, &new, 1)?;
            audit::append(tx, "chain", record(), |before, record| format!("{before}{}", record.seq))
        };
        let seq = store.write(make).await.unwrap();
        (seq, store.stats().round_trips - before)
    };
    assert_eq!(trips(&store, 1).await.0, 1);
    // The beginning with all questions, whether the cause is known, the changes with the commit.
    assert_eq!(trips(&store, 2).await, (2, 3));

    let read = async |store: &Store| {
        let before = store.stats().round_trips;
        let asked = store.read(move |tx| {
            tx.fetch_last([pipelines::asks_by_name(scope, "demo/p"), projects::asks_list(scope)])?;
            Ok((pipelines::by_name(tx, scope, "demo/p")?.is_none(), projects::list(tx, scope)?.len()))
        });
        assert_eq!(asked.await.unwrap(), (true, 0));
        store.stats().round_trips - before
    };
    // Each reader prepares its statements once.
    let mut least = u64::MAX;
    for _ in 0..20 {
        least = least.min(read(&store).await);
    }
    assert_eq!(least, 1, "a snapshot of one batch is one round trip");
}

/// A statement that was planned while its table was empty is used when there are thousands: it goes by the index all the same.
#[tokio::test(flavor = "multi_thread")]
async fn what_the_writer_planned_on_an_empty_table_does_not_read_all_of_a_full_one() {
    let url = database();
    let store = Store::connect(&url).unwrap();
    for round in 0..20 {
        store
            .write(move |tx| {
                for number in 0..100 {
                    inbox::first_time(tx, "triggers", &format!("{round}/{number}"), 1)?;
                }
                Ok(())
            })
            .await
            .unwrap();
    }
    store.close();
    let name = url.to_string().rsplit('/').next().unwrap().to_owned();
    let read = "SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_user_tables WHERE relname = 'inbox'";
    let read: i64 = postgres::shared().psql(&name, read).unwrap().trim().parse().unwrap();
    assert!(read < 2_000, "{read} rows were read to find 2,000 by their key");
}

/// A page of builds is asked for all the time: the server plans it once for each connection and not at every use, which takes as
/// long as finding the builds.
#[tokio::test(flavor = "multi_thread")]
async fn a_list_of_builds_is_not_planned_at_every_use() {
    let store = Store::connect(&database()).unwrap();
    let scope = slipway_store::Scope::of(account());
    let made = store.write(move |tx| {
        identity::create_account(tx, account(), "acme", 1)?;
        for number in 0..200_u8 {
            let (id, cause) = (BuildId::from_parts(u64::from(number), [number; 5]), number.to_string());
            let pipeline = PipelineId::from_parts(1, [3; 5]);
            let (queue, order) = (Default::default(), &"{}");
            let new = NewBuild { id, pipeline, pipeline_name: "demo/p", order, cause: &cause, queue };
            builds::create(tx, scope, &new, 1)?;
        }
        Ok(())
    });
    made.await.unwrap();
    let mut most = (0, 0);
    for _ in 0..40 {
        let look = store.read(move |tx| {
            let filter = builds::Filter { limit: 20, ..builds::Filter::default() };
            let of_account = identity::asks_account_by_id(account());
            tx.fetch(builds::asks_list(scope, &filter).into_iter().chain([of_account]))?;
            let listed = builds::list(tx, scope, &filter)?.0.len();
            let plans = "SELECT custom_plans, generic_plans FROM pg_prepared_statements \
                 WHERE statement LIKE 'SELECT 0::bigint%FROM builds%' ORDER BY generic_plans DESC LIMIT 1";
            let plans = tx.one(plans, &[])?.unwrap();
            Ok((listed, plans.int(0)?, plans.int(1)?))
        });
        let (listed, anew, kept) = look.await.unwrap();
        assert_eq!(listed, 20);
        most = most.max((kept, anew));
    }
    // The first five uses of a statement are planned each by itself.
    assert!(most.0 > 0 && most.1 == 5, "{most:?}");
}

/// However many entities a page of a report names: one question for all, and their rows with the commit.
#[tokio::test(flavor = "multi_thread")]
async fn a_page_of_a_report_waits_for_postgres_twice() {
    let store = Store::connect(&database()).unwrap();
    let scope = slipway_store::Scope::of(account());
    store.write(|tx| identity::create_account(tx, account(), "acme", 1)).await.unwrap();
    let mut trips = 0;
    for sequence in 1..=2 {
        let before = store.stats().round_trips;
        let page = store.write(move |tx| {
            let names: Vec<_> = (0..100).map(|number| format!("app{number}")).collect();
            let of = |name| entities::Name { kind: entities::APPLICATION, namespace: "ns", name };
            let named: Vec<_> = names.iter().map(|name| of(name)).collect();
            let known = entities::known(tx, scope, "one", &named)?;
            let entity = entities::Reported {
                uid: "",
                resource_version: "",
                sequence,
                state: "{}",
                summary: "{}",
                body: "{}",
                told: "",
            };
            let rows: Vec<_> = named.iter().map(|of| (*of, entity)).collect();
            entities::put(tx, scope, "one", &rows)?;
            Ok(known.len())
        });
        assert_eq!(page.await.unwrap(), if sequence == 1 { 0 } else { 100 });
        // The first prepares its statements.
        trips = store.stats().round_trips - before;
    }
    assert_eq!(trips, 2);
}

pub(crate) fn record() -> audit::Record {
    audit::Record {
        seq: 0,
        at_ms: 1,
        actor_kind: String::new(),
        actor: String::new(),
        actor_name: String::new(),
        address: String::new(),
        action: "run".into(),
        entity: String::new(),
        entity_id: String::new(),
        entity_name: String::new(),
        outcome: "allowed".into(),
        status: 200,
        method: String::new(),
        path: String::new(),
        request_id: String::new(),
        detail: "{}".into(),
        hash: String::new(),
    }
}
