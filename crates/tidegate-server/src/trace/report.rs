//! Prints the summary as text.

use std::io::{self, Write};

use tidegate::{Limit, Timestamp};
use tidegate_core::text::write_date;

use super::overshoot::Overshoot;
use super::summary::{BusyKey, CostMix, Summary};
use crate::text::{self, Share};

/// Keys in the list of the busiest.
const BUSIEST_KEYS: usize = 10;
/// Longer keys are cut.
const KEY_CHARS_MAX: usize = 40;
/// The length of the busiest key's bar.
const BAR_CHARS: usize = 20;

/// Writes the whole summary.
pub fn write(summary: &Summary, limits: &[Limit], out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "Limits")?;
    for (index, limit) in limits.iter().enumerate() {
        writeln!(out, "  {}  {limit}", index + 1)?;
    }
    write_totals(summary, out)?;
    write_busiest(&summary.busiest(BUSIEST_KEYS), out)?;
    write_overshoots(summary, out)?;
    write_log_comparison(summary, out)
}

fn write_totals(summary: &Summary, out: &mut impl Write) -> io::Result<()> {
    let totals = &summary.totals;
    writeln!(out, "\nTrace")?;
    writeln!(out, "  keys      {:>16}", text::grouped_number(summary.key_count() as u64))?;
    match summary.time.range_ns {
        None => writeln!(out, "  time span {:>16}", "-")?,
        Some((earliest, latest)) => {
            let span = text::duration(latest - earliest);
            let [earliest, latest] = [earliest, latest].map(|at_ns| write_date(Timestamp::from_nanos(at_ns)));
            writeln!(out, "  time span {span:>16}  from {earliest} to {latest}")?;
        }
    }
    if summary.time.backward_steps > 0 {
        writeln!(out, "  steps back{:>16}", text::grouped_number(summary.time.backward_steps))?;
    }
    writeln!(out, "  requests  {:>16}", text::grouped_number(totals.requests))?;
    let parts = [("allowed", totals.allowed.into()), ("denied", totals.denied().into())];
    write_parts(out, totals.requests.into(), &parts)?;
    if summary.costs == CostMix::Mixed {
        writeln!(out, "  cost      {:>16}", text::grouped_number(totals.cost))?;
        let parts = [("allowed", totals.cost_allowed), ("denied", totals.cost_denied())];
        write_parts(out, totals.cost, &parts)?;
    }
    Ok(())
}

/// Writes parts of a whole, one per line.
fn write_parts(out: &mut impl Write, whole: u128, parts: &[(&str, u128)]) -> io::Result<()> {
    for (name, part) in parts {
        let percent = text::percent(Share { part: *part, whole });
        writeln!(out, "    {name:<8}{:>16}  {percent:>7}", text::grouped_number(*part))?;
    }
    Ok(())
}

fn write_busiest(keys: &[BusyKey<'_>], out: &mut impl Write) -> io::Result<()> {
    let Some(busiest) = keys.first() else { return Ok(()) };
    let names: Vec<String> = keys.iter().map(|key| text::printable(key.key, KEY_CHARS_MAX)).collect();
    let heading = "Busiest keys";
    let width = names.iter().map(|name| name.chars().count() + 2).fold(heading.len(), usize::max);
    writeln!(out, "\n{heading:<width$}      requests       allowed        denied  █ allowed ░ denied")?;
    for (name, key) in names.iter().zip(keys) {
        let denied = key.requests - key.allowed;
        let counts = [key.requests, key.allowed, denied].map(text::grouped_number);
        let [requests, allowed, denied] = counts;
        let bar = bar(key, busiest.requests);
        writeln!(out, "  {name:<0$}{requests:>14}{allowed:>14}{denied:>14}  {bar}", width - 2)?;
    }
    Ok(())
}

/// A bar in proportion to the key's requests, at least one character, split into allowed and denied.
fn bar(key: &BusyKey<'_>, busiest: u64) -> String {
    let chars = scale(BAR_CHARS, Share { part: key.requests.into(), whole: busiest.into() }).max(1);
    let allowed = scale(chars, Share { part: key.allowed.into(), whole: key.requests.into() });
    "█".repeat(allowed) + &"░".repeat(chars - allowed)
}

/// This share of `chars`, rounded to the nearest.
fn scale(chars: usize, Share { part, whole }: Share) -> usize {
    let rounded = (2 * part * chars as u128 + whole) / (2 * whole).max(1);
    usize::try_from(rounded).unwrap_or(chars)
}

fn write_overshoots(summary: &Summary, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\nWorst overshoot of any key in any window")?;
    for (index, overshoot) in summary.overshoots.iter().enumerate() {
        write!(out, "  {}  ", index + 1)?;
        write_overshoot(summary, overshoot, out)?;
    }
    Ok(())
}

#[allow(clippy::cast_precision_loss, reason = "two digits are shown")]
fn write_overshoot(summary: &Summary, overshoot: &Overshoot, out: &mut impl Write) -> io::Result<()> {
    let Some((fullest, over)) = overshoot.worst() else { return writeln!(out, "none") };
    let rate = overshoot.rate();
    let ratio = fullest.admitted as f64 / rate.limit() as f64;
    let [over, admitted] = [over, fullest.admitted].map(text::grouped_number);
    let [limit, window] = [text::grouped_number(rate.limit()), text::duration(rate.window_ns())];
    writeln!(
        out,
        "{over} over: {admitted} admitted, the limit is {limit} in {window}, {ratio:.2} times as much"
    )?;
    let key = text::printable(summary.key(fullest.key), KEY_CHARS_MAX);
    writeln!(out, "     key {key}, in the window that ends at {}", write_date(fullest.end))
}

fn write_log_comparison(summary: &Summary, out: &mut impl Write) -> io::Result<()> {
    writeln!(out, "\nComparison with the exact sliding log")?;
    let (comparison, whole) = (&summary.log_comparison, u128::from(summary.totals.requests));
    let mut line = |name: &str, requests: u64| {
        let percent = text::percent(Share { part: requests.into(), whole });
        writeln!(out, "  {name:<36}{:>14}  {percent:>7}", text::grouped_number(requests))
    };
    line("decided differently", comparison.differences())?;
    line("  admitted here, denied by the log", comparison.allowed_only_here)?;
    line("  denied here, admitted by the log", comparison.allowed_only_by_log)
}
