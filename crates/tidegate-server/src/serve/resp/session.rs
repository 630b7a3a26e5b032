//! The state of one connection.

use super::commands::ThrottleCache;
use super::parse::AuthState;
use super::transaction::Transaction;

/// Maximum length of the names of a client and its library, in bytes.
pub(super) const NAME_BYTES_MAX: usize = 256;

#[derive(Debug)]
pub(super) struct Session {
    /// Number of the connection, from 1.
    pub id: u64,
    pub auth: AuthState,
    pub user: User,
    /// The commands since `MULTI`.
    pub transaction: Option<Box<Transaction>>,
    /// Name that the client gave itself.
    pub name: Vec<u8>,
    /// Name of the client library.
    pub library: Vec<u8>,
    pub library_version: Vec<u8>,
    /// The last rates of `CL.THROTTLE`.
    pub throttle_cache: ThrottleCache,
}

/// Whose commands a connection sends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum User {
    Default,
    /// Has shown the admin token.
    Admin,
}

impl User {
    /// The name in `AUTH`.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Default => "default",
            Self::Admin => "admin",
        }
    }
}

impl Session {
    /// For a new connection with this number.
    pub fn new(id: u64, auth: AuthState) -> Self {
        Self {
            id,
            auth,
            user: User::Default,
            transaction: None,
            name: Vec::new(),
            library: Vec::new(),
            library_version: Vec::new(),
            throttle_cache: ThrottleCache::default(),
        }
    }

    /// After a login.
    pub fn authenticate(&mut self, user: User) {
        (self.auth, self.user) = (AuthState::Authenticated, user);
    }
}
