//! Random requests that acquire, renew and release, against a list that is counted again at every step.

use proptest::prelude::*;
use tidegate::rules::AnswerKind;
use tidegate::{LeaseToken, Release, Renewal};
use tidegate_testing::proptest_config;

use crate::engine::fixture::EngineFixture;
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

/// A limit for each user and one for all, which may be only observed, and a rate.
fn file(user_limit: u64, is_observed: bool) -> String {
    let action = if is_observed { "shadow" } else { "reject" };
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
    /// None if it was taken by a check.
    token: Option<LeaseToken>,
}

struct Model {
    now: u64,
    is_observed: bool,
    user_limit: u64,
    leases: Vec<ModelLease>,
    /// By user: the window and the count.
    rates: [(u64, u64); 2],
}

impl Model {
    fn is_live(&self, lease: &ModelLease) -> bool {
        !lease.released && lease.expires > self.now
    }

    fn units(&self, is_counted: impl Fn(&ModelLease) -> bool) -> u64 {
        self.leases
            .iter()
            .filter(|lease| self.is_live(lease) && is_counted(lease))
            .map(|lease| lease.units)
            .sum()
    }

    fn ttl(&self) -> u64 {
        if self.is_observed { USER_TTL_S } else { USER_TTL_S.min(ALL_TTL_S) }
    }

    /// The answer to a request. Charges it if it passes.
    fn decide(&mut self, user: usize, cost: u64) -> AnswerKind {
        let window = self.now / RATE_S;
        let count = if self.rates[user].0 == window { self.rates[user].1 } else { 0 };
        let user_fits = self.units(|lease| lease.user == user) + cost <= self.user_limit;
        let all_fit = self.units(|_| true) + cost <= ALL_LIMIT;
        let denied = !user_fits || count + cost > RATE || (!all_fit && !self.is_observed);
        if denied {
            return AnswerKind::Denied;
        }
        self.rates[user] = (window, count + cost);
        if all_fit { AnswerKind::Allowed } else { AnswerKind::ShadowDenied }
    }

    fn add_lease(&mut self, user: usize, units: u64, token: Option<LeaseToken>) {
        self.leases.push(ModelLease { user, units, expires: self.now + self.ttl(), released: false, token });
    }
}

fn apply(fixture: &EngineFixture, model: &mut Model, op: ModelOp) -> Result<(), TestCaseError> {
    let tokens: Vec<usize> = (0..model.leases.len()).filter(|at| model.leases[*at].token.is_some()).collect();
    let pick = |index: prop::sample::Index| (!tokens.is_empty()).then(|| *index.get(&tokens));
    match op {
        ModelOp::Acquire { user, cost } => {
            let (answer, lease) = fixture.acquire_for(USERS[user], cost, None);
            let kind = model.decide(user, cost);
            prop_assert_eq!(answer.kind, kind);
            prop_assert_eq!(lease.is_some(), kind.passes() && cost > 0);
            if let Some(lease) = lease {
                model.add_lease(user, cost, Some(lease.token));
                prop_assert_eq!(lease.expires.as_nanos(), (model.now + model.ttl()) * 1_000_000_000);
            }
        }
        ModelOp::Check { user } => {
            let kind = model.decide(user, 1);
            prop_assert_eq!(fixture.check(USERS[user]).kind, kind);
            if kind.passes() {
                model.add_lease(user, 1, None);
            }
        }
        ModelOp::Renew(index) => {
            let Some(at) = pick(index) else { return Ok(()) };
            let (is_live, ttl) = (model.is_live(&model.leases[at]), model.ttl());
            let model_lease = &mut model.leases[at];
            let renewal = fixture.renew(USERS[model_lease.user], &model_lease.token.unwrap());
            match renewal {
                Renewal::Renewed(lease) => {
                    prop_assert!(is_live);
                    model_lease.expires = model.now + ttl;
                    model_lease.token = Some(lease.token);
                    prop_assert_eq!(lease.expires.as_nanos(), model_lease.expires * 1_000_000_000);
                }
                Renewal::AlreadyReleased | Renewal::Expired => prop_assert!(!is_live),
                _ => prop_assert!(false, "{renewal:?}"),
            }
        }
        ModelOp::Release(index) => {
            let Some(at) = pick(index) else { return Ok(()) };
            let is_live = model.is_live(&model.leases[at]);
            let lease = &mut model.leases[at];
            let token = lease.token.unwrap();
            prop_assert_eq!(fixture.release(USERS[1 - lease.user], &token) == Release::Released, false);
            prop_assert_eq!(fixture.release(USERS[lease.user], &token) == Release::Released, is_live);
            lease.released |= is_live;
        }
        ModelOp::Ahead(seconds) => {
            fixture.advance(seconds);
            model.now += seconds;
        }
        ModelOp::Reload { user_limit } => {
            fixture.reload(&file(user_limit, model.is_observed));
            model.user_limit = user_limit;
        }
    }
    Ok(())
}

fn leases_by_rules_agree_with_the_model(setup: Setup) {
    proptest!(proptest_config(250), |(ops in prop::collection::vec(op(), 1..60), is_observed: bool)| {
        let fixture = setup.fixture(&file(2, is_observed));
        let mut model =
            Model { now: 0, is_observed, user_limit: 2, leases: Vec::new(), rates: [(0, 0); 2] };
        for op in ops {
            apply(&fixture, &mut model, op)?;
        }
    });
}

over_each_store!(leases_by_rules_agree_with_the_model,);
