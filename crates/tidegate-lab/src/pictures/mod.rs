//! Pictures of the algorithms and pacers: one trace, one limit, and what each of them makes of it.
//!
//! ```text
//! trace    -> when requests come             trace.rs
//! subject  -> a limit and what to see in it  subject.rs; a pacer: paced.rs
//! Run      -> decisions of a real limiter    run.rs; of what is held: holders.rs; of a pacer: waiters.rs
//! Scene    -> the run, words, figures        scene.rs, tally.rs
//! chart    -> an SVG of one                  chart.rs, of all: overview.rs
//! ```
//!
//! All decisions are those of a [`tidegate::Limiter`] or a [`tidegate::Pacer`] at given instants; nothing of an algorithm is repeated
//! here. Everything is integers, so the files are the same to the byte wherever they are made, and a test
//! holds the ones in `docs/pictures` to that.
//!
//! To picture another limit, add a [`Subject`], another pacer, a [`Paced`]. To picture something that is neither, fill in a [`Scene`].

mod bin;
mod chart;
mod geometry;
mod holders;
mod lanes;
mod legend;
mod marks;
mod overview;
mod paced;
mod run;
mod scene;
mod subject;
mod svg;
mod tally;
mod theme;
mod trace;
mod waiters;

pub use holders::{CRASH_EVERY, HELD_NS};
pub use paced::{BURST_S, Form, PACERS, Paced, TIMEOUT_MS, WARM_UP_MS};
pub use run::{Fate, Level, Lost, Request, Run};
pub use scene::{Scene, Words};
pub use subject::{Edges, Room, SUBJECTS, Subject, Units};
pub use tally::{Tally, Worst};
pub use trace::{END_NS, LIMIT, PHASES, Phase, START_NS, WINDOW_NS, arrivals};

use std::path::{Path, PathBuf};
use std::{error, fmt, fs, io};

use tidegate::{LimiterError, PacerError};

/// A picture that is ready to be written.
#[derive(Clone, Debug)]
pub struct Picture {
    /// The name of its file.
    pub file_name: String,
    /// Its text.
    pub svg: String,
    /// What it shows, in figures.
    pub figures: String,
}

/// Why there are no pictures.
#[derive(Debug)]
pub enum PicturesError {
    /// A limit is none.
    Limit(LimiterError),
    /// A pacer is none.
    Pacer(PacerError),
    /// A file or a directory cannot be written.
    Write {
        /// Which.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// Makes all pictures.
pub fn draw_all() -> Result<Vec<Picture>, PicturesError> {
    let scenes =
        SUBJECTS.iter().map(Scene::of).collect::<Result<Vec<_>, _>>().map_err(PicturesError::Limit)?;
    let paced =
        PACERS.iter().map(Scene::of_pacer).collect::<Result<Vec<_>, _>>().map_err(PicturesError::Pacer)?;
    let one = |scene: &Scene| Picture {
        file_name: format!("{}.svg", scene.name),
        svg: chart::draw(scene),
        figures: scene.in_figures(),
    };
    let mut pictures: Vec<Picture> = scenes.iter().chain(&paced).map(one).collect();
    let (file_name, figures) = (format!("{}.svg", overview::NAME), "All of the algorithms.".to_owned());
    pictures.push(Picture { file_name, svg: overview::draw(&scenes), figures });
    Ok(pictures)
}

/// Makes all pictures and writes them into a directory, which is made if it is not there.
pub fn write_all(directory: &Path) -> Result<Vec<Picture>, PicturesError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        |source| PicturesError::Write { path, source }
    };
    let pictures = draw_all()?;
    fs::create_dir_all(directory).map_err(failed(directory))?;
    for picture in &pictures {
        let path = directory.join(&picture.file_name);
        fs::write(&path, &picture.svg).map_err(failed(&path))?;
    }
    Ok(pictures)
}

impl fmt::Display for PicturesError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Limit(error) => error.fmt(f),
            Self::Pacer(error) => error.fmt(f),
            Self::Write { path, source } => {
                let path = path.display();
                write!(
                    f,
                    "cannot write {path}: {source} (hint: name a directory you may write to with --out)"
                )
            }
        }
    }
}

impl error::Error for PicturesError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Limit(error) => Some(error),
            Self::Pacer(error) => Some(error),
            Self::Write { source, .. } => Some(source),
        }
    }
}
