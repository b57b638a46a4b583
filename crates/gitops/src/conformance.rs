//! Our verdicts against recorded ones: how far does our health agree with what Argo CD users see?
//!
//! Comes in: the text of a recording, one JSON object a line with `kind`, `case`, `status` and `object` (YAML). Goes
//! out: a [`Report`]. Where the text comes from is the caller's business.

use crate::health::{self, HealthCode};
use serde::Deserialize;
use std::fmt;

#[derive(Debug, Deserialize)]
struct Row {
    kind: String,
    #[serde(default)]
    case: String,
    status: String,
    object: String,
}

/// How many rows agree, and which do not.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Report {
    pub rows: usize,
    pub agreed: usize,
    pub differences: Vec<Difference>,
}

/// One row on which we differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Difference {
    pub kind: String,
    pub case: String,
    pub expected: String,
    /// Our status, `none`, or why the row could not be read.
    pub ours: String,
    pub reason: String,
}

impl Report {
    /// Agreement in percent; 100 for no rows.
    pub fn percent(&self) -> f64 {
        if self.rows == 0 { 100.0 } else { self.agreed as f64 * 100.0 / self.rows as f64 }
    }

    /// Rows that we call Healthy although they are not.
    pub fn wrongly_healthy(&self) -> impl Iterator<Item = &Difference> {
        self.differences.iter().filter(|d| d.ours == HealthCode::Healthy.as_str())
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let wrong = self.wrongly_healthy().count();
        writeln!(
            f,
            "{} of {} rows agree ({:.1} %), {wrong} wrongly Healthy",
            self.agreed,
            self.rows,
            self.percent()
        )?;
        for d in &self.differences {
            writeln!(f, "  {} {}: expected {}, ours {} ({})", d.kind, d.case, d.expected, d.ours, d.reason)?;
        }
        Ok(())
    }
}

/// Runs a recording. Unreadable rows count as differences.
pub fn run(text: &str) -> Report {
    let mut report = Report::default();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        report.rows += 1;
        match judge(line) {
            Ok(None) => report.agreed += 1,
            Ok(Some(difference)) => report.differences.push(difference),
            Err(reason) => report.differences.push(Difference {
                kind: String::new(),
                case: String::new(),
                expected: String::new(),
                ours: "unreadable".into(),
                reason,
            }),
        }
    }
    report
}

fn judge(line: &str) -> Result<Option<Difference>, String> {
    let row: Row = serde_json::from_str(line).map_err(|error| error.to_string())?;
    let documents = slipway_yaml::load_all_json(&row.object)
        .map_err(|errors| errors.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "));
    let (ours, reason) = match documents {
        // Where a recording has several documents the first one counts.
        Ok(documents) => match documents.first().and_then(|(object, _)| health::assess(object)) {
            Some(health) => {
                (health.status.as_str().to_string(), format!("{}: {}", health.reason, health.message))
            }
            None => ("none".to_string(), "no health".to_string()),
        },
        Err(problem) => ("unreadable".to_string(), problem),
    };
    let agrees = ours == row.status;
    Ok((!agrees).then_some(Difference { kind: row.kind, case: row.case, expected: row.status, ours, reason }))
}
