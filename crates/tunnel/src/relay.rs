//! A request that came through one connection goes on through a tunnel: what a process does for another one that does not hold
//! the tunnel itself.
//!
//! In: a request as HTTP/2 brings it, with a WebSocket as an extended CONNECT. Out: the runtime's answer, as HTTP/2 takes it.
//! Does not know: who may ask for it, and whether the other process looked at the caller.

use std::hash::Hash;

use http::header::{CONNECTION, HeaderValue, UPGRADE};
use http::{Method, Request, Response, StatusCode, Version};

use crate::agent::is_websocket;
use crate::headers::{spoken, without_hops};
use crate::{ForwardError, Payload, Sessions};

/// Sends it on, once.
pub async fn relay<K: Eq + Hash + Clone>(
    sessions: &Sessions<K>,
    name: &K,
    mut request: Request<Payload>,
) -> Result<Response<Payload>, ForwardError> {
    let websocket = is_websocket(&request);
    *request.version_mut() = spoken(request.uri());
    if websocket {
        *request.method_mut() = Method::GET;
        request.headers_mut().insert(CONNECTION, HeaderValue::from_static("upgrade"));
        request.headers_mut().insert(UPGRADE, HeaderValue::from_static("websocket"));
    }
    let mut answer = sessions.forward(name, request).await?;
    without_hops(answer.headers_mut());
    if answer.status() == StatusCode::SWITCHING_PROTOCOLS {
        *answer.status_mut() = StatusCode::OK;
    }
    *answer.version_mut() = Version::HTTP_2;
    Ok(answer)
}
