//! Where a server is.

use std::time::Duration;

use super::connect_error::ConnectError;
use super::means::ClientConfig;
use super::sentinel::Sentinels;
use crate::redis::url::Address;

/// Where a server is.
pub(super) enum AddressSource {
    /// Always there.
    Fixed(Address),
    /// Where these say that the master is.
    Sentinels(Sentinels),
}

impl AddressSource {
    pub async fn resolve(&self, means: &ClientConfig, each: Duration) -> Result<Address, ConnectError> {
        match self {
            Self::Fixed(address) => Ok(address.clone()),
            Self::Sentinels(sentinels) => sentinels.query_master(means, each).await,
        }
    }

    /// What is shown as its address before it was found.
    pub fn initial_address(&self) -> Address {
        match self {
            Self::Fixed(address) => address.clone(),
            Self::Sentinels(sentinels) => sentinels.first_address(),
        }
    }
}
