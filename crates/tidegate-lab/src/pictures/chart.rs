//! The picture of one subject, and the overview of all algorithms.

use super::lanes::{
    ADMITTED, Bin, CROSS, DENIED, DOT, EDGE, LEVEL, LEVEL_MAX, MARK, RING, Sample, Scale, UNRELEASED, WORST,
};
use super::run::{Request, Run};
use super::subjects::SubjectKind;
use super::svg::{Canvas, WIDTH};
use super::trace::{LIMIT, WINDOW_NS};

const MARGIN: u64 = 240;
/// Where the labels of lanes end.
const LABEL_END: u64 = 940;
/// A quarter of a window: wide enough to see.
const BAR_NS: u64 = 250_000_000;
/// The height of a unit of the level, the same in all charts.
const LEVEL_UNIT: u64 = 60;

/// Draws one subject.
pub fn draw(run: &Run) -> String {
    let subject = &run.subject;
    let departures: Vec<Request> =
        run.departures_ns().map(|at_ns| Request { at_ns, leaves_ns: Some(at_ns) }).collect();
    let has_departures = run.delayed() > 0;
    let tallest = Bin::stacks(&departures).iter().map(|stack| stack.requests.len() as u64).max();
    let (requests_y, bars_y, departures_y) = (2_240, 2_920, 3_452 + MARK * tallest.unwrap_or(1));
    let level_y = if has_departures { departures_y + 280 + LEVEL_UNIT * run.level_max } else { 4_240 };
    let mut canvas = Canvas {
        name: subject.name,
        title: format!("{}: {}", subject.name, subject.limit()),
        description: format!("{} {}", subject.caption, figures(run)),
        height: level_y + 680,
        left: 1_060,
        second: 770,
        body: String::new(),
    };

    canvas.text("tg-name", (MARGIN, 380), subject.name);
    canvas.text("tg-code tg-muted tg-end", (WIDTH - MARGIN, 370), &subject.limit());
    canvas.text("tg-caption", (MARGIN, 620), subject.caption);
    figures_with_marks(&mut canvas, run, 940);
    canvas.edges(1_460, level_y, subject.window_ms);
    canvas.phases(1_240);

    labels(&mut canvas, requests_y - 140, ["requests", "one mark each"]);
    canvas.base(requests_y);
    canvas.marks(requests_y - MARK / 2, &run.requests);
    bracket(&mut canvas, run, requests_y + 60);

    labels(&mut canvas, bars_y - 100, ["per 0.25 s", "up: admitted"]);
    canvas.text("tg-small tg-muted tg-end", (LABEL_END, bars_y + 180), &format!("down: {}", denied(run)));
    canvas.admitted_and_denied(Scale { zero: bars_y, unit: 24 }, &Bin::all_of(&run.requests, BAR_NS));

    if has_departures {
        labels(&mut canvas, departures_y - 30, ["departures", "one dot each"]);
        canvas.marks(departures_y, &departures);
    }

    let (level, meaning) = match subject.kind {
        SubjectKind::Rate => ("in use", "in use: counted against the limit"),
        SubjectKind::Concurrency => ("in flight", "in flight: counted against the limit"),
        _ => ("waiting", "waiting: no permit yet"),
    };
    canvas.text("tg-small tg-end", (LABEL_END, level_y - LEVEL_UNIT * run.level_max + 40), subject.bound);
    canvas.text("tg-lane tg-end", (LABEL_END, level_y - 50), level);
    canvas.level(Scale { zero: level_y, unit: LEVEL_UNIT }, run);
    canvas.seconds(level_y);
    let mut legend =
        vec![(1_060, LEVEL, meaning), (3_560, LEVEL_MAX, "maximum"), (4_700, WORST, "worst second")];
    match subject.window_ms {
        None => {}
        Some(1_000) => legend.push((6_100, EDGE, "a window starts")),
        Some(_) => legend.push((6_100, EDGE, "a sub-window starts")),
    }
    if !run.unreleased.is_empty() {
        legend.push((6_100, UNRELEASED, "never released, until the ttl"));
    }
    canvas.legend(level_y + 480, &legend);
    canvas.finish()
}

/// The figures as one sentence.
pub fn figures(run: &Run) -> String {
    let (requests, admitted, worst) = (run.requests.len(), run.admitted(), run.worst_ns().len());
    let mut denied = format!("{} {}", run.denied(), denied(run));
    if !run.unreleased.is_empty() {
        denied += &format!("; {} never released", run.unreleased.len());
    }
    let leave = run.leaving_max().map(|leave| format!(" and {leave} leave")).unwrap_or_default();
    format!(
        "{requests} requests: {admitted} admitted, {denied}; at most {worst} are admitted{leave} in any 1 s."
    )
}

fn denied(run: &Run) -> &'static str {
    if run.subject.is_pacer() { "refused" } else { "denied" }
}

fn figures_with_marks(canvas: &mut Canvas, run: &Run, y: u64) {
    let mut figure = |x: u64, (class, path): Sample, text: String| {
        let transform = format!("translate({} {})scale(1.8)", x - 110, y - 50);
        canvas.body +=
            &format!("<g transform=\"{transform}\"><path class=\"{class}\" d=\"M0 0{path}\"/></g>\n");
        canvas.text("tg-figure", (x, y), &text);
    };
    let denied = format!("{} {}", run.denied(), denied(run));
    let mut worst = format!("worst second: {} admitted", run.worst_ns().len());
    if let Some(leave) = run.leaving_max() {
        figure(390, DOT, format!("{} admitted now", run.admitted() - run.delayed()));
        figure(2_150, RING, format!("{} admitted later", run.delayed()));
        figure(4_010, CROSS, denied);
        worst += &format!(", {leave} leave");
    } else {
        figure(390, DOT, format!("{} admitted", run.admitted()));
        figure(2_150, CROSS, denied);
    }
    canvas.text("tg-figure tg-end", (WIDTH - MARGIN, y), &worst);
    if !run.unreleased.is_empty() {
        canvas.path(UNRELEASED.0, &format!("M3560 {}{}", y - 50, UNRELEASED.1));
        canvas.text("tg-figure", (3_840, y), &format!("{} never released", run.unreleased.len()));
    }
}

/// Shows where the worst second is.
fn bracket(canvas: &mut Canvas, run: &Run, top: u64) {
    let worst_ns = run.worst_ns();
    let (left, right) = (canvas.x(worst_ns[0]), canvas.x(worst_ns[0] + WINDOW_NS));
    canvas.path("tg-worst", &format!("M{left} {top}v50H{right}v-50"));
    let text = format!("{} admitted in 1 s", worst_ns.len());
    canvas.text("tg-small tg-lane", (right + 60, top + 70), &text);
}

fn labels(canvas: &mut Canvas, y: u64, [name, detail]: [&str; 2]) {
    canvas.text("tg-lane tg-end", (LABEL_END, y), name);
    canvas.text("tg-small tg-muted tg-end", (LABEL_END, y + 140), detail);
}

/// The name of the overview.
pub const OVERVIEW: &str = "overview";

/// Draws all algorithms below one another.
pub fn draw_overview(runs: &[Run]) -> String {
    const TOP: u64 = 1_820;
    const ROW: u64 = 840;
    const FIGURES: u64 = 7_240;
    const UNIT: u64 = 20;
    let bottom = TOP + ROW * runs.len() as u64;
    let title =
        format!("The same requests, {} algorithms: {LIMIT} per second, or {LIMIT} in flight", runs.len());
    let description: Vec<String> =
        runs.iter().map(|run| format!("{}: {}", run.subject.name, figures(run))).collect();
    let mut canvas = Canvas {
        name: OVERVIEW,
        title: title.clone(),
        description: description.join(" "),
        height: bottom + 660,
        left: 1_420,
        second: 590,
        body: String::new(),
    };
    canvas.text("tg-name", (MARGIN, 380), &title);
    let caption = "Up: admitted. Down: denied. Below: how much of the limit is in use.";
    canvas.text("tg-caption", (MARGIN, 620), &format!("{caption} For concurrency, a request takes 400 ms."));
    canvas.phases(980);
    if let Some(run) = runs.first() {
        let (zero, stacks) = (TOP - 200, Bin::stacks(&run.requests));
        canvas.base(zero);
        canvas.bars("tg-solid", zero, &stacks, |stack| zero - UNIT * stack.requests.len() as u64);
        canvas.text("tg-lane", (MARGIN, zero - 120), "requests");
        canvas.text("tg-small tg-muted", (MARGIN, zero + 30), "per 1/16 s");
        canvas.text("tg-lane", (FIGURES, zero - 120), &format!("{} requests", run.requests.len()));
    }
    for (number, run) in (0..).zip(runs) {
        let top = TOP + ROW * number;
        canvas.edges(top + 20, top + 720, run.subject.window_ms);
        canvas.text("tg-lane", (MARGIN, top + 280), run.subject.name);
        canvas.text("tg-small tg-muted", (MARGIN, top + 430), run.subject.options);
        canvas.admitted_and_denied(Scale { zero: top + 240, unit: UNIT }, &Bin::stacks(&run.requests));
        canvas.level(Scale { zero: top + 720, unit: UNIT }, run);
        canvas.text("tg-lane", (FIGURES, top + 280), &format!("{} admitted", run.admitted()));
        canvas.text("tg-small tg-muted", (FIGURES, top + 430), &format!("{} denied", run.denied()));
        canvas.text("tg-small", (FIGURES, top + 580), &format!("worst second: {}", run.worst_ns().len()));
        if let Some(leave) = run.leaving_max() {
            canvas.text("tg-small", (FIGURES, top + 730), &format!("at most {leave} leave"));
        }
    }
    canvas.seconds(bottom);
    let legend = [
        (1_300, ADMITTED, "admitted"),
        (2_200, DENIED, "denied"),
        (3_100, LEVEL, "in use"),
        (3_950, LEVEL_MAX, "maximum"),
        (4_900, EDGE, "a window or sub-window starts"),
        (6_950, UNRELEASED, "never released"),
    ];
    canvas.legend(bottom + 460, &legend);
    canvas.finish()
}
