//! Where the engine under test counts. Most tests run twice, once for each [`Setup`].

mod own;
pub mod shared;

use tidegate::rules::{Answer, Domain, Request};
use tidegate::{Engine, Explanation, Lease, LeaseToken, Nanos, PlanFull, Release, Renewal, Timer};

use crate::engine::bench::Bench;

/// Where an engine counts, and how it is asked.
#[derive(Clone, Copy, Debug)]
pub enum Setup {
    /// In its own memory, by calls that answer at once.
    Own,
    /// In a store that stands for the one that a fleet shares, by futures.
    Shared,
}

/// Makes two tests of each function that takes a [`Setup`]: `own::name` and `shared::name`.
macro_rules! over_each_store {
    ($($test:ident),+ $(,)?) => {
        mod own {
            $(#[test]
            fn $test() {
                super::$test($crate::engine::setup::Setup::Own);
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
    pub fn bench(self, file: &str) -> Bench {
        Bench::new(self, file)
    }

    pub fn engine<C: Timer + Clone + Send + Sync + 'static>(
        self,
        domains: Vec<Domain>,
        clock: C,
    ) -> Engine<C> {
        match self {
            Self::Own => own::engine(domains, clock),
            Self::Shared => shared::engine(domains, clock),
        }
    }

    pub fn check<C: Timer, R>(
        self,
        engine: &Engine<C>,
        request: &Request<'_>,
        told: impl FnOnce(&Answer<'_>) -> R,
    ) -> Result<R, PlanFull> {
        match self {
            Self::Own => own::check(engine, request, told),
            Self::Shared => shared::check(engine, request, told),
        }
    }

    pub fn peek<C: Timer, R>(
        self,
        engine: &Engine<C>,
        request: &Request<'_>,
        told: impl FnOnce(&Answer<'_>) -> R,
    ) -> R {
        match self {
            Self::Own => own::peek(engine, request, told),
            Self::Shared => shared::peek(engine, request, told),
        }
    }

    pub fn explain<C: Timer, R>(
        self,
        engine: &Engine<C>,
        request: &Request<'_>,
        explained: impl FnOnce(&Explanation<'_>) -> R,
    ) -> R {
        match self {
            Self::Own => own::explain(engine, request, explained),
            Self::Shared => shared::explain(engine, request, explained),
        }
    }

    pub fn refund<C: Timer>(self, engine: &Engine<C>, request: &Request<'_>) {
        match self {
            Self::Own => own::refund(engine, request),
            Self::Shared => shared::refund(engine, request),
        }
    }

    pub fn reset<C: Timer>(self, engine: &Engine<C>, request: &Request<'_>) {
        match self {
            Self::Own => own::reset(engine, request),
            Self::Shared => shared::reset(engine, request),
        }
    }

    pub fn acquire<C: Timer, R>(
        self,
        engine: &Engine<C>,
        request: &Request<'_>,
        ttl: Option<Nanos>,
        told: impl FnOnce(&Answer<'_>) -> R,
    ) -> (R, Option<Lease>) {
        match self {
            Self::Own => own::acquire(engine, request, ttl, told),
            Self::Shared => shared::acquire(engine, request, ttl, told),
        }
    }

    pub fn renew<C: Timer>(self, engine: &Engine<C>, request: &Request<'_>, token: &LeaseToken) -> Renewal {
        match self {
            Self::Own => own::renew(engine, request, token),
            Self::Shared => shared::renew(engine, request, token),
        }
    }

    pub fn release<C: Timer>(self, engine: &Engine<C>, request: &Request<'_>, token: &LeaseToken) -> Release {
        match self {
            Self::Own => own::release(engine, request, token),
            Self::Shared => shared::release(engine, request, token),
        }
    }
}
