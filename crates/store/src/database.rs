//! Where the data is: `sqlite:FOLDER` or a `postgres://` address.

use std::path::PathBuf;

/// Which engine a piece of code runs on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Database {
    Sqlite,
    Postgres,
}

impl Database {
    /// Asks for the database's clock: the one clock that all processes of a platform share.
    pub(crate) fn clock(self) -> &'static str {
        match self {
            Self::Sqlite => "SELECT CAST((julianday('now') - 2440587.5) * 86400000 AS INTEGER)",
            Self::Postgres => "SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint",
        }
    }
}

/// A checked address. Its `Debug` and `Display` show no password.
#[derive(Clone)]
pub enum DatabaseUrl {
    Sqlite(PathBuf),
    Postgres(Box<crate::postgres::Address>),
}

#[derive(Debug, thiserror::Error)]
#[error("`{shown}` is no database address: {why}")]
pub struct BadDatabaseUrl {
    pub(crate) shown: String,
    pub(crate) why: String,
}

impl std::str::FromStr for DatabaseUrl {
    type Err = BadDatabaseUrl;

    fn from_str(text: &str) -> Result<Self, BadDatabaseUrl> {
        if let Some(folder) = text.strip_prefix("sqlite:") {
            if folder.is_empty() {
                return Err(BadDatabaseUrl { shown: text.into(), why: "write sqlite:FOLDER".into() });
            }
            return Ok(Self::Sqlite(folder.into()));
        }
        if text.starts_with("postgres://") || text.starts_with("postgresql://") {
            return Ok(Self::Postgres(Box::new(text.parse()?)));
        }
        // What was typed may be a password in the wrong place, so it is not repeated.
        Err(BadDatabaseUrl {
            shown: text.split_once(':').map_or("…", |(scheme, _)| scheme).to_owned(),
            why: "it starts with `sqlite:` or `postgres://`".into(),
        })
    }
}

impl std::fmt::Display for DatabaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Sqlite(folder) => write!(f, "sqlite:{}", folder.display()),
            Self::Postgres(address) => write!(f, "{address}"),
        }
    }
}

impl std::fmt::Debug for DatabaseUrl {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{self}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_read_and_shown_without_their_password() {
        let sqlite: DatabaseUrl = "sqlite:/var/lib/slipway".parse().unwrap();
        assert_eq!(sqlite.to_string(), "sqlite:/var/lib/slipway");
        let postgres: DatabaseUrl =
            "postgres://ada:hunter2@db.example.com:5433/slipway?sslmode=require".parse().unwrap();
        assert_eq!(postgres.to_string(), "postgres://ada@db.example.com:5433/slipway");
        for wrong in ["hunter2", "mysql://x", "sqlite:", "postgres://a@h/d?sslmode=maybe"] {
            let error = wrong.parse::<DatabaseUrl>().unwrap_err().to_string();
            assert!(!error.contains("hunter2"), "{error}");
        }
    }
}
