//! Where the store is, and how it is talked to.

use std::num::NonZeroU32;
use std::path::PathBuf;
use std::time::Duration;

use super::{EventHook, StoreRuntime, StoreTicks, StoreUrl, UrlError};

/// Where the store is, and how it is talked to.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct RedisSettings {
    /// Where: `redis://`, `rediss://`, `redis+sentinel://`, `redis-cluster://`, `redis+ring://`.
    pub url: StoreUrl,
    /// What a decision may take at most, waiting for its turn included.
    pub timeout: Duration,
    /// What the names of all keys begin with, so that several installations can share one Redis.
    pub namespace: Box<str>,
    /// How many replicas have to have what was written before an answer is given. They are waited for until a quarter of
    /// the time for a decision is over; answers that fewer of them had by then are given nevertheless, and counted.
    pub wait_replicas: Option<NonZeroU32>,
    /// Certificates of those who may vouch for the servers, as PEM; those of the system if none.
    pub ca_file: Option<PathBuf>,
    /// What this side shows to servers that ask who it is, as Redis does by default (`tls-auth-clients`).
    pub client_certificate: Option<ClientCertificate>,
    /// Who is told when a server goes away or is back.
    pub on_event: Option<EventHook>,
    /// Which tokio runtime the tasks of the store run on.
    pub runtime: StoreRuntime,
    /// Which clock drives the periodic work of the store.
    pub ticks: StoreTicks,
}

/// A certificate with its key.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClientCertificate {
    /// The certificate, and those between it and one that the server trusts, as PEM.
    pub certificate_file: PathBuf,
    /// Its private key, as PEM.
    pub key_file: PathBuf,
}

impl RedisSettings {
    /// What a decision may take by default.
    pub const TIMEOUT_DEFAULT: Duration = Duration::from_millis(10);
    /// What the names of keys begin with by default.
    pub const NAMESPACE_DEFAULT: &'static str = "tg";

    /// With defaults for all but where it is.
    pub fn new(url: StoreUrl) -> Self {
        Self {
            url,
            timeout: Self::TIMEOUT_DEFAULT,
            namespace: Self::NAMESPACE_DEFAULT.into(),
            wait_replicas: None,
            ca_file: None,
            client_certificate: None,
            on_event: None,
            runtime: StoreRuntime::default(),
            ticks: StoreTicks::default(),
        }
    }
}

impl From<StoreUrl> for RedisSettings {
    fn from(url: StoreUrl) -> Self {
        Self::new(url)
    }
}

impl TryFrom<&str> for RedisSettings {
    type Error = UrlError;

    fn try_from(url: &str) -> Result<Self, UrlError> {
        url.parse().map(Self::new)
    }
}

impl TryFrom<String> for RedisSettings {
    type Error = UrlError;

    fn try_from(url: String) -> Result<Self, UrlError> {
        url.as_str().try_into()
    }
}

impl TryFrom<&String> for RedisSettings {
    type Error = UrlError;

    fn try_from(url: &String) -> Result<Self, UrlError> {
        url.as_str().try_into()
    }
}
