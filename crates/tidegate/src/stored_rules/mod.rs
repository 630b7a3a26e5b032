//! Rules in the config store, so that a fleet has one copy of them.
//!
//! ```text
//! r␟history              the last revisions: number, time, author, note, bundle
//! r␟bundle␟<id>␟0000   the files of a bundle, in parts
//!
//! store.rs     RulesStore: reads rules, pushes them, goes back to earlier ones
//! edit.rs      what an operator asks for, and what it makes of the history
//! history.rs   the revisions, and their record in the config store
//! bundle.rs    files in parts that a config store takes
//! layers.rs    the files that are in force
//! ```
//!
//! `␟` is U+001F. A push writes its bundle first, and then the history, on the condition that no other push came between. So a
//! reader sees the old rules or the new ones, and never half of a push. A process that is killed between the two leaves a
//! bundle that nothing refers to.
//!
//! **Emergency rules** are a revision with an end. They come on top of the rules that are in force, until they expire or are
//! ended by hand. Each node drops them by its own clock, also while the config store is away.

mod bundle;
mod edit;
mod history;
mod layers;
mod store;

pub use bundle::BUNDLE_BYTES_MAX;
pub use edit::{EditContext, PushError, RulesEdit};
pub use history::{REVISIONS_MAX, Revision, RevisionKind, RulesHistory};
pub use layers::{LayeredRules, RulesLayer};
pub use store::{EditedRules, RulesStore};
