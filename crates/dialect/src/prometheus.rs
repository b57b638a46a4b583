//! Prometheus' text format, version 0.0.4: families with their help and type, and lines with labels and a value.
//!
//! Comes in: names that are written in code, and labels and values that are not. Goes out: a text in which no label can be
//! mistaken for another or for a line. Counts nothing and keeps nothing; who counts what is for others to say.

use std::fmt::{Display, Write};

/// The type of this text, for the header of an answer.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4";

/// What a family is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    Counter,
    Gauge,
    Histogram,
    Summary,
}

impl Kind {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
            Self::Summary => "summary",
        }
    }
}

/// A text that grows family by family.
#[derive(Debug, Default)]
pub struct Text(String);

impl Text {
    /// Begins a family. Its lines follow before the next one begins.
    pub fn family(&mut self, name: &str, kind: Kind, help: &str) {
        let help = help.replace('\\', "\\\\").replace('\n', "\\n");
        let _ = writeln!(self.0, "# HELP {name} {help}\n# TYPE {name} {}", kind.as_str());
    }

    /// One value.
    pub fn line<L: AsRef<str>>(&mut self, name: &str, labels: &[(&str, L)], value: impl Display) {
        let _ = write!(self.0, "{name}");
        for (index, (label, text)) in labels.iter().enumerate() {
            let _ = write!(self.0, "{}{label}=\"", if index == 0 { '{' } else { ',' });
            escape(&mut self.0, text.as_ref());
            self.0.push('"');
        }
        let _ = writeln!(self.0, "{} {value}", if labels.is_empty() { "" } else { "}" });
    }

    /// A value without labels.
    pub fn plain(&mut self, name: &str, value: impl Display) {
        self.line::<&str>(name, &[], value);
    }

    /// The lines of one histogram.
    pub fn histogram<const N: usize, L: AsRef<str>>(
        &mut self,
        name: &str,
        labels: &[(&str, L)],
        histogram: &Histogram<N>,
    ) {
        let bucket = format!("{name}_bucket");
        let ends = histogram.bounds.iter().map(ToString::to_string).chain(["+Inf".to_owned()]);
        for (end, count) in ends.zip(histogram.buckets.iter().chain([&histogram.count])) {
            let given = labels.iter().map(|(label, text)| (*label, text.as_ref()));
            let labels: Vec<_> = given.chain([("le", end.as_str())]).collect();
            self.line(&bucket, &labels, count);
        }
        self.line(&format!("{name}_sum"), labels, histogram.sum);
        self.line(&format!("{name}_count"), labels, histogram.count);
    }

    pub fn finish(self) -> String {
        self.0
    }
}

/// How often a value was at most so large.
#[derive(Debug, Clone)]
pub struct Histogram<const N: usize> {
    bounds: &'static [f64; N],
    buckets: [u64; N],
    count: u64,
    sum: f64,
}

impl<const N: usize> Histogram<N> {
    /// `bounds`: the upper ends of its buckets, rising.
    pub const fn new(bounds: &'static [f64; N]) -> Self {
        Self { bounds, buckets: [0; N], count: 0, sum: 0.0 }
    }

    pub fn add(&mut self, value: f64) {
        for (bucket, bound) in self.buckets.iter_mut().zip(self.bounds) {
            *bucket += u64::from(value <= *bound);
        }
        self.count += 1;
        self.sum += value;
    }
}

/// The format's own three escapes.
fn escape(out: &mut String, text: &str) {
    for character in text.chars() {
        match character {
            '\\' => out.push_str("\\\\"),
            '"' => out.push_str("\\\""),
            '\n' => out.push_str("\\n"),
            other => out.push(other),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_and_lines_are_as_prometheus_reads_them() {
        let mut text = Text::default();
        text.family("a_total", Kind::Counter, "Things.");
        text.line("a_total", &[("x", "1"), ("y", "")], 3_u64);
        text.line("a_total", &[("x", String::from("2"))], 0.5);
        text.family("b", Kind::Gauge, "One\nline \\ only.");
        text.plain("b", 2.0);
        assert_eq!(
            text.finish(),
            "# HELP a_total Things.\n# TYPE a_total counter\na_total{x=\"1\",y=\"\"} 3\na_total{x=\"2\"} 0.5\n\
             # HELP b One\\nline \\\\ only.\n# TYPE b gauge\nb 2\n"
        );
    }

    #[test]
    fn no_label_ends_early_or_makes_a_line() {
        for (label, expected) in [
            ("plain {} = , #", "plain {} = , #"),
            ("a\"} 1\nb{c=\"", "a\\\"} 1\\nb{c=\\\""),
            ("C:\\new", "C:\\\\new"),
            ("\\\"", "\\\\\\\""),
            ("ümlaut\t\r", "ümlaut\t\r"),
        ] {
            let mut text = Text::default();
            text.line("m", &[("l", label)], 1);
            assert_eq!(text.finish(), format!("m{{l=\"{expected}\"}} 1\n"), "{label}");
        }
    }

    #[test]
    fn buckets_count_what_is_below_their_ends() {
        static BOUNDS: [f64; 2] = [0.5, 2.0];
        let mut histogram = Histogram::new(&BOUNDS);
        [0.25, 0.5, 1.0, 8.0].into_iter().for_each(|value| histogram.add(value));
        let mut text = Text::default();
        text.histogram("t", &[("of", "x")], &histogram);
        assert_eq!(
            text.finish(),
            "t_bucket{of=\"x\",le=\"0.5\"} 2\nt_bucket{of=\"x\",le=\"2\"} 3\nt_bucket{of=\"x\",le=\"+Inf\"} 4\n\
             t_sum{of=\"x\"} 9.75\nt_count{of=\"x\"} 4\n"
        );
    }
}
