//! Logs of pods, as lines.

use futures::{AsyncBufReadExt, Stream, StreamExt};
use http::Request;

use crate::ClusterError;
use crate::connect::Cluster;
use crate::request::encode;

#[derive(Debug, Clone, Default)]
pub struct LogOptions {
    /// Empty: the only one, or the default one.
    pub container: String,
    pub follow: bool,
    /// Only this many of the last lines.
    pub tail: Option<u64>,
    /// The run before the last restart.
    pub previous: bool,
}

impl Cluster {
    /// The lines of one container, until it ends or (without `follow`) until now.
    pub async fn pod_logs(
        &self,
        namespace: &str,
        pod: &str,
        options: &LogOptions,
    ) -> Result<impl Stream<Item = Result<String, std::io::Error>> + Send + use<>, ClusterError> {
        let mut path = format!("/api/v1/namespaces/{}/pods/{}/log?", encode(namespace), encode(pod));
        if !options.container.is_empty() {
            path.push_str(&format!("container={}&", encode(&options.container)));
        }
        if let Some(tail) = options.tail {
            path.push_str(&format!("tailLines={tail}&"));
        }
        path.push_str(&format!("follow={}&previous={}", options.follow, options.previous));
        let request = Request::get(&path).body(Vec::new()).expect("paths are built from checked parts");
        let stream = self
            .inner
            .client
            .request_stream(request)
            .await
            .map_err(|error| ClusterError::from_kube(error, format!("logs of pod {namespace}/{pod}")))?;
        Ok(Box::pin(stream).lines().boxed())
    }
}
