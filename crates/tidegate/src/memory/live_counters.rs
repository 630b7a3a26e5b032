//! How many keys the store holds that still matter.
//!
//! Counted as statisticians count: a bounded sample of pages, and of the states in each shard, stands for all of them.
//! Hashes spread keys evenly, so that of a million keys the answer is off by a fraction of a percent; of fewer keys
//! than a sample holds it is exact.

use tidegate_core::Timestamp;

use super::MemoryStore;
use super::shards::{ShardedState, Shards};

/// The most pages that are looked at: 4 MiB.
const COUNT_SAMPLE_PAGES: u32 = 1 << 10;
/// The most states that are looked at in one shard.
const COUNT_SAMPLE_STATES: usize = 1 << 8;

impl MemoryStore {
    /// About how many counters hold something that still matters at `now`; exact if there are few. Takes some hundred
    /// microseconds at most, and holds up nobody for longer than it takes to read one page.
    pub fn live_counters(&self, now: Timestamp) -> u64 {
        let kept = count_live_in_shards(&self.ledgers, now).saturating_add(count_live_in_shards(&self.leases, now));
        self.count_live_in_pages(now).saturating_add(kept)
    }

    fn count_live_in_pages(&self, now: Timestamp) -> u64 {
        let pages = self.table.pages();
        let sampled = pages.min(COUNT_SAMPLE_PAGES);
        let mut held = Vec::new();
        let mut live = 0;
        for number in 0..sampled {
            let page = u64::from(number) * u64::from(pages) / u64::from(sampled);
            self.table.page(u32::try_from(page).unwrap_or(u32::MAX)).copy_to(&mut held);
            live += held.iter().filter(|(_, state)| !state.is_idle_at(now)).count() as u64;
        }
        LiveSample { live, sampled: sampled.into() }.scaled_to(pages.into())
    }
}

fn count_live_in_shards<S: ShardedState>(shards: &Shards<S>, now: Timestamp) -> u64 {
    let live = |shard: usize| {
        let shard = shards.lock(shard);
        let all = shard.len();
        let sampled = all.min(COUNT_SAMPLE_STATES);
        let live = (0..sampled).filter(|number| shard.is_live(number * all / sampled, now)).count();
        LiveSample { live: live as u64, sampled: sampled as u64 }.scaled_to(all as u64)
    };
    (0..shards.shard_count()).map(live).sum()
}

/// What was found in a sample.
struct LiveSample {
    live: u64,
    sampled: u64,
}

impl LiveSample {
    /// What there is of it in as many as the sample stands for.
    fn scaled_to(&self, all: u64) -> u64 {
        let scaled = u128::from(self.live) * u128::from(all) / u128::from(self.sampled.max(1));
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }
}
