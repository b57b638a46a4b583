//! That the queue is read by its indexes: with 100,000 builds, reading all of them for each that is taken is what
//! stops a platform.

use super::{lost_sql, waiting_sql};
use crate::{Store, StoreError, Tx};

#[tokio::test]
async fn taking_a_build_reads_the_queue_and_not_every_build() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(folder.path()).unwrap();
    for (sql, values, index) in
        [(lost_sql(), 3, "builds_taken"), (waiting_sql(" AND pipeline NOT IN ($6)"), 6, "builds_queue")]
    {
        let plan = store
            .read(move |tx: &mut Tx<'_>| {
                let values: Vec<_> = (0..values).map(|_| "x".into()).collect();
                let rows = tx.all(&format!("EXPLAIN QUERY PLAN {sql}"), &values)?;
                rows.iter().map(|row| row.text(3)).collect::<Result<Vec<_>, StoreError>>()
            })
            .await
            .unwrap();
        assert_eq!(plan.len(), 1, "nothing is sorted: {plan:?}");
        assert!(plan[0].contains(&format!("USING INDEX {index} (account=?")), "{plan:?}");
    }
}
