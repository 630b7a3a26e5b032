//! Pictures of the algorithms and pacers: how each of them handles the same requests.
//!
//! ```text
//! trace + subjects -> run -> chart
//! ```
//!
//! A [`Run`] sends the trace through a real [`tidegate::Limiter`] or [`tidegate::Pacer`] on a manual clock, and
//! `chart.rs` draws its decisions. All numbers are integers, so every machine makes the same bytes; a test compares
//! them with the files in `docs/pictures`. To add a picture, add an entry to [`SUBJECTS`].

mod chart;
mod lanes;
mod run;
mod subjects;
pub(crate) mod svg;
mod trace;

pub use run::{BURST_S, CRASH_EVERY, HELD_NS, Level, Request, Run, TIMEOUT_MS, WARM_UP_MS};
pub use subjects::{SUBJECTS, Subject, SubjectKind};
pub use trace::{END_NS, LIMIT, START_NS, WINDOW_NS, arrivals};

use std::path::Path;
use std::{fs, io};

/// A picture that can be written to a file.
#[derive(Clone, Debug)]
pub struct Picture {
    /// The name of the file.
    pub file_name: String,
    /// The content of the file.
    pub svg: String,
    /// What it shows, as one sentence of figures.
    pub figures: String,
}

/// Draws all pictures.
pub fn draw_all() -> Vec<Picture> {
    let mut runs: Vec<Run> = SUBJECTS.iter().map(Run::of).collect();
    let picture = |name: &str, svg, figures| Picture { file_name: format!("{name}.svg"), svg, figures };
    let one = |run: &Run| picture(run.subject.name, chart::draw(run), chart::figures(run));
    let mut pictures: Vec<Picture> = runs.iter().map(one).collect();
    runs.retain(|run| !run.subject.is_pacer());
    pictures.push(picture(chart::OVERVIEW, chart::draw_overview(&runs), "All algorithms.".to_owned()));
    pictures
}

/// Draws all pictures and writes them to a directory, which is created if necessary.
pub fn write_all(directory: &Path) -> io::Result<Vec<Picture>> {
    let pictures = draw_all();
    let with_hint = |error: io::Error| {
        let path = directory.display();
        io::Error::other(format!(
            "cannot write to {path}: {error} (hint: choose a writable directory with --out)"
        ))
    };
    fs::create_dir_all(directory).map_err(with_hint)?;
    for Picture { file_name, svg, .. } in &pictures {
        fs::write(directory.join(file_name), svg).map_err(with_hint)?;
    }
    Ok(pictures)
}
