//! The URL of a store.

mod error;
mod parse;
#[cfg(test)]
mod tests;

use std::fmt;
use std::str::FromStr;

pub use error::UrlError;

/// Servers in a URL at most.
pub(super) const URL_SERVERS_MAX: usize = 256;

/// The URL of a store. `Display` and `Debug` hide passwords.
///
/// ```
/// use tidegate::redis::StoreUrl;
///
/// let url: StoreUrl = "redis://alice:secret@10.0.0.7/2".parse()?;
/// assert_eq!(url.to_string(), "redis://alice@10.0.0.7:6379/2");
///
/// // Several servers: a master known to Sentinel, a cluster, or a ring of independent servers.
/// let _: StoreUrl = "redis+sentinel://10.0.0.1,10.0.0.2,10.0.0.3/mymaster".parse()?;
/// let _: StoreUrl = "redis-cluster://10.0.0.1:7000,10.0.0.2:7000".parse()?;
/// let _: StoreUrl = "redis+ring://10.0.0.1,10.0.0.2,10.0.0.3".parse()?;
///
/// // `rediss` is TLS.
/// let _: StoreUrl = "rediss://:p%40ss@redis.example:6380".parse()?;
///
/// let error = "http://10.0.0.7".parse::<StoreUrl>().unwrap_err();
/// assert!(error.to_string().contains("hint: "));
/// # Ok::<(), tidegate::redis::UrlError>(())
/// ```
#[derive(Clone, PartialEq, Eq)]
pub struct StoreUrl {
    pub(super) deployment: Deployment,
    pub(super) encryption: Encryption,
    pub(super) login: Option<Login>,
    /// The servers, the Sentinels, or some servers of the cluster. Never empty, and without duplicates.
    pub(super) addresses: Vec<Address>,
    /// The database number. Always 0 in a cluster, which has only that one.
    pub(super) database: u16,
}

/// How the servers of a store are organized.
#[derive(Clone, PartialEq, Eq)]
pub(super) enum Deployment {
    Single,
    Sentinel {
        master: Box<str>,
        /// The login for the Sentinels themselves.
        login: Option<Login>,
    },
    Cluster,
    Ring,
}

/// Whether connections use TLS.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Encryption {
    Plain,
    Tls,
}

/// A user and a password.
#[derive(Clone, PartialEq, Eq)]
pub(super) struct Login {
    /// None means the user `default`.
    pub user: Option<Box<str>>,
    pub password: Box<str>,
}

/// A host name or an IP address, and a port.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Address {
    /// In lower case, and without the brackets around an IPv6 address.
    pub host: Box<str>,
    pub port: u16,
}

impl fmt::Display for Address {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.host.contains(':') {
            write!(f, "[{}]:{}", self.host, self.port)
        } else {
            write!(f, "{}:{}", self.host, self.port)
        }
    }
}

impl StoreUrl {
    /// The first server, which is the only one of a single-server URL.
    pub(super) fn first_address(&self) -> &Address {
        // `parse` rejects a URL without servers.
        &self.addresses[0]
    }

    /// The scheme of the URL.
    fn scheme(&self) -> &'static str {
        match (&self.deployment, self.encryption) {
            (Deployment::Single, Encryption::Plain) => "redis",
            (Deployment::Single, Encryption::Tls) => "rediss",
            (Deployment::Sentinel { .. }, Encryption::Plain) => "redis+sentinel",
            (Deployment::Sentinel { .. }, Encryption::Tls) => "rediss+sentinel",
            (Deployment::Cluster, Encryption::Plain) => "redis-cluster",
            (Deployment::Cluster, Encryption::Tls) => "rediss-cluster",
            (Deployment::Ring, Encryption::Plain) => "redis+ring",
            (Deployment::Ring, Encryption::Tls) => "rediss+ring",
        }
    }
}

impl FromStr for StoreUrl {
    type Err = UrlError;

    fn from_str(text: &str) -> Result<Self, UrlError> {
        parse::parse(text)
    }
}

impl fmt::Display for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}://", self.scheme())?;
        if let Some(user) = self.login.as_ref().and_then(|login| login.user.as_deref()) {
            write!(f, "{user}@")?;
        }
        for (index, address) in self.addresses.iter().enumerate() {
            if index > 0 {
                f.write_str(",")?;
            }
            write!(f, "{address}")?;
        }
        if let Deployment::Sentinel { master, .. } = &self.deployment {
            write!(f, "/{master}")?;
        }
        if self.database > 0 {
            write!(f, "/{}", self.database)?;
        }
        Ok(())
    }
}

impl fmt::Debug for StoreUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "StoreUrl({self})")
    }
}

impl fmt::Debug for Login {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login({})", self.user.as_deref().unwrap_or("default"))
    }
}
