//! Overrides: limits of single keys, set by operators while the server runs.
//!
//! ```text
//! a request -> rules -> limits -> cache.rs: has a key of it overrides? -> other limits -> plan
//!
//! cache.rs      the overrides that decisions use: a bounded cache in front of a config store, and all wildcards
//! key_filter.rs the keys that have overrides, as a filter that is asked before the cache
//! key_table.rs  what is known about keys: a bounded table; shared_overrides.rs has what equal keys share
//! loader.rs     loads keys into the cache; load.rs is a load that several requests wait for
//! wildcards.rs  finds the wildcards that a key matches
//! feed.rs       follows the changes of the config store
//! editor.rs     sets, deletes and lists overrides; edit_error.rs says why not
//! place.rs      finds a place in the rules; refuses what cannot work there
//! purge.rs      deletes overrides that have ended
//! batch.rs      sets many overrides with few calls to the config store
//! join_all.rs   reads several records at the same time
//! key_name.rs   the key of overrides in the config store
//! record.rs     the value of overrides in the config store
//! provenance.rs says which override a limit came from
//! ```
//!
//! `tidegate_core::rules` has the overrides themselves, and says which of several applies.

mod batch;
mod cache;
mod edit_error;
mod editor;
mod feed;
mod join_all;
mod key_filter;
mod key_name;
mod key_table;
mod load;
mod loader;
mod place;
mod provenance;
mod purge;
mod record;
mod shared_overrides;
mod wildcards;

pub use batch::BatchEdit;
pub use cache::{OverrideCache, OverrideCacheBuilder, OverrideCacheStats};
pub use edit_error::EditError;
pub use editor::{BAN_RULES_MAX, EditedOverride, ListedOverrides, OverrideEditor};
pub use feed::{FeedChanges, FeedError};
pub use key_name::{KeyName, KeyNameError, ValuePattern};
pub(crate) use load::LoadWait;
pub use loader::Spawn;
pub use place::{OverrideChange, OverridePlace};
pub use provenance::{provenance_json, provenance_text};
pub use purge::OverridePurge;
pub use record::RECORD_FORMAT;
pub use wildcards::WILDCARDS_MAX;
