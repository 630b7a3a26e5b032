//! At most L in each window.

use std::collections::BTreeMap;

use super::dated::take_extra;
use super::{Bound, Broken, Dated, KeyRecord, drift_ns};

/// What was admitted in a window.
#[derive(Clone, Copy, Debug)]
struct WindowUse {
    units: u64,
    from_ns: u64,
    to_ns: u64,
}

pub(super) fn check(bound: &Bound<'_>, record: &KeyRecord, units: &[Dated]) -> Result<(), Broken> {
    let window_ns = bound.rule.window_ns;
    // A node whose clock is slow uses a lease for this long after its window.
    let slack_ns = drift_ns(bound.rule.life_ns_max());
    let mut extras = record.extras.clone();
    let mut windows: BTreeMap<(usize, u64), WindowUse> = BTreeMap::new();
    let mut add = |window: (usize, u64), dated: &Dated, units: u64| {
        let entry = windows.entry(window).or_insert(WindowUse {
            units: 0,
            from_ns: dated.from_ns,
            to_ns: dated.to_ns,
        });
        entry.from_ns = entry.from_ns.min(dated.from_ns);
        entry.to_ns = entry.to_ns.max(dated.to_ns);
        let limit = bound.limits(entry.from_ns, entry.to_ns).limit;
        let fits = units.min(limit.saturating_sub(entry.units));
        entry.units += fits;
        (units - fits, limit)
    };
    let place = |dated: &Dated| {
        let first = (dated.first_ns - slack_ns) / window_ns;
        (record.segment(dated.from_ns), first, dated.last_ns / window_ns)
    };
    // First those that can only be in one window.
    let (sure, unsure): (Vec<&Dated>, Vec<&Dated>) = units.iter().partition(|dated| {
        let (_, first, last) = place(dated);
        first == last
    });
    for dated in sure.into_iter().chain(unsure) {
        let (segment, first, last) = place(dated);
        if segment != record.segment(dated.to_ns) {
            continue;
        }
        let (mut left, mut most) = (dated.units, 0);
        for window in first..=last {
            let limit;
            (left, limit) = add((segment, window), dated, left);
            most = most.max(limit);
        }
        if left > 0 && !take_extra(&mut extras, dated.to_ns, left) {
            let what = bound.what;
            return Err((dated.to_ns, format!("{what} more than {most} in a window, at least by {left}")));
        }
    }
    Ok(())
}
