//! The world: nodes, network and servers, driven by a queue of events in simulated time.

use std::num::NonZeroU32;

use tidegate::StoreError;
use tidegate::store::{ModeSettings, Op, Store as _};
use tidegate::{OutcomeKind, Timestamp};

use super::clocks::{MS, ServerClock};
use super::event::{Event, EventQueue, Message, NodeEvent, ReplyEvent};
use super::faults::FaultKind;
use super::link::{Outgoing, Waiting};
use super::mutants::Mutants;
use super::network::Network;
use super::node::Node;
use super::record::{Happening, Record};
use super::request::PendingRequest;
use super::scenario::Scenario;
use super::server::Server;
use super::traffic::SETTLE_NS;

/// How often the background work of a node runs.
pub(super) const TICK_NS: u64 = 10 * MS;

pub(super) struct World<'s> {
    pub(super) scenario: &'s Scenario,
    pub(super) now_ns: u64,
    events: EventQueue,
    pub(super) nodes: Vec<Node>,
    servers: Vec<Server>,
    network: Network,
    calls: u64,
    pub(super) requests: Vec<PendingRequest>,
    pub(super) record: Record,
    pub(super) mutants: Mutants,
    pub(super) is_traced: bool,
}

/// Prints a line of the trace.
macro_rules! trace {
    ($world:expr, $($format:tt)*) => {
        if $world.is_traced {
            println!("{:>12.3} ms  {}", $world.now_ns as f64 / 1e6, format_args!($($format)*));
        }
    };
}
pub(super) use trace;

impl<'s> World<'s> {
    pub(super) fn new(scenario: &'s Scenario, mutants: Mutants) -> Self {
        let number = u32::try_from(scenario.nodes).ok().and_then(NonZeroU32::new).unwrap_or(NonZeroU32::MIN);
        let mut settings = ModeSettings::default();
        // Keys of one shard are swept together. Which keys are in one shard must not differ between runs of a seed.
        settings.hash_seed = Some(0);
        let node = |clock: &_| Node::new(Clone::clone(clock), number, settings);
        let loses_writes =
            scenario.faults.iter().any(|fault| matches!(fault.kind, FaultKind::Failover { .. }));
        let server = |clock: &ServerClock| match scenario.is_recorded {
            true => Server::new(clock.clone(), loses_writes),
            false => Server::for_many_keys(clock.clone()),
        };
        let mut random = scenario.random.clone();
        let mut world = Self {
            scenario,
            now_ns: 0,
            events: EventQueue::default(),
            nodes: scenario.node_clocks.iter().map(node).collect(),
            servers: scenario.servers.iter().map(server).collect(),
            network: Network::new(scenario.network, random.fork(), scenario.calm_ns),
            calls: 0,
            requests: Vec::new(),
            record: Record::default(),
            mutants,
            is_traced: false,
        };
        world.schedule_scenario();
        world
    }

    fn schedule_scenario(&mut self) {
        for (index, fault) in self.scenario.faults.iter().enumerate() {
            self.events.add(fault.from_ns, Event::FaultBegins(index));
            self.events.add(fault.until_ns, Event::FaultEnds(index));
        }
        for (node, at_ns) in self.scenario.reloads_ns.iter().enumerate() {
            self.events.add(*at_ns, Event::ToNode(node, NodeEvent::Reload(1)));
        }
        for node in 0..self.nodes.len() {
            self.note(Happening::Loaded { node, version: 0 });
        }
        if let Some(first) = self.scenario.arrivals.first() {
            self.events.add(first.at_ns, Event::Arrival(0));
        }
        self.events.add(TICK_NS, Event::Tick);
    }

    /// Puts something on record.
    pub(super) fn note(&mut self, happening: Happening) {
        if self.scenario.is_recorded {
            self.record.happenings.push((self.now_ns, happening));
        }
    }

    /// Runs the scenario to its end.
    pub(super) fn run(&mut self) {
        while let Some((at_ns, event)) = self.events.next() {
            if at_ns > self.scenario.end_ns {
                break;
            }
            self.now_ns = at_ns;
            self.handle(event);
        }
    }

    fn handle(&mut self, event: Event) {
        match event {
            Event::Arrival(index) => {
                if let Some(next) = self.scenario.arrivals.get(index + 1) {
                    self.events.add(next.at_ns, Event::Arrival(index + 1));
                }
                self.deliver_to_node(self.scenario.arrivals[index].node, NodeEvent::Arrival(index));
            }
            Event::ToNode(node, event) => self.deliver_to_node(node, event),
            Event::ToServer(message) => self.serve(*message),
            Event::Tick => {
                self.events.add(self.now_ns + TICK_NS, Event::Tick);
                (0..self.nodes.len()).for_each(|node| self.tick(node));
            }
            Event::FaultBegins(index) => self.begin_fault(index),
            Event::FaultEnds(index) => self.end_fault(index),
        }
    }

    fn deliver_to_node(&mut self, index: usize, event: NodeEvent) {
        let node = &mut self.nodes[index];
        if node.is_paused {
            node.late.push_back(event);
            return;
        }
        let shown_ns = node.show_time(self.now_ns);
        match event {
            NodeEvent::Arrival(arrival) => self.receive(index, arrival, false),
            NodeEvent::Retry(arrival) => self.receive(index, arrival, true),
            NodeEvent::Reply(event) => self.take_reply(index, event),
            NodeEvent::Reload(version) => {
                trace!(self, "node {index}: loads version {version} of the rules");
                self.note(Happening::Loaded { node: index, version });
                self.nodes[index].version = self.mutants.version_after_reload(version);
                if let Some(process) = &self.nodes[index].process {
                    process.store.shared().return_leases(Timestamp::from_nanos(shown_ns));
                }
            }
        }
        self.run_tasks(index);
    }

    /// Sends a request of a probe once more, after T.
    pub(super) fn retry(&mut self, arrival: usize) {
        let at_ns = self.now_ns + self.scenario.main_rule().life_ns_max() + SETTLE_NS;
        let node = self.scenario.arrivals[arrival].node;
        self.events.add(at_ns, Event::ToNode(node, NodeEvent::Retry(arrival)));
    }

    fn take_reply(&mut self, index: usize, event: ReplyEvent) {
        let ReplyEvent { call, starts, op, key, units, sent_ns, waiting, reply } = event;
        let node = &self.nodes[index];
        let Some(process) = node.process.as_ref().filter(|_| node.starts == starts) else { return };
        let is_reply = reply.is_ok();
        if process.link.deliver(&waiting, reply.map(|reply| *reply)) {
            trace!(
                self,
                "node {index}: {} call {call}",
                if is_reply { "has the reply of" } else { "gives up" }
            );
            if matches!(op, Op::Count { .. }) {
                self.note(match is_reply {
                    true => Happening::Pulled { call, node: index, key },
                    false => Happening::GaveUp { key, units, sent_ns },
                });
            }
        }
    }

    fn tick(&mut self, index: usize) {
        let node = &self.nodes[index];
        if node.is_paused {
            return;
        }
        let shown_ns = node.show_time(self.now_ns);
        if let Some(process) = &node.process {
            process.store.tick(Timestamp::from_nanos(shown_ns));
        }
        self.run_tasks(index);
    }

    /// Runs what was woken on a node, and sends what it wants to send.
    pub(super) fn run_tasks(&mut self, index: usize) {
        loop {
            let Some(process) = &mut self.nodes[index].process else { return };
            for future in process.link.take_spawned() {
                process.tasks.add_background(future);
            }
            let outgoing = process.link.take_outbox();
            let decided = process.tasks.poll_woken();
            if outgoing.is_empty() && decided.is_none() {
                return;
            }
            outgoing.into_iter().for_each(|outgoing| self.send(index, outgoing));
            for (request, reply) in decided.unwrap_or_default() {
                self.finish(request, reply, None);
            }
        }
    }

    fn send(&mut self, index: usize, Outgoing { mut ask, waiting, timeout_ns }: Outgoing) {
        self.calls += 1;
        let (call, starts, op) = (self.calls, self.nodes[index].starts, ask.op);
        self.mutants.on_send(index, &mut ask);
        trace!(self, "node {index}: sends {op:?} of {} (call {call})", describe_charges(&ask));
        let (key, units, sent_ns) = (ask.charges[0].key, ask.charges[0].cost, self.now_ns);
        let event = |waiting: &Waiting, reply| {
            let waiting = waiting.clone();
            Event::ToNode(
                index,
                NodeEvent::Reply(ReplyEvent { call, starts, op, key, units, sent_ns, waiting, reply }),
            )
        };
        self.events.add(self.now_ns + timeout_ns, event(&waiting, Err(StoreError::TimedOut)));
        let arrival_ns = self.network.arrival_ns(self.now_ns).filter(|_| self.nodes[index].partitions == 0);
        if let Some(at_ns) = arrival_ns {
            let sent_after = self.record.happenings.len();
            let message = Message { call, node: index, starts, sent_ns, sent_after, ask, waiting };
            return self.events.add(at_ns, Event::ToServer(Box::new(message)));
        }
        trace!(self, "network: the request of call {call} is lost");
        let server = &mut self.servers[self.scenario.server_of(key.entity)];
        if let Some(reply) = self.mutants.on_lost(index, &ask, |ask| server.apply(self.now_ns, ask)) {
            self.events.add(self.now_ns + MS, event(&waiting, Ok(Box::new(reply))));
        }
    }

    fn serve(&mut self, message: Message) {
        let Message { call, node, starts, sent_ns, sent_after, mut ask, waiting } = message;
        let op = ask.op;
        let server = &mut self.servers[self.scenario.server_of(ask.charges[0].key.entity)];
        self.mutants.on_apply(server.clock.at(self.now_ns), &mut ask);
        let reply = server.apply(self.now_ns, &ask);
        self.record.counts.store_calls += 1;
        trace!(
            self,
            "server: {op:?} of {} (call {call}): {}",
            describe_charges(&ask),
            describe_reply(&reply)
        );
        let is_allowed = reply.outcomes.iter().all(|outcome| outcome.kind == OutcomeKind::Allowed);
        for charge in &ask.charges {
            let key = charge.key;
            let happening = match op {
                Op::Check if is_allowed => Happening::Debited { key, units: charge.cost },
                Op::Count { .. } => Happening::Counted { call, node, key, sent_after },
                _ => continue,
            };
            self.note(happening);
        }
        let copies = if self.network.duplicates() { 2 } else { 1 };
        for _ in 0..copies {
            let arrival_ns = self.network.arrival_ns(self.now_ns);
            match arrival_ns.filter(|_| self.nodes[node].partitions == 0) {
                Some(at_ns) => {
                    let mut reply = Box::new(reply.clone());
                    self.mutants.on_reply(&ask, &mut reply, at_ns - sent_ns);
                    let (key, units) = (ask.charges[0].key, ask.charges[0].cost);
                    let (waiting, reply) = (waiting.clone(), Ok(reply));
                    let event = ReplyEvent { call, starts, op, key, units, sent_ns, waiting, reply };
                    self.events.add(at_ns, Event::ToNode(node, NodeEvent::Reply(event)));
                }
                None => trace!(self, "network: the reply of call {call} is lost"),
            }
        }
    }

    fn begin_fault(&mut self, index: usize) {
        let fault = &self.scenario.faults[index];
        trace!(self, "fault begins: {:?}", fault.kind);
        let happening = match &fault.kind {
            FaultKind::Crash { node } => {
                self.nodes[*node].process = None;
                Happening::Crashed { node: *node }
            }
            FaultKind::Stop { node } => {
                let shown_ns = self.nodes[*node].show_time(self.now_ns);
                if let Some(process) = &self.nodes[*node].process {
                    process.store.shared().return_leases(Timestamp::from_nanos(shown_ns));
                }
                self.run_tasks(*node);
                // The process ends a little later than it stops to take requests; what it has sent is on its way.
                self.nodes[*node].process = None;
                Happening::Crashed { node: *node }
            }
            FaultKind::Pause { node } => return self.nodes[*node].is_paused = true,
            FaultKind::Partition { nodes } => {
                return nodes.iter().for_each(|node| self.nodes[*node].partitions += 1);
            }
            FaultKind::Slow { by_ns } => return self.network.slow_ns.push(*by_ns),
            FaultKind::Lossy { one_in } => return self.network.lost_one_in.push(*one_in),
            FaultKind::NodeStep { node, by_ns } => {
                self.nodes[*node].clock.step(self.now_ns, *by_ns);
                Happening::NodeStepped { node: *node }
            }
            FaultKind::ServerStep { server, by_ns } => {
                Happening::ServerStepped { server: *server, by_ns: *by_ns }
            }
            FaultKind::Failover { server, lost_writes } => {
                self.servers[*server].lose_writes(*lost_writes);
                Happening::WritesLost { server: *server }
            }
        };
        self.note(happening);
    }

    fn end_fault(&mut self, index: usize) {
        let fault = &self.scenario.faults[index];
        trace!(self, "fault ends: {:?}", fault.kind);
        match &fault.kind {
            FaultKind::Crash { node } | FaultKind::Stop { node } => self.nodes[*node].start(),
            FaultKind::Pause { node } => {
                self.nodes[*node].is_paused = false;
                while let Some(event) = self.nodes[*node].late.pop_front() {
                    self.deliver_to_node(*node, event);
                }
            }
            FaultKind::Partition { nodes } => {
                nodes.iter().for_each(|node| self.nodes[*node].partitions -= 1);
            }
            FaultKind::Slow { by_ns } => remove_one(&mut self.network.slow_ns, *by_ns),
            FaultKind::Lossy { one_in } => remove_one(&mut self.network.lost_one_in, *one_in),
            _ => {}
        }
    }
}

fn remove_one(list: &mut Vec<u64>, value: u64) {
    if let Some(index) = list.iter().position(|other| *other == value) {
        list.swap_remove(index);
    }
}

fn describe_charges(ask: &super::owned_ask::OwnedAsk) -> String {
    let one = |charge: &super::owned_ask::OwnedCharge| {
        format!("{} of rule {} entity {}", charge.cost, charge.key.rule, charge.key.entity)
    };
    ask.charges.iter().map(one).collect::<Vec<_>>().join(", ")
}

fn describe_reply(reply: &tidegate::store::Reply) -> String {
    let one = |outcome: &tidegate::store::Outcome| format!("{:?}, {} left", outcome.kind, outcome.remaining);
    match reply.outcomes.len() {
        0 => format!("done {:?}", reply.states.as_deref().unwrap_or_default()),
        _ => reply.outcomes.iter().map(one).collect::<Vec<_>>().join("; "),
    }
}
