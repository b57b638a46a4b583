//! gRPC as far as a server of single answers needs it: messages in, one out, over TLS.
//!
//! The certificate is made at each start and vouches for nothing: the CLI does not look at it, and the way here is the
//! port-forward. It knows frames and trailers, not what is in them.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use axum::body::Bytes;
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use http_body_util::{BodyExt, Empty, Full, Limited};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer};
use tokio_rustls::rustls::{self, ServerConfig};

/// Questions hold a source, what the caller knows of the cluster, and at most a packed folder; manifests only go out.
const MESSAGE_BYTES_MAX: usize = 16 * 1024 * 1024;
/// Of an error; a header is no place for a file.
const ERROR_BYTES_MAX: usize = 8 * 1024;
const CONNECTIONS_MAX: usize = 64;
const HANDSHAKE: Duration = Duration::from_secs(10);
/// One byte that says whether it is compressed, four with the length.
const FRAME_HEADER: usize = 5;

/// An answer that is an error.
#[derive(Debug)]
pub(super) struct Refusal {
    pub(super) code: u8,
    pub(super) message: String,
}

impl Refusal {
    pub(super) fn unknown(message: impl Into<String>) -> Self {
        Self { code: 2, message: message.into() }
    }

    pub(super) fn malformed(message: impl Into<String>) -> Self {
        Self { code: 3, message: message.into() }
    }

    pub(super) fn unimplemented(message: impl Into<String>) -> Self {
        Self { code: 12, message: message.into() }
    }
}

/// Something that answers a method, named by its path, with a message.
pub(super) trait Answers: Send + Sync + 'static {
    /// There is at least one message.
    fn answer(
        &self,
        method: &str,
        messages: Vec<Bytes>,
    ) -> impl Future<Output = Result<Vec<u8>, Refusal>> + Send;
}

pub(super) async fn serve(listener: TcpListener, service: Arc<impl Answers>) {
    let acceptor = match certificate() {
        Ok(acceptor) => acceptor,
        Err(error) => {
            tracing::error!(%error, "The repository server is not served: no certificate could be made.");
            return;
        }
    };
    let room = Arc::new(tokio::sync::Semaphore::new(CONNECTIONS_MAX));
    loop {
        let Ok(place) = room.clone().acquire_owned().await else { return };
        let stream = super::accept(&listener).await;
        let (acceptor, service) = (acceptor.clone(), service.clone());
        tokio::spawn(async move {
            let _place = place;
            if let Err(error) = connection(stream, &acceptor, service).await {
                tracing::debug!(%error, "A client of the repository server went away.");
            }
        });
    }
}

fn certificate() -> Result<TlsAcceptor, Box<dyn std::error::Error + Send + Sync>> {
    let made = rcgen::generate_simple_self_signed(["localhost".to_owned()])?;
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let provider = Arc::new(rustls::crypto::aws_lc_rs::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)?;
    config.alpn_protocols = vec![b"h2".to_vec()];
    Ok(TlsAcceptor::from(Arc::new(config)))
}

async fn connection(
    stream: TcpStream,
    acceptor: &TlsAcceptor,
    service: Arc<impl Answers>,
) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let stream = tokio::time::timeout(HANDSHAKE, acceptor.accept(stream)).await??;
    let handle = service_fn(move |request| {
        let service = service.clone();
        async move { Ok::<_, Infallible>(respond(&*service, request).await) }
    });
    http2::Builder::new(TokioExecutor::new()).serve_connection(TokioIo::new(stream), handle).await?;
    Ok(())
}

type Body = http_body_util::combinators::UnsyncBoxBody<Bytes, Infallible>;

async fn respond(service: &impl Answers, request: Request<Incoming>) -> Response<Body> {
    let method = request.uri().path().to_owned();
    let outcome = match read(request).await {
        Ok(messages) => service.answer(&method, messages).await,
        Err(refusal) => Err(refusal),
    };
    let mut response = match outcome {
        Ok(message) => {
            let trailers = std::future::ready(Some(Ok(status(0, ""))));
            Response::new(Full::new(Bytes::from(framed(&message))).with_trailers(trailers).boxed_unsync())
        }
        // Without a message there is nothing that trailers could come after.
        Err(refusal) => {
            let mut response = Response::new(Empty::new().boxed_unsync());
            *response.headers_mut() = status(refusal.code, &refusal.message);
            response
        }
    };
    *response.status_mut() = StatusCode::OK;
    response.headers_mut().insert("content-type", HeaderValue::from_static("application/grpc"));
    response
}

async fn read(request: Request<Incoming>) -> Result<Vec<Bytes>, Refusal> {
    let limited = Limited::new(request.into_body(), MESSAGE_BYTES_MAX);
    let body = limited.collect().await.map_err(|error| Refusal::malformed(error.to_string()))?.to_bytes();
    unframed(&body)
}

fn unframed(body: &Bytes) -> Result<Vec<Bytes>, Refusal> {
    let mut messages = Vec::new();
    let mut rest = body.clone();
    while !rest.is_empty() || messages.is_empty() {
        let (Some(packed), Some(length)) = (rest.first(), rest.get(1..FRAME_HEADER)) else {
            return Err(Refusal::malformed("a message is missing"));
        };
        if *packed != 0 {
            return Err(Refusal::unimplemented("compressed messages are not read here"));
        }
        let length = u32::from_be_bytes(length.try_into().expect("four bytes were taken")) as usize;
        if rest.len() < FRAME_HEADER + length {
            return Err(Refusal::malformed("a message is shorter than it says"));
        }
        let mut frame = rest.split_to(FRAME_HEADER + length);
        messages.push(frame.split_off(FRAME_HEADER));
    }
    Ok(messages)
}

fn framed(message: &[u8]) -> Vec<u8> {
    let length = u32::try_from(message.len()).expect("manifests are bounded far below");
    let mut frame = vec![0];
    frame.extend(length.to_be_bytes());
    frame.extend(message);
    frame
}

/// The message is percent-encoded, because a header takes no other characters.
fn status(code: u8, message: &str) -> HeaderMap {
    let mut encoded = String::new();
    for byte in message.bytes().take(ERROR_BYTES_MAX) {
        if (b' '..=b'~').contains(&byte) && byte != b'%' {
            encoded.push(byte as char);
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", HeaderValue::from(u16::from(code)));
    if let Ok(value) = HeaderValue::from_str(&encoded) {
        trailers.insert("grpc-message", value);
    }
    trailers
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_frame_comes_back_as_it_went() {
        let frame = Bytes::from(framed(b"hello"));
        assert_eq!(frame[..FRAME_HEADER], [0, 0, 0, 0, 5]);
        assert_eq!(unframed(&frame).unwrap(), [b"hello".as_slice()]);
        let two = Bytes::from([framed(b"hello"), framed(b"")].concat());
        assert_eq!(unframed(&two).unwrap(), [b"hello".as_slice(), b""]);
    }

    #[test]
    fn frames_that_are_short_long_or_packed_are_refused() {
        for wrong in [&b""[..], &[0, 0, 0, 0], &[0, 0, 0, 0, 9, 1], &[1, 0, 0, 0, 0], &[0, 0, 0, 0, 1, 1, 0]]
        {
            assert!(unframed(&Bytes::copy_from_slice(wrong)).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn a_message_with_line_breaks_and_umlauts_fits_into_a_header() {
        let trailers = status(2, "100 %\nü");
        assert_eq!(trailers["grpc-message"], "100 %25%0A%C3%BC");
        assert_eq!(trailers["grpc-status"], "2");
    }
}
