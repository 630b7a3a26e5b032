//! Random requests that hold, renew and give back, against a list that is counted again at every step.

use proptest::prelude::*;
use tidegate::rules::Fate;
use tidegate::{LeaseToken, Release, Renewal};
use tidegate_testing::cases;

use crate::engine::bench::Bench;
use crate::engine::setup::{Setup, over_each_store};

const USERS: [&str; 2] = ["user=1", "user=2"];
const USER_TTL_S: u64 = 20;
const ALL_TTL_S: u64 = 10;
const ALL_LIMIT: u64 = 4;
const RATE: u64 = 7;
const RATE_S: u64 = 30;

#[derive(Clone, Copy, Debug)]
enum Op {
    Acquire { user: usize, cost: u64 },
    Check { user: usize },
    Renew(prop::sample::Index),
    Release(prop::sample::Index),
    Ahead(u64),
    Reload { user_limit: u64 },
}

fn op() -> impl Strategy<Value = Op> {
    prop_oneof![
        6 => (0..2usize, 0..3u64).prop_map(|(user, cost)| Op::Acquire { user, cost }),
        1 => (0..2usize).prop_map(|user| Op::Check { user }),
        2 => any::<prop::sample::Index>().prop_map(Op::Renew),
        4 => any::<prop::sample::Index>().prop_map(Op::Release),
        3 => (0..12u64).prop_map(Op::Ahead),
        1 => (1..4u64).prop_map(|user_limit| Op::Reload { user_limit }),
    ]
}

/// A limit for each user and one for all, which may only look on, and a rate.
fn file(user_limit: u64, looks_on: bool) -> String {
    let action = if looks_on { "shadow" } else { "reject" };
    format!(
        "domain: api\nrules:\n\
         - {{ name: user, key: [user], limit: {{ algorithm: concurrency, limit: {user_limit}, ttl: {USER_TTL_S}s }} }}\n\
         - {{ name: all, limit: {{ algorithm: concurrency, limit: {ALL_LIMIT}, ttl: {ALL_TTL_S}s }}, action: {action} }}\n\
         - {{ name: rate, key: [user], limit: {{ algorithm: fixed_window, limit: {RATE} per {RATE_S}s }} }}\n"
    )
}

struct Held {
    user: usize,
    units: u64,
    expires: u64,
    released: bool,
    /// None: taken by a check.
    token: Option<LeaseToken>,
}

struct Model {
    now: u64,
    looks_on: bool,
    user_limit: u64,
    held: Vec<Held>,
    /// By user: the window and the count.
    rates: [(u64, u64); 2],
}

impl Model {
    fn is_live(&self, held: &Held) -> bool {
        !held.released && held.expires > self.now
    }

    fn units(&self, wanted: impl Fn(&Held) -> bool) -> u64 {
        self.held.iter().filter(|held| self.is_live(held) && wanted(held)).map(|held| held.units).sum()
    }

    fn ttl(&self) -> u64 {
        if self.looks_on { USER_TTL_S } else { USER_TTL_S.min(ALL_TTL_S) }
    }

    /// What becomes of a request, charged if it passes.
    fn decide(&mut self, user: usize, cost: u64) -> Fate {
        let window = self.now / RATE_S;
        let count = if self.rates[user].0 == window { self.rates[user].1 } else { 0 };
        let user_fits = self.units(|held| held.user == user) + cost <= self.user_limit;
        let all_fit = self.units(|_| true) + cost <= ALL_LIMIT;
        let denied = !user_fits || count + cost > RATE || (!all_fit && !self.looks_on);
        if denied {
            return Fate::Denied;
        }
        self.rates[user] = (window, count + cost);
        if all_fit { Fate::Allowed } else { Fate::ShadowDenied }
    }

    fn hold(&mut self, user: usize, units: u64, token: Option<LeaseToken>) {
        self.held.push(Held { user, units, expires: self.now + self.ttl(), released: false, token });
    }
}

fn apply(bench: &Bench, model: &mut Model, op: Op) -> Result<(), TestCaseError> {
    let tokens: Vec<usize> = (0..model.held.len()).filter(|at| model.held[*at].token.is_some()).collect();
    let pick = |index: prop::sample::Index| (!tokens.is_empty()).then(|| *index.get(&tokens));
    match op {
        Op::Acquire { user, cost } => {
            let (told, lease) = bench.acquire_for(USERS[user], cost, None);
            let fate = model.decide(user, cost);
            prop_assert_eq!(told.fate, fate);
            prop_assert_eq!(lease.is_some(), fate.passes() && cost > 0);
            if let Some(lease) = lease {
                model.hold(user, cost, Some(lease.token));
                prop_assert_eq!(lease.expires.as_nanos(), (model.now + model.ttl()) * 1_000_000_000);
            }
        }
        Op::Check { user } => {
            let fate = model.decide(user, 1);
            prop_assert_eq!(bench.ask(USERS[user]).fate, fate);
            if fate.passes() {
                model.hold(user, 1, None);
            }
        }
        Op::Renew(index) => {
            let Some(at) = pick(index) else { return Ok(()) };
            let (live, ttl) = (model.is_live(&model.held[at]), model.ttl());
            let held = &mut model.held[at];
            let renewal = bench.renew(USERS[held.user], &held.token.unwrap());
            match renewal {
                Renewal::Renewed(lease) => {
                    prop_assert!(live);
                    held.expires = model.now + ttl;
                    held.token = Some(lease.token);
                    prop_assert_eq!(lease.expires.as_nanos(), held.expires * 1_000_000_000);
                }
                Renewal::AlreadyReleased | Renewal::Expired => prop_assert!(!live),
                _ => prop_assert!(false, "{renewal:?}"),
            }
        }
        Op::Release(index) => {
            let Some(at) = pick(index) else { return Ok(()) };
            let live = model.is_live(&model.held[at]);
            let held = &mut model.held[at];
            let token = held.token.unwrap();
            prop_assert_eq!(bench.release(USERS[1 - held.user], &token) == Release::Released, false);
            prop_assert_eq!(bench.release(USERS[held.user], &token) == Release::Released, live);
            held.released |= live;
        }
        Op::Ahead(seconds) => {
            bench.advance(seconds);
            model.now += seconds;
        }
        Op::Reload { user_limit } => {
            bench.reload(&file(user_limit, model.looks_on));
            model.user_limit = user_limit;
        }
    }
    Ok(())
}

fn leases_by_rules_agree_with_the_model(setup: Setup) {
    proptest!(cases(250), |(ops in prop::collection::vec(op(), 1..60), looks_on: bool)| {
        let bench = setup.bench(&file(2, looks_on));
        let mut model =
            Model { now: 0, looks_on, user_limit: 2, held: Vec::new(), rates: [(0, 0); 2] };
        for op in ops {
            apply(&bench, &mut model, op)?;
        }
    });
}

over_each_store!(leases_by_rules_agree_with_the_model,);
