//! The same rules as limits of limitador, over its in-memory storage.
//!
//! limitador has no matching of its own to be called: what is measured is `is_rate_limited`, which finds the limits
//! and looks at the counters of those it found. Contexts are made beforehand, which a server cannot do.

use std::collections::HashMap;
use std::hint::black_box;

use limitador::RateLimiter;
use limitador::limit::{Context, Expression, Limit, Namespace, Predicate};
use tidegate_core::rules::{Pattern, Rule};

use super::mix::Mix;
use super::requests::Requests;
use super::{Field, RULE_NUMBERS};
use crate::bench::median;
use crate::stopwatch::ThreadTime;
use crate::table::Table;

/// What limitador may take of a turn: it asks every limit, and so would take minutes for ten thousand.
const LIMITS_ASKED_PER_TURN: usize = 200_000;

/// Mixes that its conditions can say, as equalities.
const MIXES: [Mix; 2] = [Mix::User, Mix::ThreeValues];

/// limitador with the rules of a mix.
struct Peer {
    limiter: RateLimiter,
    namespace: Namespace,
    contexts: Vec<Context<'static>>,
    turns: Vec<f64>,
}

/// Measures both, taking turns, and prints how they compare.
pub(super) fn compare(rounds: usize) -> Table {
    let heading =
        ["", "rules", "tidegate ns", "limitador ns", "limitador/tidegate", "limitador, one limit ns"];
    let mut table = Table::new("matching beside limitador: CPU time per request, median", heading);
    for mix in MIXES {
        eprintln!("matching beside limitador: {}", mix.name());
        let mut one = Peer::new(mix, 1);
        for number in RULE_NUMBERS {
            let (mut field, mut peer) = (Field::new(mix, number), Peer::new(mix, number));
            for _ in 0..rounds.min(11) {
                field.turn();
                peer.turn();
                one.turn();
            }
            let (ours, theirs) = (field.median_ns(), peer.median_ns());
            table.row([
                mix.name().to_owned(),
                number.to_string(),
                format!("{ours:.0}"),
                format!("{theirs:.0}"),
                format!("{:.1}x", theirs / ours),
                format!("{:.0}", one.median_ns()),
            ]);
        }
    }
    table.note(
        "limitador: finding the limits and a look at the counters of those found; contexts made beforehand.",
    );
    table
}

impl Peer {
    fn new(mix: Mix, number: usize) -> Self {
        let requests = Requests::new(mix, number);
        let limiter = RateLimiter::new(10_000);
        for rule in mix.rules(number) {
            limiter.add_limit(limit(&rule));
        }
        let asked = (LIMITS_ASKED_PER_TURN / number).clamp(16, requests.len());
        let context = |request: &Vec<(String, String)>| {
            Context::from(request.iter().cloned().collect::<HashMap<String, String>>())
        };
        let contexts = requests.owned().iter().take(asked).map(context).collect();
        Self { limiter, namespace: "bench".into(), contexts, turns: Vec::new() }
    }

    fn turn(&mut self) {
        let cpu = ThreadTime::start();
        for context in &self.contexts {
            let answer = self.limiter.is_rate_limited(&self.namespace, context, 1);
            let _ = black_box(answer.is_ok_and(|answer| answer.limited));
        }
        self.turns.push(cpu.elapsed_ns() as f64 / self.contexts.len() as f64);
    }

    fn median_ns(&self) -> f64 {
        median(self.turns.iter().copied())
    }
}

/// A rule of equalities as a limit.
fn limit(rule: &Rule) -> Limit {
    let predicates = rule.conditions.iter().filter_map(|condition| match &condition.pattern {
        Pattern::Exact(value) => Predicate::parse(format!("{} == '{value}'", condition.attribute)).ok(),
        _ => None,
    });
    let user = Expression::parse("user").expect("a name is an expression");
    Limit::new("bench", 1_000_000, 3_600, predicates, [user])
}
