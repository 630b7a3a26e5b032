//! All algorithms below one another on the one trace.

use super::bin::Bin;
use super::chart::{WIDTH, card};
use super::geometry::{Point, Px, TimeAxis};
use super::lanes::{self, Bars, STACK_NS, Scale, Upright};
use super::legend::{Entry, Sample};
use super::scene::Scene;
use super::svg::{About, Anchor, Svg};
use super::theme;
use super::trace::LIMIT;

/// The name of the picture.
pub const NAME: &str = "overview";

const MARGIN: Px = Px::whole(24);
const AXIS: TimeAxis = TimeAxis { left: Px::whole(142), second: Px::whole(59) };
/// Where figures begin.
const FIGURES: Px = Px::whole(724);
const BAR_UNIT: Px = Px::tenths(20);
const LEVEL_UNIT: Px = Px::tenths(20);
/// Where the first row begins, below the trace.
const ROWS_TOP: Px = Px::whole(182);
const ROW_HEIGHT: Px = Px::whole(84);

/// Draws it.
pub fn draw(scenes: &[Scene]) -> String {
    let rows_bottom = ROWS_TOP + ROW_HEIGHT * scenes.len() as u64;
    let height = rows_bottom + Px::whole(66);
    let title =
        format!("The same requests, {} algorithms: {LIMIT} per second, or {LIMIT} at a time", scenes.len());
    let figures: Vec<String> =
        scenes.iter().map(|scene| format!("{}: {}", scene.name, scene.in_figures())).collect();
    let about = About {
        id: format!("tg-{NAME}"),
        title: title.clone(),
        description: figures.join(" "),
        width: WIDTH,
        height,
    };
    let mut svg = Svg::new(&about, &theme::style());
    card(&mut svg, height);
    svg.text("tg-name", Anchor::Start, Point { x: MARGIN, y: Px::whole(38) }, &title);
    let see = "Upwards what is admitted, downwards what is denied, below it how much of the limit is in use.";
    svg.text("tg-see", Anchor::Start, Point { x: MARGIN, y: Px::whole(62) }, see);
    if let Some(scene) = scenes.first() {
        came(&mut svg, scene);
    }
    for (number, scene) in (0..).zip(scenes) {
        row(&mut svg, ROWS_TOP + ROW_HEIGHT * number, scene);
    }
    lanes::seconds(&mut svg, AXIS, rows_bottom);
    legend(&mut svg, rows_bottom + Px::whole(46));
    svg.finish()
}

/// What came, which is the same for all of them.
fn came(svg: &mut Svg, scene: &Scene) {
    let scale = Scale { zero: Px::whole(162), unit: BAR_UNIT };
    let y = scale.zero - Px::whole(12);
    lanes::phases(svg, AXIS, Px::whole(98));
    beside(svg, y, "requests", "per 1/16 s");
    lanes::base(svg, AXIS, scale.zero);
    lanes::came(svg, &bars(scale), &stacks(scene));
    svg.text("tg-lane", Anchor::Start, Point { x: FIGURES, y }, &format!("{} came", scene.tally.requests()));
}

fn row(svg: &mut Svg, top: Px, scene: &Scene) {
    let scale = Scale { zero: top + Px::whole(24), unit: BAR_UNIT };
    let level = Scale { zero: top + Px::whole(72), unit: LEVEL_UNIT };
    lanes::edges(svg, AXIS, Upright { top: top + Px::whole(2), bottom: level.zero }, scene.edges);
    beside(svg, scale.zero + Px::whole(4), &scene.name, &scene.options);
    lanes::base(svg, AXIS, scale.zero);
    lanes::bars(svg, &bars(scale), &stacks(scene));
    lanes::level(svg, AXIS, level, &scene.run);
    let mut figure = |class: &str, down: i64, text: String| {
        svg.text(class, Anchor::Start, Point { x: FIGURES, y: top + Px::whole(down) }, &text);
    };
    figure("tg-lane", 28, format!("{} admitted", scene.tally.admitted()));
    figure("tg-small tg-muted", 43, format!("{} denied", scene.tally.denied));
    figure("tg-small", 58, format!("worst second: {}", scene.worst.requests));
    if let Some(leaving) = scene.worst_leaving {
        figure("tg-small", 73, format!("at most {} leave", leaving.requests));
    }
}

fn bars(scale: Scale) -> Bars {
    Bars { axis: AXIS, scale, width_ns: STACK_NS }
}

fn stacks(scene: &Scene) -> Vec<Bin<'_>> {
    Bin::all_of(&scene.run.requests, STACK_NS).map(Bin::lone_in_place).collect()
}

fn legend(svg: &mut Svg, y: Px) {
    let entry = |left, sample, words| Entry { left: Px::whole(left), sample, words };
    entry(130, Sample::Admitted, "admitted").draw(svg, y);
    entry(226, Sample::Denied, "denied").draw(svg, y);
    entry(328, Sample::Level, "in use").draw(svg, y);
    entry(424, Sample::Limit, "the most that fits").draw(svg, y);
    entry(570, Sample::Edge, "a window or sub-window begins").draw(svg, y);
}

/// Two lines of words to the left of a row.
fn beside(svg: &mut Svg, y: Px, name: &str, detail: &str) {
    svg.text("tg-lane", Anchor::Start, Point { x: MARGIN, y }, name);
    if !detail.is_empty() {
        svg.text("tg-small tg-muted", Anchor::Start, Point { x: MARGIN, y: y + Px::whole(15) }, detail);
    }
}
