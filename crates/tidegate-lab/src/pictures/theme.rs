//! Colours, type and strokes, the same in all pictures.
//!
//! A picture has a card of its own behind it and so is readable on any page; where the reader prefers dark,
//! the card is dark. Blue, vermilion and green are told apart by people who see colours differently (they are
//! Okabe and Ito's, lighter on dark), and no meaning hangs on colour alone: dots, crosses and rings, up and
//! down.
//!
//! Rules begin with `.tg` because a picture that stands in a page as it is shares the page's styles.

/// As wide as the page allows, in fonts that a reader's machine has.
const TYPE: &str = "\
.tg{max-width:100%;height:auto}\
.tg text{font:12px system-ui,-apple-system,Segoe UI,Roboto,Helvetica,Arial,sans-serif}\
.tg .tg-name{font-size:21px;font-weight:650}\
.tg .tg-see{font-size:14px}\
.tg .tg-figure{font-size:14px;font-weight:600}\
.tg .tg-lane{font-weight:600}\
.tg .tg-small{font-size:11px}\
.tg .tg-code{font:12px ui-monospace,SFMono-Regular,Menlo,Consolas,DejaVu Sans Mono,monospace}";

/// What is a line, how thick, and which ends it has.
const STROKES: &str = "\
.tg path,.tg line{fill:none;stroke-width:1}\
.tg .tg-dot{stroke-width:4.2;stroke-linecap:round}\
.tg .tg-ring{stroke-width:4.6;stroke-linecap:round}\
.tg .tg-hole{stroke-width:2;stroke-linecap:round}\
.tg .tg-cross{stroke-width:1.3;stroke-linecap:round}\
.tg .tg-level{stroke-width:1.3;stroke-linejoin:round}\
.tg .tg-limit{stroke-dasharray:5 3}\
.tg .tg-worst{stroke-width:1.5}\
.tg .tg-area{stroke:none}\
.tg .tg-bar{stroke:none}";

/// Which colour means what.
struct Palette {
    card: &'static str,
    rim: &'static str,
    ink: &'static str,
    muted: &'static str,
    faint: &'static str,
    admitted: &'static str,
    delayed: &'static str,
    denied: &'static str,
    level: &'static str,
    area: &'static str,
}

const LIGHT: Palette = Palette {
    card: "#fff",
    rim: "#d1d9e0",
    ink: "#1f2328",
    muted: "#59636e",
    faint: "#d8dee4",
    admitted: "#0072b2",
    delayed: "#009e73",
    denied: "#d55e00",
    level: "#6e7781",
    area: "#e9ecf0",
};

const DARK: Palette = Palette {
    card: "#0d1117",
    rim: "#3d444d",
    ink: "#f0f6fc",
    muted: "#9198a1",
    faint: "#333a43",
    admitted: "#56b4e9",
    delayed: "#2ec4a0",
    denied: "#f5874f",
    level: "#9198a1",
    area: "#232a33",
};

/// The style sheet of every picture.
pub fn style() -> String {
    format!("{TYPE}{STROKES}{}@media(prefers-color-scheme:dark){{{}}}", LIGHT.rules(), DARK.rules())
}

impl Palette {
    fn rules(&self) -> String {
        let Self { card, rim, ink, muted, faint, admitted, delayed, denied, level, area } = self;
        format!(
            ".tg .tg-card{{fill:{card};stroke:{rim}}}.tg .tg-hole{{stroke:{card}}}\
             .tg text{{fill:{ink}}}.tg .tg-muted{{fill:{muted}}}\
             .tg .tg-edge,.tg .tg-base{{stroke:{faint}}}.tg .tg-limit,.tg .tg-worst{{stroke:{ink}}}\
             .tg .tg-admitted{{stroke:{admitted}}}.tg .tg-delayed{{stroke:{delayed}}}\
             .tg .tg-denied{{stroke:{denied}}}.tg .tg-level{{stroke:{level}}}.tg .tg-area{{fill:{area}}}\
             .tg .tg-came-bar{{fill:{level}}}.tg .tg-admitted-bar{{fill:{admitted}}}\
             .tg .tg-denied-bar{{fill:{denied}}}"
        )
    }
}
