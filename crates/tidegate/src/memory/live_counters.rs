//! How many live counters the store has.
//!
//! This is an estimate from a bounded sample of pages, and of the states in each shard. Hashes spread keys evenly, so
//! with a million keys it is off by a fraction of a percent. With fewer keys than the sample, it is exact.

use tidegate_core::Timestamp;

use super::MemoryStore;
use super::shards::{ShardedState, Shards};

/// The most pages in the sample: 4 MiB.
const COUNT_SAMPLE_PAGES: u32 = 1 << 10;
/// The most states of one shard in the sample.
const COUNT_SAMPLE_STATES: usize = 1 << 8;

impl MemoryStore {
    /// About how many counters are live at `now`. Exact if there are few. Takes at most some hundred microseconds, and
    /// blocks no thread for longer than it takes to read one page.
    pub fn live_counters(&self, now: Timestamp) -> u64 {
        let in_shards = count_live_in_shards(&self.usage_logs, now)
            .saturating_add(count_live_in_shards(&self.leases, now));
        self.count_live_in_pages(now).saturating_add(in_shards)
    }

    fn count_live_in_pages(&self, now: Timestamp) -> u64 {
        let pages = self.table.pages();
        let sampled = pages.min(COUNT_SAMPLE_PAGES);
        let mut entries = Vec::new();
        let mut live = 0;
        for number in 0..sampled {
            let page = u64::from(number) * u64::from(pages) / u64::from(sampled);
            self.table.page(u32::try_from(page).unwrap_or(u32::MAX)).copy_to(&mut entries);
            live += entries.iter().filter(|entry| !entry.state.is_idle_at(now)).count() as u64;
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

/// The result of a sample.
struct LiveSample {
    live: u64,
    sampled: u64,
}

impl LiveSample {
    /// Scales the result to the whole.
    fn scaled_to(&self, all: u64) -> u64 {
        let scaled = u128::from(self.live) * u128::from(all) / u128::from(self.sampled.max(1));
        u64::try_from(scaled).unwrap_or(u64::MAX)
    }
}
