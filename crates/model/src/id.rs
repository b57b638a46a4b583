//! 24 hex digits, ordered by time.
//!
//! Published clients parse an argument like `65e01` as a number, so every id starts with the
//! letters `ac`: no number parser takes it for one. Then 48 bits of milliseconds and 40 random bits.

use std::fmt;
use std::marker::PhantomData;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// An id that knows what it names, so that a build's id cannot be given where a user's is asked for.
pub struct Id<T> {
    bytes: [u8; 12],
    of: PhantomData<fn() -> T>,
}

#[derive(Debug, thiserror::Error, PartialEq, Eq)]
#[error("`{0}` is not an id: expected 24 hex digits")]
pub struct InvalidId(String);

impl<T> Id<T> {
    /// Time and randomness come from outside, so that a simulation replays.
    pub fn from_parts(unix_ms: u64, random: [u8; 5]) -> Self {
        let ms = unix_ms.to_be_bytes();
        let mut bytes = [0xac; 12];
        bytes[1..7].copy_from_slice(&ms[2..]);
        bytes[7..].copy_from_slice(&random);
        Self { bytes, of: PhantomData }
    }
}

impl<T> Clone for Id<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for Id<T> {}
impl<T> PartialEq for Id<T> {
    fn eq(&self, other: &Self) -> bool {
        self.bytes == other.bytes
    }
}
impl<T> Eq for Id<T> {}
impl<T> PartialOrd for Id<T> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl<T> Ord for Id<T> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.bytes.cmp(&other.bytes)
    }
}
impl<T> std::hash::Hash for Id<T> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.bytes.hash(state);
    }
}
impl<T> fmt::Display for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&hex::encode(self.bytes))
    }
}
impl<T> fmt::Debug for Id<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}
impl<T> FromStr for Id<T> {
    type Err = InvalidId;
    fn from_str(text: &str) -> Result<Self, InvalidId> {
        let mut bytes = [0; 12];
        hex::decode_to_slice(text, &mut bytes).map_err(|_| InvalidId(text.to_owned()))?;
        Ok(Self { bytes, of: PhantomData })
    }
}
impl<T> Serialize for Id<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}
impl<'de, T> Deserialize<'de> for Id<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        String::deserialize(deserializer)?.parse().map_err(serde::de::Error::custom)
    }
}

macro_rules! ids {
    ($($name:ident = $tag:ident),* $(,)?) => {
        /// What an id can be an id of.
        pub(crate) mod tag { $(#[derive(Debug)] pub enum $tag {})* }
        $(pub type $name = Id<tag::$tag>;)*
    };
}

ids! {
    AccountId = Account,
    AgentId = Agent,
    ApiKeyId = ApiKey,
    BuildId = Build,
    ContextId = Context,
    DeliveryId = Delivery,
    HookId = Hook,
    InvitationId = Invitation,
    PipelineId = Pipeline,
    ProjectId = Project,
    RepoId = Repo,
    RuleId = Rule,
    ServiceAccountId = ServiceAccount,
    SessionId = Session,
    SsoClientId = SsoClient,
    TaskId = Task,
    TeamId = Team,
    UserId = User,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_ordered_by_time_and_never_look_like_a_number() {
        let earlier = BuildId::from_parts(1_700_000_000_000, [0xff; 5]);
        let later = BuildId::from_parts(1_700_000_000_001, [0; 5]);
        assert!(earlier < later && earlier.to_string() < later.to_string());
        assert!(earlier.to_string().parse::<f64>().is_err());
        assert_eq!(earlier.to_string().parse::<BuildId>(), Ok(earlier));
    }

    #[test]
    fn a_text_that_is_no_id_is_named_in_the_error() {
        assert_eq!(
            "zz".parse::<BuildId>().unwrap_err().to_string(),
            "`zz` is not an id: expected 24 hex digits"
        );
    }
}
