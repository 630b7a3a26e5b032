//! The picture of what is held, recounted without a limiter.

use tidegate_lab::pictures::{self, CRASH_EVERY, HELD_NS, LIMIT, Lost};

use crate::pictures::drawn::Drawn;
use crate::pictures::{committed, files, scene};

/// As the limit in the picture says.
const TTL_NS: u64 = 1_500_000_000;

/// A unit and the time it is taken.
struct Held {
    from_ns: u64,
    until_ns: u64,
}

impl Held {
    fn at(&self, now_ns: u64) -> bool {
        self.from_ns <= now_ns && now_ns < self.until_ns
    }
}

/// When units are held, by hand.
fn recount() -> Vec<Held> {
    let mut held: Vec<Held> = Vec::new();
    for now_ns in pictures::arrivals() {
        if held.iter().filter(|held| held.at(now_ns)).count() < 10 {
            let forgotten = held.len() % 10 == 9;
            let until_ns = now_ns + if forgotten { TTL_NS } else { HELD_NS };
            held.push(Held { from_ns: now_ns, until_ns });
        }
    }
    held
}

/// When requests are admitted, by the same recount.
pub fn admitted_ns() -> Vec<u64> {
    recount().iter().map(|held| held.from_ns).collect()
}

#[test]
fn who_is_admitted_and_what_is_lost_agree_with_a_recount() {
    let (scene, held) = (scene("concurrency"), recount());
    assert!(scene.limit.contains("limit: 10, ttl: 1500ms"), "{}", scene.limit);
    assert_eq!((LIMIT, CRASH_EVERY), (10, 10));
    assert!(scene.run.admitted_ns().eq(admitted_ns()));
    let lost = held.iter().filter(|held| held.until_ns - held.from_ns == TTL_NS);
    let lost: Vec<Lost> = lost.map(|held| Lost { from_ns: held.from_ns, until_ns: held.until_ns }).collect();
    assert_eq!(scene.run.lost, lost);
    assert_eq!(lost.len(), held.len() / 10);
    let drawn = Drawn::read(&files(&committed())["concurrency.svg"]);
    drawn.assert_says("concurrency", &format!("{} never give back", lost.len()));
}

#[test]
fn units_in_flight_are_those_held_and_never_above_the_limit() {
    let (run, held) = (scene("concurrency").run, recount());
    assert!(run.levels.iter().all(|level| level.units <= LIMIT));
    // Wherever anybody comes or gives back; what runs out may be seen a moment later.
    let released = held.iter().map(|held| held.from_ns + HELD_NS).filter(|at_ns| *at_ns < pictures::END_NS);
    for now_ns in pictures::arrivals().chain(released) {
        let in_flight = held.iter().filter(|held| held.at(now_ns)).count();
        let level = run.levels.iter().rfind(|level| level.at_ns <= now_ns).expect("a level from the start");
        assert_eq!(level.units, in_flight as u64, "at {now_ns} ns");
    }
    for level in run.lost_levels() {
        let lost = held.iter().filter(|held| held.until_ns - held.from_ns == TTL_NS && held.at(level.at_ns));
        assert_eq!(level.units, lost.count() as u64, "at {} ns", level.at_ns);
    }
}

/// In the rest, when all others have given back long ago, what was lost in the flood is still held.
#[test]
fn the_ttl_is_to_be_seen() {
    let run = scene("concurrency").run;
    let last_admitted = run.admitted_ns().filter(|at_ns| *at_ns < 5_000_000_000).max().expect("a flood");
    let all_done_ns = last_admitted + HELD_NS;
    let after = |level: &&pictures::Level| (all_done_ns + 1..6_875_000_000).contains(&level.at_ns);
    let units: Vec<u64> = run.levels.iter().filter(after).map(|level| level.units).collect();
    assert!(units.is_sorted_by(|one, next| one > next), "{units:?}");
    assert!(units.len() > 1 && units.ends_with(&[0]), "{units:?}");
}
