//! The cost of finding the rules of a request, by the number of rules.
//!
//! ```text
//! rule_mix     what the rules match, and requests that match them
//! requests     the requests of a run
//! limitador    the same with limitador, with the feature `peers`
//! ```

#[cfg(feature = "peers")]
mod limitador;
mod requests;
mod rule_mix;

use std::hint::black_box;

use tidegate_core::rules::{Apply, Rule, RuleIndex, RuleMatches};

use crate::measure::{ThreadTime, least, median};
use crate::process::{self, print_machine};
use crate::table::Table;
use requests::Requests;
use rule_mix::RuleMix;

/// The numbers of rules to compare.
const RULE_COUNTS: [usize; 4] = [10, 100, 1_000, 10_000];
/// The number of rules when timing how long an index takes to build.
const MANY_RULES: usize = 100_000;
const ROUNDS: usize = 41;
const ROUNDS_QUICK: usize = 9;

/// The rules of a mix, indexed.
struct IndexedRules {
    rules: Vec<Rule>,
    index: RuleIndex,
    requests: Requests,
    /// Nanoseconds per request in each round.
    turns: Vec<f64>,
    /// Matching rules found in the last round.
    found: usize,
}

/// Measures and prints all rule mixes.
pub fn run(quick: bool) {
    print_machine();
    let rounds = if quick { ROUNDS_QUICK } else { ROUNDS };
    let heading = std::iter::once(String::new())
        .chain(RULE_COUNTS.map(|rules| format!("{rules} rules")))
        .chain(["10,000/10".to_owned(), "by minimum".to_owned(), "found".to_owned()]);
    let mut table = Table::new("matching: CPU time per request, median ns, by the number of rules", heading);
    for mix in RuleMix::ALL {
        eprintln!("matching: {}", mix.name());
        let mut indexed = RULE_COUNTS.map(|rules| IndexedRules::new(mix, rules));
        for _ in 0..rounds {
            indexed.iter_mut().for_each(IndexedRules::turn);
        }
        table.row(row(mix, &indexed));
    }
    table.note("Three of four requests match a rule, all rules equally likely, and one matches none.");
    table.note("by minimum: the ratio of the fastest rounds. found: rules per request with 10,000 rules.");
    print!("{table}");
    print!("{}", index_building());
    #[cfg(feature = "peers")]
    print!("{}", limitador::compare(rounds));
}

impl IndexedRules {
    fn new(mix: RuleMix, number: usize) -> Self {
        let rules = mix.rules(number);
        let index = RuleIndex::new(&rules);
        Self { rules, index, requests: Requests::new(mix, number), turns: Vec::new(), found: 0 }
    }

    fn turn(&mut self) {
        let mut matches = RuleMatches::new();
        self.found = 0;
        let cpu = ThreadTime::start();
        self.requests.each(|descriptor| {
            self.index.matching_rules(&self.rules, black_box(descriptor), Apply::All, &mut matches);
            self.found += black_box(&matches).len();
        });
        self.turns.push(cpu.elapsed_ns() as f64 / self.requests.len() as f64);
    }

    fn median_ns(&self) -> f64 {
        median(self.turns.iter().copied())
    }

    fn least_ns(&self) -> f64 {
        least(self.turns.iter().copied())
    }
}

fn row(mix: RuleMix, indexed: &[IndexedRules; RULE_COUNTS.len()]) -> Vec<String> {
    let [few, .., many] = indexed;
    let times = |ratio: f64| format!("{ratio:.2}x");
    let mut cells = vec![mix.name().to_owned()];
    cells.extend(indexed.iter().map(|rules| format!("{:.0}", rules.median_ns())));
    cells.push(times(many.median_ns() / few.median_ns()));
    cells.push(times(many.least_ns() / few.least_ns()));
    cells.push(format!("{:.2}", many.found as f64 / many.requests.len() as f64));
    cells
}

/// How long it takes to build an index of many rules.
fn index_building() -> Table {
    let mut table =
        Table::new(format!("building an index of {MANY_RULES} rules"), ["", "CPU ms", "MiB grown"]);
    let resident_mib = || process::resident().map_or(0.0, |resident| resident.now_bytes as f64 / 1_048_576.0);
    for mix in RuleMix::ALL {
        let rules = mix.rules(MANY_RULES);
        let (before_mib, cpu) = (resident_mib(), ThreadTime::start());
        let index = black_box(RuleIndex::new(&rules));
        let built_ms = cpu.elapsed_ns() as f64 / 1e6;
        let grown_mib = resident_mib() - before_mib;
        table.row([mix.name().to_owned(), format!("{built_ms:.0}"), format!("{grown_mib:.0}")]);
        drop(index);
    }
    table.note("MiB grown: of the process, including freed memory that the allocator keeps.");
    table
}
