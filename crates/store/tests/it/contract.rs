use slipway_model::{AccountId, BuildId, BuildStatus, ChangeKind, Fact, PipelineId, PushedCommit, RepoId};
use slipway_store::annotations::{self, Annotation};
use slipway_store::builds::{self, Holder, Lease, NewBuild, Report};
use slipway_store::git::{self, MovedRef, Repo};
use slipway_store::images::{self, Image};
use slipway_store::{Scope, Store, StoreError, audit, facts, identity, logs};

use crate::engines::{On, open};

crate::on_both!(
    a_write_that_fails_leaves_nothing_and_disturbs_nobody,
    a_change_that_is_not_waited_for_fails_its_own_work_alone,
    answers_that_were_asked_for_together_are_not_older_than_a_change,
    an_audit_chain_goes_on_after_work_that_was_undone,
    a_commit_is_announced_after_it_can_be_read_and_a_failed_one_is_not,
    one_cause_makes_one_build_also_when_many_ask_at_once,
    two_takers_never_hold_one_build_and_the_late_one_is_fenced,
    another_account_sees_nothing,
    a_push_is_noted_once_however_often_it_is_seen,
    old_names_of_images_go_and_the_newest_of_each_account_stay,
);

struct Fixture {
    store: Store,
    scope: Scope,
    _folder: tempfile::TempDir,
}

fn id<T>(number: u8) -> slipway_model::Id<T> {
    slipway_model::Id::from_parts(u64::from(number), [number; 5])
}

async fn fixture(on: On) -> Fixture {
    let folder = tempfile::tempdir().unwrap();
    let store = open(on, folder.path());
    let account: AccountId = id(1);
    store.write(move |tx| identity::create_account(tx, account, "acme", 1)).await.unwrap();
    Fixture { store, scope: Scope::of(account), _folder: folder }
}

async fn build(fixture: &Fixture, number: u8, cause: &'static str) -> BuildId {
    let scope = fixture.scope;
    let make = move |tx: &mut slipway_store::Tx<'_>| {
        let (pipeline, order): (PipelineId, _) = (id(9), "the order");
        let new = NewBuild {
            id: id(number),
            pipeline,
            pipeline_name: "p",
            order: &order,
            cause,
            queue: Default::default(),
        };
        builds::create(tx, scope, &new, i64::from(number))
    };
    fixture.store.write(make).await.unwrap()
}

async fn a_write_that_fails_leaves_nothing_and_disturbs_nobody(on: On) {
    let fixture = fixture(on).await;
    let failing = fixture.store.write(|tx| {
        identity::create_account(tx, id(2), "half", 1)?;
        Err::<(), _>(StoreError::Conflict { what: "on purpose".into() })
    });
    let good = fixture.store.write(|tx| identity::create_account(tx, id(3), "whole", 1));
    let (failed, made) = tokio::join!(failing, good);
    assert!(failed.is_err() && made.is_ok());
    let name =
        |account: AccountId| fixture.store.read(move |tx| identity::account_name(tx, Scope::of(account)));
    assert!(name(id(2)).await.is_err());
    assert_eq!(name(id(3)).await.unwrap(), "whole");
}

async fn a_change_that_is_not_waited_for_fails_its_own_work_alone(on: On) {
    let fixture = fixture(on).await;
    let insert = "INSERT INTO accounts (id, name, created_ms, status_ms) VALUES ($1, $2, 1, 1)";
    let twice = fixture.store.write(move |tx| {
        tx.send(insert, &[id::<()>(2).into(), "twice".into()])?;
        tx.send(insert, &[id::<()>(2).into(), "other".into()])?;
        Ok(())
    });
    let good = fixture.store.write(move |tx| tx.send(insert, &[id::<()>(3).into(), "good".into()]));
    let (twice, good) = tokio::join!(twice, good);
    assert!(matches!(twice, Err(StoreError::Duplicate { .. })), "{twice:?}");
    good.unwrap();
    let names = fixture.store.read(identity::accounts).await.unwrap();
    assert_eq!(names.into_iter().map(|account| account.name).collect::<Vec<_>>(), ["acme", "good"]);
}

async fn answers_that_were_asked_for_together_are_not_older_than_a_change(on: On) {
    let fixture = fixture(on).await;
    let scope = fixture.scope;
    let seen = fixture.store.write(move |tx| {
        tx.fetch([identity::asks_account_by_id(scope.account()), slipway_store::projects::asks_list(scope)])?;
        let before = identity::account_name(tx, scope)?;
        identity::rename_account(tx, scope, "renamed")?;
        Ok((before, identity::account_by_id(tx, scope.account())?.unwrap().name))
    });
    assert_eq!(seen.await.unwrap(), ("acme".to_owned(), "renamed".to_owned()));
}

async fn an_audit_chain_goes_on_after_work_that_was_undone(on: On) {
    let fixture = fixture(on).await;
    let append = |good: bool| {
        fixture.store.write(move |tx| {
            let mark = |before: &str, record: &audit::Record| format!("{before}{}", record.seq);
            audit::append(tx, "chain", crate::postgres::record(), mark)?;
            let seq = audit::append(tx, "chain", crate::postgres::record(), mark)?;
            if good { Ok(seq) } else { Err(StoreError::Closed) }
        })
    };
    // Together, so that they share a transaction.
    let (one, undone, two) = tokio::join!(append(true), append(false), append(true));
    assert_eq!((one.unwrap(), undone.is_err(), two.unwrap()), (2, true, 4));
    let kept = fixture.store.read(|tx| audit::after(tx, "chain", 0, 10)).await.unwrap();
    assert_eq!(
        kept.iter().map(|record| record.hash.as_str()).collect::<Vec<_>>(),
        ["1", "12", "123", "1234"]
    );
    assert_eq!(fixture.store.read(|tx| audit::head(tx, "chain")).await.unwrap(), (4, "1234".to_owned()));
}

async fn a_commit_is_announced_after_it_can_be_read_and_a_failed_one_is_not(on: On) {
    let fixture = fixture(on).await;
    let mut commits = fixture.store.subscribe();
    let made = build(&fixture, 5, "one").await;
    let heard = commits.recv().await.unwrap();
    assert!(heard.facts);
    assert_eq!(heard.changes[0].kind, ChangeKind::Build);
    assert_eq!(heard.changes[0].id, made.to_string());
    let refused = fixture.store.write(|tx| {
        tx.changed(slipway_model::AccountId::from_parts(1, [0; 5]), ChangeKind::Pipeline, "x");
        Err::<(), _>(StoreError::Closed)
    });
    assert!(refused.await.is_err());
    build(&fixture, 6, "two").await;
    assert_eq!(commits.recv().await.unwrap().changes.len(), 1, "nothing of the refused write");
}

async fn one_cause_makes_one_build_also_when_many_ask_at_once(on: On) {
    let fixture = fixture(on).await;
    let (a, b, c) =
        tokio::join!(build(&fixture, 5, "same"), build(&fixture, 6, "same"), build(&fixture, 7, "same"));
    assert!(a == b && b == c);
    // They are counted once too, on their day, whatever the page.
    let scope = fixture.scope;
    build(&fixture, 8, "another").await;
    let filter = builds::Filter { limit: 1, ..builds::Filter::default() };
    let (page, total) = fixture.store.read(move |tx| builds::list(tx, scope, &filter)).await.unwrap();
    assert_eq!((page.len(), total), (1, 2));
    let since = |ms: i64| fixture.store.read(move |tx| slipway_store::usage::count_builds(tx, scope, ms));
    assert_eq!((since(0).await.unwrap().since, since(86_400_000).await.unwrap().since), (2, 0));
    assert_eq!(since(0).await.unwrap().waiting, 2);
}

async fn two_takers_never_hold_one_build_and_the_late_one_is_fenced(on: On) {
    let fixture = fixture(on).await;
    let (made, scope) = (build(&fixture, 5, "one").await, fixture.scope);
    let take = |runner: &'static str, now_ms: i64| {
        fixture.store.write(move |tx| {
            let taker = builds::Taker { runner, executor: "host", now_ms, lease_until_ms: now_ms + 100 };
            builds::take(tx, scope, &taker, 5, &mut |_, _| Ok(builds::Limits::default()))
        })
    };
    let (first, second) = tokio::join!(take("a", 0), take("b", 0));
    assert_eq!((first.unwrap().len(), second.unwrap().len()), (1, 0));
    assert!(take("b", 99).await.unwrap().is_empty(), "the lease still runs");
    let taken = take("b", 101).await.unwrap();
    assert_eq!(taken[0].epoch, 2);
    let report = |runner: &'static str, epoch: i64, status: BuildStatus| {
        let report = move |tx: &mut slipway_store::Tx<'_>| {
            let steps: [(); 0] = [];
            let report = Report {
                by: Holder { runner, epoch },
                revision: 1,
                status,
                message: None,
                started_ms: None,
                finished_ms: None,
                steps: &steps,
            };
            builds::report(tx, scope, made, &report, 200)
        };
        fixture.store.write(report)
    };
    assert!(matches!(report("a", 1, BuildStatus::Success).await, Err(StoreError::Conflict { .. })));
    assert!(
        matches!(report("a", 2, BuildStatus::Success).await, Err(StoreError::Conflict { .. })),
        "an epoch can be guessed"
    );
    let line = |runner: &'static str| {
        fixture.store.write(move |tx| {
            logs::append(tx, scope, made, Holder { runner, epoch: 2 }, &[("s".into(), 0, "x".into())])
        })
    };
    assert!(matches!(line("a").await, Err(StoreError::Conflict { .. })));
    assert_eq!(line("b").await.unwrap()["s"], 1);
    let renew = |runner: &'static str, epoch: i64| {
        fixture.store.write(move |tx| builds::renew(tx, scope, runner, made, epoch, 300))
    };
    assert_eq!(renew("a", 1).await.unwrap(), Lease::Lost);
    assert_eq!(renew("b", 2).await.unwrap(), Lease::Held { terminate: false });
    report("b", 2, BuildStatus::Success).await.unwrap();
    assert_eq!(renew("b", 2).await.unwrap(), Lease::Lost, "it has ended");
    let finished = fixture.store.read(|tx| facts::after(tx, 0, None, 10)).await.unwrap();
    assert!(finished.iter().any(|recorded| matches!(recorded.fact, Fact::BuildFinished { .. })));
}

async fn another_account_sees_nothing(on: On) {
    let fixture = fixture(on).await;
    let made = build(&fixture, 5, "one").await;
    let other = Scope::of(id(77));
    assert!(fixture.store.read(move |tx| builds::by_id(tx, other, made)).await.unwrap().is_none());
    assert!(fixture.store.read(move |tx| logs::after(tx, other, made, 0, 10)).await.unwrap().is_empty());
    let stolen = fixture.store.write(move |tx| {
        let taker = builds::Taker { runner: "r", executor: "host", now_ms: 0, lease_until_ms: 100 };
        builds::take(tx, other, &taker, 5, &mut |_, _| Ok(builds::Limits::default()))
    });
    let stolen = stolen.await.unwrap();
    assert!(stolen.is_empty());
    let logged = fixture
        .store
        .write(move |tx| {
            logs::append(tx, other, made, Holder { runner: "", epoch: 0 }, &[("s".into(), 0, "x".into())])
        })
        .await;
    assert!(matches!(logged, Err(StoreError::NotFound { .. })));
}

async fn a_push_is_noted_once_however_often_it_is_seen(on: On) {
    let fixture = fixture(on).await;
    let repo_id: RepoId = id(4);
    let repo = Repo {
        id: repo_id,
        account: fixture.scope.account(),
        name: "a/b".into(),
        default_branch: "main".into(),
    };
    let kept = repo.clone();
    fixture.store.write(move |tx| git::create(tx, &kept, 1)).await.unwrap();
    let note = || {
        let repo = repo.clone();
        let commit = PushedCommit { sha: "abc".into(), author: "ada".into(), message: "m".into() };
        let moved = MovedRef {
            name: "refs/heads/main".into(),
            before: None,
            after: Some(commit),
            changed_paths: vec![],
        };
        fixture.store.write(move |tx| git::note_moves(tx, &repo, "url", Some("ada"), vec![moved], 1))
    };
    assert_eq!((note().await.unwrap(), note().await.unwrap()), (1, 0));
    assert_eq!(fixture.store.read(|tx| facts::after(tx, 0, None, 10)).await.unwrap().len(), 1);
}

async fn old_names_of_images_go_and_the_newest_of_each_account_stay(on: On) {
    let fixture = fixture(on).await;
    let (scope, other) = (fixture.scope, Scope::of(id(2)));
    let image = |number: i64, tag: &str| Image {
        image: format!("sha256:{number}"),
        name: "app".into(),
        tag: tag.into(),
        registry: String::new(),
        digest: String::new(),
        build: id(5),
        pipeline: id(9),
        branch: "main".into(),
        revision: "r".into(),
        at_ms: number,
    };
    let made = fixture.store.write(move |tx| {
        identity::create_account(tx, other.account(), "other", 1)?;
        for number in 0..6 {
            images::record(tx, scope, &image(number, "one"))?;
            let quality = Annotation { name: "q".into(), value: "1".into(), at_ms: 1 };
            annotations::set(tx, scope, "image", &format!("sha256:{number}"), &quality)?;
        }
        // The first image has a name that is among the newest: what is said about it stays.
        images::record(tx, scope, &Image { at_ms: 9, ..image(0, "two") })?;
        images::record(tx, other, &image(0, "one"))
    });
    made.await.unwrap();
    let forget = |at_once: i64| fixture.store.write(move |tx| images::forget_beyond(tx, 3, at_once));
    assert_eq!(forget(1).await.unwrap(), 1);
    assert_eq!(forget(100).await.unwrap(), 3);
    assert_eq!(forget(100).await.unwrap(), 0);
    let left = fixture.store.read(move |tx| images::list(tx, scope, 10)).await.unwrap();
    let left: Vec<_> = left.iter().map(|image| (image.image.as_str(), image.tag.as_str())).collect();
    assert_eq!(left, [("sha256:0", "two"), ("sha256:5", "one"), ("sha256:4", "one")]);
    assert_eq!(fixture.store.read(move |tx| images::list(tx, other, 10)).await.unwrap().len(), 1);
    for (number, known) in [(0, 1), (3, 0), (5, 1)] {
        let said = move |tx: &mut slipway_store::Tx<'_>| {
            annotations::of(tx, scope, "image", &format!("sha256:{number}"))
        };
        assert_eq!(fixture.store.read(said).await.unwrap().len(), known, "{number}");
    }
}
