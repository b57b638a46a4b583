//! That the queue is read by its indexes: with 100,000 builds, reading all of them for each that is taken is what
//! stops a platform.

use slipway_model::AccountId;

use super::take::{heads_sql, lost_sql, next_sql};
use super::{Filter, asks_list};
use crate::{Ask, Scope, Store, StoreError, Tx};

async fn plan(store: &Store, ask: Ask) -> Vec<String> {
    let look = store.read(move |tx: &mut Tx<'_>| {
        let rows = tx.all(&format!("EXPLAIN QUERY PLAN {}", ask.sql), &ask.values)?;
        rows.iter().map(|row| row.text(3)).collect::<Result<Vec<_>, StoreError>>()
    });
    look.await.unwrap()
}

/// A list that is filtered, and its count, read what fits and not every build of the account.
#[tokio::test]
async fn builds_of_a_commit_or_a_status_are_found_and_counted_by_an_index() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    let scope = Scope::of(AccountId::from_parts(1, [1; 5]));
    let of_commit = Filter { revision: Some("abc".into()), limit: 20, ..Filter::default() };
    let of_status = Filter { status: Some("error".into()), limit: 20, ..Filter::default() };
    for (filter, index) in [(of_commit, "builds_by_revision"), (of_status, "builds_by_status")] {
        for ask in asks_list(scope, &filter) {
            let counts = ask.sql.starts_with("SELECT count");
            assert!(!counts || ask.sql.contains("LIMIT"), "no more are counted than anybody pages through");
            let plan = plan(&store, ask).await;
            let found = plan.iter().any(|step| step.starts_with("SEARCH builds") && step.contains(index));
            assert!(found, "{index}: {plan:?}");
            assert!(!plan.iter().any(|step| step.starts_with("SCAN builds")), "{plan:?}");
        }
    }
}

#[tokio::test]
async fn taking_a_build_reads_the_queue_and_not_every_build() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    for (sql, values, steps) in [
        (lost_sql(), 2, vec!["SEARCH builds USING INDEX builds_taken (account=?"]),
        (next_sql(), 5, vec!["SEARCH builds USING INDEX builds_queue_of (account=? AND pipeline=?"]),
        (
            heads_sql(),
            1,
            vec![
                "SEARCH builds USING COVERING INDEX builds_queue_of (account=?",
                "SEARCH next USING COVERING INDEX builds_queue_of (account=? AND pipeline>?",
                "SEARCH head USING COVERING INDEX builds_queue_of (account=? AND pipeline=?",
            ],
        ),
    ] {
        let values: Vec<_> = (0..values).map(|_| "x".into()).collect();
        let plan = plan(&store, Ask::new(sql, values)).await;
        assert!(!plan.iter().any(|step| step.contains("TEMP B-TREE")), "nothing is sorted: {plan:?}");
        let scans = plan.iter().filter(|step| step.starts_with("SCAN") && step.contains("builds"));
        assert_eq!(scans.count(), 0, "{plan:?}");
        for step in steps {
            assert!(plan.iter().any(|found| found.starts_with(step)), "{step}: {plan:?}");
        }
    }
}
