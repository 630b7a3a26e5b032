//! Which rules match a descriptor.
//!
//! ```text
//! plain       one rule, condition by condition: what matching means
//! mismatch    why a rule does not match, for people
//! index/      all rules of a domain at once, at a cost that hardly depends on how many there are
//! ```

mod index;
mod mismatch;
mod plain;

pub use index::{RuleIndex, RuleMatches};
pub use mismatch::{AttributeValues, Mismatch};
