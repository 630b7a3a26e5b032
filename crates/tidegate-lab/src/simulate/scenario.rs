//! A scenario: everything about a run that does not depend on what the nodes do. A seed determines it.

use tidegate::AlgorithmName;

use super::clocks::{DRIFT_PPM_MAX, MS, NodeClock, SECOND, ServerClock};
use super::faults::{self, Fault, FaultKind, FaultScope};
use super::random::Random;
use super::rules::{self, MAIN, ModeName, SIDE, SimRule};
use super::traffic::{self, Arrival};

/// The most nodes of a scenario.
pub(super) const NODES_MAX: u64 = 8;

#[derive(Clone, Debug)]
pub(super) struct Scenario {
    pub(super) nodes: usize,
    pub(super) entities: u32,
    pub(super) node_clocks: Vec<NodeClock>,
    /// With all steps that they will make.
    pub(super) servers: Vec<ServerClock>,
    pub(super) rules: Vec<SimRule>,
    /// In order of time.
    pub(super) arrivals: Vec<Arrival>,
    pub(super) faults: Vec<Fault>,
    /// When each node loads the second version of the rules.
    pub(super) reloads_ns: Vec<u64>,
    pub(super) network: NetworkSettings,
    /// No fault and no request of the traffic comes after this.
    pub(super) calm_ns: u64,
    pub(super) end_ns: u64,
    /// Whether a record is kept for the checker. Without it, a run takes less memory.
    pub(super) is_recorded: bool,
    /// For what is drawn during the run.
    pub(super) random: Random,
}

#[derive(Clone, Copy, Debug)]
pub(super) struct NetworkSettings {
    /// The shortest time of a message. A usual one takes up to three times as long.
    pub(super) latency_ns: u64,
    /// One message in this many takes much longer, until the fleet is calm. Zero for none.
    pub(super) late_one_in: u64,
    /// One reply in this many is delivered twice. Zero for none.
    pub(super) duplicate_one_in: u64,
}

impl Scenario {
    pub(super) fn new(seed: u64, modes: &[ModeName]) -> Self {
        let mut random = Random::new(seed);
        let rules = rules::draw(&mut random.fork(), modes);
        let main = &rules[usize::from(MAIN)];
        let nodes = usize::try_from(random.between(2, NODES_MAX)).unwrap_or(2);
        let server_number = random.pick(&[1, 1, 2]);
        let entities = random.pick(&[1, 1, 2, 3]);
        let has_drift = random.once_in(2);
        // Most fleets have NTP. The code must not depend on it.
        let offset_ns = if random.once_in(4) { 10 * SECOND } else { 5 * MS };
        let node_clocks = (0..nodes)
            .map(|_| {
                let drift_ppm = i64::try_from(random.between(0, 2 * DRIFT_PPM_MAX.unsigned_abs()));
                let drift_ppm = drift_ppm.unwrap_or(0) - DRIFT_PPM_MAX;
                NodeClock::new(random.below(offset_ns), if has_drift { drift_ppm } else { 0 })
            })
            .collect();
        let mut servers: Vec<ServerClock> =
            (0..server_number).map(|_| ServerClock::new(random.below(offset_ns))).collect();
        let (mut arrivals, mut traffic_end_ns) =
            traffic::draw(&mut random.fork(), main, &servers, (nodes, entities));
        let scope = FaultScope {
            nodes,
            servers: servers.len(),
            end_ns: traffic_end_ns,
            window_ns: main.window_ns,
            life_ns: main.life_ns_max(),
        };
        let mut faults = faults::draw(&mut random.fork(), scope);
        let can_forget = main.mode() == ModeName::Eventual && main.algorithm == AlgorithmName::FixedWindow;
        if can_forget && main.window_ns >= SECOND && random.once_in(2) {
            let node = random.index(nodes);
            let edge_ns;
            (arrivals, edge_ns) = traffic::draw_over_edge(&mut random, main, &servers[0], (nodes, node));
            let kind = FaultKind::Partition { nodes: vec![node] };
            faults = vec![Fault { from_ns: edge_ns - main.window_ns / 2, until_ns: edge_ns + 10 * MS, kind }];
            traffic_end_ns = traffic_end_ns.max(edge_ns + main.window_ns);
        }
        for fault in &faults {
            if let FaultKind::ServerStep { server, by_ns } = fault.kind {
                servers[server].steps.push((fault.from_ns, by_ns));
            }
        }
        let reloads_ns = match main.versions.len() {
            1 => Vec::new(),
            _ => {
                let first_ns = random.below(traffic_end_ns);
                (0..nodes).map(|_| first_ns + random.below(100 * MS)).collect()
            }
        };
        let calm_ns = traffic_end_ns + 300 * MS;
        let mut end_ns = calm_ns;
        for entity in 0..entities {
            let clock = &servers[entity as usize % servers.len()];
            end_ns = end_ns.max(traffic::add_probes(&mut arrivals, main, clock, (entity, nodes, calm_ns)));
        }
        arrivals.sort_by_key(|arrival| arrival.at_ns);
        let network = NetworkSettings {
            latency_ns: random.pick(&[50_000, 200_000, 500_000, MS, 3 * MS]),
            late_one_in: random.pick(&[0, 200, 50]),
            duplicate_one_in: random.pick(&[0, 10]),
        };
        Self {
            nodes,
            entities,
            node_clocks,
            servers,
            rules,
            arrivals,
            faults,
            reloads_ns,
            network,
            calm_ns,
            end_ns: end_ns + 300 * MS,
            is_recorded: true,
            random,
        }
    }

    pub(super) fn main_rule(&self) -> &SimRule {
        &self.rules[usize::from(MAIN)]
    }

    /// The strict rule beside the main one.
    pub(super) fn side_rule(&self) -> Option<&SimRule> {
        self.rules.get(usize::from(SIDE))
    }

    pub(super) fn server_of(&self, entity: u32) -> usize {
        entity as usize % self.servers.len()
    }

    /// One line for reports.
    pub(super) fn describe(&self) -> String {
        let rule = self.main_rule();
        let versions: Vec<String> = rule
            .versions
            .iter()
            .map(|version| {
                let (limit, burst, life_ms) =
                    (version.limit, version.burst, version.life_ns() as f64 / MS as f64);
                format!("{limit} burst {burst} T {life_ms} ms")
            })
            .collect();
        let side = self.side_rule().map_or(String::new(), |side| {
            format!(", and {} {} strictly", side.algorithm, side.versions[0].limit)
        });
        format!(
            "{} {} per {} ms, {}{side}; {} nodes, {} servers, {} entities, {} requests, {} faults",
            rule.algorithm,
            versions.join(" then "),
            rule.window_ns / MS,
            rule.versions[0].policy.mode.as_str(),
            self.nodes,
            self.servers.len(),
            self.entities,
            self.arrivals.len(),
            self.faults.len(),
        )
    }
}
