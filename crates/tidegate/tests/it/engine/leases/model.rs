//! Random requests that hold, renew and give back, against a list that is counted again at every step.

use proptest::prelude::*;
use tidegate::rules::AnswerKind;
use tidegate::{LeaseToken, Release, Renewal};
use tidegate_testing::proptest_config;

use crate::engine::bench::EngineFixture;
use crate::engine::setup::{Setup, over_each_store};

const USERS: [&str; 2] = ["user=1", "user=2"];
const USER_TTL_S: u64 = 20;
const ALL_TTL_S: u64 = 10;
const ALL_LIMIT: u64 = 4;
const RATE: u64 = 7;
const RATE_S: u64 = 30;

#[derive(Clone, Copy, Debug)]
enum ModelOp {
    Acquire { user: usize, cost: u64 },
    Check { user: usize },
    Renew(prop::sample::Index),
    Release(prop::sample::Index),
    Ahead(u64),
    Reload { user_limit: u64 },
}

fn op() -> impl Strategy<Value = ModelOp> {
    prop_oneof![
        6 => (0..2usize, 0..3u64).prop_map(|(user, cost)| ModelOp::Acquire { user, cost }),
        1 => (0..2usize).prop_map(|user| ModelOp::Check { user }),
        2 => any::<prop::sample::Index>().prop_map(ModelOp::Renew),
        4 => any::<prop::sample::Index>().prop_map(ModelOp::Release),
        3 => (0..12u64).prop_map(ModelOp::Ahead),
        1 => (1..4u64).prop_map(|user_limit| ModelOp::Reload { user_limit }),
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

struct ModelLease {
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
    held: Vec<ModelLease>,
    /// By user: the window and the count.
    rates: [(u64, u64); 2],
}

impl Model {
    fn is_live(&self, held: &ModelLease) -> bool {
        !held.released && held.expires > self.now
    }

    fn units(&self, wanted: impl Fn(&ModelLease) -> bool) -> u64 {
        self.held.iter().filter(|held| self.is_live(held) && wanted(held)).map(|held| held.units).sum()
    }

    fn ttl(&self) -> u64 {
        if self.looks_on { USER_TTL_S } else { USER_TTL_S.min(ALL_TTL_S) }
    }

    /// What becomes of a request, charged if it passes.
    fn decide(&mut self, user: usize, cost: u64) -> AnswerKind {
        let window = self.now / RATE_S;
        let count = if self.rates[user].0 == window { self.rates[user].1 } else { 0 };
        let user_fits = self.units(|held| held.user == user) + cost <= self.user_limit;
        let all_fit = self.units(|_| true) + cost <= ALL_LIMIT;
        let denied = !user_fits || count + cost > RATE || (!all_fit && !self.looks_on);
        if denied {
            return AnswerKind::Denied;
        }
        self.rates[user] = (window, count + cost);
        if all_fit { AnswerKind::Allowed } else { AnswerKind::ShadowDenied }
    }

    fn hold(&mut self, user: usize, units: u64, token: Option<LeaseToken>) {
        self.held.push(ModelLease { user, units, expires: self.now + self.ttl(), released: false, token });
    }
}

fn apply(bench: &EngineFixture, model: &mut Model, op: ModelOp) -> Result<(), TestCaseError> {
    let tokens: Vec<usize> = (0..model.held.len()).filter(|at| model.held[*at].token.is_some()).collect();
    let pick = |index: prop::sample::Index| (!tokens.is_empty()).then(|| *index.get(&tokens));
    match op {
        ModelOp::Acquire { user, cost } => {
            let (told, lease) = bench.acquire_for(USERS[user], cost, None);
            let fate = model.decide(user, cost);
            prop_assert_eq!(told.kind, fate);
            prop_assert_eq!(lease.is_some(), fate.passes() && cost > 0);
            if let Some(lease) = lease {
                model.hold(user, cost, Some(lease.token));
                prop_assert_eq!(lease.expires.as_nanos(), (model.now + model.ttl()) * 1_000_000_000);
            }
        }
        ModelOp::Check { user } => {
            let fate = model.decide(user, 1);
            prop_assert_eq!(bench.check(USERS[user]).kind, fate);
            if fate.passes() {
                model.hold(user, 1, None);
            }
        }
        ModelOp::Renew(index) => {
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
        ModelOp::Release(index) => {
            let Some(at) = pick(index) else { return Ok(()) };
            let live = model.is_live(&model.held[at]);
            let held = &mut model.held[at];
            let token = held.token.unwrap();
            prop_assert_eq!(bench.release(USERS[1 - held.user], &token) == Release::Released, false);
            prop_assert_eq!(bench.release(USERS[held.user], &token) == Release::Released, live);
            held.released |= live;
        }
        ModelOp::Ahead(seconds) => {
            bench.advance(seconds);
            model.now += seconds;
        }
        ModelOp::Reload { user_limit } => {
            bench.reload(&file(user_limit, model.looks_on));
            model.user_limit = user_limit;
        }
    }
    Ok(())
}

fn leases_by_rules_agree_with_the_model(setup: Setup) {
    proptest!(proptest_config(250), |(ops in prop::collection::vec(op(), 1..60), looks_on: bool)| {
        let bench = setup.fixture(&file(2, looks_on));
        let mut model =
            Model { now: 0, looks_on, user_limit: 2, held: Vec::new(), rates: [(0, 0); 2] };
        for op in ops {
            apply(&bench, &mut model, op)?;
        }
    });
}

over_each_store!(leases_by_rules_agree_with_the_model,);
