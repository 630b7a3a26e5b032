//! What the machine's wall clock does while the server runs: a line in the log when it is set.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{ClockStats, SystemClock};

use crate::serve::App;

/// How often the clock is looked at.
const CLOCK_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Logs steps of the wall clock until the server drains.
pub async fn watch(app: Arc<App>) {
    let mut watch = ClockWatcher::new(app.status.clock_stats());
    let mut looks = tokio::time::interval(CLOCK_POLL_INTERVAL);
    loop {
        tokio::select! {
            () = app.drain.wait() => return,
            _ = looks.tick() => watch.update(app.status.clock_stats()).iter().for_each(log),
        }
    }
}

fn log(change: &ClockChange) {
    match *change {
        ClockChange::Forward { by } => tracing::warn!(
            by_seconds = by.as_secs_f64(),
            "the wall clock went forward, because it was set or the machine slept: limits see that time as passed"
        ),
        ClockChange::Back { ahead } => tracing::warn!(
            ahead_seconds = ahead.as_secs_f64(),
            "the wall clock was set back, which is not followed: time here runs 0.05% slow until the two meet, and calendar \
             windows begin early (hint: restart the server to set its time back at once)"
        ),
        ClockChange::CaughtUp => tracing::info!("wall time has caught up with the time here"),
    }
}

/// What there is to say about the wall clock.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ClockChange {
    /// A step that was followed.
    Forward { by: Duration },
    /// A step back, which is not followed.
    Back { ahead: Duration },
    /// The end of what began with a step back.
    CaughtUp,
}

struct ClockWatcher {
    last: ClockStats,
    is_ahead: bool,
}

impl ClockWatcher {
    fn new(known: ClockStats) -> Self {
        Self { last: known, is_ahead: false }
    }

    /// What is new since the last look. Several steps between two looks are one.
    fn update(&mut self, stats: ClockStats) -> Vec<ClockChange> {
        let mut changes = Vec::new();
        if stats.steps > self.last.steps {
            changes.push(ClockChange::Forward { by: stats.stepped.saturating_sub(self.last.stepped) });
        }
        if !self.is_ahead && stats.ahead > SystemClock::STEP {
            self.is_ahead = true;
            changes.push(ClockChange::Back { ahead: stats.ahead });
        } else if self.is_ahead && stats.ahead <= SystemClock::STEP / 2 {
            self.is_ahead = false;
            changes.push(ClockChange::CaughtUp);
        }
        self.last = stats;
        changes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stats(change: impl FnOnce(&mut ClockStats)) -> ClockStats {
        let mut stats = ClockStats::default();
        change(&mut stats);
        stats
    }

    const HOUR: Duration = Duration::from_secs(3_600);

    #[test]
    fn a_step_forward_has_one_line() {
        let stepped = |hours: u32| stats(|stats| (stats.steps, stats.stepped) = (hours.into(), hours * HOUR));
        let mut watch = ClockWatcher::new(stepped(1));
        assert_eq!(watch.update(stepped(1)), [], "what was before the start");
        assert_eq!(watch.update(stepped(2)), [ClockChange::Forward { by: HOUR }]);
        assert_eq!(watch.update(stepped(2)), []);
        assert_eq!(watch.update(stepped(4)), [ClockChange::Forward { by: 2 * HOUR }]);
    }

    #[test]
    fn a_step_back_has_one_line_and_another_at_its_end() {
        let ahead = |ahead: Duration| stats(|stats| stats.ahead = ahead);
        let mut watch = ClockWatcher::new(ahead(Duration::ZERO));
        assert_eq!(watch.update(ahead(Duration::from_millis(400))), [], "slewed, as NTP does it");
        assert_eq!(watch.update(ahead(HOUR)), [ClockChange::Back { ahead: HOUR }]);
        assert_eq!(watch.update(ahead(HOUR / 2)), []);
        assert_eq!(watch.update(ahead(Duration::from_millis(400))), []);
        assert_eq!(watch.update(ahead(Duration::from_millis(200))), [ClockChange::CaughtUp]);
        assert_eq!(watch.update(ahead(Duration::ZERO)), []);
    }
}
