//! Logs when the wall clock of the machine is set while the server runs.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{ClockStats, SystemClock};

use crate::serve::App;

/// How often the clock is checked.
const CLOCK_POLL_INTERVAL: Duration = Duration::from_secs(1);

/// Logs steps of the wall clock until the server drains.
pub async fn watch(app: Arc<App>) {
    let mut watcher = ClockWatcher::new(app.status.clock_stats());
    let mut interval = tokio::time::interval(CLOCK_POLL_INTERVAL);
    loop {
        tokio::select! {
            () = app.drain.wait() => return,
            _ = interval.tick() => watcher.update(app.status.clock_stats()).iter().for_each(log),
        }
    }
}

fn log(change: &ClockChange) {
    match *change {
        ClockChange::Forward { by } => tracing::warn!(
            by_seconds = by.as_secs_f64(),
            "the wall clock jumped forward because it was set or the machine slept: for limits that time has passed"
        ),
        ClockChange::Back { ahead } => tracing::warn!(
            ahead_seconds = ahead.as_secs_f64(),
            "the wall clock was set back: the server's clock does not jump back but runs 0.05% slow until both agree, and \
             calendar windows begin early (hint: restart the server to use the new time now)"
        ),
        ClockChange::CaughtUp => tracing::info!("the wall clock has caught up with the server's clock"),
    }
}

/// A change of the wall clock to log.
#[derive(Clone, Copy, Debug, PartialEq)]
enum ClockChange {
    /// A step forward, which the server's clock follows.
    Forward { by: Duration },
    /// A step back, which the server's clock does not follow.
    Back { ahead: Duration },
    /// The wall clock has caught up after a step back.
    CaughtUp,
}

struct ClockWatcher {
    last: ClockStats,
    is_ahead: bool,
}

impl ClockWatcher {
    fn new(stats: ClockStats) -> Self {
        Self { last: stats, is_ahead: false }
    }

    /// The changes since the last update. Several steps between two updates are one change.
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
        assert_eq!(watch.update(stepped(1)), [], "steps before the start are not logged");
        assert_eq!(watch.update(stepped(2)), [ClockChange::Forward { by: HOUR }]);
        assert_eq!(watch.update(stepped(2)), []);
        assert_eq!(watch.update(stepped(4)), [ClockChange::Forward { by: 2 * HOUR }]);
    }

    #[test]
    fn a_step_back_has_one_line_and_another_at_its_end() {
        let ahead = |ahead: Duration| stats(|stats| stats.ahead = ahead);
        let mut watch = ClockWatcher::new(ahead(Duration::ZERO));
        assert_eq!(
            watch.update(ahead(Duration::from_millis(400))),
            [],
            "small enough to be slewed, as NTP does"
        );
        assert_eq!(watch.update(ahead(HOUR)), [ClockChange::Back { ahead: HOUR }]);
        assert_eq!(watch.update(ahead(HOUR / 2)), []);
        assert_eq!(watch.update(ahead(Duration::from_millis(400))), []);
        assert_eq!(watch.update(ahead(Duration::from_millis(200))), [ClockChange::CaughtUp]);
        assert_eq!(watch.update(ahead(Duration::ZERO)), []);
    }
}
