//! The header `date`, formatted once a second per thread.

use std::cell::RefCell;

use jiff::fmt::rfc2822::DateTimePrinter;
use tidegate::Timestamp;

use crate::serve::rounding::SECOND_NS;

thread_local!(static RECENT: RefCell<RecentDate> = const { RefCell::new(RecentDate::NONE) });

/// A second since 1970, and its date.
struct RecentDate {
    second: u64,
    text: String,
}

impl RecentDate {
    const NONE: Self = Self { second: u64::MAX, text: String::new() };

    fn at(second: u64) -> Self {
        let timestamp =
            i64::try_from(second).ok().and_then(|second| jiff::Timestamp::from_second(second).ok());
        let text = timestamp.and_then(|at| DateTimePrinter::new().timestamp_to_rfc9110_string(&at).ok());
        // Never empty before the year 9999.
        Self { second, text: text.unwrap_or_default() }
    }
}

/// Passes the date at `now` to `then`, as in `Thu, 01 Jan 1970 00:00:00 GMT`.
pub(super) fn with_date<R>(now: Timestamp, then: impl FnOnce(&str) -> R) -> R {
    let second = now.as_nanos() / SECOND_NS;
    RECENT.with_borrow_mut(|recent| {
        if recent.second != second {
            *recent = RecentDate::at(second);
        }
        then(&recent.text)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dates() {
        let date = |second: u64| with_date(Timestamp::from_nanos(second * SECOND_NS), str::to_owned);
        assert_eq!(date(0), "Thu, 01 Jan 1970 00:00:00 GMT");
        assert_eq!(date(784_111_777), "Sun, 06 Nov 1994 08:49:37 GMT", "the example of RFC 9110");
        assert_eq!(date(784_111_778), "Sun, 06 Nov 1994 08:49:38 GMT");
        assert_eq!(date(951_782_400), "Tue, 29 Feb 2000 00:00:00 GMT");
    }
}
