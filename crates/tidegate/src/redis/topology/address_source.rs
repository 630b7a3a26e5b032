//! Where the address of a server comes from.

use std::time::Duration;

use super::sentinel::Sentinels;
use crate::redis::connection::{ClientConfig, ConnectError};
use crate::redis::url::Address;

/// Where the address of a server comes from.
pub(crate) enum AddressSource {
    /// A fixed address.
    Fixed(Address),
    /// The address of the master, from these Sentinels.
    Sentinels(Sentinels),
}

impl AddressSource {
    pub async fn resolve(&self, config: &ClientConfig, timeout: Duration) -> Result<Address, ConnectError> {
        match self {
            Self::Fixed(address) => Ok(address.clone()),
            Self::Sentinels(sentinels) => sentinels.query_master(config, timeout).await,
        }
    }

    /// The address to show before it is known.
    pub fn initial_address(&self) -> Address {
        match self {
            Self::Fixed(address) => address.clone(),
            Self::Sentinels(sentinels) => sentinels.first_address(),
        }
    }
}
