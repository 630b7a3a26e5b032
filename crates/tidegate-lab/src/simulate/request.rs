//! Requests: how a node decides one, as the engine does.

use tidegate::store::{Ask, Charge, Op, Plan, Reply, Response, Store as _};
use tidegate::{OutcomeKind, StoreError, Timestamp};

use super::link::TIMEOUT_NS;
use super::node::NodeStore;
use super::owned_ask::SimKey;
use super::record::{Admission, Decided, Happening, Probe, ProbeAnswer};
use super::rules::{MAIN, ModeName, SIDE};
use super::traffic::{Arrival, Stage};
use super::world::{World, trace};

/// A request that a node has received.
#[derive(Clone, Copy)]
pub(super) struct PendingRequest {
    arrival: usize,
    node: usize,
    from_ns: u64,
    version: usize,
    stage: Stage,
}

impl World<'_> {
    /// A node receives a request and asks its store.
    pub(super) fn receive(&mut self, index: usize, arrival: usize, is_retry: bool) {
        let node = &self.nodes[index];
        // A node that is down receives nothing.
        if node.process.is_none() {
            return;
        }
        self.record.counts.requests += 1;
        let (from_ns, version) = (self.now_ns, node.version);
        let number = self.requests.len();
        let stage = if is_retry { Stage::Retry } else { self.scenario.arrivals[arrival].stage };
        self.requests.push(PendingRequest { arrival, node: index, from_ns, version, stage });
        if self.mutants.answers_under_limit(index, self.scenario.arrivals[arrival].entity, self.nodes.len()) {
            return self.admit(number, Decided::InMemory);
        }
        let response = self.with_ask(number, |ask, store| store.ask(ask));
        match response {
            Response::Now(reply) => self.finish(number, reply, Some(Decided::InMemory)),
            Response::Later(future) => {
                if let Some(process) = &mut self.nodes[index].process {
                    process.tasks.add_request(number, future);
                }
            }
        }
    }

    /// A request is decided, or its store failed. `decided` says how, if that is known.
    pub(super) fn finish(
        &mut self,
        number: usize,
        reply: Result<Reply, StoreError>,
        decided: Option<Decided>,
    ) {
        let (reply, decided) = match reply {
            Ok(reply) => {
                let decided = decided.unwrap_or_else(|| self.waited(&reply));
                (reply, decided)
            }
            Err(error) => {
                let node_ns = self.nodes[self.requests[number].node].show_time(self.now_ns);
                let reply = self.with_ask(number, |ask, store| store.ask_fallback(ask, &error));
                let Ok(reply) = reply else { return };
                self.record.counts.degraded += 1;
                (reply, Decided::Degraded { node_ns })
            }
        };
        if decided == Decided::InMemory {
            self.record.counts.in_memory += 1;
        }
        match reply.outcomes.iter().all(|outcome| outcome.kind == OutcomeKind::Allowed) {
            true => self.admit(number, decided),
            false => {
                let PendingRequest { node, arrival, .. } = self.requests[number];
                trace!(self, "node {node}: request {arrival} is denied ({decided:?})");
                let stage = self.requests[number].stage;
                let is_from_store = !matches!(decided, Decided::Degraded { .. });
                if is_from_store && self.scenario.rules.len() == 1 {
                    let Arrival { entity, cost: units, .. } = self.scenario.arrivals[arrival];
                    self.note(Happening::Denied { key: SimKey { rule: MAIN, entity }, node, units });
                }
                match stage {
                    // It may have to wait for units that this node itself has just given back.
                    Stage::Second if is_from_store => self.retry(arrival),
                    _ => self.note_probe(number, decided, ProbeAnswer::Denied),
                }
            }
        }
    }

    /// A plan of strict charges alone was decided when the server's clock showed the instant of its reply.
    fn waited(&self, reply: &Reply) -> Decided {
        let is_strict = self.scenario.rules.iter().all(|rule| rule.mode() == ModeName::Strict);
        match is_strict {
            true => Decided::Strict { server_ns: reply.at.as_nanos() },
            false => Decided::Waited,
        }
    }

    fn admit(&mut self, number: usize, decided: Decided) {
        let PendingRequest { arrival, node, from_ns, .. } = self.requests[number];
        let request = self.scenario.arrivals[arrival];
        trace!(
            self,
            "node {node}: request {arrival} of {} for entity {} is admitted ({decided:?})",
            request.cost,
            request.entity
        );
        self.record.counts.admitted += 1;
        for rule in self.rules_of(request.stage) {
            let key = SimKey { rule, entity: request.entity };
            let admission = Admission { key, node, from_ns, units: request.cost, decided };
            self.note(Happening::Admitted(admission));
        }
        self.note_probe(number, decided, ProbeAnswer::Admitted);
    }

    fn note_probe(&mut self, number: usize, decided: Decided, answer: ProbeAnswer) {
        let PendingRequest { arrival, node, stage, .. } = self.requests[number];
        let entity = self.scenario.arrivals[arrival].entity;
        if stage != Stage::Traffic {
            let is_degraded = matches!(decided, Decided::Degraded { .. });
            let answer = if is_degraded { ProbeAnswer::Degraded } else { answer };
            self.record.probes.push(Probe { entity, node, stage, answer });
        }
    }

    /// The rules that a request falls under. Probes are for the main rule.
    fn rules_of(&self, stage: Stage) -> impl Iterator<Item = u8> + use<> {
        let has_side = stage == Stage::Traffic && self.scenario.side_rule().is_some();
        std::iter::once(MAIN).chain(has_side.then_some(SIDE))
    }

    /// Calls `f` with the plan of a request and the store of its node.
    fn with_ask<T>(&self, number: usize, f: impl FnOnce(&Ask<'_, '_>, &NodeStore) -> T) -> T {
        let PendingRequest { arrival, node, version, .. } = self.requests[number];
        let request = self.scenario.arrivals[arrival];
        let keys = [MAIN, SIDE].map(|rule| SimKey { rule, entity: request.entity }.to_bytes());
        let mut plan = Plan::new();
        for rule in self.rules_of(request.stage) {
            let versions = &self.scenario.rules[usize::from(rule)].versions;
            let version = versions.get(version).unwrap_or(&versions[0]);
            let policy = self.mutants.policy(version.policy);
            let key = &keys[usize::from(rule)];
            let charge = Charge { policy, ..Charge::new(key, &version.counter, request.cost) };
            plan.add(charge).expect("a plan of the simulation has few charges");
        }
        let node = &self.nodes[node];
        let now_ns = node.show_time(self.now_ns);
        let deadline = Some(Timestamp::from_nanos(now_ns + TIMEOUT_NS));
        let ask = Ask { op: Op::Check, plan: &plan, now: Timestamp::from_nanos(now_ns), deadline };
        f(&ask, &node.process.as_ref().expect("the node runs").store)
    }
}
