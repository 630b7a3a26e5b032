//! `tidegate trace`, run as a user runs it.

mod bad_lines;
mod compression;
mod decisions;
mod memory;
mod runner;
mod several_limits;
mod summary;
mod usage;
