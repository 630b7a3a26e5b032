//! What goes wrong in a scenario.
//!
//! A connection delivers a request at most once, so no request is duplicated; replies may be delivered twice. A request
//! whose reply is lost was applied, and may be applied after the node has stopped waiting.

use super::clocks::MS;
use super::random::Random;

/// Something goes wrong for a while.
#[derive(Clone, Debug)]
pub(super) struct Fault {
    pub(super) from_ns: u64,
    pub(super) until_ns: u64,
    pub(super) kind: FaultKind,
}

#[derive(Clone, Debug)]
pub(super) enum FaultKind {
    /// The process is killed. At the end it is started again, with empty memory.
    Crash { node: usize },
    /// The process is stopped in good order: it gives its leases back. At the end it is started again.
    Stop { node: usize },
    /// The process does not run, and its clock goes on. It gets everything late.
    Pause { node: usize },
    /// These nodes cannot reach any server, and no reply reaches them.
    Partition { nodes: Vec<usize> },
    /// Messages take up to this much longer, so they overtake one another.
    Slow { by_ns: u64 },
    /// One message in this many is lost, a request or a reply.
    Lossy { one_in: u64 },
    /// A node's clock is set.
    NodeStep { node: usize, by_ns: i64 },
    /// A server's clock is set.
    ServerStep { server: usize, by_ns: i64 },
    /// A replica takes over that has not seen the last writes.
    Failover { server: usize, lost_writes: usize },
}

/// What faults are drawn for.
#[derive(Clone, Copy)]
pub(super) struct FaultScope {
    pub(super) nodes: usize,
    pub(super) servers: usize,
    pub(super) end_ns: u64,
    pub(super) window_ns: u64,
    pub(super) life_ns: u64,
}

/// Draws the faults of a scenario. One scenario in five has none.
pub(super) fn draw(random: &mut Random, scope: FaultScope) -> Vec<Fault> {
    let number = random.pick(&[0, 1, 1, 2, 4]);
    let mut faults: Vec<Fault> = (0..number).map(|_| draw_one(random, scope)).collect();
    faults.sort_by_key(|fault| fault.from_ns);
    // A process that is killed while it is down, or a pause of one that is, would only make the rest harder to read.
    let mut down_until = vec![0; scope.nodes];
    faults.retain(|fault| match fault.kind {
        FaultKind::Crash { node } | FaultKind::Stop { node } | FaultKind::Pause { node } => {
            let is_free = down_until[node] < fault.from_ns;
            if is_free {
                down_until[node] = fault.until_ns;
            }
            is_free
        }
        _ => true,
    });
    faults
}

fn draw_one(random: &mut Random, scope: FaultScope) -> Fault {
    let FaultScope { nodes, servers, end_ns, window_ns, life_ns } = scope;
    let from_ns = random.below(end_ns);
    let node = random.index(nodes);
    let server = random.index(servers);
    let life_ns = life_ns.max(10 * MS);
    let (span_ns, kind) = match random.below(12) {
        0 => (random.between(1, window_ns), FaultKind::Crash { node }),
        1 => (random.between(20 * MS, window_ns), FaultKind::Stop { node }),
        2 | 3 => (random.between(1, 3 * life_ns), FaultKind::Pause { node }),
        4 | 5 => {
            let nodes = (0..nodes).filter(|other| *other == node || random.once_in(3)).collect();
            (random.between(1, 2 * window_ns), FaultKind::Partition { nodes })
        }
        6 | 7 => {
            (random.between(1, window_ns), FaultKind::Slow { by_ns: random.pick(&[3, 20, 60, 150]) * MS })
        }
        8 => (random.between(1, window_ns), FaultKind::Lossy { one_in: random.pick(&[2, 5, 20]) }),
        9 => {
            let by_ns = signed(random.between(1, 2 * window_ns), random.once_in(3));
            (0, FaultKind::NodeStep { node, by_ns })
        }
        10 => {
            let by_ns = signed(random.between(1, 2 * window_ns), random.once_in(3));
            (0, FaultKind::ServerStep { server, by_ns })
        }
        _ => {
            let lost_writes = usize::try_from(random.between(1, 30)).unwrap_or(1);
            (0, FaultKind::Failover { server, lost_writes })
        }
    };
    Fault { from_ns, until_ns: (from_ns + span_ns).min(end_ns), kind }
}

fn signed(size: u64, is_back: bool) -> i64 {
    let size = i64::try_from(size).unwrap_or(i64::MAX);
    if is_back { -size } else { size }
}
