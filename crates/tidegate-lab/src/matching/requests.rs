//! The requests of a run, generated before it so that only matching is measured.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tidegate_core::rules::{Descriptor, Entry};

use super::rule_mix::RuleMix;

const REQUESTS: usize = 4_096;
/// Every run measures the same requests.
const SEED: u64 = 42;

/// Requests for the rules of a mix.
pub(super) struct Requests {
    all: Vec<Vec<(String, String)>>,
}

impl Requests {
    /// Three of four requests match one of the rules, and one matches a rule that does not exist.
    pub(super) fn new(mix: RuleMix, rules: usize) -> Self {
        let mut random = SmallRng::seed_from_u64(SEED);
        let request = |number: usize| {
            let rule = if number % 4 == 3 { rules + number } else { random.random_range(0..rules) };
            mix.request(rule)
        };
        Self { all: (0..REQUESTS).map(request).collect() }
    }

    pub(super) fn len(&self) -> usize {
        self.all.len()
    }

    /// Calls `use_request` with each of them. It builds descriptors from existing strings, as a listener does.
    pub(super) fn each(&self, mut use_request: impl FnMut(&Descriptor<'_>)) {
        let mut entries = [Entry { key: "", value: "" }; RuleMix::ENTRIES_MAX];
        for request in &self.all {
            for (entry, (key, value)) in entries.iter_mut().zip(request) {
                *entry = Entry { key, value };
            }
            use_request(&Descriptor::new(&entries[..request.len().min(RuleMix::ENTRIES_MAX)], 1));
        }
    }

    #[cfg(feature = "peers")]
    pub(super) fn owned(&self) -> &[Vec<(String, String)>] {
        &self.all
    }
}
