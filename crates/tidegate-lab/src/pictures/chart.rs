//! The picture of one algorithm.
//!
//! From top to bottom: name and limit, what to see, figures that are the legend of the marks; then over time
//! the requests, the bars, what leaves if that is not at once, the level; below it the axis and a legend of
//! lines.

use super::bin::Bin;
use super::geometry::{Point, Px, TimeAxis};
use super::lanes::{self, Bars, Scale, Upright};
use super::legend::{Entry, Sample};
use super::marks::Marks;
use super::run::Fate;
use super::scene::Scene;
use super::svg::{About, Anchor, Path, Svg};
use super::tally::{Tally, Worst};
use super::theme;
use super::trace::{END_NS, WINDOW_NS};

/// As wide as the text of a README is shown.
pub const WIDTH: Px = Px::whole(860);

const MARGIN: Px = Px::whole(24);
const AXIS: TimeAxis = TimeAxis { left: Px::whole(106), second: Px::whole(77) };
/// Where words beside a lane end.
const BESIDE: Px = Px::whole(94);
/// Where the columns of figures begin.
const COLUMNS: [Px; 3] = [MARGIN, Px::whole(216), Px::whole(366)];
/// The height of a unit of the level; the same in all pictures, so that they can be compared.
const LEVEL_UNIT: Px = Px::tenths(60);
/// The most units of the level in any of the pictures, and a little air.
const LEVEL_HEIGHT: Px = Px::whole(74);
/// A quarter of a window: wide enough for bars that can be seen.
const BIN_NS: u64 = 250_000_000;
const BAR_UNIT: Px = Px::tenths(24);

/// Room for the words beside a bracket.
const BRACKET_WORDS: Px = Px::whole(150);

/// Where the lanes are, from above to below.
struct Lanes {
    requests_bottom: Px,
    bars_zero: Px,
    departures: Option<Px>,
    level_zero: Px,
}

impl Lanes {
    fn of(scene: &Scene) -> Self {
        let (requests_bottom, bars_zero) = (Px::whole(224), Px::whole(292));
        let departures =
            scene.worst_leaving.map(|_| Px::whole(350) + lanes::departures_rise(AXIS, &scene.run));
        let level_zero = match departures {
            None => Px::whole(350) + LEVEL_HEIGHT,
            // Below what leaves, the level is as near as its bound allows.
            Some(y) => y + Px::whole(28) + LEVEL_UNIT * scene.run.room,
        };
        Self { requests_bottom, bars_zero, departures, level_zero }
    }
}

/// Draws it.
pub fn draw(scene: &Scene) -> String {
    let lanes = Lanes::of(scene);
    let height = lanes.level_zero + Px::whole(68);
    let about = About {
        id: format!("tg-{}", scene.name),
        title: format!("{}: {}", scene.name, scene.limit),
        description: format!("{} {}", scene.see, scene.in_figures()),
        width: WIDTH,
        height,
    };
    let mut svg = Svg::new(&about, &theme::style());
    card(&mut svg, height);
    header(&mut svg, scene);
    let upright = Upright { top: Px::whole(146), bottom: lanes.level_zero };
    lanes::edges(&mut svg, AXIS, upright, scene.edges);
    lanes::phases(&mut svg, AXIS, Px::whole(124));
    requests(&mut svg, scene, &lanes);
    bars(&mut svg, scene, &lanes);
    departures(&mut svg, scene, &lanes);
    level(&mut svg, scene, &lanes);
    lanes::seconds(&mut svg, AXIS, lanes.level_zero);
    legend(&mut svg, scene, lanes.level_zero + Px::whole(48));
    svg.finish()
}

/// The ground that a picture stands on.
pub fn card(svg: &mut Svg, height: Px) {
    let (half, one) = (Px::tenths(5), Px::whole(1));
    let (width, height) = (WIDTH - one, height - one);
    svg.element(
        "rect",
        &[
            ("class", &"tg-card"),
            ("x", &half),
            ("y", &half),
            ("width", &width),
            ("height", &height),
            ("rx", &10),
        ],
    );
}

fn header(svg: &mut Svg, scene: &Scene) {
    let right = WIDTH - MARGIN;
    svg.text("tg-name", Anchor::Start, Point { x: MARGIN, y: Px::whole(38) }, &scene.name);
    svg.text("tg-code tg-muted", Anchor::End, Point { x: right, y: Px::whole(37) }, &scene.limit);
    svg.text("tg-see", Anchor::Start, Point { x: MARGIN, y: Px::whole(62) }, &scene.see);
    figures(svg, scene, Px::whole(94));
}

/// The figures, each with its mark.
fn figures(svg: &mut Svg, scene: &Scene, y: Px) {
    let Tally { at_once, delayed, denied } = scene.tally;
    let (worst, refused) = (scene.worst.requests, scene.words.denied);
    let waiting = Fate::Delayed { by_ns: 1 };
    let mut figure = |column: usize, fate: Fate, text: String| {
        let x = COLUMNS[column];
        Marks::sample(svg, fate, Point { x: x + Px::whole(4), y: y - Px::whole(5) });
        svg.text("tg-figure", Anchor::Start, Point { x: x + Px::whole(15), y }, &text);
    };
    let worst = match scene.worst_leaving {
        None => {
            figure(0, Fate::Admitted, format!("{at_once} admitted"));
            figure(1, Fate::Denied, format!("{denied} {refused}"));
            format!("worst second: {worst} admitted")
        }
        Some(leaving) => {
            figure(0, Fate::Admitted, format!("{at_once} admitted at once"));
            figure(1, waiting, format!("{delayed} after a wait"));
            figure(2, Fate::Denied, format!("{denied} {refused}"));
            format!("worst second: {worst} admitted, {} leave", leaving.requests)
        }
    };
    svg.text("tg-figure", Anchor::End, Point { x: WIDTH - MARGIN, y }, &worst);
    if !scene.run.lost.is_empty() {
        let [.., x] = COLUMNS;
        Sample::Lost.draw(svg, Point { x: x - Px::whole(13), y: y - Px::whole(5) });
        let lost = format!("{} never give back", scene.run.lost.len());
        svg.text("tg-figure", Anchor::Start, Point { x: x + Px::whole(15), y }, &lost);
    }
}

fn requests(svg: &mut Svg, scene: &Scene, lanes: &Lanes) {
    let bottom = lanes.requests_bottom;
    beside(svg, bottom - Px::whole(14), ["requests", "one mark each"]);
    lanes::base(svg, AXIS, bottom);
    lanes::requests(svg, AXIS, bottom, &scene.run);
    bracket(svg, bottom + Px::whole(6), scene.worst, "admitted");
}

/// Shows where the most passed in a window.
fn bracket(svg: &mut Svg, top: Px, worst: Worst, what: &str) {
    let (left, right) = (AXIS.x(worst.first_ns), AXIS.x((worst.first_ns + WINDOW_NS).min(END_NS)));
    let bottom = top + Px::whole(5);
    let mut path = Path::default();
    path.move_to(Point { x: left, y: top });
    path.up_or_down_to(bottom);
    path.across_to(right);
    path.up_or_down_to(top);
    svg.path("tg-worst", &path);
    let (anchor, x) = if right + BRACKET_WORDS > WIDTH - MARGIN {
        (Anchor::End, left - Px::whole(6))
    } else {
        (Anchor::Start, right + Px::whole(6))
    };
    let text = format!("{} {what} in 1 s", worst.requests);
    svg.text("tg-small tg-lane", anchor, Point { x, y: bottom + Px::whole(2) }, &text);
}

fn bars(svg: &mut Svg, scene: &Scene, lanes: &Lanes) {
    let scale = Scale { zero: lanes.bars_zero, unit: BAR_UNIT };
    beside(svg, lanes.bars_zero - Px::whole(10), ["per 0.25 s", "up: admitted"]);
    let below = Point { x: BESIDE, y: lanes.bars_zero + Px::whole(18) };
    svg.text("tg-small tg-muted", Anchor::End, below, &format!("down: {}", scene.words.denied));
    lanes::base(svg, AXIS, lanes.bars_zero);
    let bins: Vec<_> = Bin::all_of(&scene.run.requests, BIN_NS).collect();
    lanes::bars(svg, &Bars { axis: AXIS, scale, width_ns: BIN_NS }, &bins);
}

fn departures(svg: &mut Svg, scene: &Scene, lanes: &Lanes) {
    let Some(y) = lanes.departures else { return };
    beside(svg, y - Px::whole(3), ["leave", scene.words.leave]);
    lanes::departures(svg, AXIS, y, &scene.run);
}

fn level(svg: &mut Svg, scene: &Scene, lanes: &Lanes) {
    let scale = Scale { zero: lanes.level_zero, unit: LEVEL_UNIT };
    let bound = scale.y(scene.run.room) + Px::whole(4);
    svg.text("tg-small", Anchor::End, Point { x: BESIDE, y: bound }, &scene.room);
    let name = Point { x: BESIDE, y: lanes.level_zero - Px::whole(5) };
    svg.text("tg-lane", Anchor::End, name, scene.words.level);
    lanes::level(svg, AXIS, scale, &scene.run);
    lanes::lost(svg, AXIS, scale, &scene.run);
}

/// Two lines of words to the left of a lane.
fn beside(svg: &mut Svg, y: Px, [name, detail]: [&str; 2]) {
    svg.text("tg-lane", Anchor::End, Point { x: BESIDE, y }, name);
    svg.text("tg-small tg-muted", Anchor::End, Point { x: BESIDE, y: y + Px::whole(14) }, detail);
}

fn legend(svg: &mut Svg, scene: &Scene, y: Px) {
    let entry = |left, sample, words| Entry { left: Px::whole(left), sample, words };
    entry(106, Sample::Level, scene.words.level_is).draw(svg, y);
    entry(356, Sample::Limit, "the most that fits").draw(svg, y);
    entry(510, Sample::Worst, "the worst second").draw(svg, y);
    if let Some(entry) = Entry::of_edges(Px::whole(650), scene.edges) {
        entry.draw(svg, y);
    }
    if !scene.run.lost.is_empty() {
        entry(650, Sample::Lost, "lost until the ttl is over").draw(svg, y);
    }
}
