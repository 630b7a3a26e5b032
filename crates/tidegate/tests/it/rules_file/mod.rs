//! Rules files: which are read, and the whole text of every error and warning.
//!
//! Every `NAME.yaml` in `errors/` and `warnings/` has its expected report in `NAME.txt`. So has every
//! directory in `directories/`. To add a case, write the file and generate the report:
//!
//! ```text
//! TIDEGATE_WRITE_REPORTS=1 cargo test -p tidegate --features rules --test it rules_file
//! ```
//!
//! Then read the report: only a person can tell whether it is good.

mod files;
mod hostile;
mod reports;
mod useless_limits;
mod valid;
