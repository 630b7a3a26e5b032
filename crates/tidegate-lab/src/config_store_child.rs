//! A process that writes to a config store until it is killed or the disk is full, for tests.
//!
//! It writes keys with the numbers 0, 1, 2 ... several calls at once, as an import and an operator do together, and prints a line for
//! each write that was acknowledged.

use std::io::Write as _;
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use tidegate::config::{ConfigStore, ConfigStoreError, ConfigWrite, WriteCondition, WriteResult};
use tidegate_server::config_store::{CONFIG_FILE, EmbeddedConfigStore};
use tokio::signal::unix::{SignalKind, signal};

const CACHE_BYTES: usize = 4 << 20;
/// Calls at once.
const CALLS: u64 = 4;
/// Every call in this many is a batch, as an import writes it.
const BATCH_EVERY_CALLS: u64 = 5;
const BATCH_WRITES: u64 = 500;
const VALUE_BYTES: usize = 300;
/// The signal for a file that exceeds its limit. Its default action ends the process.
const SIGXFSZ: i32 = 25;

/// A line that the process prints.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ChildLine {
    /// The write of a key was acknowledged, with this version.
    Written {
        /// The number of the key.
        number: u64,
        /// The version of the write.
        version: u64,
    },
    /// A write failed, for this kind of reason.
    Failed(String),
    /// After the failure, a look-up of the first key found it.
    StillReadable,
    /// A write was done after the limit of the file's size was lifted.
    WrittenAfterwards,
}

impl ChildLine {
    /// Parses a line.
    pub fn parse(text: &str) -> Option<Self> {
        let mut words = text.split(' ');
        let line = match (words.next()?, words.next(), words.next()) {
            ("written", Some(number), Some(version)) => {
                Self::Written { number: number.parse().ok()?, version: version.parse().ok()? }
            }
            ("failed", Some(kind), None) => Self::Failed(kind.to_owned()),
            ("still-readable", None, None) => Self::StillReadable,
            ("written-afterwards", None, None) => Self::WrittenAfterwards,
            _ => return None,
        };
        words.next().is_none().then_some(line)
    }
}

/// The key with a number.
pub fn child_key(number: u64) -> String {
    format!("killed/{number:010}")
}

/// The value of the key with a number.
pub fn child_value(number: u64) -> Vec<u8> {
    let mut value = number.to_string().into_bytes();
    value.resize(VALUE_BYTES, b'.');
    value
}

/// Writes to the store in `directory`, from the key with this number on. With `file_bytes_max`, no file of the process may become
/// larger; it lifts that limit after the first failure.
pub fn run(directory: &Path, from: u64, file_bytes_max: Option<u64>) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(1).enable_all().build();
    let result = match runtime {
        Ok(runtime) => runtime.block_on(write_until_failure(directory, from, file_bytes_max)),
        Err(error) => Err(error.to_string()),
    };
    match result {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn write_until_failure(directory: &Path, from: u64, file_bytes_max: Option<u64>) -> Result<(), String> {
    // With a handler, a write beyond the limit fails with an error and the process lives.
    let _handler = signal(SignalKind::from_raw(SIGXFSZ)).map_err(|error| error.to_string())?;
    let store = EmbeddedConfigStore::open(&directory.join(CONFIG_FILE), CACHE_BYTES);
    let store = Arc::new(store.map_err(|error| error.to_string())?);
    let before = getrlimit(Resource::Fsize);
    if let Some(bytes) = file_bytes_max {
        let limit = Rlimit { current: Some(bytes), ..before };
        setrlimit(Resource::Fsize, limit).map_err(|error| error.to_string())?;
    }
    let writers: Vec<_> =
        (0..CALLS).map(|writer| tokio::spawn(write_numbers(Arc::clone(&store), from, writer))).collect();
    let mut failed = Vec::new();
    for writer in writers {
        failed.push(writer.await.map_err(|error| error.to_string())?);
    }
    for error in failed {
        print_line(&format!("failed {}", error.as_str()));
    }
    let first = store.get(&child_key(from)).await.map_err(|error| error.to_string())?;
    if first.is_some() {
        print_line("still-readable");
    }
    setrlimit(Resource::Fsize, before).map_err(|error| error.to_string())?;
    store.write(&[write(u64::MAX)]).await.map_err(|error| error.to_string())?;
    print_line("written-afterwards");
    Ok(())
}

/// Writes every fourth number until a write fails.
async fn write_numbers(store: Arc<EmbeddedConfigStore>, from: u64, writer: u64) -> ConfigStoreError {
    let mut next = from + writer;
    for call in 0.. {
        let writes = if call % BATCH_EVERY_CALLS == 0 { BATCH_WRITES } else { 1 };
        let numbers: Vec<u64> = (0..writes).map(|index| next + index * CALLS).collect();
        let batch: Vec<ConfigWrite> = numbers.iter().map(|number| write(*number)).collect();
        let results = match store.write(&batch).await {
            Ok(results) => results,
            Err(error) => return error,
        };
        for (number, result) in numbers.iter().zip(results) {
            if let WriteResult::Written(version) = result {
                print_line(&format!("written {number} {version}"));
            }
        }
        next += writes * CALLS;
    }
    unreachable!("the numbers do not end")
}

fn write(number: u64) -> ConfigWrite {
    let value = Some(child_value(number).into());
    ConfigWrite { key: child_key(number).into(), value, condition: WriteCondition::Always }
}

/// Prints a whole line at once, because several tasks print.
fn print_line(line: &str) {
    let mut out = std::io::stdout().lock();
    // If the reader is gone, the test has ended.
    let _ = writeln!(out, "{line}");
}
