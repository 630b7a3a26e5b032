//! What happens to a request whose domain has no rules.

use std::sync::LazyLock;

use super::compiled_limit::{CompiledLimit, CounterIdentity, ResolvedElastic};
use super::matched::{LimitRef, MatchedKey, MatchedLimit};
use super::{Action, CostSource, KeySpec, MatchedLimits, OnMissingKey, Request, Rule, RuleLimit, RuleLimits};
use crate::{AlgorithmName, KeyForm, LimitId, LimitSpec, StorePolicy};

/// The name in answers of the rule that denies requests of unknown domains. It is in no file.
pub const UNKNOWN_DOMAIN_RULE: &str = "unknown_domain";

/// What happens to a request whose domain has no rules.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UnknownDomain {
    /// It passes.
    #[default]
    Allow,
    /// It is denied, as if it was over a limit.
    Deny,
}

/// The rule and the limit that deny.
#[derive(Debug)]
pub(super) struct UnknownDomainRule {
    pub rule: Rule,
    pub limit: CompiledLimit,
}

impl UnknownDomainRule {
    pub fn get() -> &'static Self {
        static RULE: LazyLock<UnknownDomainRule> = LazyLock::new(UnknownDomainRule::new);
        &RULE
    }

    fn new() -> Self {
        let spec =
            LimitSpec { algorithm: Some(AlgorithmName::FixedWindow), ..LimitSpec::new(0, 1_000_000_000) };
        let limit = RuleLimit {
            limit: spec.build().expect("a second is a window"),
            was: None,
            key: KeySpec::default(),
            missing: OnMissingKey::Deny,
            cost: CostSource::Request,
            action: Action::Reject,
        };
        let identity = CounterIdentity {
            domain: "",
            rule: "",
            part: UNKNOWN_DOMAIN_RULE,
            limit: LimitId::from_limit(&limit.limit, 0),
            key_form: KeyForm::Values,
        };
        let compiled =
            CompiledLimit::new(limit.clone(), 0, identity, StorePolicy::DEFAULT, ResolvedElastic::default());
        let rule = Rule {
            name: UNKNOWN_DOMAIN_RULE.into(),
            limits: RuleLimits::Same(vec![limit]),
            ..Rule::default()
        };
        Self { rule, limit: compiled }
    }
}

impl MatchedLimits {
    /// Whether the request's domain has rules.
    #[inline]
    pub fn is_domain_known(&self) -> bool {
        self.domain.is_some()
    }

    /// Denies each descriptor of the request, and charges nothing. The limit has no counter: no store is asked.
    #[cold]
    pub(super) fn deny_unknown_domain(&mut self, request: &Request<'_>) {
        self.limits.clear();
        for (index, cost) in (0..).zip(request.descriptors.iter().map(|descriptor| descriptor.cost)) {
            self.limits.push(MatchedLimit {
                limit: LimitRef::UnknownDomain,
                descriptor: index,
                cost,
                key: MatchedKey::Missing,
                resized: None,
                granted_outcome: None,
            });
        }
    }
}
