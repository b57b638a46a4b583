//! What a cluster says when it does not do what was asked. No message carries the content of an object.

use kube::client::AuthError;
use slipway_model::Next;

use crate::ObjectKey;

#[derive(Debug, thiserror::Error)]
pub enum ClusterError {
    #[error("cannot read the kubeconfig {file}; check that it is there and names a cluster and a user")]
    Kubeconfig { file: String, source: Box<dyn std::error::Error + Send + Sync> },
    #[error("cannot reach the cluster: {detail}")]
    Unreachable { detail: String },
    #[error("the cluster did not answer within {seconds} s")]
    Deadline { seconds: u64 },
    /// Something the API server refused.
    #[error("{what}: {message}")]
    Refused { what: String, code: u16, reason: String, message: String },
    #[error("the cluster does not serve {kind} of `{api_version}`; install its definition first")]
    UnknownKind { api_version: String, kind: String },
    #[error("{key} has no name, or no namespace where one is needed")]
    Unnamed { key: ObjectKey },
    /// The work belongs to another engine by now.
    #[error("{what} is not written: the lease for it ran out, and another engine goes on with it")]
    Fenced { what: String },
    #[error("the cluster's answer about {what} is unreadable")]
    Unreadable { what: String, source: serde_json::Error },
}

impl ClusterError {
    pub fn code(&self) -> Option<u16> {
        match self {
            Self::Refused { code, .. } => Some(*code),
            _ => None,
        }
    }

    pub fn is_not_found(&self) -> bool {
        self.code() == Some(404)
    }

    /// Somebody else changed it meanwhile, or it is another object by now.
    pub fn is_conflict(&self) -> bool {
        matches!(self, Self::Refused { code: 409, reason, .. } if reason != "AlreadyExists")
    }

    pub fn already_exists(&self) -> bool {
        matches!(self, Self::Refused { code: 409, reason, .. } if reason == "AlreadyExists")
    }

    /// A field of the live object cannot be changed: only deleting and making it again helps.
    pub fn is_immutable(&self) -> bool {
        matches!(self, Self::Refused { code: 422, message, .. } if message.contains("immutable")
            || message.contains("may not change once set") || message.contains("forbidden: updates to"))
    }

    /// A disruption budget forbids it for now, or the server has too much to do.
    pub fn is_too_many_requests(&self) -> bool {
        self.code() == Some(429)
    }

    pub fn is_fenced(&self) -> bool {
        matches!(self, Self::Fenced { .. })
    }

    pub fn next(&self) -> Next {
        match self {
            Self::Unreachable { .. } | Self::Deadline { .. } | Self::Unreadable { .. } => Next::Retry,
            Self::Refused { code: 409 | 429 | 500.., .. } => Next::Retry,
            Self::UnknownKind { .. } => Next::WaitMs(2_000),
            _ => Next::NeedsHuman,
        }
    }

    pub(crate) fn from_kube(error: kube::Error, what: impl Into<String>) -> Self {
        match error {
            kube::Error::Api(status) => Self::Refused {
                what: what.into(),
                code: status.code,
                reason: status.reason.clone(),
                message: status.message.clone(),
            },
            kube::Error::SerdeError(source) => Self::Unreadable { what: what.into(), source },
            other => Self::Unreachable { detail: describe(&other) },
        }
    }
}

/// What an error says, without what kube repeats of a credential program: its environment and what it printed.
pub(crate) fn describe(error: &(dyn std::error::Error + 'static)) -> String {
    let mut cause = Some(error);
    while let Some(at) = cause {
        if let Some(error) = at.downcast_ref::<AuthError>() {
            return of_credentials(error);
        }
        cause = at.source();
    }
    chain(error)
}

fn of_credentials(error: &AuthError) -> String {
    match error {
        AuthError::AuthExecStart(source) => format!("its credential program does not start: {source}"),
        AuthError::AuthExecRun { out, .. } => format!("its credential program failed ({})", out.status),
        AuthError::AuthExecParse(_) => "what its credential program printed is no ExecCredential".to_owned(),
        _ => "its credentials cannot be used".to_owned(),
    }
}

/// An error with its causes: "connection refused" is usually the last of them.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        let words = cause.to_string();
        if !text.contains(&words) {
            text = format!("{text}: {words}");
        }
        source = cause.source();
    }
    text
}
