//! The row at the bottom of a picture: lines and bars, and what they are.

use super::geometry::{Point, Px};
use super::subject::Edges;
use super::svg::{Anchor, Path, Svg};

/// The width of a sample.
const SAMPLE: Px = Px::whole(22);
/// From a sample to its words.
const GAP: Px = Px::whole(6);

/// A sample with the words that belong to it.
pub struct Entry {
    /// Where the sample begins.
    pub left: Px,
    /// What it looks like.
    pub sample: Sample,
    /// What it is.
    pub words: &'static str,
}

/// What a sample looks like.
pub enum Sample {
    /// The level.
    Level,
    /// The bound of the level.
    Limit,
    /// The bracket of the worst second.
    Worst,
    /// The edge of a window.
    Edge,
    /// A bar of what was admitted.
    Admitted,
    /// A bar of what was denied.
    Denied,
    /// The part of the level that was lost.
    Lost,
}

impl Entry {
    /// The entry for edges like these, if there are any.
    pub fn of_edges(left: Px, edges: Edges) -> Option<Self> {
        let words = match edges {
            Edges::None => return None,
            Edges::EveryMs(1_000) => "a window begins",
            Edges::EveryMs(_) => "a sub-window begins",
        };
        Some(Self { left, sample: Sample::Edge, words })
    }

    /// Draws it; the words stand on `y`.
    pub fn draw(&self, svg: &mut Svg, y: Px) {
        self.sample.draw(svg, Point { x: self.left, y: y - Px::whole(4) });
        let at = Point { x: self.left + SAMPLE + GAP, y };
        svg.text("tg-small tg-muted", Anchor::Start, at, self.words);
    }
}

impl Sample {
    /// Draws it around the middle of its left end.
    pub fn draw(&self, svg: &mut Svg, at: Point) {
        let (class, path) = self.path(at);
        svg.path(class, &path);
    }

    /// Its class, and what to draw around the middle of the left end.
    fn path(&self, Point { x, y }: Point) -> (&'static str, Path) {
        let (right, rise) = (x + SAMPLE, Px::tenths(45));
        match self {
            Self::Level => ("tg-level", lines(&[Point { x, y }, Point { x: right, y }])),
            Self::Limit => ("tg-limit", lines(&[Point { x, y }, Point { x: right, y }])),
            Self::Worst => {
                let (above, below) = (y - Px::whole(2), y + Px::whole(3));
                let corner = |x, y| Point { x, y };
                let corners =
                    [corner(x, above), corner(x, below), corner(right, below), corner(right, above)];
                ("tg-worst", lines(&corners))
            }
            Self::Edge => {
                let x = x + SAMPLE - Px::whole(4);
                ("tg-edge", lines(&[Point { x, y: y - Px::whole(7) }, Point { x, y: y + Px::whole(7) }]))
            }
            Self::Admitted => ("tg-bar tg-admitted-bar", bar(Point { x: right, y: y + rise }, y - rise)),
            Self::Lost => ("tg-bar tg-came-bar", bar(Point { x: right, y: y + rise }, y - rise)),
            Self::Denied => ("tg-bar tg-denied-bar", bar(Point { x: right, y: y + rise }, y - rise)),
        }
    }
}

fn lines(points: &[Point]) -> Path {
    let mut path = Path::default();
    for (number, point) in points.iter().enumerate() {
        if number == 0 {
            path.move_to(*point);
        } else {
            path.line_to(*point);
        }
    }
    path
}

/// A small square that ends at its lower right corner.
fn bar(corner: Point, top: Px) -> Path {
    let mut path = Path::default();
    path.move_to(corner);
    path.up_or_down_to(top);
    path.across_to(corner.x - Px::whole(9));
    path.up_or_down_to(corner.y);
    path.close();
    path
}
