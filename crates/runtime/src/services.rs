//! Services of the cluster that callers reach through the request router: a list that the operator fixed when the runtime was started.
//!
//! In: a request whose path names an event source or begins as a configured route does. Out: the service's answer, as a stream.
//! Nobody who calls can name a target: of an event source only the first label of a Service's name comes from the path, the namespace
//! has to be on the list, and everything else of the address is ours. Does not know what the services do; webhooks are believed by them.

use std::time::Duration;

use axum::body::Body;
use axum::extract::Request;
use axum::http::{Uri, Version, header};
use axum::response::Response;
use hyper_util::client::legacy::Client;
use hyper_util::client::legacy::connect::HttpConnector;
use hyper_util::rt::{TokioExecutor, TokioTimer};
use slipway_tunnel::{is_grpc, without_hops};

const CONNECT_WITHIN: Duration = Duration::from_secs(5);

/// What `--route PREFIX=URL` says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// Begins with a slash and ends without one.
    prefix: String,
    /// Ends without a slash.
    target: String,
}

impl std::str::FromStr for Route {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = |why: &str| {
            Err(format!(
                "`{text}` is not a route: {why}; use /PREFIX=http://SERVICE.NAMESPACE.svc[:PORT][/PATH]"
            ))
        };
        let Some((prefix, target)) = text.split_once('=') else { return wrong("it has no `=`") };
        let segments: Vec<_> = prefix.split('/').skip(1).collect();
        let plain = |segment: &&str| {
            let fits = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
            !segment.is_empty() && segment.bytes().all(fits)
        };
        if !prefix.starts_with('/') || segments.is_empty() || !segments.iter().all(plain) {
            return wrong("the prefix is letters, digits and hyphens between slashes");
        }
        if ["app-proxy", "healthz", "readyz"].contains(&segments[0]) || prefix == "/webhooks/git" {
            return wrong("the runtime answers there itself");
        }
        match reqwest::Url::parse(target) {
            Ok(url) if url.scheme() != "http" => {
                wrong("services inside of the cluster are asked without TLS")
            }
            Ok(url) if url.query().is_some() || url.fragment().is_some() || !url.username().is_empty() => {
                wrong("the target has more than a host, a port and a path")
            }
            Ok(url) => {
                Ok(Self { prefix: prefix.to_owned(), target: url.as_str().trim_end_matches('/').to_owned() })
            }
            Err(_) => wrong("the target cannot be read"),
        }
    }
}

/// Where requests go on to.
#[derive(Clone)]
pub struct Services {
    http: Client<HttpConnector, Body>,
    /// For gRPC, which knows nothing but HTTP/2.
    http2: Client<HttpConnector, Body>,
    routes: Vec<Route>,
    /// Namespaces whose event sources are reached.
    event_namespaces: Vec<String>,
}

impl Services {
    /// Of event sources, those in `event_namespaces`.
    pub fn new(mut routes: Vec<Route>, event_namespaces: Vec<String>) -> Self {
        // The longest prefix decides.
        routes.sort_by_key(|route| std::cmp::Reverse(route.prefix.len()));
        let mut connector = HttpConnector::new();
        connector.set_nodelay(true);
        connector.set_connect_timeout(Some(CONNECT_WITHIN));
        let mut builder = Client::builder(TokioExecutor::new());
        builder.pool_timer(TokioTimer::new());
        let http2 = builder.clone().http2_only(true).build(connector.clone());
        let http = builder.build(connector);
        Self { http, http2, routes, event_namespaces }
    }

    /// Where a path leads, with its query; none: nowhere.
    fn target(&self, path: &str, query: Option<&str>) -> Option<String> {
        let address = self.configured(path).or_else(|| self.event_source(path))?;
        Some(match query {
            Some(query) => format!("{address}?{query}"),
            None => address,
        })
    }

    fn configured(&self, path: &str) -> Option<String> {
        // Whoever reads dots otherwise than we do would be led out of the prefix.
        if path.split('/').any(is_dots) {
            return None;
        }
        self.routes.iter().find_map(|route| {
            let rest = path.strip_prefix(&route.prefix)?;
            (rest.is_empty() || rest.starts_with('/')).then(|| format!("{}{rest}", route.target))
        })
    }

    /// `/webhooks/<namespace>/<event source>[/…]`.
    fn event_source(&self, path: &str) -> Option<String> {
        let mut parts = path.strip_prefix("/webhooks/")?.splitn(3, '/');
        let (namespace, source, rest) = (parts.next()?, parts.next()?, parts.next().unwrap_or_default());
        let known = self.event_namespaces.iter().any(|known| known == namespace);
        if !known || !is_label(source) || rest.split('/').any(is_dots) {
            return None;
        }
        Some(format!("http://{source}-eventsource-svc.{namespace}.svc/{rest}"))
    }

    /// None: there is nothing here.
    pub(crate) async fn answer(&self, request: Request) -> Option<Result<Response, &'static str>> {
        let target = self.target(request.uri().path(), request.uri().query())?;
        let uri: Uri = target.parse().ok()?;
        let (mut parts, body) = request.into_parts();
        for name in [header::COOKIE, header::HOST, header::AUTHORIZATION] {
            parts.headers.remove(name);
        }
        without_hops(&mut parts.headers);
        let (http, version) = match parts.version == Version::HTTP_2 && is_grpc(&parts.headers) {
            true => (&self.http2, Version::HTTP_2),
            false => (&self.http, Version::HTTP_11),
        };
        (parts.uri, parts.version) = (uri, version);
        Some(match http.request(Request::from_parts(parts, body)).await {
            Ok(answer) => Ok(passed_on(answer.map(Body::new))),
            Err(error) => {
                tracing::debug!(%error, target, "A service does not answer a request from outside.");
                Err("the service behind this path does not answer")
            }
        })
    }
}

/// `.`, `..`, and how they are written to look otherwise.
fn is_dots(segment: &str) -> bool {
    let plain = segment.to_ascii_lowercase().replace("%2e", ".");
    matches!(plain.as_str(), "." | "..")
        || plain.contains("%2f")
        || plain.contains("%5c")
        || plain.contains('\\')
}

fn is_label(text: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
    (1..=47).contains(&text.len()) && text.bytes().all(fits) && !text.starts_with('-') && !text.ends_with('-')
}

fn passed_on(mut answer: Response) -> Response {
    let headers = answer.headers_mut();
    without_hops(headers);
    for name in
        [header::SET_COOKIE, header::ACCESS_CONTROL_ALLOW_ORIGIN, header::ACCESS_CONTROL_ALLOW_CREDENTIALS]
    {
        headers.remove(name);
    }
    answer
}

#[cfg(test)]
mod tests {
    use super::*;

    fn services() -> Services {
        let routes =
            ["/workflows=http://argo-server.argo.svc:2746/api", "/webhooks/ci/jobs=http://jobs.ci.svc"];
        let routes = routes.map(|route| route.parse().unwrap());
        Services::new(routes.into(), vec!["argocd".into(), "events".into()])
    }

    #[test]
    fn only_what_the_operator_listed_is_reached() {
        let services = services();
        for (path, target) in [
            ("/workflows", "http://argo-server.argo.svc:2746/api"),
            ("/workflows/list/a", "http://argo-server.argo.svc:2746/api/list/a"),
            ("/webhooks/ci/jobs/x", "http://jobs.ci.svc/x"),
            ("/webhooks/argocd/github", "http://github-eventsource-svc.argocd.svc/"),
            ("/webhooks/events/github/push/main", "http://github-eventsource-svc.events.svc/push/main"),
        ] {
            assert_eq!(services.target(path, None).as_deref(), Some(target), "{path}");
        }
        assert_eq!(
            services.target("/webhooks/argocd/github", Some("a=b")).as_deref(),
            Some("http://github-eventsource-svc.argocd.svc/?a=b")
        );
    }

    #[test]
    fn k89_a_path_names_no_target() {
        let services = services();
        for path in [
            "/webhooks/kube-system/github",
            "/webhooks/argocd",
            "/webhooks/argocd/",
            "/webhooks/argocd/evil.example.com",
            "/webhooks/argocd/evil.example.com%2f",
            "/webhooks/argocd/a@b",
            "/webhooks/argocd/a:80",
            "/webhooks/argocd/GitHub",
            "/webhooks/argocd/-a",
            "/webhooks/argocd/a%2e",
            "/webhooks/argocd/github/../../metrics",
            "/webhooks/argocd/github/%2e%2e/x",
            "/webhooks/argocd.evil/github",
            "/workflowsx",
            "/workflows/../admin",
            "/workflows/%2E%2e/admin",
            "/workflows/a%2fb",
            "/",
            "//workflows",
        ] {
            assert_eq!(services.target(path, None), None, "{path}");
        }
        for wrong in [
            "workflows=http://a",
            "/workflows",
            "/app-proxy=http://a",
            "/app-proxy/x=http://a",
            "/webhooks/git=http://a",
            "/a/../b=http://a",
            "/a=ftp://a",
            "/a=http://me:x@a",
            "/a=http://a?b=c",
            "/=http://a",
        ] {
            assert!(wrong.parse::<Route>().is_err_and(|why| why.contains("is not a route")), "{wrong}");
        }
    }
}
