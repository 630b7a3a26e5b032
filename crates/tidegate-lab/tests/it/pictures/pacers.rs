//! The pictures of pacers, recounted without a pacer.

use tidegate_lab::pictures::{self, BURST_S, END_NS, LIMIT, Run, TIMEOUT_MS, WARM_UP_MS, WINDOW_NS};

use crate::pictures::drawing::Drawing;
use crate::pictures::{committed, files, run, worst};

const BURSTY: &str = "pacer_bursty";
const WARMING_UP: &str = "pacer_warming_up";
const NS_PER_S: u64 = 1_000_000_000;
const INTERVAL_NS: u64 = WINDOW_NS / LIMIT;
const TIMEOUT_NS: u64 = TIMEOUT_MS * 1_000_000;
/// The model of a pacer that warms up drops fractions of nanoseconds and rounds the corner of its trapezoid.
const OFF_BY_NS_MAX: u64 = 100;

/// A request that is not refused.
#[derive(Clone, Copy, Debug)]
struct Served {
    came_ns: u64,
    left_ns: u64,
}

fn served(run: &Run) -> Vec<Served> {
    let times = run.admitted_ns().zip(run.departures_ns());
    times.map(|(came_ns, left_ns)| Served { came_ns, left_ns }).collect()
}

/// A request leaves when the permits before it are paid for. `price_ns` maps the idle time to the price of a permit.
fn recount(mut price_ns: impl FnMut(u64) -> u64) -> Vec<Served> {
    let mut next_free_ns = 0;
    let mut served = Vec::new();
    for came_ns in pictures::arrivals() {
        let left_ns = came_ns.max(next_free_ns);
        if left_ns - came_ns <= TIMEOUT_NS {
            next_free_ns = left_ns + price_ns(came_ns.saturating_sub(next_free_ns));
            served.push(Served { came_ns, left_ns });
        }
    }
    served
}

/// Saved permits cost nothing.
fn bursty() -> Vec<Served> {
    let mut saved_ns = 0;
    recount(move |idle_ns| {
        saved_ns = (saved_ns + idle_ns).min(BURST_S * NS_PER_S);
        let free_ns = saved_ns.min(INTERVAL_NS);
        saved_ns -= free_ns;
        INTERVAL_NS - free_ns
    })
}

/// Guava's trapezoid with a cold factor of 3: idle time is saved up to the warm-up period. Over the colder half of
/// it, the price falls from three intervals to one. The integral is a sum of thin slices.
fn warming_up() -> Vec<Served> {
    const SLICE_NS: u64 = INTERVAL_NS / 1_000;
    const SAVED_NS_MAX: u64 = WARM_UP_MS * 1_000_000;
    const HALF_NS: u64 = SAVED_NS_MAX / 2;
    let mut saved_ns = SAVED_NS_MAX;
    recount(move |idle_ns| {
        saved_ns = (saved_ns + idle_ns).min(SAVED_NS_MAX);
        let mut beyond_ns = 0;
        for _ in 0..INTERVAL_NS / SLICE_NS {
            beyond_ns += saved_ns.saturating_sub(HALF_NS + SLICE_NS / 2);
            saved_ns = saved_ns.saturating_sub(SLICE_NS);
        }
        INTERVAL_NS + 2 * SLICE_NS * beyond_ns / HALF_NS
    })
}

#[test]
fn admitted_requests_and_departures_agree_with_a_recount() {
    for (name, model) in [(BURSTY, bursty()), (WARMING_UP, warming_up())] {
        let drawn = served(&run(name));
        assert!(drawn.iter().map(|one| one.came_ns).eq(model.iter().map(|one| one.came_ns)), "{name}");
        for (one, expected) in drawn.iter().zip(&model) {
            let off_ns = one.left_ns.abs_diff(expected.left_ns);
            assert!(off_ns <= OFF_BY_NS_MAX, "{name}: {one:?}, not {expected:?}");
        }
    }
}

#[test]
fn figures_and_marks_of_a_pacer_are_those_of_its_run() {
    let pictures = files(&committed());
    for name in [BURSTY, WARMING_UP] {
        let served = served(&run(name));
        let drawing = Drawing::read(&pictures[&format!("{name}.svg")]);
        let now = served.iter().filter(|one| one.came_ns == one.left_ns).count();
        let (later, refused) = (served.len() - now, pictures::arrivals().count() - served.len());
        let came: Vec<u64> = served.iter().map(|one| one.came_ns).collect();
        let left: Vec<u64> = served.iter().map(|one| one.left_ns).collect();
        drawing.assert_shows(name, &format!("{now} admitted now"));
        drawing.assert_shows(name, &format!("{later} admitted later"));
        drawing.assert_shows(name, &format!("{refused} refused"));
        let worst_second = format!("worst second: {} admitted, {} leave", worst(&came), worst(&left));
        drawing.assert_shows(name, &worst_second);
        drawing.assert_shows(name, &format!("{} admitted in 1 s", worst(&came)));
        assert_eq!(drawing.marks, [now, later, refused], "{name}: dots, rings, crosses");
        assert_eq!(drawing.departures, served.len(), "{name}");
    }
}

#[test]
fn a_picture_names_the_settings_of_its_pacer() {
    let (bursty, warming_up) = (run(BURSTY).subject.limit(), run(WARMING_UP).subject.limit());
    assert_eq!(bursty, format!("Pacer 10/s, max_burst_seconds {BURST_S}, acquire_within(1, {TIMEOUT_MS}ms)"));
    assert_eq!(warming_up, format!("Pacer 10/s, warm_up {WARM_UP_MS}ms, acquire_within(1, {TIMEOUT_MS}ms)"));
    assert_eq!(LIMIT, 10);
}

#[test]
fn all_leave_in_order_within_the_timeout_and_the_picture() {
    for name in [BURSTY, WARMING_UP] {
        let served = served(&run(name));
        assert!(served.is_sorted_by_key(|one| one.left_ns), "{name}");
        assert!(served.iter().all(|one| one.left_ns - one.came_ns <= TIMEOUT_NS), "{name}");
        assert!(served.iter().all(|one| one.left_ns < END_NS), "{name}");
    }
}

#[test]
fn the_level_of_a_pacer_is_the_number_of_waiting_requests() {
    for name in [BURSTY, WARMING_UP] {
        let run = run(name);
        let served = served(&run);
        for now_ns in served.iter().flat_map(|one| [one.came_ns, one.left_ns]) {
            let waiting = served.iter().filter(|one| one.came_ns <= now_ns && now_ns < one.left_ns).count();
            let level =
                run.levels.iter().rfind(|level| level.at_ns <= now_ns).expect("a level from the start");
            assert_eq!(level.units, waiting as u64, "{name} at {now_ns} ns");
        }
        assert_eq!(run.level_max, LIMIT / 2, "half a second's permits");
    }
}

/// The captions of the pictures.
#[test]
fn saved_permits_are_used_together_and_cold_ones_come_slowly() {
    let left = |name: &str, from_ns: u64| -> Vec<u64> {
        served(&run(name)).iter().map(|one| one.left_ns).filter(|left_ns| *left_ns >= from_ns).collect()
    };
    let gaps = |left: &[u64]| -> Vec<u64> { left.windows(2).map(|pair| pair[1] - pair[0]).collect() };
    const EDGE_NS: u64 = 6_875_000_000;

    let after_rest = left(BURSTY, EDGE_NS);
    let in_a_moment = after_rest.iter().filter(|left_ns| **left_ns < EDGE_NS + INTERVAL_NS * 3 / 2).count();
    assert!(in_a_moment as u64 > LIMIT, "{in_a_moment} leave together after the rest");
    assert!(gaps(&after_rest[in_a_moment..]).iter().all(|gap_ns| *gap_ns >= INTERVAL_NS));

    assert!(gaps(&left(WARMING_UP, 0)).iter().all(|gap_ns| *gap_ns >= INTERVAL_NS));
    for from_ns in [0, EDGE_NS] {
        let gaps = gaps(&left(WARMING_UP, from_ns));
        let cold = &gaps[..8];
        assert!((INTERVAL_NS * 28 / 10..INTERVAL_NS * 3).contains(&cold[0]), "{cold:?}");
        assert!(cold.is_sorted_by(|one, next| one > next), "{cold:?}");
        assert!(gaps[8..11].iter().all(|gap_ns| gap_ns - INTERVAL_NS < 2), "{gaps:?}");
    }
}
