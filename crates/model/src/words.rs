//! Statuses as the wire spells them: a closed set of words ([`Vocabulary`]) for whoever decides, and an open one ([`Word`]) for
//! what was read. A word that this version does not know is kept and written back as it was read.

use std::cmp::Ordering;
use std::fmt;

use serde::{Deserialize, Deserializer, Serialize, Serializer};

/// A closed set of words.
pub trait Vocabulary: Copy + Eq + 'static {
    const ALL: &'static [Self];

    fn as_str(self) -> &'static str;
}

/// Declares a vocabulary whose words are written by the names of the variants.
macro_rules! vocabulary {
    ($(#[doc = $doc:literal])* $name:ident { $( $(#[doc = $word_doc:literal])* $word:ident, )* }) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $( $(#[doc = $word_doc])* $word, )*
        }

        impl $name {
            pub const fn as_str(self) -> &'static str {
                match self {
                    $( Self::$word => stringify!($word), )*
                }
            }

            /// None: it is another word.
            pub fn parse(text: &str) -> Option<Self> {
                Self::ALL.iter().copied().find(|word| word.as_str() == text)
            }
        }

        impl Vocabulary for $name {
            const ALL: &'static [Self] = &[$( Self::$word, )*];

            fn as_str(self) -> &'static str {
                self.as_str()
            }
        }
    };
}

vocabulary! {
    /// How well an object or an Application is, from best to worst.
    HealthCode { Healthy, Suspended, Progressing, Missing, Degraded, Unknown, }
}

vocabulary! {
    /// Whether what runs is as desired.
    SyncCode { Synced, OutOfSync, Unknown, }
}

/// A word of a vocabulary, or what another version wrote; empty: nothing was written yet.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Word<T> {
    Known(T),
    Other(String),
}

impl<T: Vocabulary> Word<T> {
    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(word) => word.as_str(),
            Self::Other(text) => text,
        }
    }

    /// Nothing was written yet.
    pub fn is_empty(&self) -> bool {
        self.as_str().is_empty()
    }

    pub fn known(&self) -> Option<T> {
        match self {
            Self::Known(word) => Some(*word),
            Self::Other(_) => None,
        }
    }
}

impl<T> Default for Word<T> {
    fn default() -> Self {
        Self::Other(String::new())
    }
}

impl<T: Vocabulary> From<T> for Word<T> {
    fn from(word: T) -> Self {
        Self::Known(word)
    }
}

impl<T: Vocabulary> From<&str> for Word<T> {
    fn from(text: &str) -> Self {
        let known = T::ALL.iter().copied().find(|word| word.as_str() == text);
        known.map_or_else(|| Self::Other(text.to_owned()), Self::Known)
    }
}

impl<T: Vocabulary> PartialEq<T> for Word<T> {
    fn eq(&self, word: &T) -> bool {
        self.known() == Some(*word)
    }
}

/// So that tests read as the wire does.
impl<T: Vocabulary> PartialEq<&str> for Word<T> {
    fn eq(&self, text: &&str) -> bool {
        self.as_str() == *text
    }
}

/// By their letters.
impl<T: Vocabulary> Ord for Word<T> {
    fn cmp(&self, other: &Self) -> Ordering {
        self.as_str().cmp(other.as_str())
    }
}

impl<T: Vocabulary> PartialOrd for Word<T> {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl<T: Vocabulary> fmt::Display for Word<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl<T: Vocabulary> Serialize for Word<T> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl<'de, T: Vocabulary> Deserialize<'de> for Word<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self::from(String::deserialize(deserializer)?.as_str()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_words_survive_and_nothing_is_empty() {
        for (text, word) in [
            ("Degraded", Word::Known(HealthCode::Degraded)),
            ("Hibernating", Word::Other("Hibernating".to_owned())),
            ("degraded", Word::Other("degraded".to_owned())),
            ("", Word::default()),
        ] {
            let read: Word<HealthCode> = serde_json::from_value(text.into()).expect("a word");
            assert_eq!(read, word);
            assert_eq!(serde_json::to_value(&read).expect("plain"), text);
            assert_eq!((read.is_empty(), read.to_string().as_str()), (text.is_empty(), text));
        }
        let healthy = Word::from("Healthy");
        assert!(healthy == HealthCode::Healthy && healthy == "Healthy" && healthy != HealthCode::Unknown);
        assert!(HealthCode::Healthy < HealthCode::Degraded, "from best to worst");
        assert_eq!(SyncCode::parse("OutOfSync"), Some(SyncCode::OutOfSync));
        assert_eq!(SyncCode::parse("outOfSync"), None);
    }
}
