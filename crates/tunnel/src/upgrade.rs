//! Two upgraded streams, one copied into the other until both have ended.

use hyper::upgrade::OnUpgrade;
use hyper_util::rt::TokioIo;

/// Goes on by itself. A side that ends is shut down towards the other; a side that breaks ends both.
pub(crate) fn join(one: OnUpgrade, other: OnUpgrade) {
    tokio::spawn(async move {
        let (one, other) = match tokio::try_join!(one, other) {
            Ok((one, other)) => (one, other),
            Err(error) => {
                tracing::debug!(%error, "An upgrade did not come about.");
                return;
            }
        };
        let (mut one, mut other) = (TokioIo::new(one), TokioIo::new(other));
        if let Err(error) = tokio::io::copy_bidirectional(&mut one, &mut other).await {
            tracing::debug!(%error, "An upgraded stream broke.");
        }
    });
}
