//! The marks that stand for single requests: a dot, a ring, a cross.

use super::geometry::{Point, Px};
use super::run::Fate;
use super::svg::{Path, Svg};

/// Half the width of a cross.
const ARM: Px = Px::tenths(16);

/// Marks by their kind, each kind one element in the end.
#[derive(Debug, Default)]
pub struct Marks {
    admitted: Path,
    delayed: Path,
    denied: Path,
}

impl Marks {
    /// Adds the mark of a request.
    pub fn add(&mut self, fate: Fate, at: Point) {
        match fate {
            Fate::Admitted => self.admitted.dot(at),
            Fate::Delayed { .. } => self.delayed.dot(at),
            Fate::Denied => cross(&mut self.denied, at),
        }
    }

    /// Draws a single mark larger, to stand beside words.
    pub fn sample(svg: &mut Svg, fate: Fate, Point { x, y }: Point) {
        let mut marks = Self::default();
        marks.add(fate, Point::default());
        svg.open("g", &[("transform", &format_args!("translate({x} {y})scale(1.8)"))]);
        marks.draw(svg);
        svg.close();
    }

    /// Draws them.
    pub fn draw(&self, svg: &mut Svg) {
        svg.path("tg-dot tg-admitted", &self.admitted);
        // A ring is a dot with a smaller one of the card's colour on it.
        svg.path("tg-ring tg-delayed", &self.delayed);
        svg.path("tg-hole", &self.delayed);
        svg.path("tg-cross tg-denied", &self.denied);
    }
}

fn cross(path: &mut Path, Point { x, y }: Point) {
    path.move_to(Point { x: x - ARM, y: y - ARM });
    path.line_to(Point { x: x + ARM, y: y + ARM });
    path.move_to(Point { x: x - ARM, y: y + ARM });
    path.line_to(Point { x: x + ARM, y: y - ARM });
}
