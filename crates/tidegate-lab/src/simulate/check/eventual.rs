//! The bound of mode eventual.
//!
//! A node that decides from memory knows its own units, and those units of other nodes that were counted at the server
//! before its own last count there, if the reply to that has reached it. A count covers all units that its node admitted
//! before it was sent. So at each decision of a node
//!
//! ```text
//! units that count now <= what the algorithm allows + units of other nodes that this node cannot know
//! ```
//!
//! In a bucket, units count until they have flowed out. A node's idea of the server's clock is late by up to D, so they may be
//! dated D early, which is worth L D / W. In a fixed window they count in that window, and what is beyond L in
//! the next one, with `carry`. In a sliding window they count with their weight, by clocks that may have drifted apart. Units that were admitted so near the
//! edge of a window that the node may take another window for the current one are not counted.

use tidegate::AlgorithmName;
use tidegate::store::{Carry, Mode};

use super::{Bound, Violation, WAIT_NS, longest_life_ns};
use crate::simulate::clocks::MS;
use crate::simulate::owned_ask::SimKey;
use crate::simulate::record::{Decided, Happening, Record};
use crate::simulate::rules::{Limits, Version};
use crate::simulate::scenario::Scenario;

/// How far clocks may drift apart while a node gets no reply, which the weight of the window before depends on.
const DRIFT_NS_MAX: u64 = 10 * MS;

/// What one node admitted, in order of time: the window and the units.
#[derive(Clone, Default)]
struct NodeUnits {
    admitted: Vec<NodeUnit>,
    /// How many of them the server has counted.
    counted: usize,
    /// How many of them an earlier process admitted, until this one has had a reply.
    forgotten: usize,
    /// Admissions until then may come on top.
    excused_until_ns: u64,
    /// Whether the process has had a reply, so that it knows the server's clock.
    has_pulled: bool,
    /// Whether that clock or its own was set since its last reply.
    has_lost_clock: bool,
    /// The last window that the node has seen, the units in it that the node knows, and what it carries over.
    seen: SeenWindow,
}

#[derive(Clone, Copy)]
struct NodeUnit {
    /// Its position in the record.
    number: usize,
    window: u64,
    units: u64,
}

#[derive(Clone, Copy, Default)]
struct SeenWindow {
    window: u64,
    units: u64,
    carried: u64,
}

struct Checker<'a> {
    bound: &'a Bound<'a>,
    nodes: Vec<NodeUnits>,
    /// How many units of the second node the first one knows.
    known: Vec<Vec<usize>>,
    replies: Vec<CountReply>,
    extra: u64,
    usage: Usage,
    /// Whether an admission by the server was asked for in the same window. With a strict rule beside this one, all decisions
    /// wait for the server.
    is_asked_at_once: bool,
}

/// What the server had counted when it replied to a call, for each node.
struct CountReply {
    call: u64,
    window: u64,
    counted: Vec<usize>,
}

/// What counts now, of the units of all nodes.
#[derive(Default)]
pub(super) struct Usage {
    /// Units in a bucket, times W.
    level: u128,
    level_ns: u64,
    window: u64,
    units: u64,
    /// Units of the window before.
    before: u64,
}

pub(super) fn check(
    scenario: &Scenario,
    record: &Record,
    key: SimKey,
    bound: &Bound<'_>,
) -> Result<(), Violation> {
    let server = scenario.server_of(key.entity);
    let clock = &scenario.servers[server];
    let nodes = scenario.nodes;
    let mut checker = Checker {
        bound,
        nodes: vec![NodeUnits::default(); nodes],
        known: vec![vec![0; nodes]; nodes],
        replies: Vec::new(),
        extra: 0,
        usage: Usage::default(),
        is_asked_at_once: scenario.faults.is_empty() && scenario.side_rule().is_none(),
    };
    let excused_ns = longest_life_ns(bound.rule) + 2 * WAIT_NS;
    for (number, (at_ns, happening)) in record.happenings.iter().enumerate() {
        let at_ns = *at_ns;
        match *happening {
            Happening::Admitted(admission) if admission.key == key && admission.units > 0 => {
                if matches!(admission.decided, Decided::Degraded { .. }) {
                    continue;
                }
                let instant = Instant {
                    number,
                    true_ns: at_ns,
                    server_ns: clock.at(at_ns),
                    forward_ns: clock.forward_at(at_ns),
                };
                let is_by_node = admission.decided == Decided::InMemory;
                checker
                    .admit(admission.node, admission.units, instant, is_by_node)
                    .map_err(|reason| Violation { key, at_ns, reason })?;
            }
            Happening::Counted { call, node, key: counted, sent_after } if counted == key => {
                checker.count(call, node, sent_after, clock.at(at_ns) / bound.rule.window_ns);
            }
            Happening::Pulled { call, node, key: pulled } if pulled == key => checker.pull(call, node),
            Happening::Crashed { node } => checker.crash(node),
            // The same share of W stays used. Without the same B / L that is not the same share of the burst.
            Happening::Loaded { version: 1.., .. } => checker.usage.level = 0,
            Happening::NodeStepped { node } => checker.nodes[node].lose_clock(at_ns + excused_ns),
            Happening::ServerStepped { server: stepped, .. } if stepped == server => {
                checker.nodes.iter_mut().for_each(|node| node.lose_clock(at_ns + excused_ns));
            }
            Happening::WritesLost { server: lost } if lost == server => {
                checker.start_afresh();
                checker.nodes.iter_mut().for_each(|node| node.lose_clock(at_ns + excused_ns));
            }
            _ => {}
        }
    }
    Ok(())
}

/// An instant by several clocks.
#[derive(Clone, Copy)]
pub(super) struct Instant {
    /// A position in the record.
    pub number: usize,
    pub true_ns: u64,
    pub server_ns: u64,
    pub forward_ns: u64,
}

impl NodeUnits {
    fn lose_clock(&mut self, until_ns: u64) {
        (self.excused_until_ns, self.has_lost_clock) = (until_ns, true);
        self.seen = SeenWindow::default();
    }

    /// Carries over what the node knows to be beyond the limit, if the window is the next one, and adds units to it.
    fn see_window(&mut self, window: u64, limit: u64, units: u64) {
        if window > self.seen.window {
            let over = self.seen.units.saturating_sub(limit).min(limit);
            let carried = if window == self.seen.window + 1 { over } else { 0 };
            self.seen = SeenWindow { window, units: 0, carried };
        }
        if window == self.seen.window {
            self.seen.units += units;
        }
    }
}

impl Checker<'_> {
    fn admit(&mut self, node: usize, units: u64, at: Instant, is_by_node: bool) -> Result<(), String> {
        let window_ns = self.bound.rule.window_ns;
        let window = at.server_ns / window_ns;
        let is_windowed = !self.bound.rule.is_bucket();
        let is_lost = self.nodes[node].has_lost_clock || is_windowed && !self.nodes[node].has_pulled;
        if is_lost || at.true_ns <= self.nodes[node].excused_until_ns {
            return Ok(());
        }
        // How far off a node's idea of the server's clock may be.
        let edge_ns = WAIT_NS.min(window_ns / 5);
        let offset_ns = at.server_ns % window_ns;
        if is_windowed && (offset_ns < edge_ns || offset_ns > window_ns - edge_ns) {
            return Ok(());
        }
        let limits = self.bound.limits(at.true_ns.saturating_sub(2 * window_ns), at.true_ns);
        self.nodes[node].admitted.push(NodeUnit { number: at.number, window, units });
        self.nodes[node].see_window(window, limits.limit, units);
        let carried = if self.has_carry() { self.nodes[node].seen.carried } else { 0 };
        let counted = self.usage.add(self.bound, limits, units, at, window)
            + u128::from(carried) * u128::from(window_ns);
        match (is_by_node, carried) {
            (true, _) => {}
            // What the server admits by itself is exact.
            (false, 0) => return Ok(()),
            (false, _) if !self.is_asked_at_once => return Ok(()),
            (false, _) => {
                return Err(format!(
                    "node {node} asked the server, which does not know of {carried} carried units"
                ));
            }
        }
        let unknown = self.unknown(node, is_windowed.then_some(window));
        let allowed = allowed(self.bound, limits) + u128::from(unknown) * u128::from(window_ns);
        let over = counted.saturating_sub(allowed).div_ceil(u128::from(window_ns));
        match u128::from(self.extra) < over {
            true => Err(format!(
                "node {node} admitted {over} more than the limit and the {unknown} units that it cannot know allow"
            )),
            false => Ok(()),
        }
    }

    /// The units of other nodes, and of an earlier process, that a node cannot know, in this window and the one before or at
    /// all.
    fn unknown(&self, node: usize, window: Option<u64>) -> u64 {
        let of = |other: usize| {
            let unknown = match other == node {
                true => &self.nodes[node].admitted[..self.nodes[node].forgotten],
                false => &self.nodes[other].admitted[self.known[node][other]..],
            };
            let counts = |unit: &&NodeUnit| window.is_none_or(|window| unit.window + 1 >= window);
            unknown.iter().filter(counts).map(|unit| unit.units).sum::<u64>()
        };
        (0..self.nodes.len()).map(of).sum()
    }

    fn has_carry(&self) -> bool {
        // A version without it forgets what is over.
        let carries =
            |version: &Version| matches!(version.policy.mode, Mode::Eventual { carry: Carry::On, .. });
        self.bound.rule.algorithm == AlgorithmName::FixedWindow
            && self.bound.rule.versions.iter().all(carries)
    }

    fn count(&mut self, call: u64, node: usize, sent_after: usize, window: u64) {
        let units = &mut self.nodes[node];
        let covered = units.admitted.partition_point(|unit| unit.number < sent_after);
        units.counted = units.counted.max(covered);
        let counted = self.nodes.iter().map(|node| node.counted).collect();
        self.replies.push(CountReply { call, window, counted });
    }

    fn pull(&mut self, call: u64, node: usize) {
        self.nodes[node].has_pulled = true;
        self.nodes[node].has_lost_clock = false;
        self.nodes[node].forgotten = 0;
        let Some(reply) = self.replies.iter().rfind(|reply| reply.call == call) else { return };
        let mut units = 0;
        for (other, counted) in reply.counted.iter().enumerate() {
            self.known[node][other] = self.known[node][other].max(*counted);
            // Its own units it knows in any case.
            let counted = if other == node { usize::MAX } else { *counted };
            let in_window = self.nodes[other].admitted.iter().take(counted);
            units += in_window.filter(|unit| unit.window == reply.window).map(|unit| unit.units).sum::<u64>();
        }
        let (window, limit) = (reply.window, self.bound.limits(0, u64::MAX).limit);
        let node = &mut self.nodes[node];
        node.see_window(window, limit, 0);
        if node.seen.window == window {
            node.seen.units = node.seen.units.max(units);
        }
    }

    /// What the node had not sent is lost. It comes on top, and no node will ever know it.
    fn crash(&mut self, node: usize) {
        let units = &mut self.nodes[node];
        let lost: u64 = units.admitted[units.counted..].iter().map(|unit| unit.units).sum();
        units.admitted.truncate(units.counted);
        self.extra += lost;
        for known in &mut self.known {
            known[node] = known[node].min(self.nodes[node].counted);
        }
        // A new process knows nothing.
        self.known[node].fill(0);
        self.nodes[node].has_pulled = false;
        self.nodes[node].forgotten = self.nodes[node].admitted.len();
        self.nodes[node].seen = SeenWindow::default();
    }

    fn start_afresh(&mut self) {
        let nodes = self.nodes.len();
        self.nodes.iter_mut().for_each(|node| *node = NodeUnits::default());
        self.known = vec![vec![0; nodes]; nodes];
        self.replies.clear();
        self.usage = Usage::default();
        self.extra = 0;
    }
}

impl Usage {
    /// Adds units. Returns what counts now, in units times W.
    pub fn add(&mut self, bound: &Bound<'_>, limits: Limits, units: u64, at: Instant, window: u64) -> u128 {
        let window_ns = u128::from(bound.rule.window_ns);
        if bound.rule.is_bucket() {
            let flowed = u128::from(limits.limit) * u128::from(at.forward_ns.saturating_sub(self.level_ns));
            self.level = self.level.saturating_sub(flowed) + u128::from(units) * window_ns;
            self.level_ns = self.level_ns.max(at.forward_ns);
            return self.level;
        }
        if window != self.window {
            self.before = if window == self.window + 1 { self.units } else { 0 };
            (self.window, self.units) = (window, 0);
        }
        self.units += units;
        let left_ns = window_ns - u128::from(at.server_ns) % window_ns;
        let before = match bound.rule.algorithm {
            AlgorithmName::SlidingWindow => u128::from(self.before) * left_ns,
            _ => 0,
        };
        before + u128::from(self.units) * window_ns
    }
}

/// What may count, in units times W.
fn allowed(bound: &Bound<'_>, limits: Limits) -> u128 {
    let window_ns = u128::from(bound.rule.window_ns);
    let early_ns = match bound.rule.algorithm {
        AlgorithmName::FixedWindow => 0,
        AlgorithmName::SlidingWindow => u128::from(DRIFT_NS_MAX),
        _ => u128::from(WAIT_NS),
    };
    u128::from(limits.burst) * window_ns + u128::from(limits.limit) * early_ns
}
