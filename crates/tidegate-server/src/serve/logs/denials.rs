//! A line for a request that was not plainly let through: for so many a second, and no more.
//!
//! An attack is when most requests are denied, so what is not logged must cost next to nothing: a look at the clock and
//! an addition. The first few of every second have a line; the next line says how many had none.

use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::rules::{Answer, AnswerKind, Request};
use tidegate::{Timestamp, Wait};

use crate::serve::Protocol;
use crate::serve::rounded::{self, SECOND_NS};
use crate::serve::settings::LogKeys;
use crate::text;

/// The most lines a second, unless it is set.
pub const LINES_PER_SECOND_DEFAULT: u32 = 10;
/// The most attributes of a request in a line.
const ATTRIBUTES_MAX: usize = 16;
/// The most characters of a name or a value in a line.
const SHOWN_CHARS_MAX: usize = 64;

/// The bits that count within a second; those above are the second.
const COUNT_BITS: u32 = 26;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;

/// Writes denials to the log.
#[derive(Debug)]
pub struct DenialLog {
    lines_per_second: u64,
    keys: LogKeys,
    /// Keyed by chance, so that nobody can look values up in a table of hashes.
    hasher: RandomState,
    /// The second that is counted, and how many came in it.
    second_and_count: AtomicU64,
    /// How many came that had no line, in seconds that are over.
    suppressed: AtomicU64,
}

/// Whether a denial is worth a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineBudget {
    /// It is, and so many before it were not.
    Write { suppressed: u64 },
    /// There were enough.
    Suppress,
}

impl DenialLog {
    /// So many lines a second at most; with none there is no line at all.
    pub fn new(lines_per_second: u32, keys: LogKeys) -> Self {
        Self {
            lines_per_second: u64::from(lines_per_second).min(COUNT_MAX),
            keys,
            hasher: RandomState::new(),
            second_and_count: AtomicU64::new(0),
            suppressed: AtomicU64::new(0),
        }
    }

    /// Writes a line if the answer is not a plain yes and there were not enough lines.
    #[inline]
    pub fn log(&self, by: Protocol, request: &Request<'_>, answer: &Answer, now: impl Fn() -> Timestamp) {
        if answer.kind != AnswerKind::Allowed
            && self.lines_per_second > 0
            && let LineBudget::Write { suppressed } = self.take_line(now())
        {
            self.write(by, request, answer, suppressed);
        }
    }

    fn take_line(&self, now: Timestamp) -> LineBudget {
        let second = now.as_nanos() / SECOND_NS;
        loop {
            let counted = self.second_and_count.load(Ordering::Relaxed);
            let count = counted & COUNT_MAX;
            // A clock that is a little behind counts for the second that others are in already.
            if counted >> COUNT_BITS >= second {
                if count >= self.lines_per_second {
                    if count < COUNT_MAX {
                        self.second_and_count.fetch_add(1, Ordering::Relaxed);
                    }
                    return LineBudget::Suppress;
                }
                if self.swap(counted, counted + 1) {
                    return LineBudget::Write { suppressed: self.suppressed.swap(0, Ordering::Relaxed) };
                }
            } else if self.swap(counted, (second << COUNT_BITS) | 1) {
                let before = count.saturating_sub(self.lines_per_second);
                return LineBudget::Write { suppressed: before + self.suppressed.swap(0, Ordering::Relaxed) };
            }
        }
    }

    fn swap(&self, old: u64, new: u64) -> bool {
        self.second_and_count.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn write(&self, by: Protocol, request: &Request<'_>, answer: &Answer, suppressed: u64) {
        let decider = answer.decider();
        let retry_after = answer.retry_after;
        tracing::info!(
            target: "tidegate::denials",
            protocol = by.as_str(),
            decision = answer.kind.as_str(),
            domain = text::printable(request.domain.as_bytes(), SHOWN_CHARS_MAX),
            rule = decider.map(|limit| &*limit.rule.name),
            limit = decider.map(|limit| limit.id.to_string()),
            attributes = self.attributes(request, decider.map_or(0, |limit| limit.descriptor)),
            retry_after_ms = retry_after_ms(retry_after),
            suppressed,
            "not plainly allowed",
        );
    }

    /// What the descriptor says that the limit was touched by.
    fn attributes(&self, request: &Request<'_>, descriptor: usize) -> String {
        let entries = request.descriptors.get(descriptor).map_or(&[][..], |descriptor| descriptor.entries);
        let mut text = String::new();
        for entry in entries.iter().take(ATTRIBUTES_MAX) {
            let separator = if text.is_empty() { "" } else { " " };
            let name = text::printable(entry.key.as_bytes(), SHOWN_CHARS_MAX);
            // Writing to a string does not fail.
            let _ = match self.keys {
                LogKeys::Hashed => {
                    write!(text, "{separator}{name}=#{:016x}", self.hasher.hash_one(entry.value))
                }
                LogKeys::Plain => {
                    write!(text, "{separator}{name}={}", text::printable(entry.value.as_bytes(), SHOWN_CHARS_MAX))
                }
            };
        }
        if entries.len() > ATTRIBUTES_MAX {
            text.push_str(" …");
        }
        text
    }
}

impl Default for DenialLog {
    fn default() -> Self {
        Self::new(LINES_PER_SECOND_DEFAULT, LogKeys::default())
    }
}

/// In milliseconds, rounded up; none if it is never, or not at all.
fn retry_after_ms(wait: Wait) -> Option<u64> {
    wait.span().map(rounded::ceil_millis).filter(|ms| *ms > 0)
}

#[cfg(test)]
mod tests {
    use tidegate::rules::{Descriptor, Entry};

    use super::*;

    fn at(seconds: u64) -> Timestamp {
        Timestamp::from_nanos(1_700_000_000 * SECOND_NS + seconds * SECOND_NS)
    }

    #[test]
    fn lines_are_limited_per_second_and_report_the_suppressed() {
        let denials = DenialLog::new(2, LogKeys::Hashed);
        let worth = |seconds| denials.take_line(at(seconds));
        let line = |suppressed| LineBudget::Write { suppressed };
        assert_eq!(
            [worth(0), worth(0), worth(0), worth(0)],
            [line(0), line(0), LineBudget::Suppress, LineBudget::Suppress]
        );
        assert_eq!([worth(5), worth(5), worth(5)], [line(2), line(0), LineBudget::Suppress]);
        assert_eq!(worth(4), LineBudget::Suppress, "a clock that is behind gets no lines of its own");
        assert_eq!(worth(6), line(2));
    }

    #[test]
    fn threads_share_the_line_limit_and_lose_no_count() {
        let denials = DenialLog::new(10, LogKeys::Hashed);
        let lines = AtomicU64::new(0);
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    for _ in 0..10_000 {
                        if denials.take_line(at(0)) != LineBudget::Suppress {
                            lines.fetch_add(1, Ordering::Relaxed);
                        }
                    }
                });
            }
        });
        assert_eq!(lines.into_inner(), 10);
        assert_eq!(denials.take_line(at(1)), LineBudget::Write { suppressed: 4 * 10_000 - 10 });
    }

    fn attributes(keys: LogKeys, value: &str) -> String {
        let entries = [Entry { key: "us\ner", value }, Entry { key: "b", value: "x" }];
        let request = Request { domain: "api", descriptors: &[Descriptor::new(&entries, 1)] };
        DenialLog::new(1, keys).attributes(&request, 0)
    }

    #[test]
    fn values_are_hashed_with_another_key_every_time() {
        let (one, other) = (attributes(LogKeys::Hashed, "42"), attributes(LogKeys::Hashed, "42"));
        assert_ne!(one, other);
        assert!(one.starts_with("us\\ner=#") && one.contains(" b=#") && !one.contains("42="), "{one}");
        assert_eq!(one.len(), "us\\ner=#0123456789abcdef b=#0123456789abcdef".len());
    }

    #[test]
    fn plain_values_are_escaped_and_shortened() {
        let long = "x".repeat(1 << 20);
        assert_eq!(attributes(LogKeys::Plain, "a\nlevel=ERROR"), "us\\ner=a\\nlevel=ERROR b=x");
        assert!(attributes(LogKeys::Plain, &long).chars().count() < 100);
        let many = vec![Entry { key: "a", value: "x" }; 1_000];
        let request = Request { domain: "api", descriptors: &[Descriptor::new(&many, 1)] };
        let shown = DenialLog::new(1, LogKeys::Plain).attributes(&request, 0);
        assert_eq!(shown.split(' ').count(), ATTRIBUTES_MAX + 1);
    }
}
