//! What is to be read in a picture.

use roxmltree::{Document, Node};

/// A picture as its reader sees it.
pub struct Drawn {
    /// Every line of text.
    pub texts: Vec<String>,
    /// How many requests are marked as admitted at once, as admitted after a wait, and as denied.
    pub marks: [usize; 3],
    /// How many dots there are for requests that leave; none where all leave at once.
    pub leaving: usize,
}

impl Drawn {
    /// Reads a picture.
    pub fn read(svg: &str) -> Self {
        let document = Document::parse(svg).expect("well-formed");
        let is_text = |node: &Node<'_, '_>| node.has_tag_name(("http://www.w3.org/2000/svg", "text"));
        let texts = document.descendants().filter(is_text).filter_map(|node| node.text());
        let strokes = |class: &str, lane: usize| {
            let of_class = |node: &Node<'_, '_>| node.attribute("class") == Some(class);
            let path = document.root_element().children().filter(of_class).nth(lane);
            path.and_then(|path| path.attribute("d")).map_or(0, |path| path.matches(['M', 'm']).count())
        };
        // A cross is two strokes.
        let denied = strokes("tg-cross tg-denied", 0);
        assert!(denied.is_multiple_of(2), "half a cross");
        Self {
            texts: texts.map(str::to_owned).collect(),
            marks: [strokes("tg-dot tg-admitted", 0), strokes("tg-ring tg-delayed", 0), denied / 2],
            leaving: strokes("tg-dot tg-admitted", 1),
        }
    }

    /// Fails if these words are not a line of it.
    pub fn assert_says(&self, name: &str, words: &str) {
        assert!(
            self.texts.iter().any(|text| text == words),
            "{name} does not say `{words}`: {:?}",
            self.texts
        );
    }
}
