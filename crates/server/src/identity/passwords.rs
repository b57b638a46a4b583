//! Passwords: which are taken, and their hashes off the threads that answer.

use crate::ctx::Server;
use crate::http::error::ApiError;
use crate::identity::tokens;

pub(crate) const PASSWORD_CHARS_MIN: usize = 12;

/// Hashing is slow on purpose, and slower for longer texts.
pub(crate) const PASSWORD_BYTES_MAX: usize = 1024;

pub(crate) fn check_new_password(password: &str) -> Result<(), ApiError> {
    if password.chars().count() < PASSWORD_CHARS_MIN || password.len() > PASSWORD_BYTES_MAX {
        return Err(ApiError::bad_request(format!(
            "a password needs at least {PASSWORD_CHARS_MIN} characters: a passphrase of a few words is easy to remember"
        )));
    }
    Ok(())
}

pub(crate) async fn hash_of(server: &Server, password: String) -> Result<String, ApiError> {
    let seams = server.seams().clone();
    tokio::task::spawn_blocking(move || tokens::hash_password(&seams, &password))
        .await
        .map_err(|_| ApiError::unavailable("the server is shutting down"))
}
