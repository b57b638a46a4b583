use super::resources::Target;
use super::{Ask, Body};
use crate::error::{ApiError, ApiResult};
use http::Response;
pub(super) async fn handle(_ask: Ask, _target: Target) -> ApiResult<Response<Body>> {
    Err(ApiError::no_such_path())
}
