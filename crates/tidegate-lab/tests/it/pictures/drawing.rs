//! Reads a picture the way its reader does.

use roxmltree::{Document, Node};

/// What a picture shows.
pub struct Drawing {
    /// Every line of text.
    pub texts: Vec<String>,
    /// The number of dots, rings and crosses: requests admitted now, admitted later, and denied.
    pub marks: [usize; 3],
    /// The number of dots for departures; zero where no request waits.
    pub departures: usize,
}

impl Drawing {
    /// Reads a picture.
    pub fn read(svg: &str) -> Self {
        let document = Document::parse(svg).expect("well-formed");
        let is_text = |node: &Node<'_, '_>| node.has_tag_name(("http://www.w3.org/2000/svg", "text"));
        let texts = document.descendants().filter(is_text).filter_map(|node| node.text());
        // Every mark starts with an absolute position. Samples in the legend are not children of the root.
        let marks = |class: &str, lane: usize| {
            let has_class = |node: &Node<'_, '_>| node.attribute("class") == Some(class);
            let path = document.root_element().children().filter(has_class).nth(lane);
            path.and_then(|path| path.attribute("d")).map_or(0, |path| path.matches('M').count())
        };
        Self {
            texts: texts.map(str::to_owned).collect(),
            marks: [marks("tg-dot", 0), marks("tg-ring", 0), marks("tg-cross", 0)],
            departures: marks("tg-dot", 1),
        }
    }

    /// Fails if no line of the picture has exactly this text.
    pub fn assert_shows(&self, name: &str, text: &str) {
        assert!(
            self.texts.iter().any(|line| line == text),
            "{name} does not show `{text}`: {:?}",
            self.texts
        );
    }
}
