//! Leases, the inbox, and the rules of a transaction that both engines share.

use slipway_store::{StoreError, facts, identity, inbox, leases, retention};

use crate::engines::{On, open};

crate::on_both!(
    one_holder_at_a_time_and_a_late_one_is_fenced,
    a_message_is_handled_once_also_when_its_first_handling_failed,
    a_statement_that_failed_ends_its_transaction,
    a_reader_changes_nothing,
    text_sorts_by_its_bytes_and_survives_whole,
    cursors_start_at_nothing_and_move,
    facts_go_when_they_are_old_and_were_handed_on_and_the_newest_stays,
);

async fn one_holder_at_a_time_and_a_late_one_is_fenced(on: On) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(on, folder.path());
    let take =
        |holder: &'static str, for_ms: i64| store.write(move |tx| leases::take(tx, "relay", holder, for_ms));
    assert_eq!(take("a", 60_000).await.unwrap(), Some(1));
    assert_eq!(take("b", 60_000).await.unwrap(), None);
    assert_eq!(take("a", -1).await.unwrap(), Some(1), "renewing keeps the epoch");
    // It has run out: the next taker raises the epoch, also when it is the same one.
    assert_eq!(take("b", 60_000).await.unwrap(), Some(2));
    let held = |holder: &'static str, epoch: i64| {
        store.write(move |tx| leases::still_held(tx, "relay", holder, epoch))
    };
    assert!(matches!(held("a", 1).await, Err(StoreError::Conflict { .. })));
    held("b", 2).await.unwrap();
    store.write(|tx| leases::give_back(tx, "relay", "a", 1)).await.unwrap();
    held("b", 2).await.unwrap();
    store.write(|tx| leases::give_back(tx, "relay", "b", 2)).await.unwrap();
    assert!(held("b", 2).await.is_err());
    assert_eq!(take("a", 60_000).await.unwrap(), Some(3));
    let known = store.read(leases::list).await.unwrap();
    assert_eq!((known.len(), known[0].holder.as_str(), known[0].epoch), (1, "a", 3));
    assert!(known[0].left_ms > 50_000);
}

async fn a_message_is_handled_once_also_when_its_first_handling_failed(on: On) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(on, folder.path());
    let failed = store.write(|tx| {
        assert!(inbox::first_time(tx, "triggers", "7", 1)?);
        Err::<(), _>(StoreError::Conflict { what: "on purpose".into() })
    });
    assert!(failed.await.is_err());
    let first = || store.write(|tx| inbox::first_time(tx, "triggers", "7", 1));
    assert!(first().await.unwrap());
    assert!(!first().await.unwrap());
    assert!(store.write(|tx| inbox::first_time(tx, "other", "7", 5)).await.unwrap());
    let trimmed = store.write(|tx| retention::inbox(tx, 5, 10)).await.unwrap();
    assert_eq!((trimmed.count, trimmed.more), (1, false));
    assert!(first().await.unwrap());
}

async fn a_statement_that_failed_ends_its_transaction(on: On) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(on, folder.path());
    let account = |number: u8| slipway_model::AccountId::from_parts(1, [number; 5]);
    store.write(move |tx| identity::create_account(tx, account(1), "acme", 1)).await.unwrap();
    let went_on = store.write(move |tx| {
        identity::create_account(tx, account(2), "before", 1)?;
        // The name is free, the id is not: the database itself refuses.
        let twice = identity::create_account(tx, account(1), "other", 1);
        assert!(matches!(twice, Err(StoreError::Duplicate { .. })), "{twice:?}");
        Ok(())
    });
    assert!(went_on.await.is_err());
    let kept = store.read(move |tx| identity::account_name(tx, slipway_store::Scope::of(account(2)))).await;
    assert!(kept.is_err());
}

async fn a_reader_changes_nothing(on: On) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(on, folder.path());
    let account = slipway_model::AccountId::from_parts(1, [1; 5]);
    assert!(store.read(move |tx| identity::create_account(tx, account, "acme", 1)).await.is_err());
    assert!(store.read(identity::first_account).await.unwrap().is_none());
}

async fn text_sorts_by_its_bytes_and_survives_whole(on: On) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(on, folder.path());
    let names = ["a", "B", "é", "_", "Z z", "10", "9", "'; --", "日本"];
    store
        .write(move |tx| {
            for name in names {
                facts::move_cursor(tx, name, 1)?;
            }
            Ok(())
        })
        .await
        .unwrap();
    let rows = store.read(|tx| tx.all("SELECT consumer FROM cursors ORDER BY consumer", &[])).await.unwrap();
    let sorted: Vec<_> = rows.iter().map(|row| row.text(0).unwrap()).collect();
    let mut expected = names.map(str::to_owned).to_vec();
    expected.sort();
    assert_eq!(sorted, expected);
}

async fn cursors_start_at_nothing_and_move(on: On) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(on, folder.path());
    assert_eq!(store.read(|tx| facts::cursor(tx, "x")).await.unwrap(), 0);
    assert_eq!(store.read(facts::last_seq).await.unwrap(), 0);
    store.write(|tx| facts::move_cursor(tx, "x", 41)).await.unwrap();
    store.write(|tx| facts::move_cursor(tx, "x", 42)).await.unwrap();
    assert_eq!(store.read(|tx| facts::cursor(tx, "x")).await.unwrap(), 42);
}

async fn facts_go_when_they_are_old_and_were_handed_on_and_the_newest_stays(on: On) {
    let folder = tempfile::tempdir().unwrap();
    let store = open(on, folder.path());
    let account = slipway_model::AccountId::from_parts(1, [1; 5]);
    let seqs = store.write(move |tx| {
        let build = slipway_model::BuildId::from_parts(1, [1; 5]);
        let fact = slipway_model::Fact::ApprovalAsked { account, build };
        (1..=6).map(|at_ms| facts::append(tx, account, &fact, at_ms * 10)).collect::<Result<Vec<_>, _>>()
    });
    let seqs = seqs.await.unwrap();
    let trim =
        |before_ms: i64, most: i64| store.write(move |tx| retention::facts(tx, "relay", before_ms, most));
    let left = || async {
        let left = store.read(|tx| facts::after(tx, 0, None, 10)).await.unwrap();
        left.iter().map(|recorded| recorded.seq).collect::<Vec<_>>()
    };
    assert_eq!(trim(1_000, 10).await.unwrap().count, 0, "nobody has handed them on");
    let passed = seqs[3];
    store.write(move |tx| facts::move_cursor(tx, "relay", passed)).await.unwrap();
    assert_eq!(trim(30, 10).await.unwrap().count, 2, "the others are not old enough");
    let some = trim(1_000, 1).await.unwrap();
    assert_eq!((some.count, some.more), (1, true), "a little at a time");
    assert_eq!((trim(1_000, 10).await.unwrap().count, left().await), (1, seqs[4..].to_vec()));
    let newest = seqs[5];
    store.write(move |tx| facts::move_cursor(tx, "relay", newest)).await.unwrap();
    trim(1_000, 10).await.unwrap();
    assert_eq!(left().await, seqs[5..], "how far facts have come is known by the newest");
}
