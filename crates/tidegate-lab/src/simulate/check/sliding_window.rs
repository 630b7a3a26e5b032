//! The bound of a sliding window, for units that were taken up to T before they were used.
//!
//! A unit that was used at u was taken in [u - T, u]. If that is within window k, it counted in k; call it sure. If
//! it may also have been in k - 1, call it early. Look at the last time, up to u, at which units of these were taken, at e in
//! window k. Sure units of k - 1 then had the weight W - e, and early ones at least that. So
//!
//! ```text
//! (sure in k - 1 + early in k) (W - e) + (sure in k) W <= L W
//! ```
//!
//! and this also holds with the e of u, which is not smaller. With T = 0 it is the algorithm itself.

use super::dated::take_extra;
use super::{Bound, Broken, Dated, KeyRecord, longest_life_ns};

/// The units of one window.
#[derive(Clone, Copy, Debug, Default)]
struct WindowUnits {
    segment: usize,
    number: u64,
    sure: u64,
    early: u64,
    from_ns: u64,
}

pub(super) fn check(bound: &Bound<'_>, record: &KeyRecord, units: &[Dated]) -> Result<(), Broken> {
    let window_ns = bound.rule.window_ns;
    let life_ns = longest_life_ns(bound.rule);
    let mut extras = record.extras.clone();
    let mut units: Vec<&Dated> = units.iter().collect();
    units.sort_by_key(|dated| (record.segment(dated.to_ns), dated.last_ns));
    let (mut before, mut current) = (WindowUnits::default(), WindowUnits::default());
    for dated in units {
        let segment = record.segment(dated.from_ns);
        if segment != record.segment(dated.to_ns) {
            continue;
        }
        let (first, number) = ((dated.first_ns - life_ns) / window_ns, dated.last_ns / window_ns);
        if (segment, number) != (current.segment, current.number) {
            let follows = segment == current.segment && number == current.number + 1;
            before =
                if follows { current } else { WindowUnits { from_ns: dated.from_ns, ..Default::default() } };
            current = WindowUnits { segment, number, from_ns: dated.from_ns, ..Default::default() };
        }
        let (sure, early) = if first == number { (dated.units, 0) } else { (0, dated.units) };
        let limit = bound.limits(before.from_ns.min(current.from_ns), dated.to_ns).limit;
        let fading = u128::from(before.sure + current.early + early);
        let left_ns = u128::from(window_ns - dated.last_ns % window_ns);
        let weight = fading * left_ns + u128::from(current.sure + sure) * u128::from(window_ns);
        if weight <= u128::from(limit) * u128::from(window_ns) {
            (current.sure, current.early) = (current.sure + sure, current.early + early);
        } else if !take_extra(&mut extras, dated.to_ns, dated.units) {
            let what = bound.what;
            return Err((
                dated.to_ns,
                format!(
                    "{what} {} and {} sure units in two windows, {} early ones, and {}: more than {limit} allows",
                    before.sure, current.sure, current.early, dated.units
                ),
            ));
        }
    }
    Ok(())
}
