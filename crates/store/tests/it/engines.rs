//! One suite, two engines.

use std::path::Path;

use slipway_store::{DatabaseUrl, Store};
use slipway_testkit::postgres;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum On {
    Sqlite,
    Postgres,
}

/// Each test once on either engine.
#[macro_export]
macro_rules! on_both {
    ($($test:ident),* $(,)?) => {
        mod sqlite {
            $(#[tokio::test(flavor = "multi_thread")] async fn $test() { super::$test($crate::engines::On::Sqlite).await })*
        }
        mod postgres {
            $(#[tokio::test(flavor = "multi_thread")] async fn $test() { super::$test($crate::engines::On::Postgres).await })*
        }
    };
}

pub(crate) fn url(on: On, folder: &Path) -> DatabaseUrl {
    match on {
        On::Sqlite => format!("sqlite:{}", folder.display()).parse().unwrap(),
        On::Postgres => postgres::shared().database().parse().unwrap(),
    }
}

pub(crate) fn open(on: On, folder: &Path) -> Store {
    Store::connect(&url(on, folder)).unwrap()
}
