//! Runs many seeds on all cores.

use std::process::ExitCode;
use std::sync::Mutex;
use std::sync::PoisonError;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;

use indicatif::{ProgressBar, ProgressStyle};

use super::{Failure, ModeName, Mutation, RunCounts, Variant, run_seed};

/// How many failing seeds are printed.
const FAILURES_SHOWN: usize = 10;
/// Runs stop after this many failing seeds: more say little more.
const FAILURES_MAX: usize = 1_000;

/// Which seeds to run.
#[derive(Clone, Debug)]
pub struct Options {
    /// The first seed.
    pub first: u64,
    /// How many seeds.
    pub seeds: u64,
    /// The modes that a scenario may have.
    pub modes: Vec<ModeName>,
    /// A bug to inject.
    pub mutation: Option<Mutation>,
    /// Print all that happens. For one seed.
    pub is_traced: bool,
}

impl Options {
    /// How to run a seed again. The modes and the bug are part of what a seed means.
    fn replay_hint(&self, seed: u64) -> String {
        let mut hint = format!("replay with --seed {seed}");
        if self.modes != ModeName::ALL {
            self.modes.iter().for_each(|mode| hint += &format!(" --mode {}", mode.as_str()));
        }
        if let Some(mutation) = self.mutation {
            hint += &format!(" --mutation {}", mutation.as_str());
        }
        hint
    }
}

/// Runs seeds with a progress bar and prints those that fail. Fails if one does.
pub fn run(options: &Options) -> ExitCode {
    let bar = ProgressBar::new(options.seeds);
    if let Ok(style) =
        ProgressStyle::with_template("{bar:40} {human_pos}/{human_len} seeds, {msg} failed, {eta} left")
    {
        bar.set_style(style);
    }
    let next = AtomicU64::new(0);
    let results = Mutex::new((Vec::<Failure>::new(), RunCounts::default()));
    let lock = || results.lock().unwrap_or_else(PoisonError::into_inner);
    let variant = Variant { modes: &options.modes, mutation: options.mutation, is_traced: options.is_traced };
    let worker = || {
        loop {
            let number = next.fetch_add(1, Ordering::Relaxed);
            if number >= options.seeds || lock().0.len() >= FAILURES_MAX {
                return;
            }
            let result = run_seed(options.first + number, variant);
            let (failures, totals) = &mut *lock();
            match result {
                Ok(counts) => totals.add(counts),
                Err(failure) => failures.push(failure),
            }
            bar.set_message(failures.len().to_string());
            bar.inc(1);
        }
    };
    let threads = thread::available_parallelism().map_or(1, usize::from);
    thread::scope(|scope| (0..threads).for_each(|_| drop(scope.spawn(worker))));
    bar.finish_and_clear();
    let (mut failures, totals) = results.into_inner().unwrap_or_else(PoisonError::into_inner);
    failures.sort_by_key(|failure| failure.seed);
    failures.iter().take(FAILURES_SHOWN).for_each(|failure| println!("{failure}"));
    println!("{}", totals.summary(options.seeds, failures.len()));
    if let Some(first) = failures.first() {
        println!("{}", options.replay_hint(first.seed));
        return ExitCode::FAILURE;
    }
    ExitCode::SUCCESS
}

impl RunCounts {
    fn add(&mut self, other: Self) {
        self.requests += other.requests;
        self.admitted += other.admitted;
        self.degraded += other.degraded;
        self.in_memory += other.in_memory;
        self.store_calls += other.store_calls;
    }

    fn summary(&self, seeds: u64, failed: usize) -> String {
        let Self { requests, admitted, degraded, in_memory, store_calls } = self;
        format!(
            "{seeds} seeds, {failed} failed. {requests} requests: {admitted} admitted, {degraded} degraded, {in_memory} \
             decided in memory; {store_calls} store calls"
        )
    }
}
