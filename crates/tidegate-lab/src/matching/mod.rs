//! What it costs to find the rules of a request, by the number of rules.
//!
//! ```text
//! mix          what the rules ask for, and requests that match them
//! requests     requests, laid out beforehand
//! limitador    the same with limitador, with the feature `peers`
//! ```

#[cfg(feature = "peers")]
mod limitador;
mod mix;
mod requests;

use std::hint::black_box;

use tidegate_core::rules::{Apply, RuleIndex, RuleMatches, Rule};

use crate::bench::{least, median, print_machine};
use crate::process;
use crate::stopwatch::ThreadTime;
use crate::table::Table;
use mix::Mix;
use requests::Requests;

/// How many rules there are.
const RULE_NUMBERS: [usize; 4] = [10, 100, 1_000, 10_000];
/// Rules of the index whose making is timed.
const MANY_RULES: usize = 100_000;
const ROUNDS: usize = 41;
const ROUNDS_QUICK: usize = 9;

/// Rules of a mix, indexed.
struct Field {
    rules: Vec<Rule>,
    index: RuleIndex,
    requests: Requests,
    /// Nanoseconds per request, of each round.
    turns: Vec<f64>,
    /// Rules found in a round.
    found: usize,
}

/// Measures and prints all mixes.
pub fn run(quick: bool) {
    print_machine();
    let rounds = if quick { ROUNDS_QUICK } else { ROUNDS };
    let heading = std::iter::once(String::new())
        .chain(RULE_NUMBERS.map(|rules| format!("{rules} rules")))
        .chain(["10,000/10".to_owned(), "least of each".to_owned(), "found".to_owned()]);
    let mut table = Table::new("matching: CPU time per request, median ns, by the number of rules", heading);
    for mix in Mix::ALL {
        eprintln!("matching: {}", mix.name());
        let mut fields = RULE_NUMBERS.map(|rules| Field::new(mix, rules));
        for _ in 0..rounds {
            fields.iter_mut().for_each(Field::turn);
        }
        table.row(row(mix, &fields));
    }
    table.note("Of four requests three match a rule, each as likely as the other, and one matches none;");
    table.note("found: rules per request with 10,000 rules. least of each: the ratio of the fastest rounds.");
    print!("{table}");
    print!("{}", making());
    #[cfg(feature = "peers")]
    print!("{}", limitador::compare(rounds));
}

impl Field {
    fn new(mix: Mix, number: usize) -> Self {
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

fn row(mix: Mix, fields: &[Field; RULE_NUMBERS.len()]) -> Vec<String> {
    let [few, .., many] = fields;
    let times = |ratio: f64| format!("{ratio:.2}x");
    let mut cells = vec![mix.name().to_owned()];
    cells.extend(fields.iter().map(|field| format!("{:.0}", field.median_ns())));
    cells.push(times(many.median_ns() / few.median_ns()));
    cells.push(times(many.least_ns() / few.least_ns()));
    cells.push(format!("{:.2}", many.found as f64 / many.requests.len() as f64));
    cells
}

/// How long it takes to make an index of very many rules.
fn making() -> Table {
    let mut table = Table::new(format!("making an index of {MANY_RULES} rules"), ["", "CPU ms", "MiB grown"]);
    let resident_mib = || process::resident().map_or(0.0, |resident| resident.now_bytes as f64 / 1_048_576.0);
    for mix in Mix::ALL {
        let rules = mix.rules(MANY_RULES);
        let (before_mib, cpu) = (resident_mib(), ThreadTime::start());
        let index = black_box(RuleIndex::new(&rules));
        let made_ms = cpu.elapsed_ns() as f64 / 1e6;
        let grown_mib = resident_mib() - before_mib;
        table.row([mix.name().to_owned(), format!("{made_ms:.0}"), format!("{grown_mib:.0}")]);
        drop(index);
    }
    table.note(
        "MiB grown: the process, with what the allocator keeps of what was needed meanwhile or before.",
    );
    table
}
