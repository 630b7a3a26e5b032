//! The clock on a simulated machine: a counter with any rate, and a wall clock that can be set.

use std::sync::atomic::AtomicBool;
use std::thread;

use proptest::prelude::*;

use super::*;

const US: u64 = 1_000;
const MS: u64 = 1_000 * US;
const SECOND: u64 = 1_000 * MS;
const HOUR: u64 = 3_600 * SECOND;
const DAY: u64 = 24 * HOUR;
/// A day in 2027.
const START: u64 = 1_800_000_000 * SECOND;

/// What the clock loses between two anchors, plus rounding.
const LAG_NS_MAX: u64 = ANCHOR_EVERY_NS / (PPM / SLEW_PPM) + 100;

/// Counters of 3 GHz, of nanoseconds, and of 24 MHz.
const NS_PER_2_32: [u64; 3] = [(1 << 32) / 3, 1 << 32, (1 << 32) / 24 * 1_000];

struct FakeMachine {
    /// True time since the machine was started.
    up_ns: AtomicU64,
    /// The difference from true time to wall time.
    epoch_ns: AtomicU64,
    /// The time for which the counter was suspended.
    slept_ns: AtomicU64,
    ns_per_2_32: u64,
    /// By how much the counter runs fast.
    drift_ppm: i64,
    /// How much time passes between the next readings of the wall clock and of the counter.
    held_up_ns: AtomicU64,
    /// How often that happens.
    hold_ups: AtomicU64,
}

struct ClockFixture {
    anchor: Anchor,
    rate: CounterRate,
    fake: FakeMachine,
}

impl FakeMachine {
    fn advance(&self, ns: u64) {
        self.up_ns.fetch_add(ns, Ordering::Relaxed);
    }

    fn set_wall(&self, by_ns: i64) {
        self.epoch_ns.fetch_add(by_ns.cast_unsigned(), Ordering::Relaxed);
    }

    /// Suspends the machine, and the counter too.
    fn sleep(&self, ns: u64) {
        self.slept_ns.fetch_add(ns, Ordering::Relaxed);
        self.advance(ns);
    }

    fn wall(&self) -> u64 {
        self.up_ns.load(Ordering::Relaxed).wrapping_add(self.epoch_ns.load(Ordering::Relaxed))
    }
}

impl ClockSource for FakeMachine {
    fn count(&self) -> u64 {
        let awake_ns = self.up_ns.load(Ordering::Relaxed) - self.slept_ns.load(Ordering::Relaxed);
        let ppm = u128::from(PPM.checked_add_signed(self.drift_ppm).unwrap());
        let ns_2_32 = (u128::from(awake_ns) << 32) * ppm / u128::from(PPM);
        u64::try_from(ns_2_32 / u128::from(self.ns_per_2_32)).unwrap()
    }

    fn wall_ns(&self) -> u64 {
        let wall_ns = self.wall();
        if self.hold_ups.load(Ordering::Relaxed) > 0 {
            self.hold_ups.fetch_sub(1, Ordering::Relaxed);
            self.advance(self.held_up_ns.load(Ordering::Relaxed));
        }
        wall_ns
    }
}

impl ClockFixture {
    fn with(ns_per_2_32: u64, drift_ppm: i64) -> Self {
        let fake = FakeMachine {
            up_ns: AtomicU64::new(10 * DAY),
            epoch_ns: AtomicU64::new(START - 10 * DAY),
            slept_ns: AtomicU64::new(0),
            ns_per_2_32,
            drift_ppm,
            held_up_ns: AtomicU64::new(0),
            hold_ups: AtomicU64::new(0),
        };
        Self { anchor: Anchor::new(), rate: CounterRate::new(ns_per_2_32), fake }.started()
    }

    fn new() -> Self {
        Self::with(NS_PER_2_32[0], 0)
    }

    fn started(self) -> Self {
        self.anchor.start(&self.fake, &self.rate);
        self
    }

    fn now(&self) -> u64 {
        self.anchor.now(&self.fake, &self.rate)
    }

    fn stats(&self) -> ClockStats {
        self.anchor.stats(&self.fake, &self.rate)
    }

    fn now_after(&self, ns: u64) -> u64 {
        self.fake.advance(ns);
        self.now()
    }

    /// How far the clock is behind wall time. Negative if it is ahead.
    fn ns_behind_wall(&self) -> i64 {
        let now = self.now();
        self.fake.wall().wrapping_sub(now).cast_signed()
    }

    /// Reads the clock every `every_ns` for `for_ns`, and passes to `on_read` by how much it moved.
    fn run(&self, for_ns: u64, every_ns: u64, mut on_read: impl FnMut(u64)) {
        let mut last = self.now();
        for _ in 0..for_ns / every_ns {
            let now = self.now_after(every_ns);
            on_read(now.checked_sub(last).expect("time went back"));
            last = now;
        }
    }

    #[track_caller]
    fn assert_stepped(&self, steps: u64, by_ns: u64) {
        let stats = self.stats();
        assert_eq!(stats.steps, steps);
        assert!(stats.stepped.abs_diff(Duration::from_nanos(by_ns)) < Duration::from_micros(1), "{stats:?}");
    }

    #[track_caller]
    fn assert_shows_wall_time(&self) {
        let behind = self.ns_behind_wall();
        assert!((-1..=LAG_NS_MAX.cast_signed()).contains(&behind), "{behind} ns behind");
    }
}

#[test]
fn the_first_start_sets_wall_time() {
    for ns_per_2_32 in NS_PER_2_32 {
        let clock = ClockFixture::with(ns_per_2_32, 0);
        clock.assert_shows_wall_time();
        clock.fake.advance(MS);
        let now = clock.now();
        // As a second clock of the process does.
        let clock = clock.started();
        assert_eq!(clock.now(), now);
        assert_eq!(clock.stats().steps, 0);
    }
}

#[test]
fn a_counter_that_drifts_is_kept_at_wall_time_for_days() {
    for ns_per_2_32 in NS_PER_2_32 {
        for drift_ppm in [-100, -15, 0, 15, 100] {
            let clock = ClockFixture::with(ns_per_2_32, drift_ppm);
            // Often at first, then rarely, like a process that is idle at night.
            for (for_ns, every_ns) in
                [(SECOND, 100 * US), (HOUR, 700 * MS), (7 * DAY, 13 * SECOND), (30 * DAY, DAY)]
            {
                clock.run(for_ns, every_ns, |_| {});
                clock.assert_shows_wall_time();
            }
            assert_eq!(clock.stats().steps, 0, "drift of {drift_ppm} ppm");
        }
    }
}

#[test]
fn between_anchors_it_is_slow_by_a_microsecond_at_most() {
    for drift_ppm in [-15, 15] {
        let clock = ClockFixture::with(NS_PER_2_32[0], drift_ppm);
        for _ in 0..100_000 {
            clock.fake.advance(700);
            clock.assert_shows_wall_time();
        }
    }
}

#[test]
fn a_small_difference_is_slewed_forward() {
    let clock = ClockFixture::new();
    clock.fake.set_wall(100 * MS.cast_signed());
    clock.run(190 * SECOND, 10 * MS, |moved| {
        let most = 10 * MS + 10 * MS * SLEW_PPM / PPM + LAG_NS_MAX;
        assert!((10 * MS..=most).contains(&moved), "{moved}");
    });
    assert!(clock.ns_behind_wall() > 4 * MS.cast_signed(), "slewed too fast");
    clock.run(20 * SECOND, 10 * MS, |_| {});
    clock.assert_shows_wall_time();
    assert_eq!(clock.stats(), ClockStats::default());
}

#[test]
fn a_small_difference_is_slewed_back_without_going_back() {
    let clock = ClockFixture::new();
    clock.fake.set_wall(-100 * MS.cast_signed());
    clock.run(190 * SECOND, 10 * MS, |moved| {
        let least = 10 * MS - 10 * MS * SLEW_PPM / PPM - LAG_NS_MAX;
        assert!((least..=10 * MS).contains(&moved), "{moved}");
    });
    assert!(clock.stats().ahead > Duration::from_millis(4));
    clock.run(20 * SECOND, 10 * MS, |_| {});
    clock.assert_shows_wall_time();
    assert_eq!(clock.stats(), ClockStats::default());
}

#[test]
fn a_step_forward_is_followed_immediately_and_counted() {
    let clock = ClockFixture::new();
    clock.fake.set_wall(HOUR.cast_signed());
    assert!(clock.now_after(ANCHOR_EVERY_NS / 2) < START + SECOND, "no anchor is due");
    clock.now_after(ANCHOR_EVERY_NS);
    clock.assert_shows_wall_time();
    clock.assert_stepped(1, HOUR);
    let stats = clock.stats();
    clock.run(DAY, 10 * SECOND, |_| {});
    clock.assert_shows_wall_time();
    assert_eq!(clock.stats(), stats, "one step is one");
}

#[test]
fn differences_above_the_threshold_are_steps() {
    for (set_ns, steps) in [(STEP_NS, 0), (STEP_NS + MS, 1)] {
        let clock = ClockFixture::new();
        clock.fake.set_wall(set_ns.cast_signed());
        clock.now_after(ANCHOR_EVERY_NS);
        assert_eq!(clock.stats().steps, steps);
    }
}

#[test]
fn a_process_that_starts_before_the_clock_is_set() {
    let mut clock = ClockFixture::new();
    clock.fake.epoch_ns = AtomicU64::new((5 * SECOND).wrapping_sub(10 * DAY));
    clock.anchor = Anchor::new();
    let clock = clock.started();
    assert_eq!(clock.now() / SECOND, 5, "1970, and less than the machine was up");
    clock.fake.set_wall(START.cast_signed());
    clock.now_after(ANCHOR_EVERY_NS);
    clock.assert_shows_wall_time();
    assert_eq!(clock.stats().steps, 1);
}

#[test]
fn a_step_back_slows_the_clock_until_wall_time_catches_up() {
    let clock = ClockFixture::new();
    clock.fake.set_wall(-HOUR.cast_signed());
    clock.run(HOUR, SECOND, |moved| {
        let slow = SECOND - SECOND * SLEW_PPM / PPM;
        assert!(moved.abs_diff(slow) <= LAG_NS_MAX, "{moved}");
    });
    let ahead = clock.stats().ahead;
    assert!(ahead < Duration::from_secs(3_599) && ahead > Duration::from_secs(3_597), "{ahead:?}");
    assert_eq!(clock.stats().steps, 0);
    // Hours at the slow rate, without a reader.
    clock.now_after(84 * DAY);
    clock.assert_shows_wall_time();
    assert_eq!(clock.stats(), ClockStats::default());
}

#[test]
fn a_reverted_step_back_is_no_step() {
    let clock = ClockFixture::new();
    clock.fake.set_wall(-HOUR.cast_signed());
    clock.run(SECOND, MS, |_| {});
    clock.fake.set_wall(HOUR.cast_signed());
    clock.run(3 * SECOND, MS, |_| {});
    clock.assert_shows_wall_time();
    assert_eq!(clock.stats(), ClockStats::default());
}

#[test]
fn a_suspended_machine() {
    let clock = ClockFixture::new();
    clock.fake.sleep(8 * HOUR);
    clock.now_after(ANCHOR_EVERY_NS);
    clock.assert_shows_wall_time();
    clock.assert_stepped(1, 8 * HOUR);
    // If the counter continues meanwhile, there is nothing to follow.
    clock.now_after(8 * HOUR);
    clock.assert_shows_wall_time();
    assert_eq!(clock.stats().steps, 1);
}

#[test]
fn a_restarted_counter() {
    for set_ns in [8 * HOUR.cast_signed(), -HOUR.cast_signed()] {
        let clock = ClockFixture::new();
        let before = clock.now_after(SECOND);
        let slept_ns = clock.fake.up_ns.load(Ordering::Relaxed) - 3 * SECOND;
        clock.fake.slept_ns.store(slept_ns, Ordering::Relaxed);
        clock.fake.set_wall(set_ns);
        let after = clock.now();
        assert!(after >= before);
        match set_ns > 0 {
            true => clock.assert_shows_wall_time(),
            false => assert!(after < before + SECOND && clock.stats().ahead >= Duration::from_secs(3_600)),
        }
        clock.run(SECOND, 100 * US, |moved| assert!(moved > 90 * US && moved < 110 * US, "{moved}"));
    }
}

#[test]
fn a_delay_between_two_readings_is_no_step() {
    let clock = ClockFixture::new();
    clock.fake.held_up_ns.store(10 * HOUR, Ordering::Relaxed);
    for _ in 0..10 {
        clock.fake.hold_ups.store(u64::from(READINGS_MAX) - 1, Ordering::Relaxed);
        clock.now_after(ANCHOR_EVERY_NS);
        clock.assert_shows_wall_time();
        assert_eq!(clock.stats(), ClockStats::default());
    }
    // A machine on which that always happens.
    clock.fake.held_up_ns.store(20 * MS, Ordering::Relaxed);
    clock.fake.hold_ups.store(u64::MAX, Ordering::Relaxed);
    clock.run(SECOND, ANCHOR_EVERY_NS, |_| {});
    assert!(clock.ns_behind_wall() > 0);
    assert_eq!(clock.stats().steps, 0);
}

#[test]
fn wall_time_that_is_out_of_range() {
    let mut clock = ClockFixture::new();
    clock.fake.epoch_ns = AtomicU64::new(u64::MAX - 11 * DAY);
    let far = clock.now_after(ANCHOR_EVERY_NS);
    assert_eq!(far, WALL_NS_MAX);
    assert!(clock.now_after(HOUR) >= far + HOUR - HOUR * SLEW_PPM / PPM - LAG_NS_MAX);
}

#[test]
fn times_passed_between_threads_never_go_back() {
    const THREADS: u64 = 4;
    const READINGS: u64 = 200_000;
    let clock = ClockFixture::new();
    let (latest, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    thread::scope(|scope| {
        let readers: Vec<_> = (0..THREADS)
            .map(|_| {
                scope.spawn(|| {
                    for _ in 0..READINGS {
                        let before = latest.load(Ordering::SeqCst);
                        // An anchor about every 20 readings.
                        let now = clock.now_after(100 * US);
                        assert!(now >= before, "{} ns back", before - now);
                        latest.fetch_max(now, Ordering::SeqCst);
                    }
                })
            })
            .collect();
        let setter = scope.spawn(|| {
            for by_ns in [MS, 3 * SECOND, 40 * MS, SECOND].into_iter().cycle() {
                clock.fake.set_wall(by_ns.cast_signed());
                thread::yield_now();
                clock.fake.set_wall(-(by_ns / 2).cast_signed());
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
            }
        });
        for reader in readers {
            reader.join().unwrap();
        }
        is_over.store(true, Ordering::Relaxed);
        setter.join().unwrap();
    });
}

/// An event on a machine.
#[derive(Clone, Copy, Debug)]
enum Event {
    Pass(u64),
    SetWall(i64),
    Sleep(u64),
}

fn event() -> impl Strategy<Value = Event> {
    let ns = || prop_oneof![0..10 * US, 0..10 * MS, 0..10 * SECOND, 0..DAY];
    prop_oneof![
        6 => ns().prop_map(Event::Pass),
        1 => ns().prop_map(|ns| Event::SetWall(ns.cast_signed())),
        1 => ns().prop_map(|ns| Event::SetWall(-ns.cast_signed())),
        1 => ns().prop_map(Event::Sleep),
    ]
}

proptest! {
    /// After any events, time does not go back, is not ahead of a wall clock that was never ahead, and follows it.
    #[test]
    fn time_never_goes_back(drift_ppm in -400_i64..400, events in prop::collection::vec(event(), 1..100)) {
        let clock = ClockFixture::with(NS_PER_2_32[0], drift_ppm);
        let mut last = clock.now();
        let mut wall_max = clock.fake.wall();
        for event in events {
            match event {
                Event::Pass(ns) => clock.fake.advance(ns),
                Event::SetWall(ns) => clock.fake.set_wall(ns),
                Event::Sleep(ns) => clock.fake.sleep(ns),
            }
            let now = clock.now();
            prop_assert!(now >= last, "{} ns back", last - now);
            let moved = match event {
                Event::Pass(ns) => ns,
                _ => 0,
            };
            // A clock that is ahead of wall time moves no faster than true time.
            wall_max = wall_max.saturating_add(moved).max(clock.fake.wall());
            prop_assert!(now <= wall_max + 1, "{} ns ahead", now - wall_max);
            last = now;
            // After two anchors, only the part that is slewed remains.
            clock.fake.advance(ANCHOR_EVERY_NS + US);
            wall_max += ANCHOR_EVERY_NS + US;
            last = last.max(clock.now());
            prop_assert!(clock.ns_behind_wall() <= (STEP_NS + LAG_NS_MAX).cast_signed());
        }
    }
}
