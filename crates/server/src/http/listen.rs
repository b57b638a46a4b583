//! Connections: who is at the other end, how long a head may take, how it ends.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::Router;
use axum::extract::ConnectInfo;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::TcpListener;
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use tower::ServiceExt;

use super::tls::Tls;

/// A client that sends its head byte by byte is let go.
const HEAD_TIMEOUT: Duration = Duration::from_secs(15);
const HEADERS_MAX: usize = 100;

/// Serves until `stop`, then lets what is under way finish.
pub async fn serve(listener: TcpListener, app: Router, stop: CancellationToken) {
    serve_with(listener, None, app, stop).await;
}

/// The same, with TLS where there is a certificate.
pub async fn serve_with(listener: TcpListener, tls: Option<Arc<Tls>>, app: Router, stop: CancellationToken) {
    let connections = TaskTracker::new();
    loop {
        let accepted = tokio::select! {
            () = stop.cancelled() => break,
            accepted = listener.accept() => accepted,
        };
        let (stream, peer) = match accepted {
            Ok(accepted) => accepted,
            Err(error) => {
                // Out of file descriptors, most likely: the next moment has some again.
                tracing::warn!(%error, "Cannot accept a connection.");
                tokio::time::sleep(Duration::from_millis(50)).await;
                continue;
            }
        };
        let _ = stream.set_nodelay(true);
        let (app, stop) = (app.clone(), stop.clone());
        match &tls {
            None => connections.spawn(connection(stream, peer, app, stop)),
            Some(tls) => {
                let acceptor = tls.acceptor();
                connections.spawn(async move {
                    // As long as a head may take, for whoever sends a greeting byte by byte.
                    match tokio::time::timeout(HEAD_TIMEOUT, acceptor.accept(stream)).await {
                        Ok(Ok(stream)) => connection(stream, peer, app, stop).await,
                        Ok(Err(error)) => {
                            tracing::debug!(%error, %peer, "A connection did not begin with TLS.")
                        }
                        Err(_) => tracing::debug!(%peer, "A connection took too long to begin with TLS."),
                    }
                })
            }
        };
    }
    connections.close();
    connections.wait().await;
}

async fn connection<IO>(io: IO, peer: SocketAddr, app: Router, stop: CancellationToken)
where
    IO: AsyncRead + AsyncWrite + Unpin + Send + 'static,
{
    let service = hyper::service::service_fn(move |mut request: hyper::Request<hyper::body::Incoming>| {
        request.extensions_mut().insert(ConnectInfo::<SocketAddr>(peer));
        app.clone().oneshot(request)
    });
    let mut http = hyper::server::conn::http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT).max_headers(HEADERS_MAX);
    let mut connection = std::pin::pin!(http.serve_connection(TokioIo::new(io), service).with_upgrades());
    let ended = tokio::select! {
        ended = connection.as_mut() => ended,
        () = stop.cancelled() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = ended {
        tracing::debug!(%error, "A connection ended with an error.");
    }
}
