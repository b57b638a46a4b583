//! How our structs meet JSON: camelCase, empty values left out, `null` read as empty, unknown fields kept.
//!
//! Go's `omitempty` is what users' tools expect to read, and an object that an older or newer Argo wrote must
//! survive a read-modify-write here, so every struct carries the fields it does not know in `other`. The same declaration
//! gives the schema of a definition ([`crate::schema`]): a field is written once.

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

/// Declares a struct of the wire. Fields under `keep` are always written and demanded by the schema, fields under `write` are
/// always written and may be absent in what others wrote, fields under `omit` are written only when not empty. `as "repoURL"`
/// gives a field another name than its own in camelCase; `=> schema` another schema than that of its type.
macro_rules! wire_struct {
    (
        $(#[doc = $doc:literal])*
        $name:ident {
            $( keep { $(
                $(#[doc = $kdoc:literal])* $kfield:ident $(as $kname:literal)? : $ktype:ty $(=> $kschema:expr)?,
            )* } )?
            $( write { $(
                $(#[doc = $wdoc:literal])* $wfield:ident $(as $wname:literal)? : $wtype:ty $(=> $wschema:expr)?,
            )* } )?
            $( omit { $(
                $(#[doc = $odoc:literal])* $ofield:ident $(as $oname:literal)? : $otype:ty $(=> $oschema:expr)?,
            )* } )?
        }
    ) => {
        $(#[doc = $doc])*
        #[derive(Debug, Clone, Default, PartialEq, serde::Serialize, serde::Deserialize)]
        #[serde(rename_all = "camelCase", default)]
        pub struct $name {
            $($(
                $(#[doc = $kdoc])*
                #[serde($(rename = $kname,)? deserialize_with = "crate::wire::or_default")]
                pub $kfield: $ktype,
            )*)?
            $($(
                $(#[doc = $wdoc])*
                #[serde($(rename = $wname,)? deserialize_with = "crate::wire::or_default")]
                pub $wfield: $wtype,
            )*)?
            $($(
                $(#[doc = $odoc])*
                #[serde(
                    $(rename = $oname,)?
                    skip_serializing_if = "crate::wire::is_empty",
                    deserialize_with = "crate::wire::or_default"
                )]
                pub $ofield: $otype,
            )*)?
            /// Fields that this version does not know; written back as they were read.
            #[serde(flatten)]
            pub other: crate::wire::Other,
        }

        impl crate::schema::Schema for $name {
            fn schema() -> serde_json::Value {
                #[allow(unused_imports, reason = "only where a field has a schema of its own")]
                use crate::schema::*;
                let mut object = Object::new(&[$($doc),*]);
                $($( object.field(
                    Field { name: stringify!($kfield), renamed: named!($($kname)?), docs: &[$($kdoc),*], required: true },
                    schema_of!($ktype $(, $kschema)?),
                ); )*)?
                $($( object.field(
                    Field { name: stringify!($wfield), renamed: named!($($wname)?), docs: &[$($wdoc),*], required: false },
                    schema_of!($wtype $(, $wschema)?),
                ); )*)?
                $($( object.field(
                    Field { name: stringify!($ofield), renamed: named!($($oname)?), docs: &[$($odoc),*], required: false },
                    schema_of!($otype $(, $oschema)?),
                ); )*)?
                object.finish()
            }
        }
    };
}
pub(crate) use wire_struct;
