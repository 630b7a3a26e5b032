//! The trace put through a limit of what is held: units are taken, kept for a while and given back.

use std::collections::VecDeque;
use std::sync::Arc;

use tidegate::{LeaseToken, Limiter, LimiterError, ManualClock, MemoryStore, Release};

use super::run::{Fate, GRID_NS, KEY, Lost, Request, Run, grid, instant};
use super::trace::{self, START_NS};

/// How long a request that was admitted holds its unit: what serving it takes.
pub const HELD_NS: u64 = 400_000_000;
/// Of so many requests that are admitted, the last never gives back, as if its holder had crashed.
pub const CRASH_EVERY: u64 = 10;

impl Run {
    /// Puts the trace through this concurrency limit.
    pub fn of_holders(limit: &str) -> Result<Self, LimiterError> {
        let mut holders = Holders::new(limit)?;
        let mut arrivals = trace::arrivals().peekable();
        for grid_ns in grid() {
            holders.pass_time_until(grid_ns);
            while let Some(at_ns) = arrivals.next_if(|at_ns| *at_ns < grid_ns + GRID_NS) {
                holders.pass_time_until(at_ns);
                holders.come(at_ns);
            }
        }
        Ok(holders.run)
    }
}

/// A limiter and those who hold of it.
struct Holders {
    clock: ManualClock,
    limiter: Limiter<ManualClock>,
    /// Who will give back, the first first: all of them hold for the same time.
    holding: VecDeque<Holder>,
    admitted: u64,
    run: Run,
}

struct Holder {
    done_ns: u64,
    token: LeaseToken,
}

impl Holders {
    fn new(limit: &str) -> Result<Self, LimiterError> {
        let clock = ManualClock::at(instant(0));
        let store = Arc::new(MemoryStore::unbounded());
        let limiter = Limiter::builder().limit(limit).store(store).clock(clock.clone()).build()?;
        let run = Run::new(limiter.peek(KEY, 0).remaining);
        Ok(Self { clock, limiter, holding: VecDeque::new(), admitted: 0, run })
    }

    /// Whoever is done by then gives back when it is done; one that comes in the same instant finds the unit free.
    fn pass_time_until(&mut self, now_ns: u64) {
        while let Some(holder) = self.next_done(now_ns) {
            self.clock.set(instant(holder.done_ns));
            let release = self.limiter.release(KEY, &holder.token);
            debug_assert_eq!(release, Release::Released, "a ttl is longer than anything is held");
            self.run.look(&self.limiter, holder.done_ns);
        }
        self.clock.set(instant(now_ns));
        self.run.look(&self.limiter, now_ns);
    }

    /// The next holder that is done by then.
    fn next_done(&mut self, now_ns: u64) -> Option<Holder> {
        if self.holding.front()?.done_ns > now_ns {
            return None;
        }
        self.holding.pop_front()
    }

    fn come(&mut self, at_ns: u64) {
        let (decision, lease) = self.limiter.lease(KEY, 1, None);
        self.run.requests.push(Request { at_ns, fate: Fate::of(&decision) });
        if let Some(lease) = lease {
            self.admitted += 1;
            if self.admitted.is_multiple_of(CRASH_EVERY) {
                let until_ns = lease.expires.as_nanos().saturating_sub(START_NS);
                self.run.lost.push(Lost { from_ns: at_ns, until_ns });
            } else {
                self.holding.push_back(Holder { done_ns: at_ns + HELD_NS, token: lease.token });
            }
        }
        self.run.look(&self.limiter, at_ns);
    }
}
