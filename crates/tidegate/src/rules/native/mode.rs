//! Reads where the limits of a rule are counted: `mode`, and the settings of two of the modes.

use std::num::NonZeroU32;
use std::ops::RangeInclusive;

use tidegate_core::rules::RuleLimit;
use tidegate_core::text::write_duration;
use tidegate_core::{Carry, RuleMode, UnsupportedMode};

use crate::rules::Span;
use crate::rules::diagnostic::Diagnostic;
use crate::rules::file::LimitSpans;
use crate::rules::yaml::{Field, Fields, Node, Reader};

/// The range of `lease_time`, in nanoseconds.
const LEASE_TIME_NS: RangeInclusive<u64> = 1_000_000..=60_000_000_000;
/// The range of `sync_interval`, in nanoseconds.
const SYNC_INTERVAL_NS: RangeInclusive<u64> = 10_000_000..=10_000_000_000;

/// The fields of a rule that belong to its mode.
pub(super) const FIELDS: [&str; 4] = ["mode", "lease_time", "sync_interval", "carry"];

/// The mode of a rule, and where it is written.
#[derive(Clone, Copy, Default)]
pub(crate) struct WrittenMode {
    pub mode: RuleMode,
    /// None if the rule does not set it.
    span: Option<Span>,
    lease_time_span: Option<Span>,
}

/// Common names of the modes elsewhere.
const SYNONYMS: [(&str, RuleMode); 8] = [
    ("exact", RuleMode::ALL[0]),
    ("global", RuleMode::ALL[0]),
    ("lease", RuleMode::ALL[1]),
    ("quota", RuleMode::ALL[1]),
    ("async", RuleMode::ALL[2]),
    ("eventually", RuleMode::ALL[2]),
    ("memory", RuleMode::ALL[3]),
    ("node", RuleMode::ALL[3]),
];

/// A field that only one mode has.
struct ModeField<'n> {
    field: Option<Field<'n>>,
    name: &'static str,
    mode: RuleMode,
}

impl WrittenMode {
    /// Takes `mode` and its settings from these fields, where they are given.
    pub fn read(reader: &mut Reader<'_>, fields: &mut Fields<'_>) -> Self {
        let [mode, lease_time, sync_interval, carry] = FIELDS.map(|name| fields.take(name));
        let keywords = RuleMode::ALL.map(|mode| (mode.as_str(), mode));
        // With an unknown mode, the settings of all modes are read.
        let written = mode.map(|Field { value, .. }| {
            reader.keyword_or_synonym("value of `mode`", value, &keywords, &SYNONYMS)
        });
        let of_modes = [
            ModeField { field: lease_time, name: FIELDS[1], mode: RuleMode::ALL[1] },
            ModeField { field: sync_interval, name: FIELDS[2], mode: RuleMode::ALL[2] },
            ModeField { field: carry, name: FIELDS[3], mode: RuleMode::ALL[2] },
        ];
        let known = written.unwrap_or_else(|| Some(RuleMode::default()));
        for ModeField { field, name, mode } in of_modes {
            let (Some(field), Some(known)) = (field, known) else { continue };
            if known != mode {
                report_other_mode(reader, field, name, mode);
            }
        }
        let lease_us = lease_time.and_then(|field| micros(reader, field.value, FIELDS[1], LEASE_TIME_NS));
        let sync_us =
            sync_interval.and_then(|field| micros(reader, field.value, FIELDS[2], SYNC_INTERVAL_NS));
        let carry = match carry.and_then(|field| reader.boolean(field.value)) {
            Some(false) => Carry::Off,
            Some(true) | None => Carry::On,
        };
        let mode_given = match known.unwrap_or_default() {
            RuleMode::Leased { .. } => RuleMode::Leased { lease_us },
            RuleMode::Eventual { .. } => RuleMode::Eventual { sync_us, carry },
            mode => mode,
        };
        Self {
            mode: mode_given,
            span: mode.map(|field| field.value.span),
            lease_time_span: lease_time.map(|field| field.value.span),
        }
    }

    /// Reports limits that cannot have the mode.
    pub fn check_limits<'l>(
        &self,
        reader: &mut Reader<'_>,
        limits: impl IntoIterator<Item = (&'l RuleLimit, &'l LimitSpans)>,
    ) {
        let Some(span) = self.span else { return };
        let mode = self.mode.as_str();
        for (limit, at) in limits {
            let (message, hint) = match self.mode.check(&limit.limit) {
                Ok(()) => {
                    self.check_lease_time(reader, limit, at);
                    continue;
                }
                Err(UnsupportedMode::CountDenied) => (
                    format!("`mode: {mode}` cannot count denied requests"),
                    "leave `count_denied` out, or write `mode: strict`".to_owned(),
                ),
                Err(UnsupportedMode::Algorithm(name)) => (
                    format!("`mode: {mode}` is not possible with `{name}`"),
                    "use gcra, token_bucket, fixed_window or sliding_window, or write `mode: strict`; a rule \
                     of its own can have another mode"
                        .to_owned(),
                ),
                Err(other) => (format!("`mode: {mode}` is not possible with {other}"), "write `mode: strict`".to_owned()),
            };
            let diagnostic = Diagnostic::error("bad-mode", at.limit, message);
            reader.push(diagnostic.related(span, "the mode").hint(hint));
        }
    }

    /// A lease that outlives the window would hold units of the past.
    fn check_lease_time(&self, reader: &mut Reader<'_>, limit: &RuleLimit, at: &LimitSpans) {
        let (RuleMode::Leased { lease_us: Some(lease_us) }, Some(span)) = (self.mode, self.lease_time_span)
        else {
            return;
        };
        let (lease_ns, window_ns) = (u64::from(lease_us.get()) * 1_000, limit.limit.rate().window_ns());
        if lease_ns > window_ns {
            let message = format!("a lease_time of {} is longer than the window", write_duration(lease_ns));
            let diagnostic = Diagnostic::error("out-of-range", span, message);
            let window = write_duration(window_ns);
            let diagnostic = diagnostic.related(at.limit, format!("a window of {window}"));
            reader.push(
                diagnostic
                    .hint(format!("use at most {window}; the default is a tenth of the window, at most 1s")),
            );
        }
    }

    /// Where the mode is written, if it is leased or eventual.
    pub fn leased_or_eventual_span(&self) -> Option<Span> {
        self.span.filter(|_| self.mode.is_leased_or_eventual())
    }
}

fn report_other_mode(reader: &mut Reader<'_>, field: Field<'_>, name: &str, mode: RuleMode) {
    let mode = mode.as_str();
    let message = format!("`{name}` needs `mode: {mode}`");
    let diagnostic = Diagnostic::error("contradiction", field.key.span, message);
    reader.push(diagnostic.hint(format!("write `mode: {mode}`, or leave it out")));
}

/// A duration in whole microseconds.
fn micros(
    reader: &mut Reader<'_>,
    node: &Node,
    name: &str,
    range: RangeInclusive<u64>,
) -> Option<NonZeroU32> {
    let nanos = reader.duration_ns(node)?;
    if !range.contains(&nanos) {
        let message = format!("a {name} of {} is out of range", write_duration(nanos));
        let hint = format!("use {} to {}", write_duration(*range.start()), write_duration(*range.end()));
        reader.push(Diagnostic::error("out-of-range", node.span, message).hint(hint));
        return None;
    }
    u32::try_from(nanos / 1_000).ok().and_then(NonZeroU32::new)
}
