//! Leases against the simplest model: a list that is counted again at every step.

use std::time::Duration;

use proptest::prelude::*;
use tidegate::{
    Clock, Decision, FencingToken, Lease, LeaseToken, Limiter, ManualClock, Nanos, Release, Renewal,
    Timestamp, Wait,
};

const KEY: &str = "key";
const LIMIT: u64 = 5;
const TTL_NS: u64 = 3_000_000;
/// The shortest ttl of a lease.
const TTL_NS_MIN: u64 = 1_000_000;

/// One lease that was granted, and all its tokens.
struct ModelLease {
    units: u64,
    expires_ns: u64,
    ttl_ns: u64,
    is_released: bool,
    fence: FencingToken,
    tokens: Vec<LeaseToken>,
}

#[derive(Default)]
struct Model {
    leases: Vec<ModelLease>,
    /// Leases without a token: units and end.
    checked: Vec<(u64, u64)>,
    last_fence: u64,
    /// The latest instant at which anything was written. None if the key is as good as never seen.
    written_ns: Option<u64>,
    now_ns: u64,
}

impl Model {
    fn instant_ns(&self) -> u64 {
        self.written_ns.unwrap_or(0).max(self.now_ns)
    }

    fn write(&mut self) {
        self.written_ns = Some(self.instant_ns());
    }

    fn live(&self) -> Vec<(u64, u64)> {
        let lease = self
            .leases
            .iter()
            .filter(|lease| !lease.is_released)
            .map(|lease| (lease.expires_ns, lease.units));
        let checked = self.checked.iter().map(|(units, expires_ns)| (*expires_ns, *units));
        let mut live: Vec<_> =
            lease.chain(checked).filter(|(expires_ns, _)| *expires_ns > self.instant_ns()).collect();
        live.sort_unstable();
        live
    }

    fn in_flight(&self) -> u64 {
        self.live().iter().map(|(_, units)| units).sum()
    }

    /// When `units` fit, counted from now.
    fn retry_after(&self, units: u64) -> Wait {
        let (mut left, live) = (self.in_flight(), self.live());
        if units > LIMIT {
            return Wait::NEVER;
        }
        for (expires_ns, freed) in live {
            left -= freed;
            if left + units <= LIMIT {
                return Wait::of(Nanos::new(u128::from(expires_ns - self.now_ns)));
            }
        }
        Wait::NONE
    }

    /// Checks the decision of an acquire or a check of `units`. Charges it if it is allowed.
    fn decides(&mut self, units: u64, decision: &Decision) -> Result<bool, TestCaseError> {
        let fits = self.in_flight() + units <= LIMIT;
        prop_assert_eq!(decision.is_allowed(), fits);
        let left = LIMIT - self.in_flight() - if fits { units } else { 0 };
        prop_assert_eq!(decision.remaining, left);
        prop_assert_eq!(decision.retry_after, if fits { Wait::NONE } else { self.retry_after(units) });
        prop_assert_eq!(decision.delay, Nanos::ZERO);
        if fits && units > 0 {
            self.write();
            self.last_fence = (self.last_fence + 1).max(self.instant_ns() / 1_000);
        }
        Ok(fits)
    }

    /// Checks a new lease, and adds it.
    fn grants(&mut self, units: u64, ttl_ns: u64, lease: &Lease) -> Result<(), TestCaseError> {
        let expires_ns = self.instant_ns() + ttl_ns;
        prop_assert_eq!(lease.expires.as_nanos(), expires_ns);
        prop_assert_eq!(lease.fence, FencingToken::new(self.last_fence));
        prop_assert!(lease.fence.get() >= self.instant_ns() / 1_000);
        let tokens = vec![lease.token];
        self.leases.push(ModelLease {
            units,
            expires_ns,
            ttl_ns,
            is_released: false,
            fence: lease.fence,
            tokens,
        });
        Ok(())
    }

    /// Why a lease is missing, judged by the token that was presented.
    fn expected_release(&self, presented_expires_ns: u64) -> Release {
        if presented_expires_ns <= self.instant_ns() { Release::Expired } else { Release::AlreadyReleased }
    }
}

#[derive(Clone, Copy, Debug)]
enum PresentedToken {
    Newest,
    Oldest,
    OnAnotherKey,
    Garbled(usize),
}

#[derive(Clone, Copy, Debug)]
enum ModelOp {
    Acquire(u64),
    AcquireFor(u64, u64),
    Check(u64),
    Renew(prop::sample::Index, PresentedToken),
    Release(prop::sample::Index, PresentedToken),
    Ahead(u64),
    Back(u64),
    Reset,
}

fn op() -> impl Strategy<Value = ModelOp> {
    let presented = || {
        prop_oneof![
            6 => Just(PresentedToken::Newest),
            2 => Just(PresentedToken::Oldest),
            1 => Just(PresentedToken::OnAnotherKey),
            1 => (0_usize..64).prop_map(PresentedToken::Garbled),
        ]
    };
    let index = any::<prop::sample::Index>;
    prop_oneof![
        6 => (0_u64..=LIMIT + 1).prop_map(ModelOp::Acquire),
        3 => (1_u64..=LIMIT, 1_u64..2 * TTL_NS).prop_map(|(units, ttl_ns)| ModelOp::AcquireFor(units, ttl_ns)),
        2 => (0_u64..=LIMIT + 1).prop_map(ModelOp::Check),
        4 => (index(), presented()).prop_map(|(lease, presented)| ModelOp::Renew(lease, presented)),
        4 => (index(), presented()).prop_map(|(lease, presented)| ModelOp::Release(lease, presented)),
        4 => prop_oneof![0_u64..2_000, 0..TTL_NS, Just(TTL_NS)].prop_map(ModelOp::Ahead),
        1 => (0..TTL_NS).prop_map(ModelOp::Back),
        1 => Just(ModelOp::Reset),
    ]
}

/// The key and the token to present, and whether the store has to know them.
fn present(lease: &ModelLease, presented: PresentedToken) -> (&'static str, LeaseToken, bool) {
    let newest = *lease.tokens.last().unwrap();
    match presented {
        PresentedToken::Newest => (KEY, newest, true),
        PresentedToken::Oldest => (KEY, lease.tokens[0], true),
        PresentedToken::OnAnotherKey => ("another key", newest, false),
        PresentedToken::Garbled(digit) => (KEY, garbled(newest, digit), false),
    }
}

/// The token with one digit changed.
pub fn garbled(token: LeaseToken, digit: usize) -> LeaseToken {
    let mut text = token.to_string().into_bytes();
    text[digit] = if text[digit] == b'0' { b'1' } else { b'0' };
    String::from_utf8(text).unwrap().parse().unwrap()
}

fn expires_ns(token: LeaseToken) -> u64 {
    u64::from_str_radix(&token.to_string()[..16], 16).unwrap()
}

struct ModelTest {
    limiter: Limiter<ManualClock>,
    clock: ManualClock,
    model: Model,
}

impl ModelTest {
    fn acquire(&mut self, units: u64) -> Result<(), TestCaseError> {
        let peek = self.limiter.peek(KEY, units);
        let (decision, lease) = self.limiter.lease(KEY, units, None);
        prop_assert_eq!(peek, decision);
        let fits = self.model.decides(units, &decision)?;
        prop_assert_eq!(lease.is_some(), fits && units > 0);
        lease.map_or(Ok(()), |lease| self.model.grants(units, TTL_NS, &lease))
    }

    fn acquire_for(&mut self, units: u64, ttl_ns: u64) -> Result<(), TestCaseError> {
        let acquired = self.limiter.try_acquire_for(KEY, units, Duration::from_nanos(ttl_ns));
        match acquired {
            Ok(admitted) => {
                prop_assert!(self.model.decides(units, admitted.decision())?);
                self.model.grants(units, ttl_ns.clamp(TTL_NS_MIN, TTL_NS), admitted.lease().unwrap())?;
                // Do not release it: its token is presented later.
                std::mem::forget(admitted);
            }
            Err(refused) => prop_assert!(!self.model.decides(units, refused.decision().unwrap())?),
        }
        Ok(())
    }

    fn renew(&mut self, lease: usize, presented: PresentedToken) -> Result<(), TestCaseError> {
        let (key, token, is_known) = present(&self.model.leases[lease], presented);
        let renewal = self.limiter.renew(key, &token, None);
        if !is_known {
            prop_assert_eq!(renewal, Renewal::WrongOwner);
            return Ok(());
        }
        let is_live = self.is_live(lease);
        if self.model.written_ns.is_some() {
            self.model.write();
        }
        if !is_live {
            let expected = match self.model.expected_release(expires_ns(token)) {
                Release::Expired => Renewal::Expired,
                _ => Renewal::AlreadyReleased,
            };
            prop_assert_eq!(renewal, expected);
            return Ok(());
        }
        let Renewal::Renewed(renewed) = renewal else {
            return Err(TestCaseError::fail(format!("{renewal:?}")));
        };
        let instant_ns = self.model.instant_ns();
        let lease = &mut self.model.leases[lease];
        // Without a ttl, the lease keeps its own.
        lease.expires_ns = instant_ns + lease.ttl_ns;
        lease.tokens.push(renewed.token);
        prop_assert_eq!(renewed.expires.as_nanos(), lease.expires_ns);
        prop_assert_eq!(renewed.fence, lease.fence);
        Ok(())
    }

    fn release(&mut self, lease: usize, presented: PresentedToken) -> Result<(), TestCaseError> {
        let (key, token, is_known) = present(&self.model.leases[lease], presented);
        let release = self.limiter.release(key, &token);
        if !is_known {
            prop_assert_eq!(release, Release::WrongOwner);
            return Ok(());
        }
        let is_live = self.is_live(lease);
        if self.model.written_ns.is_some() {
            self.model.write();
        }
        let expected =
            if is_live { Release::Released } else { self.model.expected_release(expires_ns(token)) };
        prop_assert_eq!(release, expected);
        self.model.leases[lease].is_released |= is_live;
        Ok(())
    }

    fn is_live(&self, lease: usize) -> bool {
        let lease = &self.model.leases[lease];
        !lease.is_released && lease.expires_ns > self.model.instant_ns()
    }

    fn apply(&mut self, op: ModelOp) -> Result<(), TestCaseError> {
        let leases = self.model.leases.len();
        match op {
            ModelOp::Acquire(units) => self.acquire(units)?,
            ModelOp::AcquireFor(units, ttl_ns) => self.acquire_for(units, ttl_ns)?,
            ModelOp::Check(units) => {
                let decision = self.limiter.check(KEY, units);
                if self.model.decides(units, &decision)? && units > 0 {
                    self.model.checked.push((units, self.model.instant_ns() + TTL_NS));
                }
            }
            ModelOp::Renew(lease, presented) if leases > 0 => self.renew(lease.index(leases), presented)?,
            ModelOp::Release(lease, presented) if leases > 0 => {
                self.release(lease.index(leases), presented)?;
            }
            ModelOp::Renew(..) | ModelOp::Release(..) => {}
            ModelOp::Ahead(ns) => self.move_to(self.model.now_ns + ns),
            ModelOp::Back(ns) => self.move_to(self.model.now_ns - ns),
            ModelOp::Reset => {
                self.limiter.reset(KEY);
                self.model.leases.iter_mut().for_each(|lease| lease.is_released = true);
                self.model.checked.clear();
                self.model.written_ns = None;
            }
        }
        let peek = self.limiter.peek(KEY, 0);
        prop_assert_eq!(peek.remaining, LIMIT - self.model.in_flight());
        Ok(())
    }

    fn move_to(&mut self, now_ns: u64) {
        self.model.now_ns = now_ns;
        self.clock.set(Timestamp::from_nanos(now_ns));
    }
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(150))]

    #[test]
    fn leases_agree_with_a_list_model(ops in prop::collection::vec(op(), 1..120)) {
        let clock = ManualClock::at(Timestamp::from_nanos(1_700_000_000_000_000_123));
        let limit = "{algorithm: concurrency, limit: 5, ttl: 3ms}";
        let limiter = Limiter::builder().limit(limit).clock(clock.clone()).build().unwrap();
        let model = Model { now_ns: clock.now().as_nanos(), ..Model::default() };
        let mut test = ModelTest { limiter, clock, model };
        for op in ops {
            test.apply(op)?;
        }
        // Every lease has its own fencing token, in the order in which they were granted.
        prop_assert!(test.model.leases.is_sorted_by(|one, next| one.fence < next.fence));
    }
}

proptest! {
    #![proptest_config(tidegate_testing::proptest_config(64))]

    /// Leases that are never released behave as a sliding log.
    #[test]
    fn without_releases_concurrency_equals_a_sliding_log(
        limit in 0_u64..8,
        requests in prop::collection::vec((prop_oneof![Just(0_i64), -2_000_000..8_000_000_i64], 0_u64..10, any::<bool>()), 1..150),
    ) {
        let build = |limit: String| Limiter::builder().limit(limit).clock(ManualClock::default()).build().unwrap();
        let leases = build(format!("{{algorithm: concurrency, limit: {limit}, ttl: 10ms}}"));
        let log = build(format!("{{algorithm: sliding_log, limit: {limit}, per: 10ms}}"));
        let mut now_ns = 1_700_000_000_000_000_000_i64;
        for (step_ns, cost, peek) in requests {
            now_ns += step_ns;
            let now = Timestamp::from_nanos(u64::try_from(now_ns).unwrap());
            let (one, other) = match peek {
                true => (leases.peek_at("key", cost, now), log.peek_at("key", cost, now)),
                false => (leases.check_at("key", cost, now), log.check_at("key", cost, now)),
            };
            prop_assert_eq!(one.kind, other.kind);
            prop_assert_eq!(one.remaining, other.remaining);
            prop_assert_eq!(one.retry_after, other.retry_after);
        }
    }
}
