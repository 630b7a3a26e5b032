//! Any text as a rules file, native or for envoyproxy/ratelimit. Nothing panics; what is refused can be shown; what is
//! accepted decides requests, is explained, and is found by the index as by looking at every rule.

use std::sync::Arc;

use tidegate::rules::{
    self, Apply, Domain, LoadedRules, Lookup, OwnedDescriptor, OwnedRequest, Report, RuleTests, Ruleset,
};
use tidegate::{Engine, MEMORY_BYTES_MIN, ManualClock, MemoryStore};
use tidegate_core::rules::RuleMatches;

/// Rules that requests are made up for.
const RULES_TESTED_MAX: usize = 8;

/// Loads the text as rules and as tests of rules, and decides requests by what was accepted.
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
            assert!(report.errors() > 0, "refused for no reason");
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
    // What is read goes together.
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
    engine.replace(domains).expect("rules can take their own place");
}

/// One as a browser makes it, and for some of the rules one that may match it.
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

/// The rules that are found are those that match, when each is looked at.
fn assert_same_rules(ruleset: &Ruleset, domain: &Domain, request: &OwnedRequest) {
    if domain.lookup == Lookup::DescriptorTree {
        return;
    }
    let compiled = ruleset.domain(&domain.name).expect("it was compiled");
    request.with_request(&domain.name, |request| {
        let mut found = RuleMatches::new();
        compiled.matching_rules(&request.descriptors[0], &mut found);
        let matching =
            (0..).zip(&domain.rules).filter(|(_, rule)| rule.mismatch(&request.descriptors[0]).is_none());
        let most = if domain.apply == Apply::First { 1 } else { usize::MAX };
        let looked_at: Vec<u32> = matching.map(|(number, _)| number).take(most).collect();
        assert_eq!(found.as_slice(), looked_at);
    });
}
