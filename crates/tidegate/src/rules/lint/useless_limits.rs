//! Limits that another limit of the same rule makes useless.
//!
//! Consider two limits of one rule that have the same key and the same cost and that both deny. They are
//! charged together or not at all, so the second counts exactly what the first admitted. If no sequence of
//! requests that the first admits makes the second deny, the second is useless. Let `M(T)` be the most that
//! the first (L1 per W1) admits in any span T:
//!
//! ```text
//! gcra, token_bucket           B1 + L1 * T / W1        they hold at most B1 and gain L1 per W1
//! sliding_log, strict          L1 * ceil(T / W1)       a span W1 has at most L1, and this many spans cover T
//!   sub_windows
//! fixed_window from the epoch, L1 * (ceil(T / W1) + 1) a span T overlaps this many windows, each with at most L1
//!   sliding_window
//! ```
//!
//! (A sliding window admits at most L1 within one epoch-aligned window, because its weight there is one.) All
//! of these are at most `b + L1 * T / W1`, with b = B1, L1, 2 * L1. The second never denies if
//!
//! ```text
//! gcra, token_bucket           b <= B2 and L1 / W1 <= L2 / W2   then it always holds enough
//! fixed_window from the epoch, M(W2) <= L2                      it counts the last W2
//!   sliding_log
//! sliding_window, sub_windows  M(2 * W2) <= L2                  it counts at most the last 2 * W2
//! ```
//!
//! Some limits are never reported: those with calendar windows or windows from the first hit, leaky buckets,
//! concurrency limits, limits that count denied attempts or have a least interval, and, as the first limit,
//! sub-windows that are not strict.

use tidegate_core::algorithm::{Align, CountDenied};
use tidegate_core::rules::{Action, RuleLimit};
use tidegate_core::text::write_duration;
use tidegate_core::{AlgorithmName, LimitSpec};

use crate::rules::diagnostic::{Diagnostic, Report};
use crate::rules::file::{FileRule, LimitSpans};

pub(crate) fn lint(report: &mut Report, rule: &FileRule) {
    for list in super::limit_lists(rule) {
        for (index, second) in list.iter().enumerate() {
            let others = list.iter().enumerate().filter(|(other, _)| *other != index);
            let mut tighter = others.filter(|(other, first)| {
                // If two make each other useless, the later one is reported.
                makes_useless(first.0, second.0) && (*other < index || !makes_useless(second.0, first.0))
            });
            // If both warnings apply, the one about the burst explains more.
            match (find_tighter_limit(&list, second), tighter.next()) {
                (Some(narrower), _) => warn_burst(report, narrower, second),
                (None, Some((_, first))) => warn_useless(report, first, second),
                (None, None) => {}
            }
        }
    }
}

type LimitWithSpans<'a> = (&'a RuleLimit, &'a LimitSpans);

fn warn_useless(report: &mut Report, first: &LimitWithSpans<'_>, second: &LimitWithSpans<'_>) {
    let message = format!("{} never denies a request", rate_text(&second.0.limit.spec()));
    let diagnostic = Diagnostic::warning("limit-useless", second.1.limit, message);
    let label = "what this limit admits never exceeds it";
    report.push(diagnostic.related(first.1.limit, label).hint("remove it, or lower it"));
}

/// A limit over a longer time that leaves no room for the burst, if a burst was given.
fn find_tighter_limit<'l, 'a>(
    list: &'l [LimitWithSpans<'a>],
    one: &LimitWithSpans<'_>,
) -> Option<&'l LimitWithSpans<'a>> {
    let spec = one.0.limit.spec();
    let burst = spec.burst.filter(|burst| *burst > spec.limit)?;
    list.iter().find(|other| {
        let other_spec = other.0.limit.spec();
        are_charged_together(one.0, other.0)
            && other_spec.per_ns > spec.per_ns
            && burst_max(&other_spec) < burst
    })
}

fn warn_burst(report: &mut Report, narrower: &LimitWithSpans<'_>, one: &LimitWithSpans<'_>) {
    let spec = narrower.0.limit.spec();
    let burst = one.0.limit.spec().burst.unwrap_or_default();
    let message = format!("a burst of {burst} is more than {} has room for", rate_text(&spec));
    let diagnostic = Diagnostic::warning("burst-too-large", one.1.limit, message);
    report.push(
        diagnostic
            .related(narrower.1.limit, "this limit")
            .hint(format!("write a burst of {} or less, or raise the other limit", burst_max(&spec))),
    );
}

fn burst_max(spec: &LimitSpec) -> u64 {
    match spec.algorithm {
        Some(AlgorithmName::LeakyBucket) => u64::MAX,
        _ => spec.burst.unwrap_or(spec.limit),
    }
}

fn rate_text(spec: &LimitSpec) -> String {
    format!("{} per {}", spec.limit, write_duration(spec.per_ns))
}

/// Whether both limits are always charged the same, or not at all.
fn are_charged_together(one: &RuleLimit, other: &RuleLimit) -> bool {
    matches!(one.action, Action::Reject | Action::ShadowBan)
        && one.action == other.action
        && (&one.key, &one.cost, one.missing) == (&other.key, &other.cost, other.missing)
}

fn makes_useless(first: &RuleLimit, second: &RuleLimit) -> bool {
    if !are_charged_together(first, second) {
        return false;
    }
    let (first, second) = (first.limit.spec(), second.limit.spec());
    let Some(admitted) = AdmissionBound::from_spec(&first) else { return false };
    if second.limit == 0
        || second.count_denied.is_some_and(|count| count != CountDenied::Never)
        || second.min_interval_ns.is_some()
    {
        return false;
    }
    let window_ns = u128::from(second.per_ns);
    match second.algorithm.unwrap_or_default() {
        AlgorithmName::Gcra | AlgorithmName::TokenBucket => {
            let no_faster =
                u128::from(first.limit) * window_ns <= u128::from(second.limit) * u128::from(first.per_ns);
            no_faster && admitted.burst() <= u128::from(second.burst.unwrap_or(second.limit))
        }
        AlgorithmName::FixedWindow if second.align != Some(Align::Epoch) => false,
        AlgorithmName::FixedWindow | AlgorithmName::SlidingLog => {
            admitted.within(window_ns) <= u128::from(second.limit)
        }
        AlgorithmName::SlidingWindow | AlgorithmName::SubWindows => {
            admitted.within(2 * window_ns) <= u128::from(second.limit)
        }
        AlgorithmName::LeakyBucket | AlgorithmName::Concurrency => false,
    }
}

/// The most that a limit admits. Units are below 2^40 and windows below 2^59 ns, so no product overflows.
struct AdmissionBound {
    units: u128,
    window_ns: u128,
    kind: BoundKind,
}

enum BoundKind {
    Bucket { burst: u128 },
    AnyWindow,
    AlignedWindows,
}

impl AdmissionBound {
    fn from_spec(spec: &LimitSpec) -> Option<Self> {
        let kind = match spec.algorithm.unwrap_or_default() {
            AlgorithmName::Gcra | AlgorithmName::TokenBucket => {
                BoundKind::Bucket { burst: spec.burst.unwrap_or(spec.limit).into() }
            }
            AlgorithmName::SlidingLog => BoundKind::AnyWindow,
            AlgorithmName::SubWindows if spec.strict == Some(true) => BoundKind::AnyWindow,
            AlgorithmName::FixedWindow if spec.align == Some(Align::Epoch) => BoundKind::AlignedWindows,
            AlgorithmName::SlidingWindow => BoundKind::AlignedWindows,
            _ => return None,
        };
        // A limit that admits nothing makes every other useless, and has its own warning.
        (spec.limit > 0).then_some(Self { units: spec.limit.into(), window_ns: spec.per_ns.into(), kind })
    }

    /// M(T).
    fn within(&self, span_ns: u128) -> u128 {
        match self.kind {
            BoundKind::Bucket { burst } => burst + (self.units * span_ns).div_ceil(self.window_ns),
            BoundKind::AnyWindow => self.units * span_ns.div_ceil(self.window_ns),
            BoundKind::AlignedWindows => self.units * (span_ns.div_ceil(self.window_ns) + 1),
        }
    }

    /// b.
    fn burst(&self) -> u128 {
        match self.kind {
            BoundKind::Bucket { burst } => burst,
            BoundKind::AnyWindow => self.units,
            BoundKind::AlignedWindows => 2 * self.units,
        }
    }
}
