//! All that one picture shows, as plain data.

use tidegate::LimiterError;

use super::run::Run;
use super::subject::{Edges, Room, Subject};
use super::tally::{Tally, Worst};

/// What one picture shows.
///
/// It does not say how it came about. Something that is not a limit, a pacer for example, is pictured by
/// filling one in.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The name, which is also that of the file.
    pub name: String,
    /// The limit as it is written.
    pub limit: String,
    /// What sets this limit apart from others of its rate, if anything does.
    pub options: String,
    /// One sentence of what to see.
    pub see: String,
    /// The bound of the level, in words that fit beside it.
    pub room: String,
    /// Where time is cut.
    pub edges: Edges,
    /// What happened.
    pub run: Run,
    /// The same in figures.
    pub tally: Tally,
    /// The window with the most requests admitted.
    pub worst: Worst,
    /// The window in which the most go on, if that is not at once.
    pub worst_leaving: Option<Worst>,
}

impl Scene {
    /// Puts the trace through a limit.
    pub fn of(subject: &Subject) -> Result<Self, LimiterError> {
        let run = Run::of(&subject.limit())?;
        let tally = Tally::of(&run.requests);
        Ok(Self {
            name: subject.algorithm.to_string(),
            limit: subject.limit(),
            options: subject.options.to_owned(),
            see: subject.see.to_owned(),
            room: match subject.room {
                Room::Limit => format!("limit {}", run.room),
                Room::Burst => format!("burst {}", run.room),
                Room::Queue => format!("queue {} + 1", run.room.saturating_sub(1)),
            },
            edges: subject.edges,
            worst: Worst::of(run.admitted_ns()),
            worst_leaving: (tally.delayed > 0).then(|| Worst::of(run.departures_ns())),
            run,
            tally,
        })
    }

    /// The figures as one sentence.
    pub fn in_figures(&self) -> String {
        let (came, admitted, denied) = (self.tally.requests(), self.tally.admitted(), self.tally.denied);
        let worst = self.worst.requests;
        let leaving = self.worst_leaving.map(|worst| format!(" and {} leave", worst.requests));
        let leaving = leaving.unwrap_or_default();
        format!(
            "{came} requests: {admitted} admitted, {denied} denied; \
             at most {worst} are admitted{leaving} in any 1 s."
        )
    }
}
