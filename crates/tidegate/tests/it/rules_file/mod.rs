//! Rules files: what is read, what is refused and what is warned of, each by the whole text that a user gets to see.
//!
//! Beside every `NAME.yaml` in `errors/` and `warnings/` stands `NAME.txt`, what is said of it; of directories in
//! `directories/` likewise. To add a case, write the file and let the reports be written:
//!
//! ```text
//! TIDEGATE_WRITE_REPORTS=1 cargo test -p tidegate --features rules --test it rules_file
//! ```
//!
//! Then read what was written: a report is only as good as somebody finds it.

mod files;
mod hostile;
mod reports;
mod useless_limits;
mod valid;
