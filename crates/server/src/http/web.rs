//! The web UI, built once and embedded. Any path that is no file is the app's own and gets its page.

use axum::body::Body;
use axum::http::{HeaderMap, Method, Response, StatusCode, Uri, header};
use rust_embed::RustEmbed;

#[derive(RustEmbed)]
#[folder = "../../web/dist"]
#[allow_missing = true]
struct Files;

const NOT_BUILT: &str =
    "<!doctype html><title>Slipway</title><p>The web UI is not in this binary: run <code>make build</code>.";
/// No script but our own; the app needs inline styles for layout. Pages ask runtimes on addresses of their own, with a pass.
const CONTENT_POLICY: &str = "default-src 'self'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; \
     connect-src 'self' https: http://*.localhost:* ws: wss:; worker-src 'self' blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'self'";

pub(crate) async fn serve(method: Method, uri: Uri, headers: HeaderMap) -> Response<Body> {
    let path = uri.path().trim_start_matches('/');
    if !matches!(method, Method::GET | Method::HEAD) {
        return plain(StatusCode::METHOD_NOT_ALLOWED, "text/plain", "nothing can be changed here");
    }
    let accepted =
        headers.get(header::ACCEPT_ENCODING).and_then(|value| value.to_str().ok()).unwrap_or_default();
    if let Some(found) = Some(path).filter(|path| !path.is_empty()).and_then(|path| file(path, accepted)) {
        return found;
    }
    if path.starts_with("assets/") {
        return plain(StatusCode::NOT_FOUND, "text/plain", "no such file");
    }
    file("index.html", accepted)
        .unwrap_or_else(|| plain(StatusCode::OK, "text/html; charset=utf-8", NOT_BUILT))
}

fn file(path: &str, accepted: &str) -> Option<Response<Body>> {
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
        .header(header::VARY, "accept-encoding")
        .header(header::X_CONTENT_TYPE_OPTIONS, "nosniff")
        .header(header::CONTENT_SECURITY_POLICY, CONTENT_POLICY);
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
