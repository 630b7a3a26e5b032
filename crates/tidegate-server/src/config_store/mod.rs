//! Config stores: where overrides and rules are kept, besides the one on the Redis of a fleet.
//!
//! ```text
//! embedded/    one file in the data directory, on redb
//! dynamodb/    a table on DynamoDB's API (feature `dynamodb`)
//! mongodb/     MongoDB's wire protocol (feature `mongodb`)
//! location.rs  which config store the settings name
//! ```
//!
//! `tidegate::config` has the interface. `serve/run/overrides.rs` opens the store that the settings name.

#[cfg(feature = "dynamodb")]
mod dynamodb;
mod embedded;
mod location;
#[cfg(feature = "mongodb")]
mod mongodb;

#[cfg(feature = "dynamodb")]
pub use dynamodb::{DynamoConfigStore, DynamoSettings, MissingTable};
pub use embedded::{CONFIG_FILE, EmbeddedConfigStore};
pub use location::{ConfigStoreLocation, LocationError};
#[cfg(feature = "mongodb")]
pub use mongodb::{MongoConfigOptions, MongoConfigStore, MongoUrl, MongoUrlError};
