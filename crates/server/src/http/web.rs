//! The web UI, built once and embedded. Any path that is no file is the app's own and gets its page.
//!
//! A page may ask the platform it came from, and the runtimes of the account that it was opened for, on the addresses that these have
//! at that moment. Who is not signed in learns of none, and their page asks none.

use axum::body::Body;
use axum::http::{HeaderMap, HeaderValue, Method, Response, StatusCode, Uri, header};
use rust_embed::RustEmbed;
use slipway_store::{Scope, runtimes};

use crate::ctx::Server;
use crate::gitops::reach;
use crate::identity::auth;

#[derive(RustEmbed)]
#[folder = "../../web/dist"]
#[allow_missing = true]
struct Files;

const NOT_BUILT: &str =
    "<!doctype html><title>Slipway</title><p>The web UI is not in this binary: run <code>make build</code>.";
/// More of them than a header should hold: then every https address may be asked, as all of them are.
const ORIGINS_MAX: usize = 100;

/// No script but our own; the app needs inline styles for layout. `asked` are the origins that a page asks besides its own.
fn content_policy(host: Option<&str>, asked: &[String]) -> String {
    let plain = |text: &&str| text.chars().all(|c| c.is_ascii_alphanumeric() || ":/.-[]".contains(c));
    // Some browsers do not count sockets of the page's own host as its own.
    let sockets = host.filter(plain).map(|host| format!(" ws://{host} wss://{host}")).unwrap_or_default();
    let asked = match asked.len() > ORIGINS_MAX {
        true => " https: wss:".to_owned(),
        // Their sockets too, which no other word covers.
        false => asked
            .iter()
            .map(String::as_str)
            .filter(plain)
            .map(|origin| format!(" {origin} {}", origin.replacen("http", "ws", 1)))
            .collect(),
    };
    format!(
        "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; connect-src 'self'{sockets}{asked}; \
         worker-src 'self' blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'"
    )
}

/// Where the runtimes of whoever asks for the page are, as far as that is elsewhere.
async fn origins(server: &Server, headers: &HeaderMap) -> Vec<String> {
    let Ok(Some((principal, _))) = auth::authenticate(server, headers).await else { return Vec::new() };
    let scope = Scope::of(principal.account);
    let known = server.store().read(move |tx| runtimes::addresses(tx, scope)).await.unwrap_or_default();
    let mut origins: Vec<_> = known
        .iter()
        .map(|(name, address)| reach::url(server, scope.account(), name, address))
        .filter(|url| url.contains("://"))
        .collect();
    origins.sort_unstable();
    origins.dedup();
    origins
}

pub(crate) async fn serve(server: Server, method: Method, uri: Uri, headers: HeaderMap) -> Response<Body> {
    let path = uri.path().trim_start_matches('/');
    if !matches!(method, Method::GET | Method::HEAD) {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "nothing can be changed here");
    }
    let accepted =
        headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
    if let Some(found) = Some(path)
        .filter(|path| !path.is_empty())
        .and_then(|path| file(path, accepted, &content_policy(host, &[])))
    {
        return found;
    }
    if path.starts_with("assets/") {
        return plain(StatusCode::NOT_FOUND, "text/plain", "no such file");
    }
    let policy = content_policy(host, &origins(&server, &headers).await);
    file("index.html", accepted, &policy).unwrap_or_else(|| {
        let mut page = plain(StatusCode::OK, "text/html; charset=utf-8", NOT_BUILT);
        if let Ok(policy) = HeaderValue::from_str(&policy) {
            page.headers_mut().insert(header::CONTENT_SECURITY_POLICY, policy);
        }
        page
    })
}

fn file(path: &str, accepted: &str, policy: &str) -> Option<Response<Body>> {
    let squeezed = [("br", "br"), ("gzip", "gz")].into_iter().find_map(|(encoding, ending)| {
        let fits = accepted.split(',').any(|part| part.trim().split(';').next() == Some(encoding));
        fits.then(|| Files::get(&format!("{path}.{ending}")).map(|file| (Some(encoding), file))).flatten()
    });
    let (encoding, found) = squeezed.or_else(|| Files::get(path).map(|file| (None, file)))?;
    // Names under assets/ carry a hash of their content, so they never change.
    let caching =
        if path.starts_with("assets/") { "public, max-age=31536000, immutable" } else { "no-cache" };
    let mut response = Response::builder()
        .header(header::CONTENT_TYPE, content_type(path))
        .header(header::CACHE_CONTROL, caching)
        .header(header::VARY, "accept-encoding, cookie")
        .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff")
        .header(header::CONTENT_SECURITY_POLICY, policy);
    if let Some(encoding) = encoding {
        response = response.header(header::CONTENT_ENCODING, encoding);
    }
    response.body(Body::from(found.data.into_owned())).ok()
}

fn plain(status: StatusCode, kind: &str, text: &'static str) -> Response<Body> {
    let response = Response::builder().status(status).header(header::CONTENT_TYPE, kind);
    response.body(Body::from(text)).expect("static headers are valid")
}

fn content_type(path: &str) -> &'static str {
    match path.rsplit('.').next().unwrap_or_default() {
        "html" => "text/html; charset=utf-8",
        "js" | "mjs" => "text/javascript; charset=utf-8",
        "css" => "text/css; charset=utf-8",
        "svg" => "image/svg+xml",
        "json" | "map" => "application/json",
        "png" => "image/png",
        "ico" => "image/x-icon",
        "woff2" => "font/woff2",
        "txt" => "text/plain; charset=utf-8",
        _ => "application/octet-stream",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_page_asks_its_own_host_and_the_runtimes_that_it_was_told_of() {
        let asked = |host, origins: &[&str]| {
            let origins: Vec<_> = origins.iter().map(|origin| (*origin).to_owned()).collect();
            let policy = content_policy(host, &origins);
            let part = policy.split("; ").find(|part| part.starts_with("connect-src"));
            part.expect("it says so").to_owned()
        };
        assert_eq!(asked(None, &[]), "connect-src 'self'");
        assert_eq!(
            asked(Some("a.test:8080"), &["https://r.test", "https://[::1]:8443"]),
            "connect-src 'self' ws://a.test:8080 wss://a.test:8080 https://r.test wss://r.test https://[::1]:8443 wss://[::1]:8443"
        );
        // What could end the rule, or the header, is no origin.
        for hostile in ["https://a; script-src *", "https://a b", "*", "https://a'x"] {
            assert_eq!(asked(Some(hostile), &[hostile]), "connect-src 'self'", "{hostile}");
        }
        let many = vec!["https://r.test"; ORIGINS_MAX + 1];
        assert_eq!(asked(None, &many), "connect-src 'self' https: wss:");
    }
}
