//! What can go wrong with the store, and what to do then.

use slipway_model::Next;

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error(
        "the database at {path} is in use by another slipway process: stop that one, or give --data another folder"
    )]
    InUse { path: String },
    #[error(
        "the database was written by a newer slipway (schema {found}, this one knows {known}): upgrade slipway"
    )]
    Newer { found: i64, known: i64 },
    #[error(
        "the database runs with `{setting}` = `{found}`, so that it could lose what it has acknowledged: set it to `{wanted}`"
    )]
    Unsafe { setting: String, found: String, wanted: String },
    #[error("the disk refused a write to the database: check free space and permissions")]
    Disk(#[source] rusqlite::Error),
    #[error(
        "{path} is not the key of this database, whose secrets are sealed with master key {wanted}: give --data the folder that \
         all processes of the platform share, or put master.key from a backup there"
    )]
    WrongKey { path: String, wanted: String },
    #[error("{path} cannot be used: {error}")]
    File { path: String, error: std::io::Error },
    #[error("the database does not answer ({why}): repeat the request, it may or may not have been done")]
    Unavailable { why: String },
    #[error("the database refused this: {why}")]
    Refused { why: String },
    #[error("the database failed: {why}")]
    Database { why: String },
    #[error("a stored value is not what this version expects: {what}")]
    Corrupt { what: String },
    #[error("{what} exists already")]
    Duplicate { what: String },
    #[error("{what} was changed by somebody else: read it again, then repeat the change")]
    Conflict { what: String },
    #[error("{what} could not find")]
    NotFound { what: String },
    #[error("the store is shutting down")]
    Closed,
}

impl StoreError {
    pub fn next(&self) -> Next {
        match self {
            Self::Disk(_) | Self::Unavailable { .. } | Self::Closed => Next::Retry,
            _ => Next::NeedsHuman,
        }
    }

    pub fn corrupt(what: impl std::fmt::Display) -> Self {
        Self::Corrupt { what: what.to_string() }
    }

    /// The same failure for another write of the same commit.
    pub fn again(&self) -> Self {
        match self {
            Self::Unavailable { why } => Self::Unavailable { why: why.clone() },
            Self::Disk(error) => {
                Self::Disk(rusqlite::Error::ToSqlConversionFailure(error.to_string().into()))
            }
            other => Self::Database { why: other.to_string() },
        }
    }
}

impl From<rusqlite::Error> for StoreError {
    fn from(error: rusqlite::Error) -> Self {
        if let rusqlite::Error::SqliteFailure(inner, message) = &error
            && inner.code == rusqlite::ErrorCode::ConstraintViolation
        {
            return Self::Duplicate { what: message.clone().unwrap_or_else(|| "the row".into()) };
        }
        use rusqlite::ErrorCode;
        // A statement that is wrong is not the disk's fault, and is not mended by trying again.
        match error.sqlite_error_code() {
            Some(ErrorCode::Unknown | ErrorCode::TypeMismatch | ErrorCode::ApiMisuse) => {
                Self::Database { why: error.to_string() }
            }
            _ => Self::Disk(error),
        }
    }
}
