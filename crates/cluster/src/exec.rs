//! A command in a container that runs, with its streams.

use std::time::Duration;

use futures::SinkExt as _;
use futures::future::BoxFuture;
use k8s_openapi::api::core::v1::Pod;
use kube::api::{AttachParams, AttachedProcess, TerminalSize};
use tokio::io::{AsyncRead, AsyncWrite};

use crate::ClusterError;
use crate::connect::Cluster;

const OPEN_WITHIN: Duration = Duration::from_secs(30);
/// So much of a stream is on its way at once.
const BUFFER_BYTES: usize = 32 << 10;

#[derive(Debug, Clone, Default)]
pub struct ExecOptions {
    pub container: String,
    pub command: Vec<String>,
    /// With a terminal both outputs are one.
    pub tty: bool,
    pub stdin: bool,
}

/// A command under way; it is cut off when this is dropped.
pub struct Exec {
    pub stdin: Option<Box<dyn AsyncWrite + Send + Unpin>>,
    pub stdout: Option<Box<dyn AsyncRead + Send + Unpin>>,
    pub stderr: Option<Box<dyn AsyncRead + Send + Unpin>>,
    pub size: Option<Resize>,
    /// How it ended.
    pub end: BoxFuture<'static, ExecEnd>,
    _process: AttachedProcess,
}

/// How large the terminal is.
pub struct Resize(futures::channel::mpsc::Sender<TerminalSize>);

impl Resize {
    pub async fn set(&mut self, columns: u16, rows: u16) {
        // The command may have ended meanwhile.
        let _ = self.0.send(TerminalSize { width: columns, height: rows }).await;
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExecEnd {
    /// `None`: it is not known.
    pub code: Option<i32>,
    pub message: String,
}

impl Cluster {
    pub async fn exec(
        &self,
        namespace: &str,
        pod: &str,
        options: &ExecOptions,
    ) -> Result<Exec, ClusterError> {
        let api: kube::Api<Pod> = kube::Api::namespaced(self.inner.client.clone(), namespace);
        let wish = AttachParams::default()
            .container(&options.container)
            .stdin(options.stdin)
            .stdout(true)
            .stderr(!options.tty)
            .tty(options.tty)
            .max_stdin_buf_size(BUFFER_BYTES)
            .max_stdout_buf_size(BUFFER_BYTES)
            .max_stderr_buf_size(BUFFER_BYTES);
        let open = api.exec(pod, options.command.iter().map(String::as_str), &wish);
        let mut process = match tokio::time::timeout(OPEN_WITHIN, open).await {
            Ok(process) => process.map_err(|error| {
                ClusterError::from_kube(error, format!("a command in pod {namespace}/{pod}"))
            })?,
            Err(_) => return Err(ClusterError::Deadline { seconds: OPEN_WITHIN.as_secs() }),
        };
        let status = process.take_status().expect("it is taken once");
        Ok(Exec {
            stdin: process.stdin().map(|stream| Box::new(stream) as _),
            stdout: process.stdout().map(|stream| Box::new(stream) as _),
            stderr: process.stderr().map(|stream| Box::new(stream) as _),
            size: process.terminal_size().map(Resize),
            end: Box::pin(async move {
                let Some(status) = status.await else {
                    return ExecEnd { code: None, message: "the connection to the container broke".into() };
                };
                let success = status.status.as_deref() == Some("Success");
                let causes = status.details.and_then(|details| details.causes).unwrap_or_default();
                let code = causes.iter().find(|cause| cause.reason.as_deref() == Some("ExitCode"));
                let code = code.and_then(|cause| cause.message.as_deref()?.parse().ok());
                ExecEnd {
                    code: if success { Some(0) } else { code },
                    message: status.message.unwrap_or_default(),
                }
            }),
            _process: process,
        })
    }
}
