//! A small writer of SVG: elements, attributes, text, all of it escaped, one element to a line.
//!
//! Never a blank line: Markdown would take that for the end of a picture that stands in a document as it is.

use std::fmt::{self, Write};

use super::geometry::{Point, Px};

/// A document that is being written.
#[derive(Debug)]
pub struct Svg {
    text: String,
    /// Elements that are open and have to be closed.
    open: Vec<&'static str>,
}

/// What a picture is called, how large it is, and what it looks like to someone who cannot see it.
#[derive(Clone, Debug)]
pub struct About {
    /// Sets its ids apart from those of other pictures on the same page.
    pub id: String,
    /// A short name.
    pub title: String,
    /// What is to be seen in it.
    pub description: String,
    /// The width.
    pub width: Px,
    /// The height.
    pub height: Px,
}

/// The attributes of an element, in their order.
pub type Attributes<'a> = &'a [(&'static str, &'a dyn fmt::Display)];

/// Which point of a line of text stands at its place.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Anchor {
    /// Its left end.
    Start,
    /// Its middle.
    Middle,
    /// Its right end.
    End,
}

impl Svg {
    /// Begins a picture.
    pub fn new(about: &About, style: &str) -> Self {
        let About { id, title, description, width, height } = about;
        let mut svg = Self { text: String::new(), open: Vec::new() };
        svg.open(
            "svg",
            &[
                ("xmlns", &"http://www.w3.org/2000/svg"),
                ("class", &"tg"),
                ("width", width),
                ("height", height),
                ("viewBox", &format_args!("0 0 {width} {height}")),
                ("role", &"img"),
                ("aria-labelledby", &format_args!("{id}-title {id}-desc")),
            ],
        );
        svg.with_text("title", &[("id", &format_args!("{id}-title"))], title);
        svg.with_text("desc", &[("id", &format_args!("{id}-desc"))], description);
        svg.with_text("style", &[], style);
        svg
    }

    /// Opens an element; what comes next is inside of it until it is closed.
    pub fn open(&mut self, name: &'static str, attributes: Attributes<'_>) {
        self.begin(name, attributes);
        self.text.push_str(">\n");
        self.open.push(name);
    }

    /// Closes the element that was opened last.
    pub fn close(&mut self) {
        if let Some(name) = self.open.pop() {
            self.put(format_args!("</{name}>\n"));
        }
    }

    /// An element with nothing in it.
    pub fn element(&mut self, name: &'static str, attributes: Attributes<'_>) {
        self.begin(name, attributes);
        self.text.push_str("/>\n");
    }

    /// A line of text.
    pub fn text(&mut self, class: &str, anchor: Anchor, at: Point, text: &str) {
        let anchor: &dyn fmt::Display = match anchor {
            Anchor::Start => &"start",
            Anchor::Middle => &"middle",
            Anchor::End => &"end",
        };
        let attributes: Attributes<'_> =
            &[("class", &class), ("x", &at.x), ("y", &at.y), ("text-anchor", anchor)];
        self.with_text("text", attributes, text);
    }

    /// A path; nothing at all if it has no points.
    pub fn path(&mut self, class: &str, path: &Path) {
        if !path.data.is_empty() {
            self.element("path", &[("class", &class), ("d", &path.data)]);
        }
    }

    /// The whole document.
    pub fn finish(mut self) -> String {
        while !self.open.is_empty() {
            self.close();
        }
        self.text
    }

    fn with_text(&mut self, name: &str, attributes: Attributes<'_>, text: &str) {
        self.begin(name, attributes);
        self.put(format_args!(">{}</{name}>\n", Escaped(text)));
    }

    fn begin(&mut self, name: &str, attributes: Attributes<'_>) {
        self.put(format_args!("<{name}"));
        for (attribute, value) in attributes {
            self.put(format_args!(" {attribute}=\"{}\"", Escaped(&value.to_string())));
        }
    }

    fn put(&mut self, text: fmt::Arguments<'_>) {
        // A string takes any text.
        let _ = self.text.write_fmt(text);
    }
}

/// The data of a `path` element: many strokes in one element, each from where the last one ended, keep a file
/// small.
#[derive(Clone, Debug, Default)]
pub struct Path {
    data: String,
    /// Where the pen is.
    pen: Point,
    /// Where this stroke began.
    start: Point,
}

impl Path {
    /// Goes on at another place without drawing.
    pub fn move_to(&mut self, to: Point) {
        let from = self.pen;
        let step = if self.data.is_empty() {
            format!("M{} {}", to.x, to.y)
        } else {
            format!("m{} {}", to.x - from.x, to.y - from.y)
        };
        self.data.push_str(&step);
        (self.pen, self.start) = (to, to);
    }

    /// Draws level to another x.
    pub fn across_to(&mut self, x: Px) {
        self.data.push_str(&format!("h{}", x - self.pen.x));
        self.pen.x = x;
    }

    /// Draws upright to another y.
    pub fn up_or_down_to(&mut self, y: Px) {
        self.data.push_str(&format!("v{}", y - self.pen.y));
        self.pen.y = y;
    }

    /// Draws straight to a place.
    pub fn line_to(&mut self, to: Point) {
        self.data.push_str(&format!("l{} {}", to.x - self.pen.x, to.y - self.pen.y));
        self.pen = to;
    }

    /// Draws back to where this stroke began.
    pub fn close(&mut self) {
        self.data.push('z');
        self.pen = self.start;
    }

    /// A stroke without length: with round caps it is a dot as wide as the stroke.
    pub fn dot(&mut self, at: Point) {
        self.move_to(at);
        self.data.push_str("h0");
    }
}

/// Text in which nothing is markup any more.
struct Escaped<'a>(&'a str);

impl fmt::Display for Escaped<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.chars().try_for_each(|char| match char {
            '&' => f.write_str("&amp;"),
            '<' => f.write_str("&lt;"),
            '>' => f.write_str("&gt;"),
            '"' => f.write_str("&quot;"),
            // No blank lines, and nothing that XML forbids.
            char if char.is_control() => f.write_char(' '),
            char => f.write_char(char),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about(title: &str) -> About {
        let (width, height) = (Px::whole(10), Px::tenths(25));
        About { id: "x".to_owned(), title: title.to_owned(), description: String::new(), width, height }
    }

    #[test]
    fn text_and_attributes_are_escaped() {
        let mut svg = Svg::new(&about("a < b & \"c\"\n\n\u{1}>"), "");
        svg.element("rect", &[("class", &"\"/><script>")]);
        let text = svg.finish();
        assert!(text.contains(">a &lt; b &amp; &quot;c&quot;   &gt;</title>"), "{text}");
        assert!(text.contains("<rect class=\"&quot;/&gt;&lt;script&gt;\"/>"), "{text}");
    }

    #[test]
    fn strokes_begin_where_the_last_one_ended() {
        let at = |x, y| Point { x: Px::whole(x), y: Px::tenths(y) };
        let mut path = Path::default();
        path.move_to(at(5, 15));
        path.up_or_down_to(Px::whole(4));
        path.across_to(Px::whole(3));
        path.close();
        path.dot(at(6, 10));
        path.line_to(at(7, 5));
        assert_eq!(path.data, "M5 1.5v2.5h-2zm1 -0.5h0l1 -0.5");
    }

    #[test]
    fn what_is_open_is_closed_in_the_end() {
        let mut svg = Svg::new(&about(""), "");
        svg.open("g", &[]);
        svg.path("none", &Path::default());
        let text = svg.finish();
        assert!(text.ends_with("<g>\n</g>\n</svg>\n"), "{text}");
        assert!(text.contains("viewBox=\"0 0 10 2.5\""), "{text}");
    }
}
