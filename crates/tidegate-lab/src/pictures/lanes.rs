//! What a picture draws over time: marks, bars, the level, edges of windows, the axis.

use super::run::{Level, Request, Run};
use super::svg::Canvas;
use super::trace::{END_NS, PHASES};

/// Requests within this time, a sixteenth of a second, are stacked.
const STACK_NS: u64 = 62_500_000;
/// The size of a mark, and the width of a stack in a chart.
pub const MARK: u64 = 48;
/// The space between two bars.
const GAP: u64 = 8;
const NS_PER_MS: u64 = 1_000_000;
const NS_PER_S: u64 = 1_000_000_000;

/// The y of zero, and the height of a unit.
#[derive(Clone, Copy)]
pub struct Scale {
    pub zero: u64,
    pub unit: u64,
}

/// Requests that are drawn as one bar or one stack.
pub struct Bin<'a> {
    from_ns: u64,
    width_ns: u64,
    pub requests: &'a [Request],
}

impl<'a> Bin<'a> {
    /// Cuts requests, which are in order, at every multiple of `width_ns`.
    pub fn all_of(requests: &'a [Request], width_ns: u64) -> Vec<Self> {
        let number = |request: &Request| request.at_ns / width_ns;
        let chunks = requests.chunk_by(|one, next| number(one) == number(next));
        chunks.map(|requests| Self { from_ns: number(&requests[0]) * width_ns, width_ns, requests }).collect()
    }

    /// Cuts requests into stacks. A lone request is drawn at its own time, so an even stream looks even.
    pub fn stacks(requests: &'a [Request]) -> Vec<Self> {
        let mut stacks = Self::all_of(requests, STACK_NS);
        for stack in &mut stacks {
            if let [lone] = stack.requests {
                stack.from_ns = lone.at_ns;
            }
        }
        stacks
    }

    fn admitted(&self) -> u64 {
        self.requests.iter().filter(|request| request.leaves_ns.is_some()).count() as u64
    }
}

impl Canvas {
    /// The names of the phases, in two lines.
    pub fn phases(&mut self, y: u64) {
        for phase in &PHASES {
            let x = self.x(phase.middle_ns());
            self.text("tg-small tg-muted tg-middle", (x, y), phase.name);
            self.text("tg-small tg-muted tg-middle", (x, y + 140), phase.measure);
        }
    }

    /// One mark for each request. Stacks grow upwards; the centre of the lowest mark is at `y`.
    pub fn marks(&mut self, y: u64, requests: &[Request]) {
        for sample in [DOT, RING, CROSS] {
            let mut marks = String::new();
            for stack in Bin::stacks(requests) {
                let x = self.x(stack.from_ns) + MARK / 2;
                let numbered = (0..).zip(stack.requests);
                for (number, _) in numbered.filter(|(_, request)| request.mark() == sample) {
                    marks += &format!("M{x} {}{}", y - MARK * number, sample.1);
                }
            }
            self.path(sample.0, &marks);
        }
    }

    /// Admitted requests upwards and denied ones downwards.
    pub fn admitted_and_denied(&mut self, Scale { zero, unit }: Scale, bins: &[Bin<'_>]) {
        self.base(zero);
        self.bars("tg-admitted", zero, bins, |bin| zero - unit * bin.admitted());
        self.bars("tg-denied", zero, bins, |bin| zero + unit * (bin.requests.len() as u64 - bin.admitted()));
    }

    /// A bar for each bin, from `zero` to the y that `end` returns.
    pub fn bars(&mut self, class: &str, zero: u64, bins: &[Bin<'_>], end: impl Fn(&Bin<'_>) -> u64) {
        let mut bars = String::new();
        for bin in bins.iter().filter(|bin| end(bin) != zero) {
            let (x, width) = (self.x(bin.from_ns), self.width(bin.width_ns) - GAP);
            bars += &format!("M{x} {zero}V{}h{width}V{zero}", end(bin));
        }
        self.path(class, &bars);
    }

    /// The level, the part of it that unreleased leases hold, and its maximum.
    pub fn level(&mut self, scale: Scale, run: &Run) {
        self.base(scale.zero);
        self.path("tg-level", &self.steps(scale, &run.levels));
        if !run.unreleased.is_empty() {
            self.path("tg-solid", &self.steps(scale, &run.unreleased_levels()));
        }
        let top = scale.zero - scale.unit * run.level_max;
        self.path("tg-limit", &format!("M{} {top}H{}", self.x(0), self.x(END_NS)));
    }

    fn steps(&self, Scale { zero, unit }: Scale, levels: &[Level]) -> String {
        let mut steps = format!("M{} {zero}", self.x(0));
        for (number, level) in levels.iter().enumerate().take_while(|(_, level)| level.at_ns <= END_NS) {
            let x = self.x(level.at_ns);
            // Of several changes at the same x, draw the last.
            if levels.get(number + 1).is_none_or(|next| self.x(next.at_ns) != x) {
                steps += &format!("H{x}V{}", zero - unit * level.units);
            }
        }
        steps + &format!("H{}V{zero}", self.x(END_NS))
    }

    /// The line below a lane.
    pub fn base(&mut self, y: u64) {
        self.path("tg-edge", &format!("M{} {y}H{}", self.x(0), self.x(END_NS)));
    }

    /// A vertical line wherever a window starts.
    pub fn edges(&mut self, top: u64, bottom: u64, window_ms: Option<u64>) {
        let Some(window_ns) = window_ms.map(|window_ms| window_ms * NS_PER_MS) else { return };
        let edge = |number| format!("M{} {top}V{bottom}", self.x(number * window_ns));
        self.path("tg-edge", &(0..=END_NS / window_ns).map(edge).collect::<String>());
    }

    /// The seconds below the last lane.
    pub fn seconds(&mut self, y: u64) {
        for second in 0..=END_NS / NS_PER_S {
            let x = self.x(second * NS_PER_S);
            self.path("tg-edge", &format!("M{x} {y}v40"));
            self.text("tg-small tg-muted tg-middle", (x, y + 170), &format!("{second} s"));
        }
    }

    /// Samples with their meaning, in a row.
    pub fn legend(&mut self, y: u64, entries: &[(u64, Sample, &str)]) {
        for (x, (class, shape), text) in entries {
            self.path(class, &format!("M{x} {}{shape}", y - 40));
            self.text("tg-small tg-muted", (x + 280, y), text);
        }
    }
}

impl Request {
    fn mark(&self) -> Sample {
        match self.leaves_ns {
            Some(leaves_ns) if leaves_ns == self.at_ns => DOT,
            Some(_) => RING,
            None => CROSS,
        }
    }
}

/// The class and the path of something that a legend explains.
pub type Sample = (&'static str, &'static str);

pub const DOT: Sample = ("tg-dot", "h0");
pub const RING: Sample = ("tg-ring", "m-16 0a16 16 0 1 0 32 0a16 16 0 1 0-32 0");
pub const CROSS: Sample = ("tg-cross", "m-16-16l32 32m0-32l-32 32");
pub const LEVEL: Sample = ("tg-level", "h220");
pub const LEVEL_MAX: Sample = ("tg-limit", "h220");
pub const WORST: Sample = ("tg-worst", "m0-20v50h220v-50");
pub const EDGE: Sample = ("tg-edge", "m180-70v140");
pub const ADMITTED: Sample = ("tg-admitted", "m130-45h90v90h-90");
pub const DENIED: Sample = ("tg-denied", "m130-45h90v90h-90");
pub const UNRELEASED: Sample = ("tg-solid", "m130-45h90v90h-90");
