//! `tidegate trace`, run as a user runs it.

mod bad_lines;
#[path = "../tool/mod.rs"]
mod binary;
mod compression;
mod decisions;
mod memory;
mod several_limits;
mod summary;
mod tool;
mod usage;
