//! What will happen, in order of true time.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

use tidegate::StoreError;
use tidegate::store::{Op, Reply};

use super::link::Waiting;
use super::owned_ask::{OwnedAsk, SimKey};

pub(super) enum Event {
    /// The next request of the scenario.
    Arrival(usize),
    /// A fault begins.
    FaultBegins(usize),
    FaultEnds(usize),
    /// A request reaches a server.
    ToServer(Box<Message>),
    ToNode(usize, NodeEvent),
    /// The ticks of all nodes are due.
    Tick,
}

/// A request on its way to a server.
pub(super) struct Message {
    pub(super) call: u64,
    pub(super) node: usize,
    pub(super) starts: u64,
    pub(super) sent_ns: u64,
    /// How many things were on record when it was sent.
    pub(super) sent_after: usize,
    pub(super) ask: OwnedAsk,
    pub(super) waiting: Waiting,
}

/// Something that a node gets when it runs.
pub(super) enum NodeEvent {
    Arrival(usize),
    /// A request of a probe again.
    Retry(usize),
    /// A reply, or the end of the wait for it.
    Reply(ReplyEvent),
    /// The node loads this version of the rules.
    Reload(usize),
}

/// The end of a call. A real client drops a reply that no task waits for.
pub(super) struct ReplyEvent {
    pub(super) call: u64,
    pub(super) starts: u64,
    pub(super) op: Op,
    pub(super) key: SimKey,
    pub(super) units: u64,
    pub(super) sent_ns: u64,
    pub(super) waiting: Waiting,
    pub(super) reply: Result<Box<Reply>, StoreError>,
}

/// A queue of events. Those of the same instant happen in the order in which they were added.
#[derive(Default)]
pub(super) struct EventQueue {
    heap: BinaryHeap<Scheduled>,
    added: u64,
}

struct Scheduled {
    at_ns: u64,
    number: u64,
    event: Event,
}

impl EventQueue {
    pub(super) fn add(&mut self, at_ns: u64, event: Event) {
        self.added += 1;
        self.heap.push(Scheduled { at_ns, number: self.added, event });
    }

    pub(super) fn next(&mut self) -> Option<(u64, Event)> {
        self.heap.pop().map(|scheduled| (scheduled.at_ns, scheduled.event))
    }
}

impl Ord for Scheduled {
    fn cmp(&self, other: &Self) -> Ordering {
        // The heap returns the greatest first.
        (other.at_ns, other.number).cmp(&(self.at_ns, self.number))
    }
}

impl PartialOrd for Scheduled {
    fn partial_cmp(&self, other: &Self) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl PartialEq for Scheduled {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other) == Ordering::Equal
    }
}

impl Eq for Scheduled {}
