//! Reports signs of a wrong configuration.

use std::fmt;
use std::sync::Arc;

use http::HeaderMap;

use crate::identity::{Identity, SelfCheck, SelfChecks};

/// A function of the program, and what it was told already. Clones share both.
#[derive(Clone)]
pub(super) struct SelfCheckHook(Arc<HookState>);

struct HookState {
    checks: SelfChecks,
    report: Box<Report>,
}

/// Gets what was found, and the limit if it is about one.
type Report = dyn Fn(SelfCheck, Option<&str>) + Send + Sync;

impl SelfCheckHook {
    pub fn new(report: impl Fn(SelfCheck, Option<&str>) + Send + Sync + 'static) -> Self {
        Self(Arc::new(HookState { checks: SelfChecks::default(), report: Box::new(report) }))
    }

    /// Looks at the headers of a request.
    #[inline(never)]
    pub fn observe_headers(&self, identity: &Identity, headers: &HeaderMap) {
        let Self(state) = self;
        if let Some(found) = state.checks.observe_headers(identity.client_address_settings(), headers) {
            (state.report)(found, None);
        }
    }

    /// Looks at the key of a request to a limiter.
    #[inline(never)]
    pub fn observe_limiter_key(&self, key: &[u8]) {
        let Self(state) = self;
        if let Some(found) = state.checks.observe_limiter_key(key) {
            (state.report)(found, None);
        }
    }

    /// Looks at the keys of a request that rules decided.
    #[cfg(feature = "rules")]
    #[inline(never)]
    pub fn observe_answer(
        &self,
        answer: &crate::rules::Answer,
        descriptor: &tidegate_core::rules::Descriptor<'_>,
    ) {
        let Self(state) = self;
        state.checks.observe_limits(answer.limits(), descriptor, |found, limit| {
            let name = tidegate_core::rules::headers::policy_name(limit).to_string();
            (state.report)(found, Some(&name));
        });
    }
}

impl fmt::Debug for SelfCheckHook {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("SelfCheckHook")
    }
}
