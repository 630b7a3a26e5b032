//! The picture of the concurrency limit, recounted without a limiter.

use std::ops::Range;

use tidegate_lab::pictures::{self, CRASH_EVERY, HELD_NS, LIMIT};

use crate::pictures::drawing::Drawing;
use crate::pictures::{committed, files, run};

/// As the limit in the picture says.
const TTL_NS: u64 = 1_500_000_000;

/// When units are held.
fn recount() -> Vec<Range<u64>> {
    let mut held: Vec<Range<u64>> = Vec::new();
    for now_ns in pictures::arrivals() {
        if held.iter().filter(|held| held.contains(&now_ns)).count() < 10 {
            let is_unreleased = held.len() % 10 == 9;
            held.push(now_ns..now_ns + if is_unreleased { TTL_NS } else { HELD_NS });
        }
    }
    held
}

fn is_unreleased(held: &Range<u64>) -> bool {
    held.end - held.start == TTL_NS
}

/// When requests are admitted, by the same recount.
pub fn admitted_ns() -> Vec<u64> {
    recount().iter().map(|held| held.start).collect()
}

#[test]
fn admitted_requests_and_unreleased_leases_agree_with_a_recount() {
    let (run, held) = (run("concurrency"), recount());
    let limit = run.subject.limit();
    assert!(limit.contains("limit: 10, ttl: 1500ms"), "{limit}");
    assert!(run.subject.caption.contains("each takes 400 ms. One in ten is never released"));
    assert_eq!((LIMIT, CRASH_EVERY, HELD_NS), (10, 10, 400_000_000));
    assert!(run.admitted_ns().eq(admitted_ns()));
    let unreleased: Vec<Range<u64>> = held.iter().filter(|held| is_unreleased(held)).cloned().collect();
    assert_eq!(run.unreleased, unreleased);
    assert_eq!(unreleased.len(), held.len() / 10);
    let drawing = Drawing::read(&files(&committed())["concurrency.svg"]);
    drawing.assert_shows("concurrency", &format!("{} never released", unreleased.len()));
}

#[test]
fn units_in_flight_are_those_held_and_never_above_the_limit() {
    let (run, held) = (run("concurrency"), recount());
    assert!(run.levels.iter().all(|level| level.units <= LIMIT));
    // Wherever a request arrives or releases its unit. The end of a ttl may show one sample later.
    let released = held.iter().map(|held| held.start + HELD_NS).filter(|at_ns| *at_ns < pictures::END_NS);
    for now_ns in pictures::arrivals().chain(released) {
        let in_flight = held.iter().filter(|held| held.contains(&now_ns)).count();
        let level = run.levels.iter().rfind(|level| level.at_ns <= now_ns).expect("a level from the start");
        assert_eq!(level.units, in_flight as u64, "at {now_ns} ns");
    }
    for level in run.unreleased_levels() {
        let unreleased = held.iter().filter(|held| is_unreleased(held) && held.contains(&level.at_ns));
        assert_eq!(level.units, unreleased.count() as u64, "at {} ns", level.at_ns);
    }
}

/// In the rest, all other requests of the flood have released their units, and the level falls as ttls end.
#[test]
fn the_picture_shows_the_ttl() {
    let run = run("concurrency");
    let last_admitted = run.admitted_ns().filter(|at_ns| *at_ns < 5_000_000_000).max().expect("a flood");
    let all_done_ns = last_admitted + HELD_NS;
    let after = |level: &&pictures::Level| (all_done_ns + 1..6_875_000_000).contains(&level.at_ns);
    let units: Vec<u64> = run.levels.iter().filter(after).map(|level| level.units).collect();
    assert!(units.is_sorted_by(|one, next| one > next), "{units:?}");
    assert!(units.len() > 1 && units.ends_with(&[0]), "{units:?}");
}
