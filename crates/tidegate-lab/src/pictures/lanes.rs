//! What is drawn over time: requests, bars, the level, edges, the axis.

use super::bin::Bin;
use super::geometry::{Point, Px, TimeAxis};
use super::marks::Marks;
use super::run::{Level, Run};
use super::subject::Edges;
use super::svg::{Anchor, Path, Svg};
use super::tally::Tally;
use super::trace::{END_NS, PHASES};

/// Requests that come within this time, a sixteenth of a second, stand on top of one another.
pub const STACK_NS: u64 = 62_500_000;
/// Between two bars.
const GAP: Px = Px::tenths(8);
const NS_PER_MS: u64 = 1_000_000;
const NS_PER_S: u64 = 1_000_000_000;

/// A stretch from above to below.
#[derive(Clone, Copy, Debug)]
pub struct Upright {
    /// Its upper end.
    pub top: Px,
    /// Its lower end.
    pub bottom: Px,
}

/// How high units are drawn, and from where.
#[derive(Clone, Copy, Debug)]
pub struct Scale {
    /// Where zero is.
    pub zero: Px,
    /// The height of one unit.
    pub unit: Px,
}

impl Scale {
    /// Where this many units end.
    pub fn y(&self, units: u64) -> Px {
        self.zero - self.unit * units
    }
}

/// How bars are drawn.
#[derive(Clone, Copy, Debug)]
pub struct Bars {
    /// Where they stand.
    pub axis: TimeAxis,
    /// How high they are.
    pub scale: Scale,
    /// How wide they are.
    pub width_ns: u64,
}

impl Bars {
    /// A bar for each bin, from zero to where `end` says.
    fn path(&self, bins: &[Bin<'_>], end: impl Fn(Tally) -> Px) -> Path {
        let (zero, width) = (self.scale.zero, self.axis.length(self.width_ns) - GAP);
        let mut path = Path::default();
        for bin in bins {
            let (left, end) = (self.axis.x(bin.from_ns), end(bin.tally()));
            if end != zero {
                path.move_to(Point { x: left, y: zero });
                path.up_or_down_to(end);
                path.across_to(left + width);
                path.up_or_down_to(zero);
                path.close();
            }
        }
        path
    }
}

/// The names of the phases, two lines above the first lane.
pub fn phases(svg: &mut Svg, axis: TimeAxis, first_line: Px) {
    for phase in &PHASES {
        let x = axis.x(phase.middle_ns());
        svg.text("tg-small tg-muted", Anchor::Middle, Point { x, y: first_line }, phase.name);
        if !phase.measure.is_empty() {
            let y = first_line + Px::whole(14);
            svg.text("tg-small tg-muted", Anchor::Middle, Point { x, y }, phase.measure);
        }
    }
}

/// One mark for each request; those that come together stand on top of one another, the first at the bottom.
pub fn requests(svg: &mut Svg, axis: TimeAxis, bottom: Px, run: &Run) {
    let pitch = axis.length(STACK_NS);
    let mut marks = Marks::default();
    for stack in Bin::all_of(&run.requests, STACK_NS).map(Bin::lone_in_place) {
        let x = axis.x(stack.from_ns) + pitch.half();
        for (height, request) in (0..).zip(stack.requests) {
            marks.add(request.fate, Point { x, y: bottom - pitch.half() - pitch * height });
        }
    }
    marks.draw(svg);
}

/// One dot for each request that goes on, when it does; the lowest stand on `y`.
pub fn departures(svg: &mut Svg, axis: TimeAxis, y: Px, run: &Run) {
    let pitch = axis.length(STACK_NS);
    let mut marks = Marks::default();
    for stack in Bin::all_of(&run.departures(), STACK_NS).map(Bin::lone_in_place) {
        let x = axis.x(stack.from_ns) + pitch.half();
        for (height, request) in (0..).zip(stack.requests) {
            marks.add(request.fate, Point { x, y: y - pitch * height });
        }
    }
    marks.draw(svg);
}

/// How far the highest of the departures stands above the lowest.
pub fn departures_rise(axis: TimeAxis, run: &Run) -> Px {
    let tallest = Bin::all_of(&run.departures(), STACK_NS).map(|stack| stack.requests.len()).max();
    axis.length(STACK_NS) * tallest.unwrap_or(1).saturating_sub(1) as u64
}

/// Bars of what was admitted, upwards, and of what was denied, downwards.
pub fn bars(svg: &mut Svg, bars: &Bars, bins: &[Bin<'_>]) {
    let admitted = bars.path(bins, |tally| bars.scale.y(tally.admitted()));
    let denied = bars.path(bins, |tally| bars.scale.zero + bars.scale.unit * tally.denied);
    svg.path("tg-bar tg-admitted-bar", &admitted);
    svg.path("tg-bar tg-denied-bar", &denied);
}

/// Bars of all that came.
pub fn came(svg: &mut Svg, bars: &Bars, bins: &[Bin<'_>]) {
    svg.path("tg-bar tg-came-bar", &bars.path(bins, |tally| bars.scale.y(tally.requests())));
}

/// The level as a staircase over its area, and its bound.
pub fn level(svg: &mut Svg, axis: TimeAxis, scale: Scale, run: &Run) {
    let steps = staircase(axis, scale, &run.levels);
    svg.path("tg-area", &area_below(&steps, scale));
    base(svg, axis, scale.zero);
    svg.path("tg-level", &steps);
    let mut bound = Path::default();
    bound.move_to(Point { x: axis.x(0), y: scale.y(run.room) });
    bound.across_to(axis.x(END_NS));
    svg.path("tg-limit", &bound);
}

/// The part of the level that was lost.
pub fn lost(svg: &mut Svg, axis: TimeAxis, scale: Scale, run: &Run) {
    if !run.lost.is_empty() {
        let steps = staircase(axis, scale, &run.lost_levels());
        svg.path("tg-bar tg-came-bar", &area_below(&steps, scale));
    }
}

fn staircase(axis: TimeAxis, scale: Scale, levels: &[Level]) -> Path {
    let mut steps = Path::default();
    steps.move_to(Point { x: axis.x(0), y: scale.zero });
    // What changes several times in an instant is drawn as it is in the end.
    let last_of_instant = levels.iter().enumerate().filter(|(number, level)| {
        levels.get(number + 1).is_none_or(|next| axis.x(next.at_ns) != axis.x(level.at_ns))
    });
    for (_, level) in last_of_instant.take_while(|(_, level)| level.at_ns <= END_NS) {
        steps.across_to(axis.x(level.at_ns));
        steps.up_or_down_to(scale.y(level.units));
    }
    steps.across_to(axis.x(END_NS));
    steps
}

fn area_below(steps: &Path, scale: Scale) -> Path {
    let mut area = steps.clone();
    area.up_or_down_to(scale.zero);
    area.close();
    area
}

/// The line that a lane stands on.
pub fn base(svg: &mut Svg, axis: TimeAxis, y: Px) {
    let mut path = Path::default();
    path.move_to(Point { x: axis.x(0), y });
    path.across_to(axis.x(END_NS));
    svg.path("tg-base", &path);
}

/// Where the algorithm cuts time.
pub fn edges(svg: &mut Svg, axis: TimeAxis, Upright { top, bottom }: Upright, edges: Edges) {
    let Edges::EveryMs(every_ms) = edges else { return };
    let every_ns = every_ms * NS_PER_MS;
    let mut path = Path::default();
    for number in 0..=END_NS / every_ns {
        path.move_to(Point { x: axis.x(number * every_ns), y: top });
        path.up_or_down_to(bottom);
    }
    svg.path("tg-edge", &path);
}

/// Seconds below the last lane.
pub fn seconds(svg: &mut Svg, axis: TimeAxis, top: Px) {
    let mut ticks = Path::default();
    for second in 0..=END_NS / NS_PER_S {
        let x = axis.x(second * NS_PER_S);
        ticks.move_to(Point { x, y: top });
        ticks.up_or_down_to(top + Px::whole(4));
        let label = format!("{second} s");
        svg.text("tg-small tg-muted", Anchor::Middle, Point { x, y: top + Px::whole(17) }, &label);
    }
    svg.path("tg-base", &ticks);
}
