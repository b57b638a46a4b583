//! Names, addresses and roles as callers send them: read, or refused with what would do.

use slipway_access::Role;

use crate::http::error::ApiError;

/// `User` when none is named.
pub(crate) fn role(text: Option<&str>) -> Result<Role, ApiError> {
    let Some(text) = text else { return Ok(Role::User) };
    Role::parse(text)
        .ok_or_else(|| ApiError::bad_request(format!("unknown role `{text}`: use `User` or `Admin`")))
}

/// The role to give somebody. A key that is limited to scopes does not make Administrators, who are limited by nothing.
pub(crate) fn role_by(caller: &crate::identity::auth::Caller, text: Option<&str>) -> Result<Role, ApiError> {
    let role = role(text)?;
    if role == Role::Administrator && caller.principal.scopes.is_limited() {
        return Err(ApiError::forbidden("a key that is limited to scopes cannot appoint an Administrator"));
    }
    Ok(role)
}

/// Lowercase letters, digits and hyphens, as in an address.
pub(crate) fn plain_name(what: &str, name: &str) -> Result<(), ApiError> {
    let letter = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    let good = !name.is_empty()
        && name.len() <= 63
        && name.chars().all(letter)
        && !name.starts_with('-')
        && !name.ends_with('-');
    if good {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "`{name}` is not a valid name for {what}: use up to 63 lowercase letters, digits and hyphens, with no hyphen at either end"
    )))
}

/// A name that people choose and programs find things by, so it cannot be taken for an id.
pub(crate) fn free_name(what: &str, name: &str) -> Result<(), ApiError> {
    // Nor letters that cannot be seen or that turn others around: one name could be taken for another.
    let unseen = |c: char| matches!(c, '\u{ad}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}');
    let letter = |c: char| !c.is_control() && !unseen(c) && !matches!(c, '/' | ',' | '`');
    let is_id = name.len() == 24 && name.chars().all(|c| c.is_ascii_hexdigit());
    let good = !name.is_empty()
        && name.chars().count() <= 100
        && name.trim() == name
        && name.chars().all(letter)
        && !is_id;
    if good {
        return Ok(());
    }
    Err(ApiError::bad_request(format!(
        "`{}` is not a valid name for {what}: use up to 100 characters, without slashes, commas and line breaks, with no space at either end",
        name.chars().filter(|c| !c.is_control() && !unseen(*c)).take(120).collect::<String>()
    )))
}

/// What a stranger says and people are shown: without what moves a cursor, and no longer than this.
pub(crate) fn cut(text: &mut String, chars: usize) {
    text.retain(|c| !c.is_control());
    if let Some((at, _)) = text.char_indices().nth(chars) {
        text.truncate(at);
    }
}

/// Kept in lowercase, so that one person is one row.
pub(crate) fn email(text: &str) -> Result<String, ApiError> {
    let email = text.trim().to_lowercase();
    let (local, domain) = email.split_once('@').unwrap_or_default();
    let good = !local.is_empty()
        && domain.contains('.')
        && !domain.starts_with('.')
        && !domain.ends_with('.')
        && email.len() <= 254
        && !email.chars().any(|c| c.is_whitespace() || c.is_control() || matches!(c, '<' | '>' | ',' | ';'))
        && !domain.contains('@');
    if good {
        Ok(email)
    } else {
        Err(ApiError::bad_request(format!("`{}` is not an e-mail address", text.trim())))
    }
}
