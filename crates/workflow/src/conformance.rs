//! Recorded manifests → which of them we find fault with. Rows may name templates of other rows, as files of one folder do.

use serde_json::Value;
use slipway_yaml::suite::{self, Verdict};

use crate::lint::{self, Library};

pub fn run(rows: &[Value]) -> Verdict {
    let mut library = Library::default();
    rows.iter().for_each(|row| library.add(suite::manifest(row)));
    suite::judge(rows, |text| lint::check(text, &library))
}
