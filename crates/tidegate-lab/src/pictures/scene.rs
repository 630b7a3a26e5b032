//! All that one picture shows, as plain data.

use tidegate::{LimiterError, PacerError};

use super::holders::HELD_NS;
use super::paced::{Paced, TIMEOUT_MS};
use super::run::Run;
use super::subject::{Edges, Room, Subject, Units};
use super::tally::{Tally, Worst};

/// What one picture shows.
///
/// It does not say how it came about: a limit, a pacer or whatever else can fill one in.
#[derive(Clone, Debug)]
pub struct Scene {
    /// The name, which is also that of the file.
    pub name: String,
    /// The limit as it is written.
    pub limit: String,
    /// What sets this limit apart from the others, if anything does.
    pub options: String,
    /// One sentence of what to see.
    pub see: String,
    /// The bound of the level, in words that fit beside it.
    pub room: String,
    /// What things are called.
    pub words: Words,
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

/// What things are called where that is not the same for all.
#[derive(Clone, Copy, Debug)]
pub struct Words {
    /// What those who do not get what they ask for are.
    pub denied: &'static str,
    /// How those leave who do not go on at once.
    pub leave: &'static str,
    /// What the level is.
    pub level: &'static str,
    /// The same with an explanation.
    pub level_is: &'static str,
}

const NS_PER_MS: u64 = 1_000_000;
const LIMIT_WORDS: Words = Words {
    denied: "denied",
    leave: "evenly",
    level: "in use",
    level_is: "in use: what counts against the limit",
};

impl Scene {
    /// Puts the trace through a limit.
    pub fn of(subject: &Subject) -> Result<Self, LimiterError> {
        let run = match subject.units {
            Units::Spent => Run::of(&subject.limit())?,
            Units::Held => Run::of_holders(&subject.limit())?,
        };
        let scene = Self {
            name: subject.algorithm.to_string(),
            limit: subject.limit(),
            options: subject.options.to_owned(),
            see: subject.see.to_owned(),
            room: match subject.room {
                Room::Limit => format!("limit {}", run.room),
                Room::Burst => format!("burst {}", run.room),
                Room::Queue => format!("queue {} + 1", run.room.saturating_sub(1)),
            },
            words: LIMIT_WORDS,
            edges: subject.edges,
            ..Self::of_run(run)
        };
        Ok(match subject.units {
            Units::Spent => scene,
            Units::Held => {
                let level_is = "in flight: what counts against the limit";
                let words = Words { level: "in flight", level_is, ..LIMIT_WORDS };
                Self { words, options: format!("{} ms each", HELD_NS / NS_PER_MS), ..scene }
            }
        })
    }

    /// Puts the trace through a pacer.
    pub fn of_pacer(paced: &Paced) -> Result<Self, PacerError> {
        Ok(Self {
            name: paced.name.to_owned(),
            limit: paced.limit(),
            see: paced.see.to_owned(),
            room: format!("{} in {TIMEOUT_MS} ms", paced.room()),
            words: Words {
                denied: "refused",
                leave: paced.leave,
                level: "waiting",
                level_is: "waiting: who has come and not left yet",
            },
            ..Self::of_run(Run::of_pacer(paced)?)
        })
    }

    /// The figures as one sentence.
    pub fn in_figures(&self) -> String {
        let (came, admitted, denied) = (self.tally.requests(), self.tally.admitted(), self.tally.denied);
        let (worst, refused) = (self.worst.requests, self.words.denied);
        let lost = match self.run.lost.len() {
            0 => String::new(),
            lost => format!("; {lost} never give back"),
        };
        let leaving = self.worst_leaving.map(|worst| format!(" and {} leave", worst.requests));
        let leaving = leaving.unwrap_or_default();
        format!(
            "{came} requests: {admitted} admitted, {denied} {refused}{lost}; \
             at most {worst} are admitted{leaving} in any 1 s."
        )
    }

    /// A run and its figures, without a word.
    fn of_run(run: Run) -> Self {
        let tally = Tally::of(&run.requests);
        Self {
            name: String::new(),
            limit: String::new(),
            options: String::new(),
            see: String::new(),
            room: String::new(),
            words: LIMIT_WORDS,
            edges: Edges::None,
            worst: Worst::of(run.admitted_ns()),
            worst_leaving: (tally.delayed > 0).then(|| Worst::of(run.departures_ns())),
            run,
            tally,
        }
    }
}
