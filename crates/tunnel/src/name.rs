//! What a tunnel is called: made from who opened it, never asked for.

use std::fmt;

/// One label of a host name: `<account>-<runtime>`, in small letters.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TunnelName(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "a runtime called `{0}` has no host name for a tunnel: use at most 38 lowercase letters, digits and hyphens, not at either end"
)]
pub struct NotAName(String);

/// A label of a host name has at most this many letters.
const LABEL: usize = 63;
const ACCOUNT_LETTERS: usize = 24;

impl TunnelName {
    /// `account` is an id, which says nothing about anybody and is nobody else's; so the name is, too.
    pub fn new(account: slipway_model::AccountId, runtime: &str) -> Result<Self, NotAName> {
        let fits = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-';
        let name = format!("{account}-{runtime}");
        let ends = runtime.starts_with('-') || runtime.ends_with('-');
        if runtime.is_empty() || ends || name.len() > LABEL || !runtime.bytes().all(fits) {
            return Err(NotAName(runtime.to_owned()));
        }
        Ok(Self(name))
    }

    /// The name that a host name's first label means. Host names have no case; nothing else of it is folded, so that a
    /// look-alike is another name.
    pub fn of_label(label: &str) -> Option<Self> {
        let label = label.to_ascii_lowercase();
        let (account, runtime) = label.split_at_checked(ACCOUNT_LETTERS)?;
        let account = account.parse().ok()?;
        let name = Self::new(account, runtime.strip_prefix('-')?).ok()?;
        (name.0 == label).then_some(name)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    pub fn account(&self) -> slipway_model::AccountId {
        self.0[..ACCOUNT_LETTERS].parse().expect("a name begins with an id")
    }

    pub fn runtime(&self) -> &str {
        &self.0[ACCOUNT_LETTERS + 1..]
    }
}

impl fmt::Display for TunnelName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ACCOUNT: &str = "65f0c0ffee0ddba11deadbee";

    fn account() -> slipway_model::AccountId {
        ACCOUNT.parse().expect("an id")
    }

    #[test]
    fn a_name_is_made_from_account_and_runtime_and_read_back_from_a_host() {
        let name = TunnelName::new(account(), "prod-eu").expect("a name");
        assert_eq!(name.as_str(), format!("{ACCOUNT}-prod-eu"));
        assert_eq!((name.account(), name.runtime()), (account(), "prod-eu"));
        assert_eq!(TunnelName::of_label(name.as_str()), Some(name.clone()));
        assert_eq!(TunnelName::of_label(&name.as_str().to_uppercase()), Some(name));
    }

    #[test]
    fn k87_what_looks_alike_is_no_name() {
        let long = "a".repeat(39);
        for runtime in ["", "-a", "a-", "Prod", "pröd", "a.b", "a_b", "a b", "ａ", long.as_str()] {
            assert!(TunnelName::new(account(), runtime).is_err(), "{runtime}");
        }
        for label in ["", "prod", ACCOUNT, "65f0c0ffee0ddba11deadbe-prod", "65f0c0ffee0ddba11deadbeeprod"] {
            assert_eq!(TunnelName::of_label(label), None, "{label}");
        }
    }
}
