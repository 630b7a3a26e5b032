//! One reading of the clock for several requests.
//!
//! Requests that had all arrived when the clock was read may share the reading, as long as nothing waits between them:
//! they could have been decided at that instant.

use tidegate::{Clock as _, Timestamp};

use super::App;

/// At most this many decisions share a reading. They take about a tenth of a millisecond, so no decision is made at an
/// instant that is much older.
pub const DECISIONS_PER_READING_MAX: u32 = 64;

/// A reading of the clock for the requests of one synchronous pass over what has arrived. Make a new one after each wait.
#[derive(Debug, Default)]
pub struct SharedInstant {
    reading: Option<Timestamp>,
    decisions_left: u32,
}

impl SharedInstant {
    /// The instant of the next decision, if memory makes it. A shared store has its own clock.
    #[inline]
    pub fn get(&mut self, app: &App) -> Option<Timestamp> {
        if app.has_shared_store() { None } else { Some(self.now(app)) }
    }

    /// The instant of the next decision, which memory makes.
    #[inline]
    pub fn now(&mut self, app: &App) -> Timestamp {
        self.read(|| app.engine.clock().now())
    }

    /// The instant of the next decision. Calls `now` if the last reading cannot be shared any more.
    #[inline]
    pub fn read(&mut self, now: impl FnOnce() -> Timestamp) -> Timestamp {
        match self.reading {
            Some(reading) if self.decisions_left > 0 => {
                self.decisions_left -= 1;
                reading
            }
            _ => {
                self.decisions_left = DECISIONS_PER_READING_MAX - 1;
                *self.reading.insert(now())
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_reading_is_shared_by_a_bounded_number_of_decisions() {
        let (mut readings, mut instant) = (0, SharedInstant::default());
        let mut next = || {
            instant.read(|| {
                readings += 1;
                Timestamp::from_nanos(readings)
            })
        };
        let instants: Vec<u64> = (0..2 * DECISIONS_PER_READING_MAX).map(|_| next().as_nanos()).collect();
        let (first, second) = instants.split_at(DECISIONS_PER_READING_MAX as usize);
        assert!(first.iter().all(|at| *at == 1) && second.iter().all(|at| *at == 2), "{instants:?}");
    }
}
