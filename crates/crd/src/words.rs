//! The words of a status as enums. A word that this version does not know is kept and written back as it was read.

/// Declares an enum whose variants are written by their names.
macro_rules! words {
    (
        $(#[doc = $doc:literal])*
        $name:ident { $( $(#[doc = $vdoc:literal])* $word:ident, )* }
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
        pub enum $name {
            $( $(#[doc = $vdoc])* $word, )*
            /// What another version wrote; empty: nothing yet.
            Other(String),
        }

        impl $name {
            pub fn as_str(&self) -> &str {
                match self {
                    $( Self::$word => stringify!($word), )*
                    Self::Other(word) => word,
                }
            }

            /// Nothing was written yet.
            pub fn is_empty(&self) -> bool {
                self.as_str().is_empty()
            }
        }

        impl Default for $name {
            fn default() -> Self {
                Self::Other(String::new())
            }
        }

        impl From<&str> for $name {
            fn from(word: &str) -> Self {
                match word {
                    $( stringify!($word) => Self::$word, )*
                    other => Self::Other(other.to_owned()),
                }
            }
        }

        /// So that tests read as the wire does.
        impl PartialEq<&str> for $name {
            fn eq(&self, word: &&str) -> bool {
                self.as_str() == *word
            }
        }

        impl std::fmt::Display for $name {
            fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                f.write_str(self.as_str())
            }
        }

        impl serde::Serialize for $name {
            fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
                serializer.serialize_str(self.as_str())
            }
        }

        impl<'de> serde::Deserialize<'de> for $name {
            fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
                Ok(Self::from(String::deserialize(deserializer)?.as_str()))
            }
        }

        /// Unknown words pass, as unknown fields do.
        impl crate::schema::Schema for $name {
            fn schema() -> serde_json::Value {
                <String as crate::schema::Schema>::schema()
            }
        }
    };
}

words! {
    /// Where an operation, or a hook of one, is.
    OperationPhase {
        Running,
        /// Somebody asked for its end.
        Terminating,
        Succeeded,
        Failed,
        Error,
    }
}

impl OperationPhase {
    /// It goes on, if only to its end.
    pub fn is_under_way(&self) -> bool {
        matches!(self, Self::Running | Self::Terminating)
    }
}

words! {
    /// The type of an Application's condition.
    ConditionType {
        InvalidSpecError,
        ComparisonError,
        SyncError,
        DeletionError,
        UnknownError,
        SharedResourceWarning,
        ServerSideDiffWarning,
        RepeatedResourceWarning,
        ExcludedResourceWarning,
        OrphanedResourceWarning,
        /// Ours: it waits for other Applications.
        DependencyWarning,
    }
}

impl ConditionType {
    /// The suffix says how bad it is.
    pub fn is_error(&self) -> bool {
        self.as_str().ends_with("Error")
    }
}

words! {
    /// The type of an ApplicationSet's condition.
    SetConditionType { ErrorOccurred, ParametersGenerated, ResourcesUpToDate, RolloutProgressing, }
}

words! {
    /// What a sync did to an object.
    ResultCode { Synced, SyncFailed, Pruned, PruneSkipped, }
}

words! {
    /// Where a hydration is.
    HydratePhase { Hydrating, Hydrated, Failed, }
}

/// Unknown words pass, as unknown fields do.
impl<T> crate::schema::Schema for slipway_model::Word<T> {
    fn schema() -> serde_json::Value {
        <String as crate::schema::Schema>::schema()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_words_survive_and_nothing_is_empty() {
        for (text, phase) in [
            ("Running", OperationPhase::Running),
            ("Paused", OperationPhase::Other("Paused".into())),
            ("", OperationPhase::default()),
        ] {
            let read: OperationPhase = serde_json::from_value(text.into()).expect("a word");
            assert_eq!(read, phase);
            assert_eq!(serde_json::to_value(&read).expect("plain"), text);
        }
        assert!(OperationPhase::default().is_empty() && OperationPhase::Terminating.is_under_way());
    }
}
