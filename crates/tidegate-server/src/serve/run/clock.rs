//! What the machine's wall clock does while the server runs: a line in the log when it is set.

use std::sync::Arc;
use std::time::Duration;

use tidegate::{ClockStats, SystemClock};

use crate::serve::App;

/// How often the clock is looked at.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Logs steps of the wall clock until the server drains.
pub async fn watch(app: Arc<App>) {
    let mut watch = Watch::new(app.status.clock_stats());
    let mut looks = tokio::time::interval(LOOK_EVERY);
    loop {
        tokio::select! {
            () = app.drain.begun() => return,
            _ = looks.tick() => watch.look(app.status.clock_stats()).iter().for_each(log),
        }
    }
}

fn log(change: &Change) {
    match *change {
        Change::Forward { by } => tracing::warn!(
            by_seconds = by.as_secs_f64(),
            "the wall clock went forward, because it was set or the machine slept: limits see that time as passed"
        ),
        Change::Back { ahead } => tracing::warn!(
            ahead_seconds = ahead.as_secs_f64(),
            "the wall clock was set back, which is not followed: time here runs 0.05% slow until the two meet, and calendar \
             windows begin early (hint: restart the server to set its time back at once)"
        ),
        Change::Met => tracing::info!("wall time has caught up with the time here"),
    }
}

/// What there is to say about the wall clock.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Change {
    /// A step that was followed.
    Forward { by: Duration },
    /// A step back, which is not followed.
    Back { ahead: Duration },
    /// The end of what began with a step back.
    Met,
}

struct Watch {
    known: ClockStats,
    is_ahead: bool,
}

impl Watch {
    fn new(known: ClockStats) -> Self {
        Self { known, is_ahead: false }
    }

    /// What is new since the last look. Several steps between two looks are one.
    fn look(&mut self, stats: ClockStats) -> Vec<Change> {
        let mut changes = Vec::new();
        if stats.steps > self.known.steps {
            changes.push(Change::Forward { by: stats.stepped.saturating_sub(self.known.stepped) });
        }
        if !self.is_ahead && stats.ahead > SystemClock::STEP {
            self.is_ahead = true;
            changes.push(Change::Back { ahead: stats.ahead });
        } else if self.is_ahead && stats.ahead <= SystemClock::STEP / 2 {
            self.is_ahead = false;
            changes.push(Change::Met);
        }
        self.known = stats;
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
        let mut watch = Watch::new(stepped(1));
        assert_eq!(watch.look(stepped(1)), [], "what was before the start");
        assert_eq!(watch.look(stepped(2)), [Change::Forward { by: HOUR }]);
        assert_eq!(watch.look(stepped(2)), []);
        assert_eq!(watch.look(stepped(4)), [Change::Forward { by: 2 * HOUR }]);
    }

    #[test]
    fn a_step_back_has_one_line_and_another_at_its_end() {
        let ahead = |ahead: Duration| stats(|stats| stats.ahead = ahead);
        let mut watch = Watch::new(ahead(Duration::ZERO));
        assert_eq!(watch.look(ahead(Duration::from_millis(400))), [], "slewed, as NTP does it");
        assert_eq!(watch.look(ahead(HOUR)), [Change::Back { ahead: HOUR }]);
        assert_eq!(watch.look(ahead(HOUR / 2)), []);
        assert_eq!(watch.look(ahead(Duration::from_millis(400))), []);
        assert_eq!(watch.look(ahead(Duration::from_millis(200))), [Change::Met]);
        assert_eq!(watch.look(ahead(Duration::ZERO)), []);
    }
}
