//! A canvas that writes SVG, and the style sheet of all pictures.
//!
//! Lengths are whole tenths of a pixel, so a picture has the same bytes on every machine. The SVG never contains a
//! blank line, because Markdown would take that for the end of an embedded picture.

/// 860 px: a README shows it unscaled.
pub const WIDTH: u64 = 8_600;

const NS_PER_S: u64 = 1_000_000_000;

/// An SVG document in the making.
pub struct Canvas {
    /// Makes the ids unique on a page with several pictures.
    pub name: &'static str,
    pub title: String,
    /// For readers who cannot see the picture.
    pub description: String,
    pub height: u64,
    /// The x of the start of the trace.
    pub left: u64,
    /// The width of a second.
    pub second: u64,
    /// The elements so far.
    pub body: String,
}

impl Canvas {
    /// The x of an instant of the trace.
    pub fn x(&self, at_ns: u64) -> u64 {
        self.left + self.width(at_ns)
    }

    /// The width of a time span.
    pub fn width(&self, span_ns: u64) -> u64 {
        span_ns * self.second / NS_PER_S
    }

    /// One line of text, unless it is empty. The class `tg-middle` or `tg-end` says which part of it is at the point.
    pub fn text(&mut self, class: &str, (x, y): (u64, u64), text: &str) {
        if !text.is_empty() {
            let text = escape(text);
            self.body += &format!("<text class=\"{class}\" x=\"{x}\" y=\"{y}\">{text}</text>\n");
        }
    }

    /// A path, unless it is empty.
    pub fn path(&mut self, class: &str, data: &str) {
        if !data.is_empty() {
            self.body += &format!("<path class=\"{class}\" d=\"{data}\"/>\n");
        }
    }

    /// The whole document.
    pub fn finish(self) -> String {
        let Self { name, height, body, .. } = &self;
        let (title, description) = (escape(&self.title), escape(&self.description));
        let (width_px, height_px, tenths) = (WIDTH / 10, height / 10, height % 10);
        let (right, bottom) = (WIDTH - 10, height - 10);
        format!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"tg\" width=\"{width_px}\" height=\"{height_px}.{tenths}\" \
             viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-labelledby=\"tg-{name}-title tg-{name}-desc\">\n\
             <title id=\"tg-{name}-title\">{title}</title>\n<desc id=\"tg-{name}-desc\">{description}</desc>\n\
             <style>{STYLE}</style>\n\
             <rect class=\"tg-card\" x=\"5\" y=\"5\" width=\"{right}\" height=\"{bottom}\" rx=\"100\"/>\n{body}</svg>\n"
        )
    }
}

fn escape(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('\n', " ")
}

/// Every selector starts with `.tg` because an embedded picture shares its styles with the page. Blue, green and
/// orange are Okabe and Ito's colours, which colour-blind readers can tell apart. No meaning depends on colour alone:
/// shapes and directions differ too.
const STYLE: &str = "\
.tg{max-width:100%;height:auto;--card:#fff;--rim:#d1d9e0;--ink:#1f2328;--muted:#59636e;--faint:#d8dee4;\
--admitted:#0072b2;--delayed:#009e73;--denied:#d55e00;--level:#6e7781;--area:#e9ecf0}\
@media(prefers-color-scheme:dark){\
.tg{--card:#0d1117;--rim:#3d444d;--ink:#f0f6fc;--muted:#9198a1;--faint:#333a43;\
--admitted:#56b4e9;--delayed:#2ec4a0;--denied:#f5874f;--level:#9198a1;--area:#232a33}}\
.tg text{font:120px system-ui,-apple-system,Segoe UI,Roboto,Helvetica,Arial,sans-serif;fill:var(--ink)}\
.tg .tg-name{font-size:210px;font-weight:650}\
.tg .tg-caption{font-size:140px}\
.tg .tg-figure{font-size:140px;font-weight:600}\
.tg .tg-lane{font-weight:600}\
.tg .tg-small{font-size:110px}\
.tg .tg-code{font:120px ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace}\
.tg .tg-muted{fill:var(--muted)}\
.tg .tg-middle{text-anchor:middle}\
.tg .tg-end{text-anchor:end}\
.tg .tg-card{fill:var(--card);stroke:var(--rim);stroke-width:10}\
.tg path{fill:none;stroke-width:10}\
.tg .tg-dot{stroke:var(--admitted);stroke-width:42;stroke-linecap:round}\
.tg .tg-ring{stroke:var(--delayed);stroke-width:13}\
.tg .tg-cross{stroke:var(--denied);stroke-width:13;stroke-linecap:round}\
.tg .tg-admitted{fill:var(--admitted)}\
.tg .tg-denied{fill:var(--denied)}\
.tg .tg-solid{fill:var(--level)}\
.tg .tg-level{fill:var(--area);stroke:var(--level);stroke-width:13;stroke-linejoin:round}\
.tg .tg-limit{stroke:var(--ink);stroke-dasharray:50 30}\
.tg .tg-worst{stroke:var(--ink);stroke-width:15}\
.tg .tg-edge{stroke:var(--faint)}";
