//! Histograms of durations.

use std::sync::atomic::{AtomicU64, Ordering};

use super::exposition::{Exposition, Labels};
use crate::serve::rounding::SECOND_NS;

/// The upper bounds in nanoseconds: three per power of ten, from 100 ns to 1 s.
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
/// One more for durations above the last bound.
const BUCKETS: usize = BOUNDS_NS.len() + 1;

/// Durations, counted by length.
#[derive(Debug, Default)]
pub struct Histogram {
    buckets: [AtomicU64; BUCKETS],
    sum_ns: AtomicU64,
}

impl Histogram {
    /// Counts a duration.
    pub fn observe(&self, duration_ns: u64) {
        let bucket = BOUNDS_NS.partition_point(|bound_ns| *bound_ns < duration_ns);
        self.buckets[bucket].fetch_add(1, Ordering::Relaxed);
        self.sum_ns.fetch_add(duration_ns, Ordering::Relaxed);
    }

    /// Writes the samples of a family that was started.
    pub fn write(&self, page: &mut Exposition, name: &str, labels: Labels<'_>) {
        let bucket_name = format!("{name}_bucket");
        let mut count = 0;
        for (index, bucket) in self.buckets.iter().enumerate() {
            count += bucket.load(Ordering::Relaxed);
            let bound = BOUNDS_NS.get(index).map_or_else(|| "+Inf".to_owned(), |ns| format_seconds(*ns));
            let labels: Vec<(&str, &str)> = labels.iter().copied().chain([("le", bound.as_str())]).collect();
            page.sample(&bucket_name, &labels, count);
        }
        page.sample(&format!("{name}_sum"), labels, format_seconds(self.sum_ns.load(Ordering::Relaxed)));
        // Equal to the last bucket, even if another thread counts meanwhile.
        page.sample(&format!("{name}_count"), labels, count);
    }
}

/// Nanoseconds as seconds, without rounding.
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
        for duration_ns in [0, 100, 101, 1_000_000_000, 1_000_000_001, u64::from(u32::MAX)] {
            histogram.observe(duration_ns);
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
    fn seconds_are_not_rounded() {
        let texts: Vec<String> =
            [0, 1, 100, 1_000_000_000, 1_500_000_000, u64::MAX].map(format_seconds).into();
        assert_eq!(texts, ["0", "0.000000001", "0.0000001", "1", "1.5", "18446744073.709551615"]);
    }
}
