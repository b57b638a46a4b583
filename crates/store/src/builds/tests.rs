//! That the queue is read by its indexes: with 100,000 builds, reading all of them for each that is taken is what
//! stops a platform.

use super::take::{heads_sql, lost_sql, next_sql};
use crate::{Store, StoreError, Tx};

#[tokio::test]
async fn taking_a_build_reads_the_queue_and_not_every_build() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    for (sql, values, steps) in [
        (lost_sql(), 3, vec!["SEARCH builds USING INDEX builds_taken (account=?"]),
        (next_sql(), 6, vec!["SEARCH builds USING INDEX builds_queue_of (account=? AND pipeline=?"]),
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
        let plan = store
            .read(move |tx: &mut Tx<'_>| {
                let values: Vec<_> = (0..values).map(|_| "x".into()).collect();
                let rows = tx.all(&format!("EXPLAIN QUERY PLAN {sql}"), &values)?;
                rows.iter().map(|row| row.text(3)).collect::<Result<Vec<_>, StoreError>>()
            })
            .await
            .unwrap();
        assert!(!plan.iter().any(|step| step.contains("TEMP B-TREE")), "nothing is sorted: {plan:?}");
        let scans = plan.iter().filter(|step| step.starts_with("SCAN") && step.contains("builds"));
        assert_eq!(scans.count(), 0, "{plan:?}");
        for step in steps {
            assert!(plan.iter().any(|found| found.starts_with(step)), "{step}: {plan:?}");
        }
    }
}
