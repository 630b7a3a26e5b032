//! An explanation as people read it.

use std::fmt;

use tidegate_core::Outcome;
use tidegate_core::Wait;
use tidegate_core::rules::{Asked, LimitAnswer, LimitId};

use super::{ExplainedDescriptor, ExplainedLimit, Explanation, Standing};

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.is_known {
            let so = if self.answer.limits().len() == 0 { ", so nothing is limited" } else { "" };
            writeln!(f, "domain {}: has no rules{so}", self.domain)?;
        }
        for (number, descriptor) in self.descriptors.iter().enumerate() {
            writeln!(f, "descriptor {}: {}", number + 1, descriptor.attributes)?;
            write_rules(f, descriptor)?;
        }
        write!(f, "decision: {}", self.answer.fate.as_str())?;
        if let Some(decider) = self.answer.decider() {
            write!(f, " by {}, {}", name_of(&decider), numbers(decider.asked, decider.outcome))?;
        }
        if self.answer.retry_after > Wait::NONE {
            write!(f, ", retry after {}", self.answer.retry_after)?;
        }
        writeln!(f)
    }
}

/// The rule and the limit, as in `login/per-ip` or `login limit 1`.
fn name_of(limit: &LimitAnswer<'_>) -> String {
    match limit.id {
        LimitId::Name(name) => format!("{}/{name}", limit.rule.name),
        LimitId::Place(place) => format!("{} limit {}", limit.rule.name, place + 1),
    }
}

fn numbers(asked: Asked, outcome: &Outcome) -> String {
    match asked {
        Asked::Yes => format!("{} remaining", outcome.remaining),
        Asked::KeyMissing => "part of the key is missing".to_owned(),
    }
}

fn write_rules(f: &mut fmt::Formatter<'_>, descriptor: &ExplainedDescriptor) -> fmt::Result {
    for explained in &descriptor.rules {
        write!(f, "  rule {}: ", explained.rule)?;
        match &explained.standing {
            Standing::Applies(limits) if limits.is_empty() => writeln!(f, "applies, and limits nothing")?,
            Standing::Applies(limits) => {
                writeln!(f, "applies")?;
                limits.iter().try_for_each(|limit| write_limit(f, limit))?;
            }
            Standing::Mismatch(why) => writeln!(f, "does not match: {why}")?,
            Standing::Behind(first) => writeln!(f, "matches, but {} comes first", first)?,
            Standing::ReplacedBy(other) => writeln!(f, "matches, but {} replaces it", other)?,
        }
    }
    match descriptor.rules_left_out {
        0 => Ok(()),
        more => writeln!(f, "  and {more} more rules that do not apply"),
    }
}

fn write_limit(f: &mut fmt::Formatter<'_>, limit: &ExplainedLimit) -> fmt::Result {
    let ExplainedLimit { spec, key, asked, cost, fate, outcome, .. } = limit;
    let kind = if limit.is_candidate { "candidate" } else { "limit" };
    let key = if key.is_empty() { "everyone" } else { key };
    write!(f, "    {kind} {}, key {key}, cost {cost}: ", spec)?;
    write!(f, "{}, {}", fate.as_str(), numbers(*asked, outcome))?;
    if outcome.retry_after > Wait::NONE {
        write!(f, ", retry after {}", outcome.retry_after)?;
    }
    if outcome.delay.get() > 0 {
        write!(f, ", delay {}", outcome.delay)?;
    }
    writeln!(f, ", reset after {}", outcome.reset_after)
}
