//! What the connections to all servers of a store have in common.

use std::num::NonZeroU32;
use std::sync::atomic::AtomicU64;
use std::time::Duration;

use ring::digest;

use super::connect_error::ConnectError;
use super::event::{EventHook, StoreEvent};
use super::stats::ServerCounters;
use super::tls::Tls;
use crate::redis::RedisSettings;
use crate::redis::url::{Address, Encryption, Login};

/// The script that checks whether a server can be used.
pub(crate) const PROBE_SCRIPT: &str = include_str!("../lua/probe.lua");

/// What the connections to all servers of a store have in common: the login, the scripts, the timeout and the
/// event hook.
pub(crate) struct ClientConfig {
    pub login: Option<Login>,
    pub database: u16,
    pub tls: Option<Tls>,
    pub namespace: Box<str>,
    pub timeout: Duration,
    pub wait_replicas: Option<NonZeroU32>,
    pub scripts: Box<[Script]>,
    pub probe: Script,
    pub total_counters: ServerCounters,
    pub replicas_short: AtomicU64,
    hook: Option<EventHook>,
}

/// A script and its SHA-1.
pub(crate) struct Script {
    pub text: &'static str,
    sha: Box<str>,
}

/// An address to connect to, and the login for it.
pub(crate) struct Endpoint<'a> {
    pub address: &'a Address,
    pub login: Option<&'a Login>,
    pub database: u16,
}

impl ClientConfig {
    pub fn new(settings: &RedisSettings, scripts: &[&'static str]) -> Result<Self, ConnectError> {
        let tls = match settings.url.encryption {
            Encryption::Plain => None,
            Encryption::Tls => Some(Tls::new(settings)?),
        };
        Ok(Self {
            login: settings.url.login.clone(),
            database: settings.url.database,
            tls,
            namespace: settings.namespace.clone(),
            timeout: settings.timeout,
            wait_replicas: settings.wait_replicas,
            scripts: scripts.iter().map(|&text| Script::new(text)).collect(),
            probe: Script::new(PROBE_SCRIPT),
            total_counters: ServerCounters::default(),
            replicas_short: AtomicU64::new(0),
            hook: settings.on_event.clone(),
        })
    }

    /// The endpoint of a server that holds keys.
    pub fn endpoint<'a>(&'a self, address: &'a Address) -> Endpoint<'a> {
        Endpoint { address, login: self.login.as_ref(), database: self.database }
    }

    pub fn emit(&self, event: StoreEvent) {
        if let Some(hook) = &self.hook {
            hook.call(event);
        }
    }
}

impl Script {
    fn new(text: &'static str) -> Self {
        // Redis identifies a script by its SHA-1. No security depends on it.
        let digest = digest::digest(&digest::SHA1_FOR_LEGACY_USE_ONLY, text.as_bytes());
        Self {
            text,
            sha: digest.as_ref().iter().map(|byte| format!("{byte:02x}")).collect::<String>().into(),
        }
    }

    pub fn sha(&self) -> &str {
        &self.sha
    }
}
