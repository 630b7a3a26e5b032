//! Logs requests whose answer is not simply `allowed`, up to a maximum of lines per second.
//!
//! During an attack most requests are denied, so a denial without a line must cost almost nothing: one clock reading
//! and one addition. The first denials of every second get a line. The next line says how many were suppressed.

use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};
use std::sync::atomic::{AtomicU64, Ordering};

use tidegate::rules::{Answer, AnswerKind, Request};
use tidegate::{Timestamp, Wait};

use super::Protocol;
use super::rounding::{self, SECOND_NS};
use super::settings::LogKeys;
use crate::text;

/// The default maximum of lines per second.
pub const LINES_PER_SECOND_DEFAULT: u32 = 10;
/// The maximum of attributes in a line.
const ATTRIBUTES_MAX: usize = 16;
/// The maximum of characters of a name or a value.
const SHOWN_CHARS_MAX: usize = 64;

/// The low bits count denials within a second. The high bits are the second.
const COUNT_BITS: u32 = 26;
const COUNT_MAX: u64 = (1 << COUNT_BITS) - 1;

/// Writes denials to the log.
#[derive(Debug)]
pub struct DenialLog {
    lines_per_second: u64,
    keys: LogKeys,
    /// With a random key, so that values cannot be found in a table of hashes.
    hasher: RandomState,
    /// The current second and its number of denials.
    second_and_count: AtomicU64,
    /// Denials of past seconds that were not logged.
    suppressed: AtomicU64,
}

/// Whether a denial gets a line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum LineBudget {
    /// It does. `suppressed` denials before it did not.
    Write { suppressed: u64 },
    /// The maximum of this second is reached.
    Suppress,
}

impl DenialLog {
    /// Creates a log with a maximum of lines per second. 0 turns it off.
    pub fn new(lines_per_second: u32, keys: LogKeys) -> Self {
        Self {
            lines_per_second: u64::from(lines_per_second).min(COUNT_MAX),
            keys,
            hasher: RandomState::new(),
            second_and_count: AtomicU64::new(0),
            suppressed: AtomicU64::new(0),
        }
    }

    /// Writes a line if the answer is not simply `allowed` and the maximum is not reached.
    #[inline]
    pub fn log(
        &self,
        protocol: Protocol,
        request: &Request<'_>,
        answer: &Answer,
        now: impl Fn() -> Timestamp,
    ) {
        if answer.kind != AnswerKind::Allowed
            && self.lines_per_second > 0
            && let LineBudget::Write { suppressed } = self.take_line(now())
        {
            self.write(protocol, request, answer, suppressed);
        }
    }

    fn take_line(&self, now: Timestamp) -> LineBudget {
        let second = now.as_nanos() / SECOND_NS;
        loop {
            let state = self.second_and_count.load(Ordering::Relaxed);
            let count = state & COUNT_MAX;
            // A thread whose clock reading is a little older counts in the newer second.
            if state >> COUNT_BITS >= second {
                if count >= self.lines_per_second {
                    if count < COUNT_MAX {
                        self.second_and_count.fetch_add(1, Ordering::Relaxed);
                    }
                    return LineBudget::Suppress;
                }
                if self.swap(state, state + 1) {
                    return LineBudget::Write { suppressed: self.suppressed.swap(0, Ordering::Relaxed) };
                }
            } else if self.swap(state, (second << COUNT_BITS) | 1) {
                let before = count.saturating_sub(self.lines_per_second);
                return LineBudget::Write { suppressed: before + self.suppressed.swap(0, Ordering::Relaxed) };
            }
        }
    }

    fn swap(&self, old: u64, new: u64) -> bool {
        self.second_and_count.compare_exchange_weak(old, new, Ordering::Relaxed, Ordering::Relaxed).is_ok()
    }

    #[cold]
    fn write(&self, protocol: Protocol, request: &Request<'_>, answer: &Answer, suppressed: u64) {
        let decider = answer.decider();
        let retry_after = answer.retry_after;
        tracing::info!(
            target: "tidegate::denials",
            protocol = protocol.as_str(),
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

    /// The attributes of the descriptor that fell under the deciding limit.
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
                    write!(
                        text,
                        "{separator}{name}={}",
                        text::printable(entry.value.as_bytes(), SHOWN_CHARS_MAX)
                    )
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

/// In milliseconds, rounded up. `None` for never and for zero.
fn retry_after_ms(wait: Wait) -> Option<u64> {
    wait.span().map(rounding::ceil_millis).filter(|ms| *ms > 0)
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
        let budget = |seconds| denials.take_line(at(seconds));
        let line = |suppressed| LineBudget::Write { suppressed };
        assert_eq!(
            [budget(0), budget(0), budget(0), budget(0)],
            [line(0), line(0), LineBudget::Suppress, LineBudget::Suppress]
        );
        assert_eq!([budget(5), budget(5), budget(5)], [line(2), line(0), LineBudget::Suppress]);
        assert_eq!(budget(4), LineBudget::Suppress, "an older clock reading gets no extra lines");
        assert_eq!(budget(6), line(2));
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
