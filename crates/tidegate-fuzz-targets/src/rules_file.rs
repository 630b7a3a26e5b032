//! Any text as a rules file, native or in the format of envoyproxy/ratelimit. Nothing panics, and every error can be
//! rendered. Accepted rules decide requests and can be explained, and the index finds the same rules as checking each
//! rule.

use std::sync::Arc;

use tidegate::rules::{
    self, Apply, Domain, LoadedRules, Lookup, OwnedDescriptor, OwnedRequest, Report, RuleTests, Ruleset,
};
use tidegate::{Engine, MEMORY_BYTES_MIN, ManualClock, MemoryStore};
use tidegate_core::rules::RuleMatches;

/// The most rules that requests are generated for.
const RULES_TESTED_MAX: usize = 8;

/// Loads the text as rules and as rule tests, and decides requests by the accepted rules.
pub fn rules_file(text: &str) {
    if let Err(report) = RuleTests::parse("tests.yaml", text) {
        assert_renders(&report);
    }
    if let Err(report) = rules::envoy::convert("fuzz.yaml", text) {
        assert_renders(&report);
    }
    match rules::parse("fuzz.yaml", text) {
        Ok(loaded) => decide(loaded),
        Err(report) => {
            assert!(report.errors() > 0, "refused without an error");
            assert_renders(&report);
        }
    }
}

fn assert_renders(report: &Report) {
    assert!(!report.render(rules::Colour::Always).is_empty());
    assert!(report.to_json().starts_with('{'));
}

fn decide(LoadedRules { domains, report, .. }: LoadedRules) {
    assert_renders(&report);
    // A file that was read has no contradictions.
    let ruleset = Ruleset::compile(domains.clone()).expect("rules that were read compile");
    let store = Arc::new(MemoryStore::bounded(MEMORY_BYTES_MIN));
    let engine = Engine::with_store(domains.clone(), store, ManualClock::default()).expect("they compile");
    for domain in &domains {
        for request in requests(domain) {
            assert_same_rules(&ruleset, domain, &request);
            request.with_request(&domain.name, |request| {
                let Ok(answer) = engine.check(request) else { return };
                assert_eq!(answer.decided_by.is_some(), answer.limits().len() > 0);
                let explanation = engine.explain(request).expect("what was decided can be explained");
                assert!(!explanation.to_string().is_empty() && explanation.to_json().starts_with('{'));
            });
        }
    }
    engine.replace(domains).expect("rules can replace themselves");
}

/// A request like that of a browser, and for some rules one that may match.
fn requests(domain: &Domain) -> Vec<OwnedRequest> {
    let entry = |name: &str, value: &str| (name.into(), value.into());
    let browser = vec![
        entry("method", "POST"),
        entry("path", "/login/7?next=/"),
        entry("host", "Example.com"),
        entry("ip", "2001:db8::1"),
        entry("header.X-Plan", "free"),
        entry("user", "alice"),
    ];
    let mut all = vec![browser];
    for rule in domain.rules.iter().take(RULES_TESTED_MAX) {
        let value = |text: String| text.trim_matches('"').to_owned();
        let conditions =
            rule.conditions.iter().map(|c| entry(&c.attribute.to_string(), &value(c.pattern.to_string())));
        let entries = rule.entries.iter().flat_map(|entries| &entries.patterns);
        let entries = entries.map(|(name, pattern)| entry(name, &value(pattern.to_string())));
        all.push(conditions.chain(entries).collect());
    }
    let descriptor =
        |entries| OwnedRequest { descriptors: vec![OwnedDescriptor { entries, cost: 1, limit: None }] };
    all.into_iter().map(descriptor).collect()
}

/// The index finds the rules that match when each rule is checked.
fn assert_same_rules(ruleset: &Ruleset, domain: &Domain, request: &OwnedRequest) {
    if domain.lookup == Lookup::DescriptorTree {
        return;
    }
    let compiled = ruleset.domain(&domain.name).expect("it was compiled");
    request.with_request(&domain.name, |request| {
        let mut matches = RuleMatches::new();
        compiled.matching_rules(&request.descriptors[0], &mut matches);
        let matching =
            (0..).zip(&domain.rules).filter(|(_, rule)| rule.mismatch(&request.descriptors[0]).is_none());
        let rules_max = if domain.apply == Apply::First { 1 } else { usize::MAX };
        let expected: Vec<u32> = matching.map(|(number, _)| number).take(rules_max).collect();
        assert_eq!(matches.as_slice(), expected);
    });
}
