//! `tidegate override import`: sends the lines of a file in batches.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;

use clap::Args;
use hyper::Method;
use serde_json::Value;

use super::records::{Record, RecordFormat, Records};
use crate::admin_client::{AdminArgs, AdminClient};
use crate::output::{self, CommandStatus, Failure};
use crate::text::grouped_number;
use crate::trace::Progress;

/// How many lines are sent in one request at most.
const BATCH_LINES_MAX: usize = 5_000;
/// How many bytes are sent in one request, unless one line has more.
const BATCH_BYTES_MAX: usize = 1 << 20;

/// After how many requests a line says where to continue, if there is no progress bar: this command may be killed.
const BATCHES_PER_NOTE: u64 = 20;

/// Set the overrides in a file: JSON lines, or CSV if the name ends with .csv
#[derive(Args, Debug)]
#[command(after_long_help = include_str!("../help/override_import.txt"))]
pub struct ImportArgs {
    /// File to import; - reads JSON lines from standard input
    #[arg(value_name = "FILE")]
    file: PathBuf,

    /// Continue with this line, counted from 1
    #[arg(long, value_name = "LINE", default_value_t = 1)]
    from_line: u64,

    #[command(flatten)]
    admin: AdminArgs,
}

/// Lines that are sent together.
#[derive(Default)]
struct Batch {
    json: String,
    /// The line in the file of each line of `json`.
    lines: Vec<u64>,
}

/// What was done so far.
#[derive(Default)]
struct Totals {
    written: u64,
    refused: u64,
}

/// Imports a file.
pub fn import(args: &ImportArgs) -> Result<CommandStatus, Failure> {
    let client = args.admin.client()?;
    if args.file.as_os_str() == "-" {
        return send_all(args, &client, std::io::stdin().lock(), RecordFormat::JsonLines, &Progress::new());
    }
    let is_csv = args.file.extension().is_some_and(|extension| extension.eq_ignore_ascii_case("csv"));
    let format = if is_csv { RecordFormat::Csv } else { RecordFormat::JsonLines };
    let file = File::open(&args.file).map_err(|error| {
        Failure::usage(format!("cannot read `{}`: {error} (hint: check the path)", args.file.display()))
    })?;
    let progress = Progress::new();
    let reader = BufReader::new(progress.track(file));
    send_all(args, &client, reader, format, &progress)
}

fn send_all(
    args: &ImportArgs,
    client: &AdminClient,
    reader: impl BufRead,
    format: RecordFormat,
    progress: &Progress,
) -> Result<CommandStatus, Failure> {
    let file = args.file.display().to_string();
    let unreadable = |problem: String| Failure::usage(format!("{file}: {problem}"));
    let mut records = Records::new(reader, format).map_err(unreadable)?;
    let (mut batch, mut totals, mut batches) = (Batch::default(), Totals::default(), 0_u64);
    // All lines before it are done.
    let mut next = args.from_line;
    loop {
        let record = records.next().map_err(|error| {
            unreadable(format!(
                "{error} (hint: continue with --from-line {})",
                batch.lines.first().unwrap_or(&next)
            ))
        })?;
        let is_last = record.is_none();
        match record {
            Some(Record { line, .. }) if line < args.from_line => continue,
            Some(Record { line, json: Ok(json) }) => batch.push(line, &json),
            Some(Record { line, json: Err(problem) }) => {
                totals.refused += 1;
                output::print_stderr(&format!("{file}:{line}: {problem}"));
            }
            None => {}
        }
        if batch.is_full() || (is_last && !batch.lines.is_empty()) {
            send(client, &file, &batch, &mut totals)?;
            batches += 1;
            next = batch.lines.last().map_or(next, |last| last + 1);
            if progress.is_shown() {
                progress.show(format!(", continue with --from-line {next}"));
            } else if batches % BATCHES_PER_NOTE == 0 {
                output::print_stderr(&format!("{file}: to continue from here, use --from-line {next}"));
            }
            batch = Batch::default();
        }
        if is_last {
            break;
        }
    }
    let Totals { written, refused } = totals;
    let summary =
        format!("{} overrides set, {} lines refused\n", grouped_number(written), grouped_number(refused));
    output::print_stdout(&summary)?;
    Ok(if refused > 0 { CommandStatus::ProblemsFound } else { CommandStatus::Success })
}

fn send(client: &AdminClient, file: &str, batch: &Batch, totals: &mut Totals) -> Result<(), Failure> {
    let body = batch.json.clone().into_bytes().into();
    let reply = client.send(Method::POST, "/v1/overrides/import", "application/x-ndjson", body);
    let reply = reply.map_err(|error| {
        let first = batch.lines.first().copied().unwrap_or(1);
        output::print_stderr(&format!(
            "{file}: stopped at line {first}; {} overrides were set before it (hint: continue with --from-line {first})",
            grouped_number(totals.written)
        ));
        Failure::from(error)
    });
    let reply: Value = output::parse_json(&String::from_utf8_lossy(&reply?.body));
    totals.written += reply["written"].as_u64().unwrap_or_default();
    for refused in reply["refused"].as_array().into_iter().flatten() {
        let position = refused["line"].as_u64().and_then(|line| usize::try_from(line).ok()).unwrap_or(1);
        let line = batch.lines.get(position - 1).copied().unwrap_or_default();
        let problem = refused["error"].as_str().unwrap_or_default();
        let hint = refused["hint"].as_str().map_or_else(String::new, |hint| format!(" (hint: {hint})"));
        totals.refused += 1;
        output::print_stderr(&format!("{file}:{line}: {problem}{hint}"));
    }
    Ok(())
}

impl Batch {
    fn push(&mut self, line: u64, json: &str) {
        self.json.push_str(json);
        self.json.push('\n');
        self.lines.push(line);
    }

    fn is_full(&self) -> bool {
        self.lines.len() >= BATCH_LINES_MAX || self.json.len() >= BATCH_BYTES_MAX
    }
}
