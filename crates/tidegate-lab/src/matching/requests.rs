//! Requests, laid out beforehand, so that making them up is not measured.

use rand::rngs::SmallRng;
use rand::{RngExt, SeedableRng};
use tidegate_core::rules::{Descriptor, Entry};

use super::mix::Mix;

const REQUESTS: usize = 4_096;
/// Every run measures the same requests.
const SEED: u64 = 42;

/// Requests for the rules of a mix.
pub(super) struct Requests {
    all: Vec<Vec<(String, String)>>,
}

impl Requests {
    /// Of four requests three are for one of the rules, and one is for a rule that is not there.
    pub(super) fn new(mix: Mix, rules: usize) -> Self {
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

    /// Hands out all of them. A listener has the parts of a request at hand, so a descriptor of them is cheap.
    pub(super) fn each(&self, mut then: impl FnMut(&Descriptor<'_>)) {
        let mut entries = [Entry { key: "", value: "" }; Mix::ENTRIES_MAX];
        for request in &self.all {
            for (entry, (key, value)) in entries.iter_mut().zip(request) {
                *entry = Entry { key, value };
            }
            then(&Descriptor::new(&entries[..request.len().min(Mix::ENTRIES_MAX)], 1));
        }
    }

    #[cfg(feature = "peers")]
    pub(super) fn owned(&self) -> &[Vec<(String, String)>] {
        &self.all
    }
}
