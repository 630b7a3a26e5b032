//! Where a server is.

use std::time::Duration;

use super::connect_error::ConnectError;
use super::means::Means;
use super::sentinel::Sentinels;
use crate::redis::url::Address;

/// Where a server is.
pub(super) enum Finder {
    /// Always there.
    At(Address),
    /// Where these say that the master is.
    Asking(Sentinels),
}

impl Finder {
    pub async fn find(&self, means: &Means, each: Duration) -> Result<Address, ConnectError> {
        match self {
            Self::At(address) => Ok(address.clone()),
            Self::Asking(sentinels) => sentinels.master(means, each).await,
        }
    }

    /// What is shown as its address before it was found.
    pub fn first_guess(&self) -> Address {
        match self {
            Self::At(address) => address.clone(),
            Self::Asking(sentinels) => sentinels.first(),
        }
    }
}
