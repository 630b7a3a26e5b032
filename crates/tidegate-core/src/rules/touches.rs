//! What a request touches: the limits of all rules that apply to it, each with a key and a cost.

use std::ops::Range;
use std::sync::LazyLock;

use smallvec::SmallVec;

use super::gate::{Gate, Lineage};
use super::key_bytes::{self, Found, KeyBuffer};
use super::{
    Action, CostFrom, Descriptor, DomainRules, LimitId, Margin, Matches, Missing, Request, Rule, RuleLimit,
    Ruleset,
};
use crate::{Charge, Counter, LimitSpec, Outcome, Plan, PlanFull, Role, Timestamp, Verdict, WINDOW_NS_MIN};

/// All that a request touches.
#[derive(Clone, Debug)]
pub struct Touches<'r> {
    domain: Option<&'r DomainRules>,
    touches: SmallVec<[Touch<'r>; 4]>,
    candidates: SmallVec<[Touch<'r>; 1]>,
    keys: KeyBuffer,
    /// Limits that are somewhere else than they were written, for as long as this request takes.
    moved: Vec<Counter>,
}

/// One limit that a request touches.
#[derive(Clone, Debug)]
pub struct Touch<'r> {
    /// Which descriptor it is that touches it, from 0.
    pub descriptor: usize,
    /// The rule.
    pub rule: &'r Rule,
    /// The units.
    pub cost: u64,
    pub(super) gate: &'r Gate,
    pub(super) key: TouchKey,
    moved: Option<usize>,
    /// What the part that is always granted said, if the request turned to the pool.
    pub(super) turned_to_pool: Option<Outcome>,
}

/// Which of a limit's keys.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum TouchKey {
    /// Here among the keys.
    At(Range<usize>),
    /// The descriptor lacks a part of it, and is denied for it.
    Refused,
}

/// A plan, and what each of its charges is to the limits that the request touches.
#[derive(Debug)]
pub struct Drawn<'t> {
    /// What the store is asked for.
    pub plan: Plan<'t>,
    pub(super) lines: SmallVec<[Line; 8]>,
}

/// What a charge is to a limit.
#[derive(Clone, Copy, Debug)]
pub(super) struct Line {
    pub touch: usize,
    pub charge: usize,
    pub part: Part,
    /// When the limit goes out of force, if it does.
    pub until: Option<Timestamp>,
}

/// Which of a limit's counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Part {
    Main,
    Beside,
    Pool,
}

impl Ruleset {
    /// What a request touches. A domain that has no rules has no limits.
    pub fn touched_by(&self, request: &Request<'_>) -> Touches<'_> {
        let mut touches = Touches {
            domain: self.domain(request.domain),
            touches: SmallVec::new(),
            candidates: SmallVec::new(),
            keys: KeyBuffer::new(),
            moved: Vec::new(),
        };
        let Some(domain) = touches.domain else { return touches };
        let mut applying: SmallVec<[(usize, u32); 8]> = SmallVec::new();
        let mut matches = Matches::new();
        for (number, descriptor) in request.descriptors.iter().enumerate() {
            domain.matching(descriptor, &mut matches);
            applying.extend(matches.drain(..).map(|rule| (number, rule)));
        }
        let replaced: SmallVec<[u32; 4]> =
            applying.iter().flat_map(|(_, rule)| domain.gates_of(*rule).replaces.iter().copied()).collect();
        for (number, rule) in applying {
            if !replaced.contains(&rule) {
                touches.touch_all(domain, number, &request.descriptors[number], rule);
            }
        }
        touches
    }
}

impl<'r> Touches<'r> {
    /// The limits that are touched.
    pub fn all(&self) -> &[Touch<'r>] {
        &self.touches
    }

    /// The candidates that are touched.
    pub fn candidates(&self) -> &[Touch<'r>] {
        &self.candidates
    }

    /// Whether the request is denied whatever the store says, because a key cannot be made.
    fn is_refused(&self) -> bool {
        self.touches.iter().any(|touch| touch.key == TouchKey::Refused && touch.is_enforced())
    }

    /// The plan that charges them.
    pub fn plan(&self, now: Timestamp) -> Result<Drawn<'_>, PlanFull> {
        let mut drawn = Drawn { plan: Plan::new(), lines: SmallVec::new() };
        for (number, touch) in self.touches.iter().enumerate() {
            if let Some(key) = self.key(touch) {
                let mut drawing = Drawing { drawn: &mut drawn, touch: number, key, cost: touch.cost, now };
                self.draw(touch, &mut drawing)?;
            }
        }
        if self.is_refused() {
            // Denied whatever the others say, so that they say what they say of a request that is.
            drawn.plan.add(Charge { key: &[], counter: &REFUSING, cost: 1, role: Role::Enforced })?;
        }
        Ok(drawn)
    }

    /// The charge of a candidate; none if its key cannot be made.
    pub fn candidate_charge(&self, candidate: &Touch<'r>) -> Option<Charge<'_>> {
        let counter = &candidate.gate.main.current;
        self.key(candidate).map(|key| Charge { key, counter, cost: candidate.cost, role: Role::Enforced })
    }

    /// Lets limits turn to their pools, after which the store is to be asked again.
    pub fn turn_to_pools(&mut self, turning: &[(usize, Outcome)]) {
        for (touch, granted) in turning {
            self.touches[*touch].turned_to_pool = Some(*granted);
        }
    }

    fn draw<'t>(&'t self, touch: &'t Touch<'r>, drawing: &mut Drawing<'_, 't>) -> Result<(), PlanFull> {
        let gate = touch.gate;
        let main_role = if touch.is_enforced() { Role::Enforced } else { Role::Observed };
        match touch.moved {
            Some(moved) => drawing.charge(Part::Main, &self.moved[moved], main_role, None)?,
            None => drawing.charge(Part::Main, &gate.main.current, main_role, None)?,
        }
        drawing.retiring(Part::Main, &gate.main, main_role)?;
        match (&gate.beside, gate.pool, self.domain) {
            (_, Some(pool), Some(domain)) if touch.turned_to_pool.is_some() => {
                // Everybody's, whatever the key.
                drawing.key = &[];
                drawing.charge(Part::Pool, &domain.pools[pool], Role::Enforced, None)
            }
            (Some(beside), pool, _) => {
                let role = if pool.is_some() { Role::Enforced } else { Role::Observed };
                drawing.charge(Part::Beside, &beside.current, role, None)?;
                drawing.retiring(Part::Beside, beside, role)
            }
            (None, ..) => Ok(()),
        }
    }

    pub(super) fn key(&self, touch: &Touch<'r>) -> Option<&[u8]> {
        match &touch.key {
            TouchKey::At(range) => Some(&self.keys[range.clone()]),
            TouchKey::Refused => None,
        }
    }

    fn touch_all(&mut self, domain: &'r DomainRules, number: usize, descriptor: &Descriptor<'_>, rule: u32) {
        let gates = domain.gates_of(rule);
        let rule = &domain.rules()[rule as usize];
        for gate in gates.of(descriptor) {
            if let Some(touch) = self.touch(number, descriptor, rule, gate) {
                self.touches.push(touch);
            }
        }
        if let Some(gate) = &gates.candidate
            && let Some(touch) = self.touch(number, descriptor, rule, gate)
        {
            self.candidates.push(touch);
        }
    }

    /// The touch of a gate; none if the limit does not apply because the descriptor lacks a part of its key.
    fn touch(
        &mut self,
        number: usize,
        descriptor: &Descriptor<'_>,
        rule: &'r Rule,
        gate: &'r Gate,
    ) -> Option<Touch<'r>> {
        let (range, found) = key_bytes::write(&gate.limit.key, descriptor, &mut self.keys);
        let key = match (found, gate.limit.missing) {
            (Found::All, _) | (Found::NotAll, Missing::Shared) => TouchKey::At(range),
            (Found::NotAll, Missing::Deny) => TouchKey::Refused,
            (Found::NotAll, Missing::Skip) => return None,
        };
        let moved = gate.moved().map(|counter| {
            self.moved.push(counter);
            self.moved.len() - 1
        });
        let cost = cost(&gate.limit, descriptor);
        Some(Touch { descriptor: number, rule, cost, gate, key, moved, turned_to_pool: None })
    }
}

impl<'r> Touch<'r> {
    /// The limit and how the rule applies it.
    pub fn limit(&self) -> &'r RuleLimit {
        &self.gate.limit
    }

    /// What the limit is known by within its rule.
    pub fn id(&self) -> &'r LimitId {
        &self.gate.id
    }

    /// Whether it can keep a request from passing.
    pub fn is_enforced(&self) -> bool {
        !matches!(self.gate.limit.action, Action::Shadow | Action::Quota | Action::Soft(Margin::Unlimited))
    }
}

impl Drawn<'_> {
    /// The limits that have nothing left of what they always grant and have a pool to turn to, with what they said.
    pub fn turning(&self, touches: &Touches<'_>, outcomes: &[Outcome]) -> SmallVec<[(usize, Outcome); 1]> {
        let granted = self.lines.iter().filter(|line| {
            let touch = &touches.touches[line.touch];
            line.part == Part::Beside && touch.gate.pool.is_some()
        });
        let denied = granted.filter(|line| outcomes[line.charge].verdict == Verdict::Denied);
        denied.map(|line| (line.touch, outcomes[line.charge])).collect()
    }
}

/// A touch that is being drawn into a plan.
struct Drawing<'d, 't> {
    drawn: &'d mut Drawn<'t>,
    touch: usize,
    key: &'t [u8],
    cost: u64,
    now: Timestamp,
}

impl<'t> Drawing<'_, 't> {
    fn charge(
        &mut self,
        part: Part,
        counter: &'t Counter,
        role: Role,
        until: Option<Timestamp>,
    ) -> Result<(), PlanFull> {
        let charge = self.drawn.plan.add(Charge { key: self.key, counter, cost: self.cost, role })?;
        self.drawn.lines.push(Line { touch: self.touch, charge, part, until });
        Ok(())
    }

    fn retiring(&mut self, part: Part, lineage: &'t Lineage, role: Role) -> Result<(), PlanFull> {
        let now = self.now;
        let mut in_force = lineage.retiring.iter().filter(|old| old.is_in_force(now));
        in_force.try_for_each(|old| self.charge(part, &old.counter, role, Some(old.until)))
    }
}

/// Admits nothing.
static REFUSING: LazyLock<Counter> = LazyLock::new(|| {
    let nothing = LimitSpec::new(0, WINDOW_NS_MIN).build().expect("zero is a limit");
    Counter::known_as("", &LimitId::Place(0), nothing)
});

fn cost(limit: &RuleLimit, descriptor: &Descriptor<'_>) -> u64 {
    match (&limit.cost, descriptor.cost) {
        // Who asks for nothing only wants to know.
        (_, 0) => 0,
        (CostFrom::Request, cost) => cost,
        (CostFrom::Fixed(cost), _) => *cost,
        (CostFrom::Attribute { attribute, default }, _) => {
            descriptor.value(attribute).and_then(|value| value.parse().ok()).unwrap_or(*default)
        }
    }
}
