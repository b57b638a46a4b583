//! The request router: everything that may be asked of a runtime from outside, on one listener.
//!
//! `/app-proxy/…` for people, `/webhooks/git` for Git providers, `/healthz` and `/readyz`, event sources and configured services
//! ([`crate::services`]); everything else is 404. The tunnel ends here and nowhere else, and so does an ingress. Pages of the platform's origin may read the answers, also those of failures;
//! no other page may. Does not know who somebody is: that the app-proxy asks, and webhooks are believed by their signature.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::header::{self, HeaderMap, HeaderValue};
use axum::http::{Method, StatusCode};
use axum::middleware::{Next, from_fn_with_state};
use axum::response::{IntoResponse, Response};
use axum::routing::{get, post};
use axum::{Json, Router};
use slipway_api::ErrorBody;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::services::Services;
use crate::tunnel::TunnelState;
use crate::{Handle, app_proxy_router, webhook};

#[derive(Clone)]
pub struct Front {
    pub handle: Handle,
    /// Address of the platform: the only origin whose pages may read answers.
    pub platform_url: String,
    /// A host that is for webhooks alone: `/app-proxy` is not served there.
    pub external_host: Option<String>,
    /// None: callers come without a tunnel.
    pub tunnel: Option<watch::Receiver<TunnelState>>,
    /// What else is reached.
    pub services: Services,
}

struct Inner {
    front: Front,
    origin: Option<HeaderValue>,
}

pub fn front_router(front: Front) -> Router {
    let origin = reqwest::Url::parse(&front.platform_url).ok().map(|url| url.origin().ascii_serialization());
    let origin = origin.and_then(|origin| HeaderValue::from_str(&origin).ok());
    let proxy = app_proxy_router(front.handle.clone());
    let inner = Arc::new(Inner { front, origin });
    Router::new()
        .route("/webhooks/git", post(hook).layer(DefaultBodyLimit::max(webhook::BODY_BYTES_MAX)))
        .route("/healthz", get(|| async { "ok\n" }))
        .route("/readyz", get(ready))
        .fallback(serve_other)
        .with_state(inner.clone())
        .merge(proxy)
        .layer(from_fn_with_state(inner, around))
}

/// Serves until it is stopped, then lets what is under way finish.
pub async fn serve_front(
    listener: TcpListener,
    router: Router,
    stop: CancellationToken,
) -> std::io::Result<()> {
    axum::serve(listener, router).with_graceful_shutdown(async move { stop.cancelled().await }).await
}

fn refusal(status: StatusCode, name: &str, message: &str) -> Response {
    let body = ErrorBody {
        status: status.as_u16(),
        code: status.as_u16().to_string(),
        name: name.into(),
        message: message.into(),
        details: Vec::new(),
        request_id: None,
    };
    (status, Json(body)).into_response()
}

async fn around(State(inner): State<Arc<Inner>>, request: Request, next: Next) -> Response {
    let asked = request.headers().get(header::ORIGIN).cloned();
    let ours = asked.is_some() && asked == inner.origin;
    let asks_first = request.method() == Method::OPTIONS
        && request.headers().contains_key(header::ACCESS_CONTROL_REQUEST_METHOD);
    let mut response = if asks_first {
        preflight(ours)
    } else if inner.is_external(&request) && is_app_proxy(request.uri().path()) {
        let message = "this host is for webhooks alone; the app-proxy is on the internal one";
        refusal(StatusCode::FORBIDDEN, "INTERNAL_ONLY", message)
    } else {
        next.run(request).await
    };
    let headers = response.headers_mut();
    if let Some(origin) = asked.filter(|_| ours) {
        headers.insert(header::ACCESS_CONTROL_ALLOW_ORIGIN, origin);
    }
    headers.append(header::VARY, HeaderValue::from_static("origin"));
    headers.insert(header::X_CONTENT_TYPE_OPTIONS, HeaderValue::from_static("nosniff"));
    headers.insert(header::CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn preflight(ours: bool) -> Response {
    if !ours {
        return refusal(
            StatusCode::FORBIDDEN,
            "OTHER_ORIGIN",
            "pages of this origin may not ask this runtime",
        );
    }
    let allowed = [
        (header::ACCESS_CONTROL_ALLOW_METHODS, "GET, POST"),
        (header::ACCESS_CONTROL_ALLOW_HEADERS, "authorization, content-type"),
        (header::ACCESS_CONTROL_MAX_AGE, "600"),
    ];
    (StatusCode::NO_CONTENT, allowed).into_response()
}

fn is_app_proxy(path: &str) -> bool {
    path == "/app-proxy" || path.starts_with("/app-proxy/")
}

impl Inner {
    fn is_external(&self, request: &Request) -> bool {
        let Some(external) = &self.front.external_host else { return false };
        let hosts = request.headers().get_all(header::HOST).iter().filter_map(|host| host.to_str().ok());
        let mut named = hosts.chain(request.uri().authority().map(|authority| authority.as_str()));
        let plain = |host: &str| host.rsplit_once(':').map_or(host, |(name, _)| name).to_ascii_lowercase();
        named.any(|host| plain(host) == plain(external))
    }
}

/// Ready: the cluster is watched, and callers can come.
async fn ready(State(inner): State<Arc<Inner>>) -> Response {
    if !inner.front.handle.is_ready() {
        return refusal(StatusCode::SERVICE_UNAVAILABLE, "STARTING", "the cluster is not watched yet");
    }
    match inner.front.tunnel.as_ref().map(|tunnel| tunnel.borrow().clone()) {
        None => "ready\n".into_response(),
        Some(TunnelState::Open) => "ready, the tunnel is open\n".into_response(),
        // Engines work on without it; whoever balances must not kill them for that.
        Some(other) => format!("ready, but callers cannot come: {other}\n").into_response(),
    }
}

async fn serve_other(State(inner): State<Arc<Inner>>, request: Request) -> Response {
    match inner.front.services.answer(request).await {
        Some(Ok(response)) => response,
        Some(Err(why)) => refusal(StatusCode::BAD_GATEWAY, "SERVICE_AWAY", why),
        None => refusal(StatusCode::NOT_FOUND, "NOT_FOUND", "a runtime serves nothing here"),
    }
}

async fn hook(State(inner): State<Arc<Inner>>, headers: HeaderMap, body: Bytes) -> Response {
    match inner.front.handle.running.get() {
        Some(running) => webhook::receive(&running.webhooks, &headers, &body).into_response(),
        None => refusal(StatusCode::SERVICE_UNAVAILABLE, "STARTING", "the cluster is not watched yet"),
    }
}

#[cfg(test)]
mod tests {
    use tower::ServiceExt as _;

    use super::*;

    async fn ask(method: &str, path: &str, headers: &[(&str, &str)]) -> (u16, HeaderMap) {
        let (status, headers, _) = ask_with(Vec::new(), method, path, headers, "").await;
        (status, headers)
    }

    async fn ask_with(
        routes: Vec<crate::Route>,
        method: &str,
        path: &str,
        headers: &[(&str, &str)],
        body: &'static str,
    ) -> (u16, HeaderMap, String) {
        let router = front_router(Front {
            services: Services::new(routes, vec!["argocd".into()]),
            handle: Handle::default(),
            platform_url: "https://slipway.test/".into(),
            external_host: Some("hooks.test".into()),
            tunnel: None,
        });
        let mut request = axum::http::Request::builder().method(method).uri(path);
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        let answer = router.oneshot(request.body(axum::body::Body::from(body)).unwrap()).await.unwrap();
        let (status, headers) = (answer.status().as_u16(), answer.headers().clone());
        let bytes = axum::body::to_bytes(answer.into_body(), 1 << 20).await.unwrap();
        (status, headers, String::from_utf8_lossy(&bytes).into_owned())
    }

    #[tokio::test]
    async fn a_configured_service_gets_what_callers_send_without_what_opens_anything() {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let service = Router::new().fallback(|request: Request| async move {
            let (parts, body) = request.into_parts();
            let body = axum::body::to_bytes(body, 1 << 20).await.unwrap();
            let secrets = ["cookie", "authorization"].map(|name| parts.headers.contains_key(name));
            let signature =
                parts.headers.get("x-signature").and_then(|value| value.to_str().ok()).unwrap_or("");
            let said = format!("{} {} {signature} {} {secrets:?}", parts.method, parts.uri, body.len());
            ([("set-cookie", "a=b"), ("access-control-allow-origin", "*"), ("x-kept", "1")], said)
        });
        tokio::spawn(async move { axum::serve(listener, service).await });
        let routes = || vec![format!("/workflows=http://{address}/api").parse().unwrap()];
        let sent = [("cookie", "session=x"), ("authorization", "Bearer pass.x"), ("x-signature", "abc")];
        let (status, headers, said) = ask_with(routes(), "POST", "/workflows/a?b=c", &sent, "hello").await;
        assert_eq!((status, said.as_str()), (200, "POST /api/a?b=c abc 5 [false, false]"));
        assert!(headers.contains_key("x-kept") && !headers.contains_key("set-cookie"));
        assert!(
            !headers.contains_key("access-control-allow-origin"),
            "only the platform's pages read answers"
        );
        // One that is away is told of where the platform's pages can read it.
        let away = vec!["/workflows=http://127.0.0.1:1".parse().unwrap()];
        let origin = [("origin", "https://slipway.test")];
        let (status, headers, _) = ask_with(away, "GET", "/workflows", &origin, "").await;
        assert_eq!((status, headers.contains_key("access-control-allow-origin")), (502, true));
        assert_eq!(ask_with(routes(), "GET", "/workflows/../metrics", &[], "").await.0, 404);
    }

    /// Two messages, each answered before the next; the call ends with trailers. The service knows nothing but HTTP/2.
    #[tokio::test]
    async fn a_configured_service_answers_a_call_of_grpc_with_its_trailers() {
        use http_body_util::{BodyExt as _, BodyStream, StreamBody};
        use hyper::body::{Bytes, Frame, Incoming};
        use hyper_util::rt::{TokioExecutor, TokioIo};
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let echo = hyper::service::service_fn(|request: axum::http::Request<Incoming>| async {
                let end = [("grpc-status".parse().unwrap(), "0".parse().unwrap())];
                let end = futures::stream::iter([Ok(Frame::trailers(end.into_iter().collect()))]);
                let messages = BodyStream::new(request.into_body());
                let said = futures::StreamExt::chain(messages, end);
                Ok::<_, std::convert::Infallible>(axum::http::Response::new(StreamBody::new(said)))
            });
            let http = hyper::server::conn::http2::Builder::new(TokioExecutor::new());
            http.serve_connection(TokioIo::new(stream), echo).await
        });
        let router = front_router(Front {
            services: Services::new(vec![format!("/grpc=http://{address}").parse().unwrap()], Vec::new()),
            handle: Handle::default(),
            platform_url: "https://slipway.test/".into(),
            external_host: None,
            tunnel: None,
        });
        let (say, said) = futures::channel::mpsc::unbounded::<Result<Bytes, std::io::Error>>();
        let request = axum::http::Request::post("/grpc/echo.Echo/Converse")
            .version(axum::http::Version::HTTP_2)
            .header("content-type", "application/grpc")
            .header("te", "trailers")
            .body(axum::body::Body::from_stream(said))
            .unwrap();
        let mut body = router.oneshot(request).await.unwrap().into_body();
        for message in ["one", "two"] {
            say.unbounded_send(Ok(message.into())).unwrap();
            assert_eq!(body.frame().await.unwrap().unwrap().into_data().unwrap(), message);
        }
        drop(say);
        let trailers = body.collect().await.unwrap().trailers().cloned().expect("trailers");
        assert_eq!(trailers["grpc-status"], "0");
    }

    const APP: &str = "/app-proxy/api/applications/argocd/shop/diff";

    #[tokio::test]
    async fn only_a_few_paths_are_served_and_the_external_host_has_no_app_proxy() {
        for (method, path, status) in [
            ("GET", "/healthz", 200),
            ("GET", "/readyz", 503),
            ("GET", APP, 401),
            ("POST", "/webhooks/git", 503),
            ("GET", "/", 404),
            ("GET", "/metrics", 404),
            ("GET", "/engines", 404),
            ("GET", "/api/webhook", 404),
            ("GET", "/app-proxy/../metrics", 404),
            ("GET", "http://kubernetes.default.svc/api", 404),
        ] {
            assert_eq!(ask(method, path, &[("host", "inside.test")]).await.0, status, "{method} {path}");
        }
        for host in ["hooks.test", "HOOKS.test:8443"] {
            assert_eq!(ask("GET", APP, &[("host", host)]).await.0, 403, "{host}");
            assert_eq!(ask("POST", "/webhooks/git", &[("host", host)]).await.0, 503, "{host}");
        }
    }

    #[tokio::test]
    async fn pages_of_the_platform_read_answers_also_of_failures_and_no_other_page_does() {
        let allowed = |headers: &HeaderMap| headers.get("access-control-allow-origin").cloned();
        for path in [APP, "/nothing", "/readyz"] {
            let (_, headers) = ask("GET", path, &[("origin", "https://slipway.test")]).await;
            assert_eq!(allowed(&headers), Some(HeaderValue::from_static("https://slipway.test")), "{path}");
            assert!(headers.get("access-control-allow-credentials").is_none());
            for other in
                ["https://evil.test", "https://slipway.test.evil.test", "http://slipway.test", "null"]
            {
                assert_eq!(allowed(&ask("GET", path, &[("origin", other)]).await.1), None, "{other}");
            }
        }
        let first = [("origin", "https://slipway.test"), ("access-control-request-method", "POST")];
        let (status, headers) = ask("OPTIONS", APP, &first).await;
        assert_eq!(
            (status, &headers["access-control-allow-headers"]),
            (204, &HeaderValue::from_static("authorization, content-type"))
        );
        let other = [("origin", "https://evil.test"), ("access-control-request-method", "POST")];
        assert_eq!(ask("OPTIONS", APP, &other).await.0, 403);
    }
}
