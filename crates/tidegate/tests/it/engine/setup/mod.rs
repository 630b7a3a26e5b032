//! Where the engine under test counts. Most tests run twice, once for each [`Setup`].

pub mod shared;

use std::sync::Arc;
use tidegate::engine::Explanation;
use tidegate::rules::{Answer, Domain, Request};
use tidegate::store::{NodeStore, PlanFull};
use tidegate::{Engine, EngineError, Lease, LeaseToken, MemoryStore, Nanos, Release, Renewal, Timer};

use crate::engine::bench::EngineFixture;
use shared::expect_ready;

/// An engine over either store.
pub type TestEngine<C> = Engine<C, NodeStore>;

/// Where an engine counts.
#[derive(Clone, Copy, Debug)]
pub enum Setup {
    /// In its own memory.
    Local,
    /// In a store that stands for the one that a fleet shares.
    Shared,
}

/// Makes two tests of each function that takes a [`Setup`]: `own::name` and `shared::name`.
macro_rules! over_each_store {
    ($($test:ident),+ $(,)?) => {
        mod own {
            $(#[test]
            fn $test() {
                super::$test($crate::engine::setup::Setup::Local);
            })+
        }

        mod shared {
            $(#[test]
            fn $test() {
                super::$test($crate::engine::setup::Setup::Shared);
            })+
        }
    };
}
pub(crate) use over_each_store;

impl Setup {
    pub fn fixture(self, file: &str) -> EngineFixture {
        EngineFixture::new(self, file)
    }

    pub fn engine<C: TestClock>(self, domains: Vec<Domain>, clock: C) -> TestEngine<C> {
        match self {
            Self::Local => {
                let store = NodeStore::Local(Arc::new(MemoryStore::bounded(1 << 20)));
                Engine::with_store(domains, store, clock).unwrap()
            }
            Self::Shared => shared::engine(domains, clock),
        }
    }

    /// Decides a request, without a wait.
    pub fn check<C: TestClock, R>(
        self,
        engine: &TestEngine<C>,
        request: &Request<'_>,
        told: impl FnOnce(&Answer) -> R,
    ) -> Result<R, PlanFull> {
        match self {
            Self::Local => match expect_ready(engine.check(request)) {
                Ok(decided) => Ok(told(&decided.answer)),
                Err(EngineError::PlanFull) => Err(PlanFull),
                Err(error) => panic!("{error}"),
            },
            Self::Shared => shared::check(engine, request, told),
        }
    }

    pub fn peek<C: TestClock, R>(
        self,
        engine: &TestEngine<C>,
        request: &Request<'_>,
        told: impl FnOnce(&Answer) -> R,
    ) -> R {
        told(&expect_ready(engine.peek(request)).unwrap().answer)
    }

    pub fn explain<C: TestClock, R>(
        self,
        engine: &TestEngine<C>,
        request: &Request<'_>,
        explained: impl FnOnce(&Explanation) -> R,
    ) -> R {
        explained(&expect_ready(engine.explain(request)).unwrap())
    }

    pub fn refund<C: TestClock>(self, engine: &TestEngine<C>, request: &Request<'_>) {
        expect_ready(engine.refund(request, None)).unwrap();
    }

    pub fn reset<C: TestClock>(self, engine: &TestEngine<C>, request: &Request<'_>) {
        expect_ready(engine.reset(request)).unwrap();
    }

    pub fn acquire<C: TestClock, R>(
        self,
        engine: &TestEngine<C>,
        request: &Request<'_>,
        ttl: Option<Nanos>,
        told: impl FnOnce(&Answer) -> R,
    ) -> (R, Option<Lease>) {
        match self {
            Self::Local => {
                let decided = expect_ready(engine.try_lease(request, ttl)).unwrap();
                (told(&decided.answer), decided.lease)
            }
            Self::Shared => shared::acquire(engine, request, ttl, told),
        }
    }

    pub fn renew<C: TestClock>(
        self,
        engine: &TestEngine<C>,
        request: &Request<'_>,
        token: &LeaseToken,
    ) -> Renewal {
        expect_ready(engine.renew(request, token, None)).unwrap()
    }

    pub fn release<C: TestClock>(
        self,
        engine: &TestEngine<C>,
        request: &Request<'_>,
        token: &LeaseToken,
    ) -> Release {
        expect_ready(engine.release(request, token)).unwrap()
    }
}

/// A clock that tests run by.
pub trait TestClock: Timer + Clone + Send + Sync + 'static {}

impl<C: Timer + Clone + Send + Sync + 'static> TestClock for C {}
