//! Any text as any kind of pattern, with any values. Nothing panics, a negated pattern decides the opposite, and the
//! index finds the same rules as checking each rule.
//!
//! The input is lines. Up to an empty line, each line is a kind and a text of a pattern. The lines after it are values.

use tidegate_core::rules::{
    Apply, Attribute, CaseSensitivity, Condition, Descriptor, Domain, Entry, Lookup, Net, PathPattern,
    Pattern, PatternError, Rule, RuleMatches, Ruleset,
};

/// Enough to give the index a choice, and few enough to be fast.
const RULES_MAX: usize = 16;
const VALUES_MAX: usize = 16;
const NAMES: [&str; 6] = ["path", "host", "method", "ip", "header.x", "other"];

/// Reads the first lines as patterns and matches the other lines against them.
pub fn patterns(text: &str) {
    let (rules, values) = text.split_once("\n\n").unwrap_or((text, text));
    let conditions: Vec<Condition> = rules.lines().take(RULES_MAX).filter_map(condition).collect();
    let values: Vec<&str> = values.lines().take(VALUES_MAX).collect();
    for condition in &conditions {
        assert!(!condition.pattern.to_string().is_empty() || matches!(condition.pattern, Pattern::Exact(_)));
        values.iter().for_each(|value| assert_negated(condition, value));
    }
    for apply in [Apply::All, Apply::First] {
        assert_index(&conditions, &values, apply);
    }
}

/// A kind, a name and a text, as in `r0v[0-9]+`.
fn condition(line: &str) -> Option<Condition> {
    let mut chars = line.chars();
    let (kind, name) = (chars.next()?, chars.next()?);
    let name = NAMES[name as usize % NAMES.len()];
    match pattern(kind, chars.as_str()) {
        Ok(pattern) => Some(Condition { attribute: Attribute::from_name(name), pattern }),
        Err(error) => {
            assert!(!error.problem().is_empty() && !error.hint().is_empty());
            None
        }
    }
}

fn pattern(kind: char, text: &str) -> Result<Pattern, PatternError> {
    let pattern = match kind.to_ascii_lowercase() {
        'e' => Pattern::exact(text),
        'o' => Pattern::one_of(text.split(',')),
        'p' => Pattern::prefix(text),
        'w' => Pattern::wildcard(text),
        'r' => Pattern::regex(text, CaseSensitivity::Sensitive),
        'i' => Pattern::regex(text, CaseSensitivity::Insensitive),
        'n' => text.split(',').map(Net::parse).collect::<Result<Vec<_>, _>>().and_then(Pattern::nets),
        's' => {
            text.split(',').map(PathPattern::parse).collect::<Result<Vec<_>, _>>().and_then(Pattern::paths)
        }
        'a' => Ok(Pattern::Any),
        'x' => Ok(Pattern::Absent),
        _ => Pattern::path(text),
    };
    // Upper case means negated.
    pattern.map(|pattern| if kind.is_ascii_uppercase() { pattern.negated() } else { pattern })
}

/// A descriptor matches either a pattern or its negation.
fn assert_negated(condition: &Condition, value: &str) {
    let negated =
        Condition { attribute: condition.attribute.clone(), pattern: condition.pattern.clone().negated() };
    let name = condition.attribute.to_string();
    let entries = [Entry { key: &name, value }];
    let descriptor = Descriptor::new(&entries, 1);
    let matches = |condition: &Condition| {
        let mismatch = condition.mismatch(&descriptor);
        assert!(mismatch.as_ref().is_none_or(|mismatch| !mismatch.to_string().is_empty()));
        mismatch.is_none()
    };
    assert_ne!(matches(condition), matches(&negated), "{condition:?} {value:?}");
}

fn assert_index(conditions: &[Condition], values: &[&str], apply: Apply) {
    // Each condition alone, and each with the next one.
    let alone = conditions.iter().map(|condition| vec![condition.clone()]);
    let pairs = conditions.windows(2).map(<[Condition]>::to_vec);
    let named = |(number, conditions): (usize, Vec<Condition>)| Rule {
        name: number.to_string().into(),
        conditions,
        ..Rule::default()
    };
    let rules: Vec<Rule> = alone.chain(pairs).enumerate().map(named).collect();
    let domain = Domain {
        name: "d".into(),
        apply,
        rules: rules.clone(),
        lookup: Lookup::Conditions,
        ..Domain::default()
    };
    let ruleset = Ruleset::compile(vec![domain]).expect("names differ");
    let compiled = ruleset.domain("d").expect("it was compiled");
    for (number, value) in values.iter().enumerate() {
        // Names that are present, absent, and present twice.
        let other = values[(number * 7 + 3) % values.len()];
        let all: Vec<Entry<'_>> = NAMES.iter().map(|name| Entry { key: name, value }).collect();
        let twice = [
            Entry { key: "path", value },
            Entry { key: "path", value: other },
            Entry { key: "ip", value: other },
        ];
        for entries in [all.as_slice(), &all[..1], &twice, &[]] {
            let descriptor = Descriptor::new(entries, 1);
            let mut matches = RuleMatches::new();
            compiled.matching_rules(&descriptor, &mut matches);
            let matching = (0..).zip(&rules).filter(|(_, rule)| rule.mismatch(&descriptor).is_none());
            let rules_max = if apply == Apply::First { 1 } else { usize::MAX };
            let expected: Vec<u32> = matching.map(|(number, _)| number).take(rules_max).collect();
            assert_eq!(matches.as_slice(), expected, "{rules:?} {descriptor:?}");
        }
    }
}
