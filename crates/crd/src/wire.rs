//! How our structs meet JSON: camelCase, empty values left out, `null` read as empty, unknown fields kept.
//!
//! Go's `omitempty` is what users' tools expect to read, and an object that an older or newer Argo wrote must
//! survive a read-modify-write here, so every struct carries the fields it does not know in `other`.

use serde::{Deserialize, Deserializer};

/// What the fields that we do not know are kept in.
pub type Other = serde_json::Map<String, serde_json::Value>;

/// True for what Go's `omitempty` leaves out. `Some(empty)` is not empty: `automated: {}` means "on".
pub(crate) fn is_empty<T: Default + PartialEq>(value: &T) -> bool {
    *value == T::default()
}

/// Go reads `null` as the zero value; `conditions: null` is common in the wild.
pub(crate) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::<T>::deserialize(deserializer)?.unwrap_or_default())
}

/// Declares a struct of the wire. Fields under `keep` are always written, fields under `omit` only when not empty.
macro_rules! wire_struct {
    (
        $(#[$meta:meta])*
        $name:ident {
            $( keep { $( $(#[$kmeta:meta])* $kfield:ident : $ktype:ty, )* } )?
            $( omit { $( $(#[$ometa:meta])* $ofield:ident : $otype:ty, )* } )?
        }
    ) => {
        $(#[$meta])*
        #[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub struct $name {
            $($(
                $(#[$kmeta])*
                #[serde(deserialize_with = "crate::wire::or_default")]
                pub $kfield: $ktype,
            )*)?
            $($(
                $(#[$ometa])*
                #[serde(
                    skip_serializing_if = "crate::wire::is_empty",
                    deserialize_with = "crate::wire::or_default"
                )]
                pub $ofield: $otype,
            )*)?
            /// Fields that this version does not know; written back as they were read.
            #[serde(flatten)]
            pub other: crate::wire::Other,
        }
    };
}
pub(crate) use wire_struct;
