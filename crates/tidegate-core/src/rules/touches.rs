//! What a request touches: the limits of all rules that apply to it, each with a key and a cost.

use std::ops::Range;

use smallvec::SmallVec;

use super::answer::Said;
use super::gate::{Gate, Lineage};
use super::key_bytes::{self, Found, KeyBuffer};
use super::refusing::REFUSING;
use super::{
    CostFrom, Descriptor, DomainRules, LimitId, Matches, Missing, Request, Rule, RuleLimit, Ruleset,
};
use crate::{Charge, Counter, Outcome, Plan, PlanFull, Role, Timestamp, Verdict};

/// All that a request touches.
#[derive(Clone, Debug)]
pub struct Touches<'r> {
    pub(super) domain: Option<&'r DomainRules>,
    pub(super) touches: SmallVec<[Touch<'r>; 4]>,
    candidates: Vec<Touch<'r>>,
    pub(super) keys: KeyBuffer,
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
    /// Where L is, if not where it was written.
    pub(super) moved: Option<Moved>,
    /// What the part that is always granted said, if the request turned to the pool.
    ///
    /// Boxed, for hardly any request does, and all touches are moved about.
    pub(super) turned_to_pool: Option<Box<Outcome>>,
}

/// A limit that is somewhere else than it was written.
#[derive(Clone, Copy, Debug)]
pub(super) struct Moved {
    /// L.
    pub units: u64,
    /// Its place among those that are.
    place: usize,
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
    pub(super) lines: SmallVec<[Line; 4]>,
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
    /// What a request touches. A domain that has no rules has no limits but those that requests bring along.
    pub fn touched_by(&self, request: &Request<'_>) -> Touches<'_> {
        let mut touches = Touches {
            domain: self.domain(request.domain),
            touches: SmallVec::new(),
            candidates: Vec::new(),
            keys: KeyBuffer::new(),
            moved: Vec::new(),
        };
        if let Some(domain) = touches.domain {
            touches.touch_rules(domain, request);
        }
        for (number, descriptor) in request.descriptors.iter().enumerate() {
            if let Some(limit) = descriptor.limit {
                touches.touch_own(request.domain, number, descriptor, limit);
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

    /// The plan that charges them. Limits on their way out are in it as far as there is room.
    pub fn plan(&self, now: Timestamp) -> Result<Drawn<'_>, PlanFull> {
        let mut drawn = Drawn { plan: Plan::new(), lines: SmallVec::new() };
        self.draw(&mut drawn, |counted| counted.until.is_none())?;
        if self.is_refused() {
            // Denied whatever the others say, so that they say what they say of a request that is. Nothing is ever kept
            // for it; its key is that of another one, and of the same form, for a store that keeps what belongs to a key
            // together.
            let first = drawn.plan.charges().first();
            let (key, form) =
                first.map_or_else(Default::default, |charge| (charge.key, charge.counter.key_form()));
            let counter = REFUSING.of(form);
            drawn.plan.add(Charge { key, counter, cost: 1, role: Role::Enforced })?;
        }
        // A change that was made in time must not be what keeps requests from being decided.
        let _ = self.draw(&mut drawn, |counted| counted.until.is_some_and(|until| now < until));
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
            self.touches[*touch].turned_to_pool = Some(Box::new(*granted));
        }
    }

    fn draw<'t>(
        &'t self,
        drawn: &mut Drawn<'t>,
        wanted: impl Fn(&Counted<'_>) -> bool,
    ) -> Result<(), PlanFull> {
        for (number, touch) in self.touches.iter().enumerate() {
            let Some(key) = self.key(touch) else { continue };
            for Counted { part, counter, role, until } in self.counted(touch).filter(&wanted) {
                // A pool is everybody's, whatever the key.
                let key = if part == Part::Pool { &[] } else { key };
                let charge = drawn.plan.add(Charge { key, counter, cost: touch.cost, role })?;
                drawn.lines.push(Line { touch: number, charge, part, until });
            }
        }
        Ok(())
    }

    /// The counters of a limit.
    fn counted<'t>(&'t self, touch: &'t Touch<'r>) -> impl Iterator<Item = Counted<'t>> {
        let gate = touch.gate;
        let role = touch.role();
        let main = counters_of(&gate.main).map(move |(counter, until)| {
            // Those on their way out have windows of their own, to which its units do not belong.
            let moved = touch.moved.filter(|_| until.is_none());
            let counter = moved.map_or(counter, |moved| &self.moved[moved.place]);
            Counted { part: Part::Main, counter, role, until }
        });
        let second = match (gate.pool.zip(self.domain), &gate.beside) {
            (Some((pool, domain)), _) if touch.turned_to_pool.is_some() => {
                Some((Part::Pool, &domain.pools[pool].1, Role::Enforced))
            }
            (Some(_), Some(granted)) => Some((Part::Beside, granted, Role::Enforced)),
            (None, Some(soft)) => Some((Part::Beside, soft, Role::Observed)),
            (_, None) => None,
        };
        let second = second.into_iter().flat_map(|(part, lineage, role)| {
            counters_of(lineage).map(move |(counter, until)| Counted { part, counter, role, until })
        });
        main.chain(second)
    }

    pub(super) fn key(&self, touch: &Touch<'r>) -> Option<&[u8]> {
        match &touch.key {
            TouchKey::At(range) => Some(&self.keys[range.clone()]),
            TouchKey::Refused => None,
        }
    }

    /// Touches the limits of all rules that apply to the descriptors which have none of their own.
    fn touch_rules(&mut self, domain: &'r DomainRules, request: &Request<'_>) {
        let mut applying: SmallVec<[(usize, u32); 8]> = SmallVec::new();
        let mut matches = Matches::new();
        for (number, descriptor) in request.descriptors.iter().enumerate() {
            if descriptor.limit.is_none() {
                domain.matching(descriptor, &mut matches);
                applying.extend(matches.drain(..).map(|rule| (number, rule)));
            }
        }
        let replaces = |other: u32, rule: u32| domain.gates_of(other).replaces.binary_search(&rule).is_ok();
        for (number, rule) in &applying {
            if !applying.iter().any(|(_, other)| replaces(*other, *rule)) {
                self.touch_all(domain, *number, &request.descriptors[*number], *rule);
            }
        }
    }

    pub(super) fn moved_to(&mut self, gate: &Gate, units: u64) -> Moved {
        self.moved.push(gate.main.current.resized(units));
        Moved { units, place: self.moved.len() - 1 }
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
        let moved = gate.units_now().map(|units| self.moved_to(gate, units));
        let cost = cost(&gate.limit, descriptor);
        Some(Touch { descriptor: number, rule, cost, gate, key, moved, turned_to_pool: None })
    }
}

impl<'r> Touch<'r> {
    /// The limit and how the rule applies it.
    pub fn limit(&self) -> &'r RuleLimit {
        &self.gate.limit
    }

    /// What the limit is called within its rule: its name, or its place.
    pub fn id(&self) -> &'r LimitId {
        &self.gate.id
    }

    /// Whether it can keep a request from passing.
    pub fn is_enforced(&self) -> bool {
        self.gate.limit.is_enforced()
    }

    pub(super) fn role(&self) -> Role {
        if self.is_enforced() { Role::Enforced } else { Role::Observed }
    }
}

impl Drawn<'_> {
    /// The limits that have nothing left of what they always grant and have a pool to turn to, with what they said.
    pub fn turning(
        &self,
        touches: &Touches<'_>,
        outcomes: &[Outcome],
        now: Timestamp,
    ) -> SmallVec<[(usize, Outcome); 1]> {
        let grants = |number: &usize| {
            let touch = &touches.touches[*number];
            touch.gate.pool.is_some() && touch.turned_to_pool.is_none()
        };
        let granted = (0..touches.touches.len()).filter(grants).filter_map(|number| {
            let said = Said { lines: &self.lines, touch: number, outcomes, now };
            Some((number, said.of(Part::Beside)?))
        });
        granted.filter(|(_, granted)| granted.verdict == Verdict::Denied).collect()
    }

    /// The limits that charges are made for, each with the charge's place in the plan. A charge may be for several, and
    /// one that is for none refuses what lacks a part of its key.
    pub fn charged<'d, 'r>(
        &'d self,
        touches: &'d Touches<'r>,
    ) -> impl Iterator<Item = (usize, &'d Touch<'r>)> {
        self.lines.iter().map(|line| (line.charge, &touches.touches[line.touch]))
    }

    /// Whether it is denied whatever the store says, and nothing would be left of that: then it need only be looked at. Where
    /// its keys are in several places, charging it would take units from some of them that are to be given back.
    pub fn is_denied_without_trace(&self) -> bool {
        let charges = self.plan.charges();
        charges.iter().any(|charge| REFUSING.is(charge.counter))
            && charges.iter().any(|charge| charge.key != charges[0].key)
            && !charges.iter().any(|charge| charge.counter.algorithm().counts_denied())
    }

    /// Whether limits may turn to pools, and attempts are counted beside them: then it has to be known beforehand which
    /// do, or an attempt would be counted each time that the store is asked.
    pub fn is_to_be_foreseen(&self, touches: &Touches<'_>) -> bool {
        let turns = |touch: &Touch<'_>| touch.gate.pool.is_some() && touch.turned_to_pool.is_none();
        let counts = |charge: &Charge<'_>| charge.counter.algorithm().counts_denied();
        touches.touches.iter().any(turns) && self.plan.charges().iter().any(counts)
    }
}

/// A counter of a limit, and what it is to it.
struct Counted<'t> {
    part: Part,
    counter: &'t Counter,
    role: Role,
    until: Option<Timestamp>,
}

/// A counter, and those that it took the place of with when they go.
pub(super) fn counters_of(lineage: &Lineage) -> impl Iterator<Item = (&Counter, Option<Timestamp>)> {
    let retiring = lineage.retiring.iter().map(|old| (&old.counter, Some(old.until)));
    std::iter::once((&lineage.current, None)).chain(retiring)
}

fn cost(limit: &RuleLimit, descriptor: &Descriptor<'_>) -> u64 {
    match (&limit.cost, descriptor.cost) {
        // Who asks for nothing only wants to know.
        (_, 0) => 0,
        (CostFrom::Request, cost) => cost,
        (CostFrom::Fixed(cost), _) => *cost,
        (CostFrom::Attribute { attribute, default }, _) => {
            descriptor.value(attribute).and_then(whole_number).unwrap_or(*default)
        }
    }
}

/// A whole number; one that is larger than any is the largest, so that nobody gets it for less.
fn whole_number(text: &str) -> Option<u64> {
    let is_number = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| text.parse().unwrap_or(u64::MAX))
}
