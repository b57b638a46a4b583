//! Writes that wait together share a commit: what one of them asked ahead, changes or fails at is right for the others.

use std::time::Duration;

use slipway_model::{AccountId, BuildId, Fact, HookId, Id, PipelineId};
use slipway_store::builds::NewBuild;
use slipway_store::hooks::Hook;
use slipway_store::pipelines::Pipeline;
use slipway_store::{
    Ask, Scope, Service, Store, StoreError, Tx, audit, builds, facts, hooks, identity, inbox, pipelines,
    projects,
};
use tokio::task::JoinHandle;

use crate::engines::{On, open};
use crate::postgres::record;

crate::on_both!(
    what_a_write_of_the_group_changed_is_not_answered_from_before,
    a_question_that_is_refused_is_refused_to_the_one_who_asked,
);

fn account() -> AccountId {
    Id::from_parts(1, [1; 5])
}

fn scope() -> Scope {
    Scope::of(account())
}

async fn store(on: On) -> (Store, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(on, folder.path());
    store.write(|tx| identity::create_account(tx, account(), "acme", 1)).await.unwrap();
    (store, folder)
}

type Work<T> = Box<dyn FnOnce(&mut Tx<'_>) -> Result<T, StoreError> + Send>;

/// Runs these as one group: they wait behind a write that does nothing until all of them are there. Gives what each answered and
/// how often PostgreSQL was waited for.
async fn as_group<T: Send + 'static>(
    stores: Vec<(Store, Vec<Ask>, Work<T>)>,
) -> (Vec<Result<T, StoreError>>, u64) {
    let first = stores[0].0.clone();
    let (go, wait) = std::sync::mpsc::channel::<()>();
    let (began, has_begun) = tokio::sync::oneshot::channel();
    let (holder, count) = (first.clone(), u64::try_from(stores.len()).unwrap());
    let held = tokio::spawn(async move {
        holder
            .write(move |_| {
                let _ = began.send(());
                let _ = wait.recv();
                Ok(())
            })
            .await
    });
    has_begun.await.unwrap();
    // One after the other, so that the first is the first.
    let mut waiting: Vec<JoinHandle<Result<T, StoreError>>> = Vec::new();
    for (place, (store, asks, work)) in stores.into_iter().enumerate() {
        waiting.push(tokio::spawn(async move { store.write_asking(asks, work).await }));
        while first.stats().waiting <= u64::try_from(place).unwrap() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    }
    assert_eq!(first.stats().waiting, count);
    let before = first.stats().round_trips;
    go.send(()).unwrap();
    held.await.unwrap().unwrap();
    let mut answers = Vec::new();
    for one in waiting {
        answers.push(one.await.unwrap());
    }
    (answers, first.stats().round_trips - before)
}

fn pipeline(name: &str) -> Pipeline {
    let id = PipelineId::from_parts(1, [7; 5]);
    Pipeline { id, name: name.into(), body: "{}".into(), revision: 1, created_ms: 1, updated_ms: 1 }
}

async fn what_a_write_of_the_group_changed_is_not_answered_from_before(on: On) {
    let (store, _folder) = store(on).await;
    let asks = || {
        vec![
            pipelines::asks_by_name(scope(), "demo/p"),
            inbox::asks_known("c", "1"),
            inbox::asks_known("c", "2"),
        ]
    };
    let make: Work<_> = Box::new(|tx| {
        let none = pipelines::by_name(tx, scope(), "demo/p")?.is_none();
        pipelines::create(tx, scope(), &pipeline("demo/p"), "ada")?;
        Ok((none, inbox::first_time(tx, "c", "1", 1)?, true))
    });
    let look = |message: &'static str| -> Work<_> {
        Box::new(move |tx: &mut Tx<'_>| {
            let found = pipelines::by_name(tx, scope(), "demo/p")?.is_some();
            let first = inbox::first_time(tx, "c", message, 1)?;
            // Also what it changed itself.
            Ok((found, first, !inbox::first_time(tx, "c", message, 1)?))
        })
    };
    let undone: Work<_> = Box::new(|tx| {
        assert!(inbox::first_time(tx, "c", "2", 1)?);
        Err(StoreError::Conflict { what: "on purpose".into() })
    });
    let jobs = vec![
        (store.clone(), asks(), make),
        (store.clone(), asks(), look("1")),
        (store.clone(), asks(), undone),
        (store.clone(), asks(), look("2")),
        (store.clone(), asks(), look("2")),
    ];
    let (answers, _) = as_group(jobs).await;
    let said: Vec<_> = answers.into_iter().map(Result::ok).collect();
    assert_eq!(
        said,
        [
            Some((true, true, true)),
            Some((true, false, true)),
            None,
            Some((true, true, true)),
            Some((true, false, true)),
        ]
    );
}

/// On PostgreSQL the role of the relay may not read who somebody is; on SQLite the division is documentation.
async fn a_question_that_is_refused_is_refused_to_the_one_who_asked(on: On) {
    let (store, _folder) = store(on).await;
    let note: Work<usize> = Box::new(|tx| {
        facts::move_cursor(tx, "x", 1)?;
        Ok(1)
    });
    let read: Work<usize> = Box::new(|tx| Ok(identity::account_by_id(tx, account())?.iter().count()));
    let asks = || vec![identity::asks_account_by_id(account())];
    let narrow = store.acting_as(Service::EventHandler);
    let again: Work<usize> = Box::new(|tx| Ok(identity::account_by_id(tx, account())?.iter().count()));
    let jobs =
        vec![(store.clone(), Vec::new(), note), (narrow, asks(), read), (store.clone(), asks(), again)];
    let (answers, _) = as_group(jobs).await;
    assert_eq!(answers[1].is_err(), on == On::Postgres, "{answers:?}");
    assert_eq!((answers[0].as_ref().ok(), answers[2].as_ref().ok()), (Some(&1), Some(&1)), "{answers:?}");
    assert_eq!(store.read(|tx| facts::cursor(tx, "x")).await.unwrap(), 1);
}

/// A run as the API posts it.
fn run(number: u8, cause: &str) -> (Vec<Ask>, Work<i64>) {
    let cause = cause.to_owned();
    let asked = || vec![pipelines::asks_by_name(scope(), "demo/p"), projects::asks_list(scope())];
    let mut ahead = asked();
    ahead.push(audit::asks_head("chain"));
    let work: Work<i64> = Box::new(move |tx| {
        audit::fetch_with(tx, "chain", asked())?;
        pipelines::by_name(tx, scope(), "demo/p")?;
        projects::list(tx, scope())?;
        let new = NewBuild {
            id: BuildId::from_parts(u64::from(number), [number; 5]),
            pipeline: PipelineId::from_parts(1, [7; 5]),
            pipeline_name: "demo/p",
            order: &"{}",
            cause: &cause,
            queue: Default::default(),
        };
        builds::create_new(tx, scope(), &new, 1)?;
        audit::append(tx, "chain", record(), |before, record| format!("{before}{}", record.seq))
    });
    (ahead, work)
}

fn runs(store: &Store, numbers: impl IntoIterator<Item = (u8, String)>) -> Vec<(Store, Vec<Ask>, Work<i64>)> {
    numbers
        .into_iter()
        .map(|(number, cause)| {
            let (asks, work) = run(number, &cause);
            (store.clone(), asks, work)
        })
        .collect()
}

/// What 16 runs ask is one round trip, and what they change goes with the commit: it was 33.
#[tokio::test(flavor = "multi_thread")]
async fn runs_that_are_posted_together_wait_for_postgres_twice() {
    let (store, _folder) = store(On::Postgres).await;
    // Statements are prepared once.
    let (answers, _) = as_group(runs(&store, (0..16).map(|number| (number, number.to_string())))).await;
    assert_eq!(answers.into_iter().map(Result::unwrap).collect::<Vec<_>>(), (1..=16).collect::<Vec<_>>());
    let (answers, trips) = as_group(runs(&store, (16..32).map(|number| (number, number.to_string())))).await;
    assert_eq!(answers.into_iter().map(Result::unwrap).collect::<Vec<_>>(), (17..=32).collect::<Vec<_>>());
    assert_eq!(trips, 2);
    let build = store.read(|tx| builds::by_id(tx, scope(), BuildId::from_parts(31, [31; 5]))).await.unwrap();
    assert_eq!(build.unwrap().number, 32);
    let head = store.read(|tx| audit::head(tx, "chain")).await.unwrap();
    let whole: String = (1..=32).map(|seq| seq.to_string()).collect();
    assert_eq!(head, (32, whole));
}

/// An announcement as a Git provider's webhook brings it.
fn announcement(hook: HookId, number: u8) -> (Vec<Ask>, Work<bool>) {
    let delivery = number.to_string();
    let work: Work<bool> = Box::new(move |tx| {
        let first = inbox::first_time(tx, "hook", &delivery, number.into())?;
        hooks::heard(tx, hook, number.into())?;
        hooks::note_ref(tx, hook, "main", Some(&delivery))?;
        let fact = Fact::BuildCreated {
            account: account(),
            build: BuildId::from_parts(u64::from(number), [number; 5]),
            pipeline: PipelineId::from_parts(1, [7; 5]),
        };
        facts::note(tx, account(), &fact, 1)?;
        Ok(first)
    });
    (vec![inbox::asks_known("hook", &number.to_string())], work)
}

/// 16 of them are one question, one statement of rows and what ends the transaction: each was a statement by itself.
#[tokio::test(flavor = "multi_thread")]
async fn announcements_that_come_together_are_one_statement() {
    let (store, _folder) = store(On::Postgres).await;
    let hook = Hook {
        id: Id::from_parts(1, [9; 5]),
        account: account(),
        context: "lab".into(),
        repo: "demo/app".into(),
        secret: String::new(),
        remote: None,
        problem: None,
        polled_ms: 0,
        heard_ms: None,
        created_ms: 1,
    };
    let id = hook.id;
    store.write(move |tx| hooks::ensure(tx, &hook)).await.unwrap();
    let group = |numbers: std::ops::Range<u8>| {
        numbers
            .map(|number| {
                let (asks, work) = announcement(id, number);
                (store.clone(), asks, work)
            })
            .collect::<Vec<_>>()
    };
    // Statements are prepared once.
    as_group(group(0..16)).await;
    let before = store.stats().statements;
    let (answers, trips) = as_group(group(16..32)).await;
    let statements = store.stats().statements - before;
    assert!(answers.into_iter().all(|answer| answer.unwrap()));
    // The beginning, the question, the rows, the end.
    assert_eq!((trips, statements), (2, 4));
    let (found, refs, facts) = store
        .read(move |tx| Ok((hooks::by_id(tx, id)?, hooks::refs(tx, id)?, facts::after(tx, 0, None, 100)?)))
        .await
        .unwrap();
    assert_eq!(found.unwrap().heard_ms, Some(31), "the last one is what stays");
    assert_eq!(refs["main"], "31");
    let of = |fact: &Fact| match fact {
        Fact::BuildCreated { build, .. } => *build,
        other => panic!("{other:?}"),
    };
    let expected: Vec<_> =
        (0..32).map(|number| BuildId::from_parts(u64::from(number), [number; 5])).collect();
    assert_eq!(facts.iter().map(|one| of(&one.fact)).collect::<Vec<_>>(), expected, "in their order");
    // One that was known is refused alone.
    let mut jobs = group(40..43);
    let again: Work<bool> = Box::new(|tx| inbox::note(tx, "hook", "5", 1).map(|()| true));
    jobs[1] = (store.clone(), Vec::new(), again);
    let (answers, _) = as_group(jobs).await;
    assert!(answers[0].is_ok() && answers[2].is_ok(), "{answers:?}");
    assert!(matches!(answers[1], Err(StoreError::Duplicate { .. })), "{answers:?}");
    let found = store.read(move |tx| hooks::by_id(tx, id)).await.unwrap();
    assert_eq!(found.unwrap().heard_ms, Some(42));
}

/// What was sent without waiting fails with the commit: who sent it hears why and is undone alone. Who goes on in its chain of
/// records built on what is not there, and is told to repeat.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_fails_with_the_commit_is_undone_alone() {
    let (store, _folder) = store(On::Postgres).await;
    store.write(run(1, "twice").1).await.unwrap();
    for (first, seq) in [(10, 2), (20, 3)] {
        let causes =
            [(first, format!("a{first}")), (first + 1, "twice".into()), (first + 2, format!("c{first}"))];
        let mut jobs = runs(&store, causes);
        let elsewhere: Work<i64> = Box::new(move |tx| {
            facts::move_cursor(tx, "x", seq)?;
            audit::append(tx, "other", record(), |before, record| format!("{before}{}", record.seq))
        });
        jobs.push((store.clone(), vec![audit::asks_head("other")], elsewhere));
        let (answers, _) = as_group(jobs).await;
        assert_eq!(answers[0].as_ref().ok(), Some(&seq), "{answers:?}");
        assert!(matches!(answers[1], Err(StoreError::Duplicate { .. })), "{answers:?}");
        assert!(matches!(answers[2], Err(StoreError::Unavailable { .. })), "{answers:?}");
        assert_eq!(answers[3].as_ref().ok(), Some(&(seq - 1)), "{answers:?}");
        assert_eq!(store.read(|tx| facts::cursor(tx, "x")).await.unwrap(), seq);
    }
    assert_eq!(store.read(|tx| audit::head(tx, "chain")).await.unwrap(), (3, "123".into()));
    let gone = store.read(|tx| builds::by_id(tx, scope(), BuildId::from_parts(22, [22; 5]))).await.unwrap();
    assert!(gone.is_none());
}

/// The same when a write behind it asks something and would hear of the failure first.
#[tokio::test(flavor = "multi_thread")]
async fn a_change_that_fails_is_not_blamed_on_the_one_who_hears_of_it() {
    let (store, _folder) = store(On::Postgres).await;
    store.write(run(1, "twice").1).await.unwrap();
    let mut jobs = runs(&store, [(10, "twice".to_owned())]);
    let asks: Work<i64> = Box::new(|tx| facts::cursor(tx, "nobody"));
    jobs.push((store.clone(), Vec::new(), asks));
    let (answers, _) = as_group(jobs).await;
    assert!(matches!(answers[0], Err(StoreError::Duplicate { .. })), "{answers:?}");
    assert_eq!(answers[1].as_ref().ok(), Some(&0), "{answers:?}");
    assert_eq!(store.write(run(11, "fine").1).await.unwrap(), 2);
}
