//! The functions that the fuzzers in `fuzz/` run on each input. They panic if something is wrong.
//!
//! `scripts/fuzz` searches for inputs. The tests here replay the inputs in `fuzz/corpus`, without a fuzzer.

mod http_request;
mod identity;
mod json_request;
mod patterns;
mod resp;
mod rules_file;

pub use http_request::http_request;
pub use identity::identity;
pub use json_request::json_request;
pub use patterns::patterns;
pub use resp::resp;
pub use rules_file::rules_file;
