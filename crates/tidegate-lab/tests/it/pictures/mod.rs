//! The pictures: the files in `docs/pictures` are up to date, and what they show is true.

mod concurrency;
mod drawing;
mod pacers;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::{fs, str};

use tidegate::{Limiter, Timestamp};
use tidegate_lab::pictures::{self, LIMIT, Run, START_NS, SUBJECTS, Subject, SubjectKind, WINDOW_NS};

use drawing::Drawing;

/// Larger files would be slow to load and to review.
const FILE_BYTES_MAX: usize = 40 << 10;
/// A longer caption does not fit the width of a picture in a wide font.
const CAPTION_CHARS_MAX: usize = 116;

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

fn run(name: &str) -> Run {
    Run::of(SUBJECTS.iter().find(|subject| subject.name == name).expect("every algorithm is pictured"))
}

fn limits() -> impl Iterator<Item = &'static Subject> {
    let is_limit = |kind| matches!(kind, SubjectKind::Rate | SubjectKind::Concurrency);
    SUBJECTS.iter().filter(move |subject| is_limit(subject.kind))
}

/// When a separate limiter admits requests, and when those leave.
fn recount(subject: &Subject) -> (Vec<u64>, Vec<u64>) {
    if subject.kind == SubjectKind::Concurrency {
        let admitted = concurrency::admitted_ns();
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

/// The most instants in any window that ends with one of them.
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
    let hint = "to draw them again, run `cargo run -p tidegate-lab -- pictures` in the top directory";
    assert!(
        fresh.keys().eq(kept.keys()),
        "docs/pictures has {:?}, not {:?}; {hint}",
        kept.keys(),
        fresh.keys()
    );
    for (name, svg) in &fresh {
        assert!(kept[name] == *svg, "docs/pictures/{name} is out of date; {hint}");
        let stdout = str::from_utf8(&made.stdout).expect("text");
        assert!(stdout.contains(name.as_str()), "{name} is missing in\n{stdout}");
    }
    assert_eq!(fresh.len(), SUBJECTS.len() + 1);
}

#[test]
fn every_algorithm_is_pictured_once() {
    let pictures = files(&committed());
    let overview = Drawing::read(&pictures["overview.svg"]);
    for algorithm in tidegate::AlgorithmName::ALL {
        assert_eq!(limits().filter(|subject| subject.name == algorithm.as_str()).count(), 1, "{algorithm}");
        let file_name = format!("{algorithm}.svg");
        let picture = pictures.get(&file_name).unwrap_or_else(|| panic!("there is no {file_name}"));
        Drawing::read(picture).assert_shows(&file_name, algorithm.as_str());
        overview.assert_shows("overview.svg", algorithm.as_str());
    }
}

#[test]
fn pictures_are_well_formed_and_labelled() {
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
    for subject in limits() {
        let name = subject.name;
        let (admitted, leaving) = recount(subject);
        let denied = pictures::arrivals().count() - admitted.len();
        let now = admitted.iter().zip(&leaving).filter(|(came, left)| came == left).count();
        let delayed = admitted.len() - now;
        let (came_worst, left_worst) = (worst(&admitted), worst(&leaving));
        let figures = if delayed == 0 {
            vec![format!("{now} admitted"), format!("worst second: {came_worst} admitted")]
        } else {
            let worst = format!("worst second: {came_worst} admitted, {left_worst} leave");
            vec![format!("{now} admitted now"), format!("{delayed} admitted later"), worst]
        };
        let bracket = [format!("{denied} denied"), format!("{came_worst} admitted in 1 s")];

        let drawing = Drawing::read(&pictures[&format!("{name}.svg")]);
        for figure in figures.iter().chain(&bracket) {
            drawing.assert_shows(name, figure);
        }
        assert_eq!(drawing.marks, [now, delayed, denied], "{name}: dots, rings, crosses");
        assert_eq!(drawing.departures, if delayed == 0 { 0 } else { admitted.len() }, "{name}");

        let overview = &pictures["overview.svg"];
        for figure in [format!(">{} admitted<", admitted.len()), format!(">worst second: {came_worst}<")] {
            assert!(overview.contains(&figure), "the overview does not show `{figure}` for {name}");
        }
    }
}

#[test]
fn every_request_is_decided_and_the_steady_phase_is_admitted() {
    for subject in limits() {
        let (name, run) = (subject.name, Run::of(subject));
        let came: Vec<u64> = run.requests.iter().map(|request| request.at_ns).collect();
        assert!(came.iter().copied().eq(pictures::arrivals()), "{name}");
        assert!(came.is_sorted(), "{name}");
        let steady = run.requests.iter().take_while(|request| request.at_ns < 2_000_000_000);
        assert!(steady.clone().all(|request| request.leaves_ns == Some(request.at_ns)), "{name}");
        assert_eq!(steady.count(), 16);
    }
}

#[test]
fn the_worst_second_is_what_each_algorithm_promises() {
    let worst = |name: &str| run(name).worst_ns().len() as u64;
    let fixed_ns = run("fixed_window").worst_ns();
    assert_eq!(fixed_ns.len() as u64, 2 * LIMIT);
    let span_ns = fixed_ns[fixed_ns.len() - 1] - fixed_ns[0];
    assert!(span_ns < WINDOW_NS / 4, "the trace does not show the burst across an edge");
    assert_eq!((worst("sliding_log"), worst("sub_windows")), (LIMIT, LIMIT));
    assert!((LIMIT + 1..2 * LIMIT).contains(&worst("sliding_window")));
    assert!((LIMIT + 1..=LIMIT + 5).contains(&worst("gcra")));
    assert!((LIMIT + 1..=2 * LIMIT).contains(&worst("token_bucket")));
    let leaky = run("leaky_bucket");
    assert_eq!(leaky.leaving_max().map(|leaving| leaving as u64), Some(LIMIT));
    let leaving: Vec<u64> = leaky.departures_ns().collect();
    assert!(leaving.windows(2).all(|pair| pair[1] - pair[0] >= WINDOW_NS / LIMIT));
    assert!(leaving.iter().all(|at_ns| *at_ns < pictures::END_NS), "some leave after the picture ends");
}

/// Recounts the level from the requests admitted before.
#[test]
fn the_level_is_what_counts_against_the_limit() {
    for name in ["sliding_log", "fixed_window"] {
        let counts = |admitted_ns: u64, now_ns: u64| match name {
            "sliding_log" => now_ns - admitted_ns < WINDOW_NS,
            _ => admitted_ns / WINDOW_NS == now_ns / WINDOW_NS,
        };
        let run = run(name);
        for now_ns in pictures::arrivals() {
            let used = run.admitted_ns().filter(|at_ns| *at_ns <= now_ns && counts(*at_ns, now_ns)).count();
            let level =
                run.levels.iter().rfind(|level| level.at_ns <= now_ns).expect("a level from the start");
            assert_eq!(level.units, used as u64, "{name} at {now_ns} ns");
        }
    }
}

#[test]
fn the_level_reaches_the_labelled_maximum() {
    for subject in &SUBJECTS {
        let (name, run) = (subject.name, Run::of(subject));
        assert_eq!(run.levels.iter().map(|level| level.units).max(), Some(run.level_max), "{name}");
        assert!(run.levels.is_sorted_by_key(|level| level.at_ns), "{name}");
        // "burst 5", "queue 10 + 1", "5 in 500 ms"
        let label = subject.bound.split(" in ").next().expect("a label");
        let labelled: u64 = label.split(' ').filter_map(|word| word.parse::<u64>().ok()).sum();
        assert_eq!(labelled, run.level_max, "{name}: {}", subject.bound);
    }
}

#[test]
fn captions_fit_a_picture() {
    for Subject { name, caption, .. } in &SUBJECTS {
        assert!(caption.chars().count() <= CAPTION_CHARS_MAX, "{name}: {}", caption.chars().count());
    }
}

#[test]
fn a_directory_that_cannot_be_created_is_named() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml");
    let refused = lab(&["pictures", "--out", file]);
    let stderr = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{stderr}");
    assert!(stderr.contains("tidegate-lab/Cargo.toml") && stderr.contains("hint: "), "{stderr}");
}
