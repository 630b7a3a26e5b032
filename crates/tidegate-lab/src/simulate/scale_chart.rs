//! The picture of how calls to the shared store grow with nodes and keys.

use super::ModeName;
use super::scale::ScalePoint;
use crate::pictures::svg::{Canvas, WIDTH};

pub(super) const FILE_NAME: &str = "simulation_scale.svg";

const MARGIN: u64 = 240;
const LEFT: u64 = 1_500;
const RIGHT: u64 = WIDTH - 2_400;
const TOP: u64 = 900;
/// The height of a factor of ten.
const DECADE: u64 = 1_000;
/// From 1 down to 0.0001 calls per decision.
const DECADES: u64 = 4;
const BOTTOM: u64 = TOP + DECADE * DECADES;

/// Draws one line for each mode and number of keys, on logarithmic scales.
pub(super) fn draw(points: &[ScalePoint]) -> String {
    let mut canvas = Canvas {
        name: "simulation_scale",
        title: "Calls to the shared store per decision".to_owned(),
        description: describe(points),
        height: BOTTOM + 620,
        left: LEFT,
        second: 0,
        body: String::new(),
    };
    canvas.text("tg-name", (MARGIN, 380), "Calls to the shared store per decision");
    canvas.text(
        "tg-caption",
        (MARGIN, 620),
        "The same traffic on more and more nodes. Keys by Zipf's law. Both scales are logarithmic.",
    );
    for decade in 0..=DECADES {
        let y = TOP + decade * DECADE;
        canvas.path("tg-edge", &format!("M{LEFT} {y}H{RIGHT}"));
        let label = ["1", "0.1", "0.01", "0.001", "0.0001"][usize::try_from(decade).unwrap_or(0)];
        canvas.text("tg-small tg-muted tg-end", (LEFT - 80, y + 40), label);
    }
    for (nodes, label) in [(1, "1 node"), (10, "10"), (100, "100"), (1_000, "1,000 nodes")] {
        canvas.text("tg-small tg-muted tg-middle", (x(nodes), BOTTOM + 220), label);
    }
    let mut names_y: Vec<u64> = Vec::new();
    for mode in ModeName::ALL {
        let mut keys: Vec<u32> =
            points.iter().filter(|point| point.mode == mode).map(|point| point.keys).collect();
        keys.dedup();
        for (number, keys) in keys.into_iter().enumerate() {
            // Strict is one call per decision whatever the keys are.
            if mode == ModeName::Strict && number > 0 {
                continue;
            }
            let line: Vec<&ScalePoint> =
                points.iter().filter(|point| (point.mode, point.keys) == (mode, keys)).collect();
            let path: String = line
                .iter()
                .enumerate()
                .map(|(at, point)| {
                    format!("{}{} {}", if at == 0 { "M" } else { "L" }, x(point.nodes), y(point))
                })
                .collect();
            let (colour, dashes) = (colour(mode), ["none", "120 60", "30 50"][number % 3]);
            canvas.body += &format!(
                "<path style=\"stroke:var(--{colour});stroke-width:22;stroke-dasharray:{dashes}\" d=\"{path}\"/>\n"
            );
            let mut name_y = line.last().map_or(BOTTOM, |point| y(point)) + 40;
            while names_y.iter().any(|other| other.abs_diff(name_y) < 130) {
                name_y += 10;
            }
            names_y.push(name_y);
            let name = match mode {
                ModeName::Strict => "strict".to_owned(),
                _ => format!("{}, {}", mode.as_str(), keys_text(keys)),
            };
            canvas.text("tg-small", (RIGHT + 80, name_y), &name);
        }
    }
    canvas.finish()
}

fn describe(points: &[ScalePoint]) -> String {
    let one = |point: &ScalePoint| {
        let (mode, keys, calls) = (point.mode.as_str(), keys_text(point.keys), point.calls_per_decision());
        format!("{mode}, {keys}, {} nodes: {calls:.4}.", point.nodes)
    };
    points.iter().map(one).collect::<Vec<_>>().join(" ")
}

fn keys_text(keys: u32) -> &'static str {
    match keys {
        1 => "1 key",
        1_000 => "1,000 keys",
        _ => "1 million keys",
    }
}

fn colour(mode: ModeName) -> &'static str {
    match mode {
        ModeName::Strict => "denied",
        ModeName::Leased => "admitted",
        ModeName::Eventual => "delayed",
    }
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a position on the picture")]
fn x(nodes: usize) -> u64 {
    LEFT + ((RIGHT - LEFT) as f64 * (nodes as f64).log10() / 3.0) as u64
}

#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "a position on the picture")]
fn y(point: &ScalePoint) -> u64 {
    let decades = -point.calls_per_decision().max(1e-4).log10();
    TOP + (DECADE as f64 * decades.clamp(-0.3, DECADES as f64)).max(0.0) as u64
}
