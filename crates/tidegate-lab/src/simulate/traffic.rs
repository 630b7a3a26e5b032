//! The requests of a scenario: phases of different load, and the probes after them.
//!
//! The probes come when everything has healed and all that was used has come back:
//!
//! ```text
//! first     one node sends half of what the limit gives     all admitted
//! (T)       nothing is sent
//! second    another node sends the rest                     all admitted: nothing is stranded for longer than T
//! (T)       nothing is sent; what was denied is then sent once more, and must be admitted
//! warm-up   each node sends one request, in mode eventual   either
//! (T)       nothing is sent
//! over      each node sends one more than may be left       all denied: the fleet agrees on the count
//! ```

use super::clocks::{MS, ServerClock};
use super::random::Random;
use super::rules::{ModeName, SimRule};

/// A request that will be sent.
#[derive(Clone, Copy, Debug)]
pub(super) struct Arrival {
    pub(super) at_ns: u64,
    pub(super) node: usize,
    pub(super) entity: u32,
    pub(super) cost: u64,
    pub(super) stage: Stage,
}

/// What a request is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stage {
    Traffic,
    First,
    Second,
    /// The same request again, after T.
    Retry,
    WarmUp,
    Over,
}

/// The most requests of a scenario, so that a run takes milliseconds.
const REQUESTS_MAX: usize = 1_400;
/// How much later than T something may come back: ticks, round trips, and a margin.
pub(super) const SETTLE_NS: u64 = 45 * MS;

/// Draws phases of load for each entity. Returns the requests, and when the last phase ends.
pub(super) fn draw(
    random: &mut Random,
    rule: &SimRule,
    clocks: &[ServerClock],
    (nodes, entities): (usize, u32),
) -> (Vec<Arrival>, u64) {
    let phases = random.between(2, 5);
    let mut arrivals = Vec::new();
    let mut start_ns = 0;
    let has_costs = random.once_in(3);
    for _ in 0..phases {
        let span_ns = rule.window_ns * random.between(2, 8) / 4;
        for entity in 0..entities {
            let tenths = random.pick(&[0, 3, 9, 11, 20, 20, 100]);
            let home = random.once_in(4).then(|| random.index(nodes));
            let burst = random.pick(&[1, 1, 1, 5, 30]);
            let requests = rule.versions[0].limit * tenths * span_ns / rule.window_ns / 10;
            let mut at_ns = start_ns + random.below(span_ns / 4);
            let step_ns = 2 * span_ns / requests.max(1);
            while at_ns < start_ns + span_ns && requests > 0 && arrivals.len() < REQUESTS_MAX {
                for _ in 0..random.between(1, 2 * burst - 1) {
                    let node = home.unwrap_or_else(|| random.index(nodes));
                    let cost = if has_costs && random.once_in(5) {
                        random.between(0, 1 + rule.versions[0].limit / 4)
                    } else {
                        1
                    };
                    arrivals.push(Arrival { at_ns, node, entity, cost, stage: Stage::Traffic });
                    at_ns += random.below(2) * 1_000;
                }
                at_ns += random.below(step_ns * burst) + 1;
            }
        }
        if random.once_in(3) {
            let clock = &clocks[0];
            let edge_ns = clock.true_of((clock.at(start_ns) / rule.window_ns + 1) * rule.window_ns);
            add_edge_burst(random, &mut arrivals, rule, (nodes, edge_ns));
        }
        start_ns += span_ns;
    }
    (arrivals, start_ns)
}

/// Adds a trickle up to the start of a window of the first entity, and a flood right after it: what was leased in one window
/// must not be used in the next.
fn add_edge_burst(
    random: &mut Random,
    arrivals: &mut Vec<Arrival>,
    rule: &SimRule,
    (nodes, edge_ns): (usize, u64),
) {
    let (limit, window_ns) = (rule.versions[0].limit, rule.window_ns);
    let step_ns = (2 * window_ns / limit).max(1);
    let trickle_ns =
        (edge_ns.saturating_sub(window_ns / 4)..edge_ns).step_by(usize::try_from(step_ns).unwrap_or(1));
    let flood_ns = (0..limit + limit / 2 + 1).map(|number| edge_ns + number * window_ns / 50 / limit);
    for at_ns in trickle_ns.chain(flood_ns) {
        arrivals.push(Arrival {
            at_ns,
            node: random.index(nodes),
            entity: 0,
            cost: 1,
            stage: Stage::Traffic,
        });
    }
}

/// Traffic around a partition of one node that lasts from the middle of a window to the start of the next: the units that the
/// node uses then belong to the window that is over. Returns the requests, and the start of the second window.
pub(super) fn draw_over_edge(
    random: &mut Random,
    rule: &SimRule,
    clock: &ServerClock,
    (nodes, node): (usize, usize),
) -> (Vec<Arrival>, u64) {
    let (limit, window_ns) = (rule.versions[0].limit, rule.window_ns);
    let edge_ns = clock.true_of((clock.at(window_ns) / window_ns + 1) * window_ns);
    let arrival = |at_ns, node| Arrival { at_ns, node, entity: 0, cost: 1, stage: Stage::Traffic };
    // The node knows the count when the partition begins, uses some units, and synchronises when it is over.
    let before = (0..3).map(|number| arrival(edge_ns - window_ns / 2 - (60 - 20 * number) * MS, node));
    let during = (0..limit / 2).map(|number| arrival(edge_ns - window_ns / 2 + MS + number * MS / 4, node));
    let after = [arrival(edge_ns + window_ns * 65 / 100, node)];
    let flood = (0..2 * limit).map(|number| {
        let others = (node + 1 + random.index(nodes - 1)) % nodes;
        arrival(edge_ns + window_ns * 7 / 10 + number * window_ns / 10 / limit, others)
    });
    (before.chain(during).chain(after).chain(flood).collect(), edge_ns)
}

/// Adds the probes of an entity, some time after `calm_ns`. Returns when the last one is sent.
pub(super) fn add_probes(
    arrivals: &mut Vec<Arrival>,
    rule: &SimRule,
    clock: &ServerClock,
    (entity, nodes, calm_ns): (u32, usize, u64),
) -> u64 {
    let version = rule.last_version();
    let (window_ns, life_ns) = (rule.window_ns, rule.life_ns_max());
    let back_ns: u64 = clock.steps.iter().map(|(_, by)| by.min(&0).unsigned_abs()).sum();
    // A bucket with a debt takes longest to fill: each node may have overshot at the onset of its traffic.
    let windows = if rule.mode() == ModeName::Eventual { 12 } else { 4 };
    let filled_ns = calm_ns + back_ns + windows * window_ns + 2 * life_ns + 700 * MS;
    // A node that was idle for long knows the server's clock only as well as its own clock is.
    let edge_ns = if rule.mode() == ModeName::Eventual { SETTLE_NS + 10 * MS } else { SETTLE_NS / 3 };
    let first_ns = clock.true_of((clock.at(filled_ns) / window_ns + 1) * window_ns) + edge_ns;

    let (capacity, span_ns) = (version.capacity(), window_ns / 20);
    let (half, rest) = (capacity / 2, capacity - capacity / 2);
    let mut add = |at_ns, node: usize, cost, stage| {
        arrivals.push(Arrival { at_ns, node: node % nodes, entity, cost, stage });
    };
    let first_node = entity as usize;
    for number in 0..half {
        add(first_ns + number * span_ns / half, first_node, 1, Stage::First);
    }
    let second_ns = first_ns + span_ns + life_ns + SETTLE_NS;
    for number in 0..rest {
        add(second_ns + number * span_ns / rest, first_node + 1, 1, Stage::Second);
    }
    let mut over_ns = second_ns + span_ns + 2 * (life_ns + SETTLE_NS) + SETTLE_NS;
    if rule.mode() == ModeName::Eventual {
        (0..nodes).for_each(|node| add(over_ns, node, 1, Stage::WarmUp));
        over_ns += life_ns + SETTLE_NS;
    }
    // What flows into a bucket meanwhile, and one more.
    let flowed =
        u128::from(version.limit) * u128::from(over_ns + SETTLE_NS - first_ns) / u128::from(window_ns);
    let flowed = if rule.is_bucket() { u64::try_from(flowed).unwrap_or(u64::MAX) + 2 } else { 0 };
    let over = flowed + 1;
    let is_in_window = over_ns + SETTLE_NS < first_ns + window_ns * 9 / 10;
    if over <= capacity && (rule.is_bucket() || is_in_window) {
        (0..nodes).for_each(|node| add(over_ns, node, over, Stage::Over));
    }
    over_ns
}
