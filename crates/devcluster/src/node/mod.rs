pub(crate) struct Engine;
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum EngineChoice {
    Podman,
    Docker,
}
impl Engine {
    pub(crate) fn describe(&self) -> String {
        String::new()
    }
}
#[derive(Default)]
pub(crate) struct NodeLink;
impl NodeLink {
    pub(crate) fn unavailable(&self) -> Option<String> {
        Some("no".into())
    }
}
pub(crate) fn find_engine(_c: Option<EngineChoice>) -> Result<Engine, String> {
    Err("no".into())
}
pub(crate) async fn run(
    _c: std::sync::Arc<crate::api::Cluster>,
    _e: Result<Engine, String>,
    _a: std::net::SocketAddr,
    s: tokio_util::sync::CancellationToken,
) {
    s.cancelled().await
}
