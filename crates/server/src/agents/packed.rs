//! Bodies that come plain or packed with gzip: JSON either way, and never more of it than the limit, however small it was packed.
//!
//! In: a request of an agent. Out: what it says, and what that weighs unpacked: whoever packs well says as much as others.

use std::io::Read as _;

use axum::Json;
use axum::body::Bytes;
use axum::extract::{FromRequest, Request};
use axum::http::{StatusCode, header};
use axum::response::{IntoResponse, Response};
use flate2::read::MultiGzDecoder;
use serde::de::DeserializeOwned;

use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::http::router::BODY_BYTES_MAX;

pub(crate) struct Packed<T> {
    pub(crate) value: T,
    pub(crate) bytes: usize,
}

impl<T: DeserializeOwned> FromRequest<Server> for Packed<T> {
    type Rejection = Response;

    async fn from_request(request: Request, server: &Server) -> Result<Self, Response> {
        let body = plain(request, server).await.map_err(IntoResponse::into_response)?;
        let Json(value) = Json::from_bytes(&body).map_err(IntoResponse::into_response)?;
        Ok(Self { value, bytes: body.len() })
    }
}

async fn plain(request: Request, server: &Server) -> Result<Bytes, ApiError> {
    let encoding = request.headers().get(header::CONTENT_ENCODING);
    let encoding = encoding.map(|value| value.to_str().unwrap_or_default().trim().to_ascii_lowercase());
    let body = Bytes::from_request(request, server).await.map_err(|rejection| {
        match rejection.status() == StatusCode::PAYLOAD_TOO_LARGE {
            true => ApiError::too_large(),
            false => ApiError::bad_request("the body did not come whole: send it again"),
        }
    })?;
    match encoding.as_deref() {
        None | Some("" | "identity") => Ok(body),
        Some("gzip") => Ok(unpack(&body, BODY_BYTES_MAX)?.into()),
        Some(other) => {
            let other: String = other.chars().take(40).collect();
            Err(ApiError::unknown_encoding(format!(
                "`{other}` is no Content-Encoding that is read here: use gzip, or none"
            )))
        }
    }
}

/// Stops at the limit: what is packed smaller than it is costs no memory beyond that.
fn unpack(packed: &[u8], bytes_max: usize) -> Result<Vec<u8>, ApiError> {
    let mut out = Vec::new();
    let limit = u64::try_from(bytes_max).unwrap_or(u64::MAX).saturating_add(1);
    let read = MultiGzDecoder::new(packed).take(limit).read_to_end(&mut out);
    read.map_err(|_| ApiError::bad_request("the body is no gzip, though its Content-Encoding says so"))?;
    if out.len() > bytes_max { Err(ApiError::too_large()) } else { Ok(out) }
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use flate2::Compression;
    use flate2::write::GzEncoder;

    use super::*;

    fn pack(bytes: &[u8]) -> Vec<u8> {
        let mut packed = GzEncoder::new(Vec::new(), Compression::best());
        packed.write_all(bytes).unwrap();
        packed.finish().unwrap()
    }

    #[test]
    fn what_is_unpacked_is_what_was_packed_and_no_more_than_the_limit() {
        assert_eq!(unpack(&pack(b"{}"), 2).unwrap(), b"{}");
        assert_eq!(unpack(&pack(b"{} "), 2).unwrap_err().status(), StatusCode::PAYLOAD_TOO_LARGE);
        // Members one after the other are one stream, and count together.
        let twice = [pack(b"[1,"), pack(b"2]")].concat();
        assert_eq!(unpack(&twice, 5).unwrap(), b"[1,2]");
        assert_eq!(unpack(&twice, 4).unwrap_err().status(), StatusCode::PAYLOAD_TOO_LARGE);
        let torn = &pack(b"{\"a\": 1}")[..12];
        for wrong in [&b"{}"[..], b"", torn] {
            assert_eq!(unpack(wrong, 100).unwrap_err().status(), StatusCode::BAD_REQUEST, "{wrong:?}");
        }
    }
}
