//! The pictures of the algorithms and pacers: what is in `docs/pictures` is what `tidegate-lab pictures` makes, and what it
//! says is so.

mod drawn;
mod held;
mod paced;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{fs, str};

use tidegate::{Limiter, Timestamp};
use tidegate_lab::pictures::{
    self, Fate, LIMIT, PACERS, START_NS, SUBJECTS, Scene, Subject, Units, WINDOW_NS,
};

use drawn::Drawn;

/// Below this a file is quick to load and to review.
const FILE_BYTES_MAX: usize = 40 << 10;
/// Longer sentences do not fit the width of a picture in a wide font.
const SENTENCE_CHARS_MAX: usize = 116;

fn committed() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/pictures")
}

fn lab(arguments: &[&str]) -> Output {
    Command::new(env!("CARGO_BIN_EXE_tidegate-lab")).args(arguments).output().expect("the program was built")
}

/// The files of a directory by their names.
fn files(directory: &Path) -> BTreeMap<String, String> {
    let entries = fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    let read = |entry: std::io::Result<fs::DirEntry>| {
        let path = entry.expect("the directory can be read").path();
        let name = path.file_name().expect("a file has a name").to_string_lossy().into_owned();
        (name, fs::read_to_string(&path).expect("a picture is text"))
    };
    entries.map(read).collect()
}

fn scene(name: &str) -> Scene {
    let subject = SUBJECTS.iter().find(|subject| subject.algorithm.as_str() == name);
    Scene::of(subject.expect("every algorithm is pictured")).expect("its limit is one")
}

/// The instants at which a limiter of its own admits, and those at which what it admits goes on.
fn recount(subject: &Subject) -> (Vec<u64>, Vec<u64>) {
    if subject.units == Units::Held {
        let admitted = held::admitted_ns();
        return (admitted.clone(), admitted);
    }
    let limiter = Limiter::new(subject.limit()).expect("a limit");
    let (mut admitted, mut leaving) = (Vec::new(), Vec::new());
    for at_ns in pictures::arrivals() {
        let decision = limiter.check_at("recounted", 1, Timestamp::from_nanos(START_NS + at_ns));
        if decision.is_allowed() {
            admitted.push(at_ns);
            leaving.push(at_ns + u64::try_from(decision.delay.get()).expect("a short delay"));
        }
    }
    (admitted, leaving)
}

/// The most of them in any window that ends with one of them.
fn worst(instants_ns: &[u64]) -> usize {
    let within = |last: &u64| instants_ns.iter().filter(|at| *at <= last && last - *at < WINDOW_NS).count();
    instants_ns.iter().map(within).max().unwrap_or(0)
}

#[test]
fn the_files_in_docs_are_what_the_command_makes() {
    let out = Path::new(env!("CARGO_TARGET_TMPDIR")).join("pictures");
    let _ = fs::remove_dir_all(&out);
    let made = lab(&["pictures", "--out", out.to_str().expect("a path of text")]);
    assert!(made.status.success(), "{}", String::from_utf8_lossy(&made.stderr));
    let (fresh, kept) = (files(&out), files(&committed()));
    let hint = "to make them anew, run `cargo run -p tidegate-lab -- pictures` in the top directory";
    assert!(
        fresh.keys().eq(kept.keys()),
        "docs/pictures has {:?}, not {:?}; {hint}",
        kept.keys(),
        fresh.keys()
    );
    for (name, svg) in &fresh {
        assert!(kept[name] == *svg, "docs/pictures/{name} is not what the code draws now; {hint}");
        let stdout = str::from_utf8(&made.stdout).expect("text");
        assert!(stdout.contains(name.as_str()), "{name} is not among\n{stdout}");
    }
    assert_eq!(fresh.len(), SUBJECTS.len() + PACERS.len() + 1);
}

#[test]
fn every_algorithm_is_pictured_once() {
    let pictures = files(&committed());
    let overview = Drawn::read(&pictures["overview.svg"]);
    for algorithm in tidegate::AlgorithmName::ALL {
        assert_eq!(
            SUBJECTS.iter().filter(|subject| subject.algorithm == algorithm).count(),
            1,
            "{algorithm}"
        );
        let file_name = format!("{algorithm}.svg");
        let picture = pictures.get(&file_name).unwrap_or_else(|| panic!("there is no {file_name}"));
        Drawn::read(picture).assert_says(&file_name, algorithm.as_str());
        overview.assert_says("overview.svg", algorithm.as_str());
    }
}

#[test]
fn pictures_are_well_formed_and_say_what_they_are() {
    for (name, svg) in files(&committed()) {
        let document = roxmltree::Document::parse(&svg).unwrap_or_else(|error| panic!("{name}: {error}"));
        let root = document.root_element();
        assert_eq!((root.tag_name().name(), root.attribute("role")), ("svg", Some("img")), "{name}");
        assert_eq!(root.attribute("width"), Some("860"), "{name}");
        let labels = root.attribute("aria-labelledby").expect("it is labelled").split(' ');
        for (label, tag) in labels.zip(["title", "desc"]) {
            let labelled =
                root.children().find(|node| node.attribute("id") == Some(label)).expect("the label");
            assert_eq!(labelled.tag_name().name(), tag, "{name}");
            assert!(labelled.text().is_some_and(|text| text.len() > 10), "{name} has no {tag}");
        }
        assert!(svg.len() <= FILE_BYTES_MAX, "{name} has {} bytes", svg.len());
        assert!(!svg.contains("\n\n"), "{name} has a blank line, which ends a picture in Markdown");
        let outside = ["script", "image", "a", "use", "foreignObject"];
        assert!(document.descendants().all(|node| !outside.contains(&node.tag_name().name())), "{name}");
    }
}

#[test]
fn the_figures_in_a_picture_agree_with_a_recount() {
    let pictures = files(&committed());
    for subject in &SUBJECTS {
        let name = subject.algorithm.as_str();
        let (admitted, leaving) = recount(subject);
        let denied = pictures::arrivals().count() - admitted.len();
        let at_once = admitted.iter().zip(&leaving).filter(|(came, left)| came == left).count();
        let delayed = admitted.len() - at_once;
        let (came_worst, left_worst) = (worst(&admitted), worst(&leaving));
        let figures = if delayed == 0 {
            vec![format!("{at_once} admitted"), format!("worst second: {came_worst} admitted")]
        } else {
            let worst = format!("worst second: {came_worst} admitted, {left_worst} leave");
            vec![format!("{at_once} admitted at once"), format!("{delayed} after a wait"), worst]
        };
        let bracket = [format!("{denied} denied"), format!("{came_worst} admitted in 1 s")];

        let drawn = Drawn::read(&pictures[&format!("{name}.svg")]);
        for figure in figures.iter().chain(&bracket) {
            drawn.assert_says(name, figure);
        }
        assert_eq!(drawn.marks, [at_once, delayed, denied], "{name}: dots, rings, crosses");
        assert_eq!(drawn.leaving, if delayed == 0 { 0 } else { admitted.len() }, "{name}");

        let overview = &pictures["overview.svg"];
        for figure in [format!(">{} admitted<", admitted.len()), format!(">worst second: {came_worst}<")] {
            assert!(overview.contains(&figure), "the overview does not say `{figure}` of {name}");
        }
    }
}

#[test]
fn every_request_has_one_fate() {
    for subject in &SUBJECTS {
        let scene = Scene::of(subject).expect("a limit");
        let came: Vec<u64> = scene.run.requests.iter().map(|request| request.at_ns).collect();
        assert!(came.iter().copied().eq(pictures::arrivals()), "{}", scene.name);
        assert!(came.is_sorted(), "{}", scene.name);
        assert_eq!(scene.tally.admitted() + scene.tally.denied, came.len() as u64, "{}", scene.name);
        let steady = scene.run.requests.iter().take_while(|request| request.at_ns < 2_000_000_000);
        assert!(steady.clone().all(|request| request.fate == Fate::Admitted), "{}", scene.name);
        assert_eq!(steady.count(), 16);
    }
}

#[test]
fn the_worst_second_is_what_each_algorithm_promises() {
    let worst = |name: &str| scene(name).worst.requests;
    let fixed = scene("fixed_window").worst;
    assert_eq!(fixed.requests, 2 * LIMIT);
    assert!(
        fixed.last_ns - fixed.first_ns < WINDOW_NS / 4,
        "the trace does not show the burst across an edge"
    );
    assert_eq!((worst("sliding_log"), worst("sub_windows")), (LIMIT, LIMIT));
    assert!((LIMIT + 1..2 * LIMIT).contains(&worst("sliding_window")));
    assert!((LIMIT + 1..=LIMIT + 5).contains(&worst("gcra")));
    assert!((LIMIT + 1..=2 * LIMIT).contains(&worst("token_bucket")));
    let leaky = scene("leaky_bucket");
    assert_eq!(leaky.worst_leaving.map(|worst| worst.requests), Some(LIMIT));
    let leaving: Vec<u64> = leaky.run.departures_ns().collect();
    assert!(leaving.windows(2).all(|pair| pair[1] - pair[0] >= WINDOW_NS / LIMIT));
    assert!(leaving.iter().all(|at_ns| *at_ns < pictures::END_NS), "some leave after the picture ends");
}

/// The level after the last request of each instant, recounted from what was admitted before it.
#[test]
fn the_level_is_what_counts_against_the_limit() {
    for name in ["sliding_log", "fixed_window"] {
        let counts = |admitted_ns: u64, now_ns: u64| match name {
            "sliding_log" => now_ns - admitted_ns < WINDOW_NS,
            _ => admitted_ns / WINDOW_NS == now_ns / WINDOW_NS,
        };
        let run = scene(name).run;
        for now_ns in pictures::arrivals() {
            let used = run.admitted_ns().filter(|at_ns| *at_ns <= now_ns && counts(*at_ns, now_ns)).count();
            let level =
                run.levels.iter().rfind(|level| level.at_ns <= now_ns).expect("a level from the start");
            assert_eq!(level.units, used as u64, "{name} at {now_ns} ns");
        }
    }
    for subject in &SUBJECTS {
        let run = Scene::of(subject).expect("a limit").run;
        assert_eq!(run.levels.iter().map(|level| level.units).max(), Some(run.room), "{}", subject.algorithm);
        assert!(run.levels.is_sorted_by_key(|level| level.at_ns), "{}", subject.algorithm);
    }
}

#[test]
fn sentences_fit_a_picture() {
    for Subject { algorithm, see, .. } in &SUBJECTS {
        assert!(see.chars().count() <= SENTENCE_CHARS_MAX, "{algorithm}: {}", see.chars().count());
    }
}

#[test]
fn a_directory_that_cannot_be_made_is_named() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let refused = lab(&["pictures", "--out", file]);
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("tidegate-lab/Cargo.toml") && stderr.contains("hint: "), "{stderr}");
}
