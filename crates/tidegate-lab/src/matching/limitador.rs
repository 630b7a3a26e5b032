//! The same rules as limits of limitador, with its in-memory storage.
//!
//! limitador has no separate function for matching. This measures `is_rate_limited`, which finds the limits and reads
//! their counters. The contexts are built before the measurement, which a server cannot do.

use std::collections::HashMap;
use std::hint::black_box;

use limitador::RateLimiter;
use limitador::limit::{Context, Expression, Limit, Namespace, Predicate};
use tidegate_core::rules::{Pattern, Rule};

use super::requests::Requests;
use super::rule_mix::RuleMix;
use super::{IndexedRules, RULE_COUNTS};
use crate::measure::{ThreadTime, median};
use crate::table::Table;

/// limitador evaluates every limit for each request, so ten thousand limits would take minutes without this bound.
const LIMITS_EVALUATED_PER_TURN: usize = 200_000;

/// The mixes that its conditions can express.
const MIXES: [RuleMix; 2] = [RuleMix::User, RuleMix::ThreeValues];

/// limitador with the rules of a mix.
struct LimitadorRules {
    limiter: RateLimiter,
    namespace: Namespace,
    contexts: Vec<Context<'static>>,
    turns: Vec<f64>,
}

/// Measures both in turns and compares them.
pub(super) fn compare(rounds: usize) -> Table {
    let heading =
        ["", "rules", "tidegate ns", "limitador ns", "limitador/tidegate", "limitador, one limit ns"];
    let mut table = Table::new("matching, compared with limitador: CPU time per request, median", heading);
    for mix in MIXES {
        eprintln!("matching, compared with limitador: {}", mix.name());
        let mut one = LimitadorRules::new(mix, 1);
        for number in RULE_COUNTS {
            let mut tidegate = IndexedRules::new(mix, number);
            let mut limitador = LimitadorRules::new(mix, number);
            for _ in 0..rounds.min(11) {
                tidegate.turn();
                limitador.turn();
                one.turn();
            }
            let (tidegate_ns, limitador_ns) = (tidegate.median_ns(), limitador.median_ns());
            table.row([
                mix.name().to_owned(),
                number.to_string(),
                format!("{tidegate_ns:.0}"),
                format!("{limitador_ns:.0}"),
                format!("{:.1}x", limitador_ns / tidegate_ns),
                format!("{:.0}", one.median_ns()),
            ]);
        }
    }
    table.note("limitador: finds the limits and reads their counters; its contexts are built before.");
    table
}

impl LimitadorRules {
    fn new(mix: RuleMix, number: usize) -> Self {
        let requests = Requests::new(mix, number);
        let limiter = RateLimiter::new(10_000);
        for rule in mix.rules(number) {
            limiter.add_limit(limit(&rule));
        }
        let contexts_max = (LIMITS_EVALUATED_PER_TURN / number).clamp(16, requests.len());
        let context = |request: &Vec<(String, String)>| {
            Context::from(request.iter().cloned().collect::<HashMap<String, String>>())
        };
        let contexts = requests.owned().iter().take(contexts_max).map(context).collect();
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

/// Converts a rule that only tests equality.
fn limit(rule: &Rule) -> Limit {
    let predicates = rule.conditions.iter().filter_map(|condition| match &condition.pattern {
        Pattern::Exact(value) => Predicate::parse(format!("{} == '{value}'", condition.attribute)).ok(),
        _ => None,
    });
    let user = Expression::parse("user").expect("a name is a valid expression");
    Limit::new("bench", 1_000_000, 3_600, predicates, [user])
}
