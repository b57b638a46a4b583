pub(crate) struct Schedule;
impl Schedule { pub(crate) fn parse(_t: &str) -> Option<Self> { Some(Schedule) } }
pub(crate) async fn run(_c: std::sync::Arc<crate::api::Cluster>, s: tokio_util::sync::CancellationToken) { s.cancelled().await }
