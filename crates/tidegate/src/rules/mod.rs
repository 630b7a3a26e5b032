//! Rules from files.
//!
//! ```text
//! text   ->  Node              yaml/: a tree with positions, in bounds
//! Node   ->  rules of a file   native/, by reader/: what is known, of which type, and what was meant
//! files  ->  Domains           load.rs: files of one domain add up; lint/ says what is legal but odd
//! errors ->  Report            diagnostic/: all of them at once, as a compiler would say it, or as JSON
//! ```

mod diagnostic;
mod file;
mod reader;
mod span;
mod yaml;

pub use diagnostic::{Colour, DIAGNOSTICS_MAX, Diagnostic, Related, Report, Severity};
pub use span::{FileId, Span};
pub use yaml::{DEPTH_MAX, FILE_BYTES_MAX, NODES_MAX};
