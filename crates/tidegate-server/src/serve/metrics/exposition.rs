//! Writes Prometheus' text exposition format, version 0.0.4.
//!
//! Written by hand because the format has only two kinds of lines: comments with the help and the type of a family, and
//! samples. Label values are escaped. Metric and label names are constants that need no escaping.

use std::fmt::{Display, Write};

/// The content type of the format.
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

/// The type of a family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MetricType {
    /// Only grows.
    Counter,
    /// Goes up and down.
    Gauge,
    /// Counts values by size, in buckets.
    Histogram,
}

/// The label names and values of a sample.
pub type Labels<'a> = &'a [(&'a str, &'a str)];

/// The page while it is written.
#[derive(Debug, Default)]
pub struct Exposition {
    text: String,
}

impl Exposition {
    /// Starts a family. Its samples must follow.
    pub fn family(&mut self, name: &str, kind: MetricType, help: &str) {
        let kind = match kind {
            MetricType::Counter => "counter",
            MetricType::Gauge => "gauge",
            MetricType::Histogram => "histogram",
        };
        self.push(&["# HELP ", name, " "]);
        for c in help.chars() {
            match c {
                '\\' => self.text.push_str("\\\\"),
                '\n' => self.text.push_str("\\n"),
                c => self.text.push(c),
            }
        }
        self.push(&["\n# TYPE ", name, " ", kind, "\n"]);
    }

    /// Writes a sample.
    pub fn sample(&mut self, name: &str, labels: Labels<'_>, value: impl Display) {
        self.text.push_str(name);
        self.write_labels(labels);
        // Writing to a string does not fail.
        let _ = writeln!(self.text, " {value}");
    }

    /// Writes a family with one sample.
    pub fn single(&mut self, name: &str, kind: MetricType, help: &str, value: impl Display) {
        self.family(name, kind, help);
        self.sample(name, &[], value);
    }

    /// The finished page.
    pub fn into_text(self) -> String {
        self.text
    }

    fn write_labels(&mut self, labels: Labels<'_>) {
        let mut separator = "{";
        for (name, value) in labels {
            self.push(&[separator, name, "=\""]);
            for c in value.chars() {
                match c {
                    '\\' => self.text.push_str("\\\\"),
                    '"' => self.text.push_str("\\\""),
                    '\n' => self.text.push_str("\\n"),
                    c => self.text.push(c),
                }
            }
            self.text.push('"');
            separator = ",";
        }
        if !labels.is_empty() {
            self.text.push('}');
        }
    }

    fn push(&mut self, parts: &[&str]) {
        parts.iter().for_each(|part| self.text.push_str(part));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn families_have_help_and_type_and_samples_have_labels() {
        let mut page = Exposition::default();
        page.family("a_total", MetricType::Counter, "What\nis \\ counted.");
        page.sample("a_total", &[("rule", "x"), ("domain", "y")], 5);
        page.sample("a_total", &[], 2.5);
        page.single("b", MetricType::Gauge, "B.", 1);
        assert_eq!(
            page.into_text(),
            "# HELP a_total What\\nis \\\\ counted.\n# TYPE a_total counter\na_total{rule=\"x\",domain=\"y\"} 5\na_total 2.5\n\
             # HELP b B.\n# TYPE b gauge\nb 1\n"
        );
    }

    #[test]
    fn label_values_are_escaped() {
        let mut page = Exposition::default();
        page.sample("a", &[("rule", "q\"\\\nü")], 1);
        assert_eq!(page.into_text(), "a{rule=\"q\\\"\\\\\\nü\"} 1\n");
    }
}
