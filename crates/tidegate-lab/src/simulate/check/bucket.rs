//! At most B + L (tau + T) / W in each span tau: a bucket of that size, which the units are put into.

use super::dated::take_extra;
use super::{Bound, Broken, Dated, KeyRecord, WAIT_NS, longest_life_ns};
use crate::simulate::rules::Limits;

pub(super) fn check(bound: &Bound<'_>, record: &KeyRecord, units: &[Dated]) -> Result<(), Broken> {
    let life_ns = longest_life_ns(bound.rule);
    let all = (0, u64::MAX);
    let Some(changed) = bound.timeline.change_ns().filter(|_| bound.rule.versions.len() > 1) else {
        return check_with(bound, record, units, (bound.limits(0, u64::MAX), life_ns, all));
    };
    // A change keeps the arrival time of a bucket, so the same share of W stays used. If B / L changes too, a share of W
    // is not the same share of the burst, and a span with the change in it has no simple bound.
    let [old, new] = [0, 1].map(|version| bound.rule.versions[version].share(bound.shares));
    if old.burst * new.limit == new.burst * old.limit {
        check_with(bound, record, units, (bound.limits(0, u64::MAX), life_ns, all))?;
    }
    let (began_ns, settled_ns) = (changed.0, changed.1 + life_ns);
    check_with(bound, record, units, (old, life_ns, (0, began_ns.saturating_sub(1))))?;
    check_with(bound, record, units, (new, life_ns, (settled_ns, u64::MAX)))
}

/// Checks the units that were asked for and admitted in a span of true time: first those that were decided at once, then all.
fn check_with(
    bound: &Bound<'_>,
    record: &KeyRecord,
    units: &[Dated],
    (limits, life_ns, (since_ns, until_ns)): (Limits, u64, (u64, u64)),
) -> Result<(), Broken> {
    let within = || units.iter().filter(move |dated| dated.from_ns >= since_ns && dated.to_ns <= until_ns);
    pour(bound, record, within().filter(|dated| !dated.waited), (limits, life_ns))?;
    if units.iter().any(|dated| dated.waited) {
        pour(bound, record, within(), (limits, life_ns + WAIT_NS))?;
    }
    Ok(())
}

fn pour<'a>(
    bound: &Bound<'_>,
    record: &KeyRecord,
    units: impl Iterator<Item = &'a Dated>,
    (Limits { limit, burst }, slack_ns): (Limits, u64),
) -> Result<(), Broken> {
    let (limit, window_ns) = (u128::from(limit), u128::from(bound.rule.window_ns));
    // One nanosecond for what is rounded.
    let capacity = u128::from(burst) * window_ns + limit * (u128::from(slack_ns) + 1);
    let mut units: Vec<&Dated> = units.collect();
    units.sort_by_key(|dated| dated.forward_ns);
    let mut extras = record.extras.clone();
    let (mut level, mut last_ns, mut losses) = (0_u128, 0, 0);
    // Units that were asked for before a loss and answered after it may be among those that were lost.
    let is_certain =
        |dated: &&Dated| !record.lost_ns.iter().any(|lost| (dated.from_ns..=dated.to_ns).contains(lost));
    for dated in units.into_iter().filter(is_certain) {
        let lost = record.lost_ns.iter().filter(|lost_ns| **lost_ns <= dated.to_ns).count();
        if lost > losses {
            (level, losses) = (0, lost);
        }
        level = level.saturating_sub(limit * u128::from(dated.forward_ns - last_ns));
        last_ns = dated.forward_ns;
        let filled = level + u128::from(dated.units) * window_ns;
        if filled <= capacity {
            level = filled;
        } else if !take_extra(&mut extras, dated.to_ns, dated.units) {
            let over = (filled - capacity).div_ceil(window_ns);
            let what = bound.what;
            let slack_ms = slack_ns as f64 / 1e6;
            return Err((
                dated.to_ns,
                format!(
                    "{what} {over} more than a burst of {burst} and {limit} per window, dated {slack_ms} ms early, allow"
                ),
            ));
        }
    }
    Ok(())
}
