//! The attributes that the rules of a domain name.

use super::{Attribute, CostSource, KeyPart, Rule, RuleLimit, RuleLimits};

/// The attributes that rules name. A listener need not put others into a descriptor.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct NamedAttributes {
    /// Names as in a descriptor, sorted.
    names: Vec<Box<str>>,
}

impl NamedAttributes {
    /// The attributes that these rules name.
    pub fn new(rules: &[Rule]) -> Self {
        let mut names: Vec<Box<str>> = Vec::new();
        for rule in rules {
            let mut add = |attribute: &Attribute| names.push(attribute.to_string().into());
            rule.conditions.iter().for_each(|condition| add(&condition.attribute));
            let entries = rule.entries.iter().flat_map(|entries| &entries.patterns);
            entries.into_iter().for_each(|(name, _)| add(&Attribute::from_name(name)));
            let tiers = match &rule.limits {
                RuleLimits::Same(limits) => {
                    limits.iter().for_each(|limit| add_limit(limit, &mut add));
                    None
                }
                RuleLimits::Tiers(tiers) => Some(tiers),
            };
            if let Some(tiers) = tiers {
                add(&tiers.attribute);
                let limits = tiers.plans.iter().flat_map(|(_, limits)| limits).chain(&tiers.default);
                limits.into_iter().for_each(|limit| add_limit(limit, &mut add));
            }
            rule.candidate.iter().for_each(|limit| add_limit(limit, &mut add));
        }
        names.sort_unstable();
        names.dedup();
        Self { names }
    }

    /// Whether a rule names this attribute.
    pub fn has(&self, name: &str) -> bool {
        self.names.binary_search_by(|known| (**known).cmp(name)).is_ok()
    }

    /// The headers: each with the name of the attribute, `header.x-plan`, and the name of the header, `x-plan`.
    pub fn headers(&self) -> impl Iterator<Item = (&str, &str)> {
        self.names.iter().filter_map(|name| Some((&**name, Attribute::header_name(name)?)))
    }
}

fn add_limit(limit: &RuleLimit, add: &mut impl FnMut(&Attribute)) {
    // Entries by index are named by the patterns of entries.
    limit.key.parts().iter().filter_map(KeyPart::attribute).for_each(|attribute| add(&attribute));
    if let CostSource::Attribute { attribute, .. } = &limit.cost {
        add(attribute);
    }
}
