//! The pictures of pacers, recounted without one.

use tidegate_lab::pictures::{
    self, BURST_S, END_NS, Form, LIMIT, PACERS, Paced, Scene, TIMEOUT_MS, WARM_UP_MS, WINDOW_NS,
};

use crate::pictures::drawn::Drawn;
use crate::pictures::{SENTENCE_CHARS_MAX, committed, files, worst};

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

fn scene(paced: &Paced) -> Scene {
    Scene::of_pacer(paced).expect("a pacer")
}

fn served(scene: &Scene) -> Vec<Served> {
    let times = scene.run.admitted_ns().zip(scene.run.departures_ns());
    times.map(|(came_ns, left_ns)| Served { came_ns, left_ns }).collect()
}

/// Each request leaves when all before it are paid for; `price_ns` says what one costs after so long an idle time.
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

/// Kept permits cost nothing.
fn bursty() -> Vec<Served> {
    let mut kept_ns = 0;
    recount(move |idle_ns| {
        kept_ns = (kept_ns + idle_ns).min(BURST_S * NS_PER_S);
        let free_ns = kept_ns.min(INTERVAL_NS);
        kept_ns -= free_ns;
        INTERVAL_NS - free_ns
    })
}

/// Guava's trapezoid with a cold factor of 3: what is kept grows as fast as time passes, up to the warm-up period,
/// and the price falls from three times to once over the colder half of it. Added up from thin slices.
fn warming_up() -> Vec<Served> {
    const SLICE_NS: u64 = INTERVAL_NS / 1_000;
    const KEPT_NS_MAX: u64 = WARM_UP_MS * 1_000_000;
    const HALF_NS: u64 = KEPT_NS_MAX / 2;
    let mut kept_ns = KEPT_NS_MAX;
    recount(move |idle_ns| {
        kept_ns = (kept_ns + idle_ns).min(KEPT_NS_MAX);
        let mut beyond_ns = 0;
        for _ in 0..INTERVAL_NS / SLICE_NS {
            beyond_ns += kept_ns.saturating_sub(HALF_NS + SLICE_NS / 2);
            kept_ns = kept_ns.saturating_sub(SLICE_NS);
        }
        INTERVAL_NS + 2 * SLICE_NS * beyond_ns / HALF_NS
    })
}

#[test]
fn who_is_served_and_when_agrees_with_a_recount() {
    for paced in &PACERS {
        let (drawn, model) = (
            served(&scene(paced)),
            match paced.form {
                Form::Bursty => bursty(),
                Form::WarmingUp => warming_up(),
            },
        );
        assert!(
            drawn.iter().map(|one| one.came_ns).eq(model.iter().map(|one| one.came_ns)),
            "{}",
            paced.name
        );
        for (one, expected) in drawn.iter().zip(&model) {
            let off_ns = one.left_ns.abs_diff(expected.left_ns);
            assert!(off_ns <= OFF_BY_NS_MAX, "{}: {one:?}, not {expected:?}", paced.name);
        }
    }
}

#[test]
fn a_pacer_s_figures_and_marks_are_those_of_its_run() {
    let pictures = files(&committed());
    for paced in &PACERS {
        let (name, served) = (paced.name, served(&scene(paced)));
        let drawn = Drawn::read(&pictures[&format!("{name}.svg")]);
        let at_once = served.iter().filter(|one| one.came_ns == one.left_ns).count();
        let (waited, refused) = (served.len() - at_once, pictures::arrivals().count() - served.len());
        let came: Vec<u64> = served.iter().map(|one| one.came_ns).collect();
        let left: Vec<u64> = served.iter().map(|one| one.left_ns).collect();
        drawn.assert_says(name, &format!("{at_once} admitted at once"));
        drawn.assert_says(name, &format!("{waited} after a wait"));
        drawn.assert_says(name, &format!("{refused} refused"));
        drawn.assert_says(name, &format!("worst second: {} admitted, {} leave", worst(&came), worst(&left)));
        drawn.assert_says(name, &format!("{} admitted in 1 s", worst(&came)));
        assert_eq!(drawn.marks, [at_once, waited, refused], "{name}: dots, rings, crosses");
        assert_eq!(drawn.leaving, served.len(), "{name}");
        assert!(paced.see.chars().count() <= SENTENCE_CHARS_MAX, "{name}: {}", paced.see.chars().count());
    }
}

#[test]
fn all_leave_in_order_within_the_timeout_and_the_picture() {
    for paced in &PACERS {
        let served = served(&scene(paced));
        assert!(served.is_sorted_by_key(|one| one.left_ns), "{}", paced.name);
        assert!(served.iter().all(|one| one.left_ns - one.came_ns <= TIMEOUT_NS), "{}", paced.name);
        assert!(served.iter().all(|one| one.left_ns < END_NS), "{}", paced.name);
    }
}

#[test]
fn the_level_of_a_pacer_is_who_waits() {
    for paced in &PACERS {
        let (run, served) = (scene(paced).run, served(&scene(paced)));
        for now_ns in served.iter().flat_map(|one| [one.came_ns, one.left_ns]) {
            let waiting = served.iter().filter(|one| one.came_ns <= now_ns && now_ns < one.left_ns).count();
            let level =
                run.levels.iter().rfind(|level| level.at_ns <= now_ns).expect("a level from the start");
            assert_eq!(level.units, waiting as u64, "{} at {now_ns} ns", paced.name);
        }
        assert_eq!(run.levels.iter().map(|level| level.units).max(), Some(run.room), "{}", paced.name);
        assert_eq!(run.room, LIMIT / 2, "half a second's permits");
    }
}

/// What the sentence of each picture says.
#[test]
fn kept_permits_go_at_once_and_cold_ones_slowly() {
    let [bursty, warming] = &PACERS;
    assert_eq!((bursty.form, warming.form), (Form::Bursty, Form::WarmingUp));
    let left = |paced: &Paced, from_ns: u64| -> Vec<u64> {
        served(&scene(paced)).iter().map(|one| one.left_ns).filter(|left_ns| *left_ns >= from_ns).collect()
    };
    let gaps = |left: &[u64]| -> Vec<u64> { left.windows(2).map(|pair| pair[1] - pair[0]).collect() };
    const EDGE_NS: u64 = 6_875_000_000;

    let after_rest = left(bursty, EDGE_NS);
    let in_a_moment = after_rest.iter().filter(|left_ns| **left_ns < EDGE_NS + INTERVAL_NS * 3 / 2).count();
    assert!(in_a_moment as u64 > LIMIT, "{in_a_moment} leave at once after the rest");
    assert!(gaps(&after_rest[in_a_moment..]).iter().all(|gap_ns| *gap_ns >= INTERVAL_NS));

    assert!(gaps(&left(warming, 0)).iter().all(|gap_ns| *gap_ns >= INTERVAL_NS));
    for from_ns in [0, EDGE_NS] {
        let gaps = gaps(&left(warming, from_ns));
        let cold = &gaps[..8];
        assert!((INTERVAL_NS * 28 / 10..INTERVAL_NS * 3).contains(&cold[0]), "{cold:?}");
        assert!(cold.is_sorted_by(|one, next| one > next), "{cold:?}");
        assert!(gaps[8..11].iter().all(|gap_ns| gap_ns - INTERVAL_NS < 2), "{gaps:?}");
    }
}
