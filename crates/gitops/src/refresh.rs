//! What is known of an Application's sources, how long that may stand for them, and when they are read again.
//!
//! In: what the last reading gave, and what is asked now. Out: the manifests that stand for the target revision, the
//! failure that does, or that it has to be read. The shell does the reading; it brings its own clock.

use crate::cluster::Settings;
use jiff::SignedDuration;
use slipway_crd::{Application, names};

/// What is known of the target revision. `D` are the manifests of a revision, `F` says why there are none.
///
/// The one rule: once a revision was found unreadable, the manifests of the one before no longer stand for it.
#[derive(Debug, Clone)]
pub struct Head<T, D, F> {
    manifests: Option<(T, D)>,
    failure: Option<Failed<T, F>>,
}

#[derive(Debug, Clone)]
struct Failed<T, F> {
    at: T,
    /// The first of the failures in a row.
    since: T,
    /// It stays as it is until the revision moves: a manifest that does not parse, as opposed to a host that is away.
    lasting: bool,
    why: F,
}

/// What stands for the target revision without reading anything.
#[derive(Debug, PartialEq, Eq)]
pub enum Standing<'a, D, F> {
    Manifests(&'a D),
    Failure(&'a F),
    /// It has to be read.
    Unread,
}

impl<T, D, F> Default for Head<T, D, F> {
    fn default() -> Self {
        Self { manifests: None, failure: None }
    }
}

impl<T: Copy + Ord, D, F> Head<T, D, F> {
    /// The revision was read.
    pub fn read(&mut self, at: T, manifests: D) {
        *self = Self { manifests: Some((at, manifests)), failure: None };
    }

    /// The revision could not be read, or what was read could not be used. Gives when that began.
    pub fn failed(&mut self, at: T, why: F, lasting: bool) -> T {
        let since = self.failure.as_ref().map_or(at, |before| before.since);
        self.failure = Some(Failed { at, since, lasting, why });
        since
    }

    /// What stands for the revision. `asked`: only what was read since then counts. The closures say whether what is
    /// remembered is about what is wanted now; sources and settings may have changed.
    pub fn standing(
        &self,
        asked: Option<T>,
        fits: impl Fn(&D) -> bool,
        still: impl Fn(&F) -> bool,
    ) -> Standing<'_, D, F> {
        let recent = |at: T| asked.is_none_or(|asked| at >= asked);
        match (&self.failure, &self.manifests) {
            (Some(failed), _) if failed.lasting && recent(failed.at) && still(&failed.why) => {
                Standing::Failure(&failed.why)
            }
            (Some(_), _) => Standing::Unread,
            (None, Some((at, manifests))) if recent(*at) && fits(manifests) => Standing::Manifests(manifests),
            _ => Standing::Unread,
        }
    }

    /// The manifests that were read last and when, whatever happened since: for judging what runs, never for the target revision.
    pub fn last(&self) -> Option<(T, &D)> {
        self.manifests.as_ref().map(|(at, manifests)| (*at, manifests))
    }

    /// Everything has to be read again.
    pub fn forget(&mut self) {
        *self = Self::default();
    }
}

/// How thoroughly the Application asks to be compared again.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refresh {
    /// The sources are asked what is new.
    Normal,
    /// Nothing that was rendered before counts.
    Hard,
}

/// The refresh that the Application's annotation asks for.
pub fn requested(application: &Application) -> Option<Refresh> {
    application.metadata.annotation(names::REFRESH).map(|how| match how {
        "hard" => Refresh::Hard,
        _ => Refresh::Normal,
    })
}

/// True when the application asked to be left alone.
pub fn is_skipped(application: &Application) -> bool {
    application.metadata.annotation(names::SKIP_RECONCILE) == Some("true")
}

/// How long after the last time this Application is compared again without anything having happened; `None`: never.
/// `otherwise` holds where `timeout.reconciliation` is not set.
pub fn interval(settings: &Settings, otherwise: SignedDuration, name: &str) -> Option<SignedDuration> {
    let timeout = settings.reconciliation.unwrap_or(otherwise);
    (timeout > SignedDuration::ZERO).then(|| timeout + jitter(name, settings.reconciliation_jitter))
}

/// An Application's share of the jitter: the same each time, and spread evenly over Applications.
pub fn jitter(name: &str, most: SignedDuration) -> SignedDuration {
    // FNV-1a: no randomness in this room, and a restart must not bring all Applications together.
    let hash = name
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325u64, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    let most = u64::try_from(most.as_millis()).unwrap_or(0);
    let share = if most == 0 { 0 } else { hash % most };
    SignedDuration::from_millis(i64::try_from(share).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    type Known = Head<u32, &'static str, &'static str>;

    fn standing(head: &Known, asked: Option<u32>) -> Standing<'_, &'static str, &'static str> {
        head.standing(asked, |_| true, |_| true)
    }

    #[test]
    fn a_lasting_failure_stands_until_the_revision_is_read_again() {
        let mut head = Known::default();
        assert_eq!(standing(&head, None), Standing::Unread);
        head.read(1, "one");
        assert_eq!(standing(&head, None), Standing::Manifests(&"one"));
        assert_eq!(standing(&head, Some(2)), Standing::Unread, "asked after it was read");
        assert_eq!(head.failed(3, "broken", true), 3);
        assert_eq!(standing(&head, None), Standing::Failure(&"broken"));
        assert_eq!(standing(&head, Some(4)), Standing::Unread);
        assert_eq!(head.last(), Some((1, &"one")));
        assert_eq!(head.standing(None, |_| true, |_| false), Standing::Unread, "settings changed");
        head.read(5, "two");
        assert_eq!(standing(&head, Some(5)), Standing::Manifests(&"two"));
        assert_eq!(head.standing(None, |_| false, |_| true), Standing::Unread, "other sources");
    }

    #[test]
    fn a_passing_failure_is_asked_about_each_time_and_keeps_its_beginning() {
        let mut head = Known::default();
        head.read(1, "one");
        assert_eq!(head.failed(2, "away", false), 2);
        assert_eq!(standing(&head, None), Standing::Unread);
        assert_eq!(head.failed(9, "away", false), 2);
        head.read(10, "one");
        assert_eq!(head.failed(11, "away", false), 11);
    }

    #[test]
    fn the_interval_is_the_setting_and_a_steady_share_of_the_jitter() {
        let otherwise = SignedDuration::from_secs(180);
        let seconds =
            |settings: &Settings, name: &str| interval(settings, otherwise, name).map(|i| i.as_secs());
        let mut settings = Settings::default();
        assert_eq!(seconds(&settings, "a"), Some(180));
        settings.reconciliation = Some(SignedDuration::from_secs(600));
        assert_eq!(seconds(&settings, "a"), Some(600));
        settings.reconciliation_jitter = SignedDuration::from_secs(60);
        assert_eq!(seconds(&settings, "a"), seconds(&settings, "a"));
        let distinct: std::collections::BTreeSet<_> =
            (0..100).map(|i| seconds(&settings, &format!("app-{i}"))).collect();
        assert!(distinct.len() > 30, "{distinct:?}");
        assert!(distinct.iter().all(|s| s.is_some_and(|s| (600..660).contains(&s))), "{distinct:?}");
        settings.reconciliation = Some(SignedDuration::ZERO);
        assert_eq!(seconds(&settings, "a"), None, "0 switches it off");
    }

    #[test]
    fn the_annotation_says_how_thoroughly() {
        for (annotation, expected) in [
            (json!({}), None),
            (json!({names::REFRESH: "normal"}), Some(Refresh::Normal)),
            (json!({names::REFRESH: "hard"}), Some(Refresh::Hard)),
        ] {
            let app: Application =
                serde_json::from_value(json!({"metadata": {"name": "a", "annotations": annotation}}))
                    .expect("readable");
            assert_eq!(requested(&app), expected);
        }
    }
}
