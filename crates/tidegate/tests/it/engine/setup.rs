//! The store of the engine under test. Most tests run twice, once for each [`Setup`].

use std::sync::Arc;

use tidegate::engine::Explanation;
use tidegate::rules::{Answer, Domain, Request};
use tidegate::store::{NodeStore, PlanFull};
use tidegate::{Engine, EngineError, Lease, LeaseToken, MemoryStore, Nanos, Release, Renewal, Timer};

use crate::engine::fixture::EngineFixture;
use crate::engine::shared_engine::{self, expect_ready};

/// An engine over either store.
pub type TestEngine<C> = Engine<C, NodeStore>;

/// The store of an engine.
#[derive(Clone, Copy, Debug)]
pub enum Setup {
    /// Its own memory.
    Local,
    /// A fake of a store that a fleet shares.
    Shared,
}

/// Makes two tests of each function that takes a [`Setup`]: `local::name` and `shared::name`.
macro_rules! over_each_store {
    ($($test:ident),+ $(,)?) => {
        mod local {
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
            Self::Shared => shared_engine::engine(domains, clock),
        }
    }

    /// Decides a request without waiting.
    pub fn check<C: TestClock, R>(
        self,
        engine: &TestEngine<C>,
        request: &Request<'_>,
        read_answer: impl FnOnce(&Answer) -> R,
    ) -> Result<R, PlanFull> {
        match self {
            Self::Local => match expect_ready(engine.check(request)) {
                Ok(decided) => Ok(read_answer(&decided.answer)),
                Err(EngineError::PlanFull) => Err(PlanFull),
                Err(error) => panic!("{error}"),
            },
            Self::Shared => shared_engine::check(engine, request, read_answer),
        }
    }

    pub fn peek<C: TestClock, R>(
        self,
        engine: &TestEngine<C>,
        request: &Request<'_>,
        read_answer: impl FnOnce(&Answer) -> R,
    ) -> R {
        read_answer(&expect_ready(engine.peek(request)).unwrap().answer)
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
        read_answer: impl FnOnce(&Answer) -> R,
    ) -> (R, Option<Lease>) {
        match self {
            Self::Local => {
                let decided = expect_ready(engine.try_lease(request, ttl)).unwrap();
                (read_answer(&decided.answer), decided.lease)
            }
            Self::Shared => shared_engine::acquire(engine, request, ttl, read_answer),
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

/// A clock of the tests.
pub trait TestClock: Timer + Clone + Send + Sync + 'static {}

impl<C: Timer + Clone + Send + Sync + 'static> TestClock for C {}
