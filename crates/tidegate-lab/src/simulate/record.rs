//! What happened in a run, in order of true time. The checker reads nothing else of a run.

use super::owned_ask::SimKey;
use super::traffic::Stage;

/// Everything that the checker needs to know.
#[derive(Clone, Debug, Default)]
pub(super) struct Record {
    pub(super) happenings: Vec<(u64, Happening)>,
    pub(super) probes: Vec<Probe>,
    pub(super) counts: RunCounts,
}

/// What a run did, for the totals of a report.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct RunCounts {
    /// Requests that nodes received.
    pub requests: u64,
    /// Requests that were admitted, including the degraded ones.
    pub admitted: u64,
    /// Requests that were decided by the fallback.
    pub degraded: u64,
    /// Requests that were decided without waiting.
    pub in_memory: u64,
    /// Operations that servers applied.
    pub store_calls: u64,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Happening {
    Admitted(Admission),
    /// A server admitted a charge: a strict one, or the debit of a lease.
    Debited {
        key: SimKey,
        units: u64,
    },
    /// A server counted units of a node, which sent them when this many things had happened.
    Counted {
        call: u64,
        node: usize,
        key: SimKey,
        sent_after: usize,
    },
    /// The reply to a count reached the node.
    Pulled {
        call: u64,
        node: usize,
        key: SimKey,
    },
    /// A node denied a request, not by its fallback.
    Denied {
        key: SimKey,
        node: usize,
        units: u64,
    },
    /// A node got no reply to a count in time. The count may be applied nevertheless.
    GaveUp {
        key: SimKey,
        units: u64,
        sent_ns: u64,
    },
    /// The node lost its memory.
    Crashed {
        node: usize,
    },
    /// The node uses this version of the rules from now on.
    Loaded {
        node: usize,
        version: usize,
    },
    NodeStepped {
        node: usize,
    },
    ServerStepped {
        server: usize,
        by_ns: i64,
    },
    WritesLost {
        server: usize,
    },
}

/// An admitted request, for one of its keys.
#[derive(Clone, Copy, Debug)]
pub(super) struct Admission {
    pub(super) key: SimKey,
    pub(super) node: usize,
    /// When the node received the request. It happened when the node had decided.
    pub(super) from_ns: u64,
    pub(super) units: u64,
    pub(super) decided: Decided,
}

/// How an admission was decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Decided {
    /// At once, from the node's memory.
    InMemory,
    /// After the node waited for the shared store, at some instant since it received the request.
    Waited,
    /// By the shared store, when its clock showed this.
    Strict { server_ns: u64 },
    /// By the fallback, when the node's clock showed this.
    Degraded { node_ns: u64 },
}

/// A request of a probe, and what became of it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Probe {
    pub(super) entity: u32,
    pub(super) node: usize,
    pub(super) stage: Stage,
    pub(super) answer: ProbeAnswer,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ProbeAnswer {
    Admitted,
    Denied,
    /// The shared store failed, although everything has healed.
    Degraded,
}
