//! Logs of pods, as lines.

use futures::io::AsyncBufRead;
use futures::{AsyncBufReadExt, Stream};
use http::Request;

use crate::ClusterError;
use crate::connect::Cluster;
use crate::request::encode;

/// A container that prints without an end of a line does not fill the memory: its line comes in pieces.
const LINE_BYTES_MAX: usize = 64 << 10;

#[derive(Debug, Clone, Default)]
pub struct LogOptions {
    /// Empty: the only one, or the default one.
    pub container: String,
    pub follow: bool,
    /// Only this many of the last lines.
    pub tail: Option<u64>,
    /// Only what was printed in the last so many seconds.
    pub since_seconds: Option<u64>,
    /// The run before the last restart.
    pub previous: bool,
    /// Each line behind the time at which the node heard it.
    pub timestamps: bool,
}

impl Cluster {
    /// The lines of one container, until it ends or (without `follow`) until now.
    pub async fn pod_logs(
        &self,
        namespace: &str,
        pod: &str,
        options: &LogOptions,
    ) -> Result<impl Stream<Item = Result<String, std::io::Error>> + Send + Unpin + use<>, ClusterError> {
        let mut path = format!("/api/v1/namespaces/{}/pods/{}/log?", encode(namespace), encode(pod));
        if !options.container.is_empty() {
            path.push_str(&format!("container={}&", encode(&options.container)));
        }
        if let Some(tail) = options.tail {
            path.push_str(&format!("tailLines={tail}&"));
        }
        if let Some(seconds) = options.since_seconds {
            path.push_str(&format!("sinceSeconds={seconds}&"));
        }
        path.push_str(&format!(
            "follow={}&previous={}&timestamps={}",
            options.follow, options.previous, options.timestamps
        ));
        let request = Request::get(&path).body(Vec::new()).expect("paths are built from checked parts");
        let what = format!("logs of pod {namespace}/{pod}");
        let open = self.inner.client.request_stream(request);
        let stream = match tokio::time::timeout(self.inner.config.request_timeout, open).await {
            Ok(stream) => stream.map_err(|error| ClusterError::from_kube(error, what))?,
            Err(_) => {
                return Err(ClusterError::Deadline { seconds: self.inner.config.request_timeout.as_secs() });
            }
        };
        Ok(lines(Box::pin(stream)))
    }
}

/// What is no UTF-8 is shown as such.
fn lines(
    reader: impl AsyncBufRead + Send + Unpin + 'static,
) -> impl Stream<Item = Result<String, std::io::Error>> + Send + Unpin {
    let next =
        async |mut reader: _| Ok::<_, std::io::Error>(line(&mut reader).await?.map(|line| (line, reader)));
    Box::pin(futures::stream::try_unfold(reader, next))
}

async fn line(reader: &mut (impl AsyncBufRead + Unpin)) -> Result<Option<String>, std::io::Error> {
    let mut text = Vec::new();
    loop {
        let seen = reader.fill_buf().await?;
        if seen.is_empty() {
            return Ok((!text.is_empty()).then(|| String::from_utf8_lossy(&text).into_owned()));
        }
        let room = seen.len().min(LINE_BYTES_MAX - text.len());
        let (taken, ends) = match seen[..room].iter().position(|byte| *byte == b'\n') {
            Some(at) => (at, true),
            None => (room, false),
        };
        text.extend_from_slice(&seen[..taken]);
        reader.consume_unpin(taken + usize::from(ends));
        if ends || text.len() >= LINE_BYTES_MAX {
            return Ok(Some(String::from_utf8_lossy(&text).into_owned()));
        }
    }
}

#[cfg(test)]
mod tests {
    use futures::TryStreamExt as _;

    use super::*;

    #[tokio::test]
    async fn lines_are_cut_where_they_end_and_where_they_never_do() {
        let long = "x".repeat(LINE_BYTES_MAX + 5);
        let text = format!("one\n\n\u{fc}ber\n{long}\nlast");
        let mut bytes = text.into_bytes();
        bytes.extend([0xff, b'\n']);
        let all: Vec<String> = lines(futures::io::Cursor::new(bytes)).try_collect().await.unwrap();
        let lengths: Vec<usize> = all.iter().map(String::len).collect();
        assert_eq!(lengths, [3, 0, 5, LINE_BYTES_MAX, 5, 7]);
        assert_eq!(all[5], "last\u{fffd}");
    }
}
