//! A node: the real layers over its end of the network.

use std::collections::VecDeque;
use std::num::NonZeroU32;
use std::sync::Arc;

use tidegate::MemoryStore;
use tidegate::store::{Fallback, ModeSettings, ModeStore};

use super::clocks::{NodeClock, ShownTime};
use super::event::NodeEvent;
use super::executor::Tasks;
use super::link::Link;

/// What the fallback of a node may use. The keys are few.
const FALLBACK_BYTES: u64 = 1 << 20;

pub(super) struct Node {
    pub(super) clock: NodeClock,
    pub(super) version: usize,
    /// How many partitions it is in.
    pub(super) partitions: u32,
    /// How often it was started. Replies to an earlier process are lost.
    pub(super) starts: u64,
    pub(super) process: Option<Process>,
    /// What it gets when it runs again.
    pub(super) late: VecDeque<NodeEvent>,
    pub(super) is_paused: bool,
    nodes: NonZeroU32,
    settings: ModeSettings,
}

/// The layers of a node, as the engine uses them.
pub(super) type NodeStore = Fallback<ModeStore<Link>>;

/// What a crash loses.
pub(super) struct Process {
    pub(super) store: NodeStore,
    pub(super) link: Link,
    pub(super) time: ShownTime,
    pub(super) tasks: Tasks,
}

impl Node {
    pub(super) fn new(clock: NodeClock, nodes: NonZeroU32, settings: ModeSettings) -> Self {
        let mut node = Self {
            clock,
            version: 0,
            partitions: 0,
            starts: 0,
            process: None,
            late: VecDeque::new(),
            is_paused: false,
            nodes,
            settings,
        };
        node.start();
        node
    }

    pub(super) fn start(&mut self) {
        self.starts += 1;
        let time = ShownTime::default();
        let link = Link::new(self.nodes, time.clone());
        let modes = ModeStore::with_settings(link.clone(), time.clone(), self.settings);
        let store = Fallback::new(modes, Arc::new(MemoryStore::bounded(FALLBACK_BYTES)));
        self.process = Some(Process { store, link, time, tasks: Tasks::default() });
    }

    /// Shows the time to the node's code. Returns it.
    pub(super) fn show_time(&self, true_ns: u64) -> u64 {
        let shown_ns = self.clock.at(true_ns);
        if let Some(process) = &self.process {
            process.time.set(shown_ns);
        }
        shown_ns
    }
}
