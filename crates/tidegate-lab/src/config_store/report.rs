//! The results, as tables.

use std::fmt;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::engine::BuiltFilter;
use super::{ConfigStoreMeasurement, disk};
use crate::latency::Latencies;
use crate::process::Resident;
use crate::{Bytes, table::Table};

/// Bytes of a block in `st_blocks`.
const STAT_BLOCK_BYTES: u64 = 512;

/// The results.
#[derive(Clone, Debug)]
pub struct ConfigStoreReport {
    pub(super) measurement: ConfigStoreMeasurement,
    pub(super) load_ns: u64,
    pub(super) load_resident: Option<Resident>,
    pub(super) size: Size,
    pub(super) present: Phase,
    pub(super) absent: Phase,
    pub(super) filter: Option<BuiltFilter>,
    pub(super) single_writes: Latencies,
    /// At the end, with the store open and the filter built.
    pub(super) resident: Option<Resident>,
}

/// The size of the store.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Size {
    /// What the disk gave to the files.
    pub disk_bytes: u64,
    /// The lengths of the files, with holes.
    pub file_bytes: u64,
}

/// Look-ups after opening the store.
#[derive(Clone, Debug)]
pub(super) struct Phase {
    pub open_ns: u64,
    pub cold: Latencies,
    pub warm: Latencies,
}

impl Size {
    pub(super) fn of(directory: &Path) -> Result<Self, String> {
        let mut size = Self::default();
        for path in disk::files(directory)? {
            let metadata =
                std::fs::metadata(&path).map_err(|error| format!("{}: {error}", path.display()))?;
            size.disk_bytes += metadata.blocks() * STAT_BLOCK_BYTES;
            size.file_bytes += metadata.len();
        }
        Ok(size)
    }
}

fn seconds(ns: u64) -> String {
    format!("{:.2} s", ns as f64 / 1e9)
}

fn resident(resident: Option<Resident>) -> String {
    match resident {
        Some(resident) => {
            format!("{} now, {} at most", Bytes(resident.now_bytes), Bytes(resident.peak_bytes))
        }
        None => "not known".to_owned(),
    }
}

impl fmt::Display for ConfigStoreReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ConfigStoreMeasurement { entries, engine, cache, .. } = &self.measurement;
        let name = engine.as_str();
        let mut table = Table::without_heading(format!("{entries} overrides in {name}, cache {cache}"));
        let mut row = |what: &str, figure: String| table.row([what.to_owned(), figure]);
        let per_entry = |bytes: u64| format!("{:.1}", bytes as f64 / (*entries).max(1) as f64);
        row("disk, bytes per entry", per_entry(self.size.disk_bytes));
        row("length of the files, bytes per entry", per_entry(self.size.file_bytes));
        row("loaded in", seconds(self.load_ns));
        row("entries per second", format!("{:.0}", *entries as f64 * 1e9 / self.load_ns.max(1) as f64));
        row("opened in", seconds(self.absent.open_ns));
        if let Some(BuiltFilter { build_ns, bytes }) = self.filter {
            row("filter of keys built in", format!("{}, {}", seconds(build_ns), Bytes(bytes)));
        }
        row("resident after the load", resident(self.load_resident));
        row("resident at the end", resident(self.resident));
        table.fmt(f)?;

        let title = format!("{name}: microseconds per call, one thread");
        let mut table = Table::new(title, ["", "p50", "p99", "longest"]);
        let mut row = |what: &str, times: &Latencies| {
            let figures = [times.all_but_one_in(2), times.all_but_one_in(100), times.max_ns];
            let [p50, p99, longest] = figures.map(|ns| format!("{:.2}", ns as f64 / 1e3));
            table.row([what.to_owned(), p50, p99, longest]);
        };
        row("present, cold", &self.present.cold);
        row("present, warm", &self.present.warm);
        row("absent, cold", &self.absent.cold);
        row("absent, warm", &self.absent.warm);
        row("a synced write of one entry", &self.single_writes);
        table.note(
            "Cold: opened again, and the files dropped from the system's page cache with posix_fadvise.",
        );
        table.note("Warm: the same keys again.");
        table.fmt(f)
    }
}
