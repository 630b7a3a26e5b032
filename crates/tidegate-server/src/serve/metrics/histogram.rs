//! How long something took, as how often it took no longer than so long.

use std::sync::atomic::{AtomicU64, Ordering};

use super::exposition::{Exposition, Labels};
use crate::serve::rounded::SECOND_NS;

/// The bounds in nanoseconds: three to a factor of ten, from a tenth of a microsecond to a second.
const BOUNDS_NS: [u64; 22] = [
    100,
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    25_000_000,
    50_000_000,
    100_000_000,
    250_000_000,
    500_000_000,
    1_000_000_000,
];
/// What takes longer than the last bound is in a bucket of its own.
const BUCKETS: usize = BOUNDS_NS.len() + 1;

/// Spans of time, counted by how long they are.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

impl Histogram {
    /// Counts a span.
    pub fn observe(&self, span_ns: u64) {
        let bucket = BOUNDS_NS.partition_point(|bound_ns| *bound_ns < span_ns);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(span_ns, Ordering::Relaxed);
    }

    /// Writes its samples, of a family that is begun.
    pub fn write(&self, page: &mut Exposition, name: &str, labels: Labels<'_>) {
        let bucket_name = format!("{name}_bucket");
        let mut count = 0;
        for (number, bucket) in self.buckets.iter().enumerate() {
            count += bucket.load(Ordering::Relaxed);
            let bound = BOUNDS_NS.get(number).map_or_else(|| "+Inf".to_owned(), |ns| format_seconds(*ns));
            let labels: Vec<(&str, &str)> = labels.iter().copied().chain([("le", bound.as_str())]).collect();
            page.sample(&bucket_name, &labels, count);
        }
        page.sample(&format!("{name}_sum"), labels, format_seconds(self.sum_ns.load(Ordering::Relaxed)));
        // The same as the last bucket, also while others count.
        page.sample(&format!("{name}_count"), labels, count);
    }
}

/// Nanoseconds as seconds, exactly.
pub fn format_seconds(ns: u64) -> String {
    let decimals = format!("{:09}", ns % SECOND_NS);
    match decimals.trim_end_matches('0') {
        "" => format!("{}", ns / SECOND_NS),
        decimals => format!("{}.{decimals}", ns / SECOND_NS),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_belong_to_their_bucket_and_buckets_add_up() {
        let histogram = Histogram::default();
        for span_ns in [0, 100, 101, 1_000_000_000, 1_000_000_001, u64::from(u32::MAX)] {
            histogram.observe(span_ns);
        }
        let mut page = Exposition::default();
        histogram.write(&mut page, "x_seconds", &[("protocol", "http")]);
        let text = page.into_text();
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines.len(), BUCKETS + 2);
        assert_eq!(lines[0], "x_seconds_bucket{protocol=\"http\",le=\"0.0000001\"} 2");
        assert_eq!(lines[1], "x_seconds_bucket{protocol=\"http\",le=\"0.00000025\"} 3");
        assert_eq!(lines[21], "x_seconds_bucket{protocol=\"http\",le=\"1\"} 4");
        assert_eq!(lines[22], "x_seconds_bucket{protocol=\"http\",le=\"+Inf\"} 6");
        assert_eq!(lines[23], "x_seconds_sum{protocol=\"http\"} 6.294967497");
        assert_eq!(lines[24], "x_seconds_count{protocol=\"http\"} 6");
        assert!(BOUNDS_NS.is_sorted());
    }

    #[test]
    fn nanoseconds_are_seconds_to_the_last_digit() {
        let shown: Vec<String> = [0, 1, 100, 1_000_000_000, 1_500_000_000, u64::MAX].map(format_seconds).into();
        assert_eq!(shown, ["0", "0.000000001", "0.0000001", "1", "1.5", "18446744073.709551615"]);
    }
}
