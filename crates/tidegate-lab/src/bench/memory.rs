//! Resident memory per live key, each contender in its own process.
//!
//! The child process generates keys and keeps none, so it grows only by what the contender stores. It reports at
//! several numbers of keys because tables grow in steps: a table that has just doubled is half empty.

use std::process::{Command, Stdio};

use super::contenders::{self, FLOOR, Lap};
use super::workload::{BenchLimit, key};
use crate::goals::{Goal, Wanted};
use crate::process;
use crate::table::Table;

/// Stands for all algorithms of Tidegate with a state of this size.
const TIDEGATE: &str = "gcra";
/// The most keys in the table.
pub const KEYS_MAX: u64 = 10_000_000;
/// When the child reports, in tenths of all keys.
const STEPS_TENTHS: [u64; 6] = [1, 2, 3, 5, 7, 10];
/// The most keys for a contender that takes a kilobyte per key.
const HEAVY_KEYS_MAX: u64 = 1_000_000;
/// Keys that the child generates at a time.
const BATCH_KEYS: u64 = 1_000;
/// The goal for Tidegate at [`KEYS_MAX`] keys.
const KEY_BYTES_MAX: f64 = 40.0;

/// What the child reports.
struct Growth {
    keys: u64,
    grown_bytes: u64,
}

/// Measures and prints all contenders with up to `keys` keys.
pub(crate) fn run(keys: u64) -> Option<Goal> {
    let mut goal = None;
    let steps = STEPS_TENTHS.map(|tenths| (keys * tenths / 10).max(1));
    let heading = std::iter::once(String::new()).chain(steps.map(|step| format!("at {}", thousands(step))));
    let mut table = Table::new("resident bytes per live key, by the number of keys", heading);
    for name in contenders::keeping_keys() {
        eprintln!("rss: {name}");
        let growths = match run_in_child(name, &steps_of(name, &steps)) {
            Ok(growths) => growths,
            Err(error) => {
                table.note(format!("{name}: {error}"));
                continue;
            }
        };
        let per_key = |step: u64| {
            let at = growths.iter().find(|growth| growth.keys == step)?;
            Some(at.grown_bytes as f64 / at.keys as f64)
        };
        let cell = |step: u64| per_key(step).map_or("-".to_owned(), |bytes| format!("{bytes:.1}"));
        table.row(std::iter::once(name.to_owned()).chain(steps.map(cell)));
        if let (TIDEGATE, KEYS_MAX, Some(bytes)) = (name, keys, per_key(keys)) {
            let what = format!("resident bytes per live key at {} keys", thousands(keys));
            let wanted = Wanted::AtMost(KEY_BYTES_MAX);
            goal = Some(Goal { what, wanted, measured: Some(bytes), is_sound: true });
        }
    }
    table.note(format!(
        "{TIDEGATE} is Tidegate, bounded at 1 GiB. The floor has a table for all keys from the start."
    ));
    table.note(format!("limitador is measured up to {} keys.", thousands(HEAVY_KEYS_MAX)));
    print!("{table}");
    goal
}

/// Adds keys to a contender and prints, at each step, how much this process has grown.
pub fn run_child(name: &str, steps: &[u64]) {
    let keys_max = steps.last().copied().unwrap_or(0);
    let resident = || process::resident().map_or(0, |resident| resident.now_bytes);
    let before_bytes = resident();
    let Some(mut contender) = contenders::by_name(name, BenchLimit::LASTING, keys_max) else {
        eprintln!("there is no contender `{name}`");
        return;
    };
    let mut added = 0;
    for step in steps {
        while added < *step {
            let batch = BATCH_KEYS.min(step - added);
            let keys: Vec<String> = (added..added + batch).map(key).collect();
            contender.lap_alone(Lap { keys: &keys, first: 0, decisions: batch });
            added += batch;
        }
        println!("{step} {}", resident().saturating_sub(before_bytes));
    }
}

fn steps_of(name: &str, steps: &[u64]) -> Vec<u64> {
    match name {
        "limitador" => steps.iter().copied().filter(|step| *step <= HEAVY_KEYS_MAX).collect(),
        // Its table has the final size from the start, so earlier steps would only look bad.
        FLOOR => steps.iter().copied().skip(STEPS_TENTHS.len() - 1).collect(),
        _ => steps.to_vec(),
    }
}

fn run_in_child(name: &str, steps: &[u64]) -> Result<Vec<Growth>, String> {
    let exe = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut child = Command::new(exe);
    child.args(["rss-child", name]).args(steps.iter().map(u64::to_string)).stderr(Stdio::inherit());
    let output = child.output().map_err(|error| error.to_string())?;
    if !output.status.success() {
        return Err(format!("the measuring process ended with {}", output.status));
    }
    let line = |line: &str| {
        let (keys, grown_bytes) = line.split_once(' ')?;
        Some(Growth { keys: keys.parse().ok()?, grown_bytes: grown_bytes.parse().ok()? })
    };
    Ok(String::from_utf8_lossy(&output.stdout).lines().filter_map(line).collect())
}

/// `1,000,000`.
fn thousands(number: u64) -> String {
    let digits = number.to_string();
    let groups: Vec<&str> =
        digits.as_bytes().rchunks(3).rev().filter_map(|g| str::from_utf8(g).ok()).collect();
    groups.join(",")
}
