//! Golden files: `golden/README.md` documents the format.
//!
//! This reader is separate from the one under test: it splits the fields of a limit itself, and reads no more than the
//! files need.

use std::fmt;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use tidegate_core::algorithm::{Align, CalendarSpec, Weekday};
use tidegate_core::{Decision, LimitSpec, Nanos};

/// One case, line by line, so that it can be written back with its comments.
#[derive(Debug)]
pub struct GoldenFile {
    pub path: PathBuf,
    pub lines: Vec<GoldenLine>,
}

#[derive(Debug)]
pub enum GoldenLine {
    /// A comment, or an empty line.
    Comment(String),
    /// `limit: {...}`, as text and parsed.
    Limit(String, Box<LimitSpec>),
    Request(GoldenRequest),
}

/// `<t_us> <cost>`, and after an arrow the decision, which a new file does not have yet.
#[derive(Debug)]
pub struct GoldenRequest {
    pub at_us: u64,
    pub cost: u64,
    pub decision: Option<GoldenDecision>,
}

/// The decision, to the right of the arrow. Waits are text, because they may be `never`.
#[derive(Debug, PartialEq, Eq)]
pub struct GoldenDecision {
    pub allowed: bool,
    pub remaining: u64,
    pub retry_after: String,
    pub reset_after_ns: u128,
    pub delay_ns: u128,
}

impl GoldenFile {
    /// Every file of `directory`, by name.
    pub fn read_all(directory: &Path) -> Vec<Self> {
        let entries = std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{directory:?}: {error}"));
        let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
        paths.retain(|path| path.extension().is_some_and(|extension| extension == "txt"));
        paths.sort();
        paths.into_iter().map(Self::read).collect()
    }

    fn read(path: PathBuf) -> Self {
        let text = std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path:?}: {error}"));
        let lines = text.lines().enumerate().map(|(number, line)| {
            GoldenLine::read(line)
                .unwrap_or_else(|| panic!("{path:?}:{}: not understood: {line}", number + 1))
        });
        Self { lines: lines.collect(), path }
    }

    pub fn write(&self) {
        let text: String = self.lines.iter().map(|line| format!("{line}\n")).collect();
        std::fs::write(&self.path, text).unwrap_or_else(|error| panic!("{:?}: {error}", self.path));
    }

    /// The limits that every request of the file falls under.
    pub fn limits(&self) -> impl Iterator<Item = (&str, &LimitSpec)> {
        self.lines.iter().filter_map(|line| match line {
            GoldenLine::Limit(text, spec) => Some((text.as_str(), &**spec)),
            _ => None,
        })
    }

    pub fn requests(&self) -> impl Iterator<Item = &GoldenRequest> {
        self.lines.iter().filter_map(|line| match line {
            GoldenLine::Request(request) => Some(request),
            _ => None,
        })
    }
}

impl GoldenLine {
    fn read(line: &str) -> Option<Self> {
        if line.is_empty() || line.starts_with('#') {
            return Some(Self::Comment(line.to_owned()));
        }
        if let Some(text) = line.strip_prefix("limit: ") {
            return Some(Self::Limit(text.to_owned(), Box::new(spec(text)?)));
        }
        let (request, decision) = match line.split_once(" -> ") {
            Some((request, decision)) => (request, Some(GoldenDecision::read(decision)?)),
            None => (line, None),
        };
        let (at_us, cost) = request.split_once(' ')?;
        Some(Self::Request(GoldenRequest { at_us: read(at_us)?, cost: read(cost)?, decision }))
    }
}

impl GoldenDecision {
    fn read(text: &str) -> Option<Self> {
        let fields: Vec<&str> = text.split(' ').collect();
        let [allowed, remaining, retry_after, reset_after, delay] = fields[..] else { return None };
        Some(Self {
            allowed: read::<u8>(allowed)? == 1,
            remaining: read(remaining)?,
            retry_after: retry_after.to_owned(),
            reset_after_ns: read(reset_after)?,
            delay_ns: read(delay)?,
        })
    }

    pub fn from_decision(decision: &Decision) -> Self {
        let retry_after = decision.retry_after.span().map(Nanos::get);
        Self {
            allowed: decision.is_allowed(),
            remaining: decision.remaining,
            retry_after: retry_after.map_or("never".to_owned(), |nanos| nanos.to_string()),
            reset_after_ns: decision.reset_after.get(),
            delay_ns: decision.delay.get(),
        }
    }
}

impl fmt::Display for GoldenLine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Comment(text) => f.write_str(text),
            Self::Limit(text, _) => write!(f, "limit: {text}"),
            Self::Request(GoldenRequest { at_us, cost, decision: None }) => write!(f, "{at_us} {cost}"),
            Self::Request(GoldenRequest { at_us, cost, decision: Some(decision) }) => {
                write!(f, "{at_us} {cost} -> {decision}")
            }
        }
    }
}

impl fmt::Display for GoldenDecision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { allowed, remaining, retry_after, reset_after_ns, delay_ns } = self;
        write!(f, "{} {remaining} {retry_after} {reset_after_ns} {delay_ns}", u8::from(*allowed))
    }
}

fn read<T: FromStr>(text: &str) -> Option<T> {
    text.parse().ok()
}

/// The names and values of `{name: value, ...}`. A value may be in braces too.
fn fields(text: &str) -> Option<Vec<(&str, &str)>> {
    let mut rest = text.strip_prefix('{')?.strip_suffix('}')?;
    let mut fields = Vec::new();
    while !rest.is_empty() {
        let (name, after_name) = rest.split_once(": ")?;
        let value = match after_name.starts_with('{') {
            true => &after_name[..=after_name.find('}')?],
            false => after_name.split(", ").next()?,
        };
        fields.push((name, value));
        rest = &after_name[value.len()..];
        rest = rest.strip_prefix(", ").unwrap_or(rest);
    }
    Some(fields)
}

/// The fields of a limit.
fn spec(text: &str) -> Option<LimitSpec> {
    let mut spec = LimitSpec::default();
    for (name, value) in fields(text)? {
        match name {
            "algorithm" => spec.algorithm = Some(read(value)?),
            "limit" => spec.limit = read(value)?,
            "per" => spec.per_ns = nanos(value)?,
            "ttl" => spec.ttl_ns = Some(nanos(value)?),
            "burst" => spec.burst = Some(read(value)?),
            "queue" => spec.queue = Some(read(value)?),
            "sub_windows" => spec.sub_windows = Some(read(value)?),
            "strict" => spec.strict = Some(read(value)?),
            "count_denied" => spec.count_denied = Some(read(value)?),
            "min_interval" => spec.min_interval_ns = Some(nanos(value)?),
            "align" => {
                spec.align = Some(match value {
                    "epoch" => Align::Epoch,
                    "first_hit" => Align::FirstHit,
                    _ => Align::Calendar(calendar(value)?),
                });
            }
            _ => return None,
        }
    }
    Some(spec)
}

/// The fields of `align: {tz: Europe/Paris, ...}`.
fn calendar(text: &str) -> Option<CalendarSpec> {
    let mut spec = CalendarSpec::default();
    for (name, value) in fields(text)? {
        match name {
            "tz" => spec.tz = value.to_owned(),
            "week_starts" => {
                spec.week_starts = Some(Weekday::ALL.into_iter().find(|day| day.as_str() == value)?);
            }
            "day_of_month" => spec.day_of_month = Some(read(value)?),
            _ => return None,
        }
    }
    Some(spec)
}

/// Reads a duration: digits and a unit, or the unit of a calendar.
fn nanos(text: &str) -> Option<u64> {
    match text {
        "day" => return nanos("1d"),
        "week" => return nanos("7d"),
        "month" => return nanos("30d"),
        _ => {}
    }
    let digits = text.find(|c: char| !c.is_ascii_digit())?;
    let unit: u64 = match &text[digits..] {
        "ns" => 1,
        "us" => 1_000,
        "ms" => 1_000_000,
        "s" => 1_000_000_000,
        "m" => 60_000_000_000,
        "h" => 3_600_000_000_000,
        "d" => 86_400_000_000_000,
        _ => return None,
    };
    read::<u64>(&text[..digits])?.checked_mul(unit)
}
