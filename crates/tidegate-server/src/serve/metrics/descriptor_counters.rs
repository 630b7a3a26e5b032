//! Counts hits by descriptor, as envoyproxy/ratelimit does: `total_hits`, `within_limit`, `near_limit`, `over_limit` and
//! `shadow_mode`.
//!
//! A descriptor is a rule with [`entries`](tidegate::rules::Rule::entries). Its name is the name of the rule, with the
//! values of the entries that `detailed_metric` or `value_to_metric` adds. Clients choose these values, so the number of
//! descriptors is bounded: the rest share one counter. A slot is filled once and never emptied, so a look-up needs no
//! lock.

use std::borrow::Cow;
use std::hash::BuildHasher;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use foldhash::fast::RandomState;
use tidegate::rules::{Answer, AnswerKind, Descriptor, LimitAnswer, Pattern, Request, Rule};
use tidegate_core::text::truncated;

use super::rule_counters::OTHER;

/// The most bytes of a descriptor's name. A longer one is cut.
const NAME_BYTES_MAX: usize = 256;

/// What to count by descriptor.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DescriptorMetrics {
    /// The maximum number of descriptors with their own counters. Zero counts none.
    pub descriptors_max: usize,
    /// A hit is near its limit if it is over this part of the limit.
    pub near_limit_ratio: f32,
}

impl Default for DescriptorMetrics {
    fn default() -> Self {
        Self { descriptors_max: 1_000, near_limit_ratio: 0.8 }
    }
}

/// The hits of all descriptors.
pub struct DescriptorCounterTable {
    settings: DescriptorMetrics,
    slots: Box<[OnceLock<Box<DescriptorCounters>>]>,
    used: AtomicUsize,
    hasher: RandomState,
    other: DescriptorCounters,
}

/// The hits of a descriptor.
#[derive(Debug, Default)]
pub struct DescriptorCounters {
    /// The domain. Empty for the shared counters.
    pub domain: Box<str>,
    /// The descriptor.
    pub descriptor: Box<str>,
    hits: [AtomicU64; HitKind::ALL.len()],
}

/// What is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum HitKind {
    Total,
    Within,
    Near,
    Over,
    Shadow,
}

impl HitKind {
    /// In the order of their discriminants.
    pub const ALL: [Self; 5] = [Self::Total, Self::Within, Self::Near, Self::Over, Self::Shadow];

    /// The name of the metric.
    pub const fn metric(self) -> &'static str {
        match self {
            Self::Total => "tidegate_descriptor_hits_total",
            Self::Within => "tidegate_descriptor_within_limit_total",
            Self::Near => "tidegate_descriptor_near_limit_total",
            Self::Over => "tidegate_descriptor_over_limit_total",
            Self::Shadow => "tidegate_descriptor_shadow_mode_total",
        }
    }

    /// The description of the metric.
    pub const fn help(self) -> &'static str {
        match self {
            Self::Total => "Hits of a descriptor, that is of a rule with entries.",
            Self::Within => "Hits of a descriptor within its limit.",
            Self::Near => "Hits of a descriptor within its limit and over the near limit ratio of it.",
            Self::Over => "Hits of a descriptor over its limit.",
            Self::Shadow => "Hits of a descriptor over its limit that a dry run let pass.",
        }
    }
}

impl DescriptorCounterTable {
    /// Creates an empty table.
    pub fn new(settings: DescriptorMetrics) -> Self {
        // At least twice the maximum in use, so that searches are short.
        let slots = (2 * settings.descriptors_max).next_power_of_two();
        Self {
            settings,
            slots: (0..slots).map(|_| OnceLock::new()).collect(),
            used: AtomicUsize::new(0),
            hasher: RandomState::default(),
            other: DescriptorCounters { descriptor: OTHER.into(), ..DescriptorCounters::default() },
        }
    }

    /// Counts the hits of a decision.
    #[inline]
    pub fn count(&self, request: &Request<'_>, answer: &Answer) {
        if self.settings.descriptors_max > 0 {
            for limit in answer.limits() {
                if limit.rule.entries.is_some() && !limit.is_request_limit {
                    self.count_limit(request, &limit);
                }
            }
        }
    }

    fn count_limit(&self, request: &Request<'_>, limit: &LimitAnswer<'_>) {
        let is_over = match limit.kind {
            AnswerKind::Unavailable => return,
            AnswerKind::Allowed | AnswerKind::Delayed => false,
            _ => true,
        };
        let name = match request.descriptors.get(limit.descriptor) {
            Some(descriptor) => descriptor_name(limit.rule, descriptor),
            None => Cow::Borrowed(&*limit.rule.name),
        };
        let counters = self.counters(request.domain, &name);
        counters.add(HitKind::Total, limit.cost);
        let units = limit.limit.limit.rate().limit();
        let near_limit = self.near_limit(units);
        if is_over {
            // A request that crosses the limit and is counted has hits on both sides of it. Without such a count, all its
            // hits are over the limit.
            let over = match limit.outcome.over {
                0 => limit.cost,
                beyond => beyond.min(limit.cost),
            };
            let before = units.saturating_sub(limit.cost - over);
            counters.add(HitKind::Over, over);
            counters.add(HitKind::Near, units.saturating_sub(before.max(near_limit)));
            if limit.kind == AnswerKind::ShadowDenied {
                counters.add(HitKind::Shadow, over);
            }
            return;
        }
        counters.add(HitKind::Within, limit.cost);
        let after = units.saturating_sub(limit.outcome.remaining);
        let before = after.saturating_sub(limit.cost);
        counters.add(HitKind::Near, after.saturating_sub(before.max(near_limit)));
    }

    /// The number of hits from which on they are near the limit, computed as in envoyproxy/ratelimit.
    #[allow(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "a metric, not a decision; neither number is negative"
    )]
    fn near_limit(&self, units: u64) -> u64 {
        (units as f32 * self.settings.near_limit_ratio).floor() as u64
    }

    /// The counters of a descriptor, added if needed. The shared ones if the table is full.
    fn counters(&self, domain: &str, descriptor: &str) -> &DescriptorCounters {
        let matches = |counters: &DescriptorCounters| {
            *counters.descriptor == *descriptor && *counters.domain == *domain
        };
        for slot in self.search(domain, descriptor) {
            match self.slots[slot].get() {
                Some(counters) if matches(counters) => return counters,
                Some(_) => {}
                None => break,
            }
        }
        let room = |used: usize| (used < self.settings.descriptors_max).then_some(used + 1);
        if self.used.fetch_update(Ordering::Relaxed, Ordering::Relaxed, room).is_err() {
            return &self.other;
        }
        for slot in self.search(domain, descriptor) {
            let mut is_new = false;
            let counters = self.slots[slot].get_or_init(|| {
                is_new = true;
                let (domain, descriptor) = (domain.into(), descriptor.into());
                Box::new(DescriptorCounters { domain, descriptor, hits: Default::default() })
            });
            if matches(counters) {
                if !is_new {
                    self.used.fetch_sub(1, Ordering::Relaxed);
                }
                return counters;
            }
        }
        &self.other
    }

    /// The slots in which a descriptor may be, the first choice first.
    fn search(&self, domain: &str, descriptor: &str) -> impl Iterator<Item = usize> + use<> {
        let slots = self.slots.len();
        #[allow(clippy::cast_possible_truncation, reason = "below the number of slots")]
        let first = (self.hasher.hash_one((domain, descriptor)) % slots as u64) as usize;
        (0..slots).map(move |step| (first + step) % slots)
    }

    /// All counters, sorted by name, the shared ones last.
    pub fn all(&self) -> impl Iterator<Item = &DescriptorCounters> {
        let mut all: Vec<&DescriptorCounters> =
            self.slots.iter().filter_map(OnceLock::get).map(|counters| &**counters).collect();
        all.sort_unstable_by(|a, b| (&a.domain, &a.descriptor).cmp(&(&b.domain, &b.descriptor)));
        all.into_iter().chain([&self.other])
    }
}

impl DescriptorCounters {
    fn add(&self, kind: HitKind, hits: u64) {
        self.hits[kind as usize].fetch_add(hits, Ordering::Relaxed);
    }

    /// The hits of a kind.
    pub fn get(&self, kind: HitKind) -> u64 {
        self.hits[kind as usize].load(Ordering::Relaxed)
    }
}

/// The name of a rule, with the values of the entries that are part of its metrics.
fn descriptor_name<'r>(rule: &'r Rule, descriptor: &Descriptor<'_>) -> Cow<'r, str> {
    let Some(entries) = rule.entries.as_ref().filter(|_| !rule.metric_entries.is_empty()) else {
        return Cow::Borrowed(&rule.name);
    };
    let mut name = String::new();
    for (index, (entry, (key, pattern))) in descriptor.entries.iter().zip(&entries.patterns).enumerate() {
        if index > 0 {
            name.push('/');
        }
        let level = match pattern {
            _ if rule.metric_entries.contains(&index) => format!("{}_{}", entry.key, entry.value),
            Pattern::Exact(value) => format!("{key}_{value}"),
            Pattern::Wildcard(wildcard) => format!("{key}_{wildcard}"),
            _ => key.to_string(),
        };
        // As in the names of rules.
        name.push_str(&level.replace('/', "//"));
        if name.len() > NAME_BYTES_MAX {
            name.truncate(truncated(&name, NAME_BYTES_MAX).len());
            break;
        }
    }
    Cow::Owned(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptors_over_the_maximum_share_one_counter() {
        let table =
            DescriptorCounterTable::new(DescriptorMetrics { descriptors_max: 10, near_limit_ratio: 0.8 });
        for number in 0..25 {
            table.counters("edge", &format!("user_{number}")).add(HitKind::Total, 1);
            table.counters("edge", "user_3").add(HitKind::Total, 1);
        }
        let all: Vec<&DescriptorCounters> = table.all().collect();
        assert_eq!(all.len(), 11);
        assert_eq!((&*all[10].domain, &*all[10].descriptor, all[10].get(HitKind::Total)), ("", OTHER, 15));
        let user_3 = all.iter().find(|counters| &*counters.descriptor == "user_3").unwrap();
        assert_eq!(user_3.get(HitKind::Total), 26);
    }

    /// The thresholds that envoyproxy/ratelimit computes with 32-bit floating point numbers.
    #[test]
    fn the_near_limit_is_the_floor_of_a_part() {
        let table = |near_limit_ratio| {
            DescriptorCounterTable::new(DescriptorMetrics { descriptors_max: 1, near_limit_ratio })
        };
        for (ratio, units, near) in
            [(0.8, 10, 8), (0.8, 1, 0), (0.8, 5, 4), (0.8, 20, 16), (1.0, 7, 7), (0.0, 7, 0)]
        {
            assert_eq!(table(ratio).near_limit(units), near, "{ratio} of {units}");
        }
    }
}
