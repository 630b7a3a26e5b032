//! Every setting, once: its flag, its name in the environment and in the file, its default and its help.
//!
//! `--data-dir`, `TIDEGATE_DATA_DIR` and `data_dir:` are one setting. `file.rs` reads the file by what is said here, so
//! there is no second list to keep.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use clap::{Parser, ValueHint};

use super::values::{self, LogFormat, LogKeys, LogLevel, PrintAddresses, RlsDetails};
use super::{Secret, StoreLocation};
use crate::serve::listening::Address;
use crate::size::ByteSize;

/// The most connections of a listener, unless something else is set.
pub const CONNECTIONS_MAX_DEFAULT: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

/// Serve decisions over HTTP, gRPC (Envoy's rate limit service) and the protocol of Redis
///
/// Decides by rules from files, which are read again when they change. Counters are kept in memory, and with a data
/// directory they outlive the process; or in Redis, where a fleet of servers shares them. Without any settings it serves on this machine alone, by a small example.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "tidegate serve",
    after_long_help = include_str!("help.txt"),
)]
pub struct ServeArgs {
    /// Settings from this file; what flags and the environment say comes first
    #[arg(long, env = "TIDEGATE_CONFIG", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,

    /// Rules: a file, or a directory of *.yaml and *.yml files; may be given several times. Without any, an example
    #[arg(long, env = "TIDEGATE_RULES", value_name = "PATH", value_delimiter = ',',
        value_hint = ValueHint::AnyPath)]
    pub rules: Vec<PathBuf>,

    /// How often to look whether rules or certificates have changed
    #[arg(long, env = "TIDEGATE_RELOAD_EVERY", value_name = "TIME", default_value = "1s",
        value_parser = values::reload_every)]
    pub reload_every: Duration,

    /// Where to speak HTTP
    #[arg(long, env = "TIDEGATE_HTTP", value_name = "ADDR", default_value = "127.0.0.1:8080",
        value_hint = ValueHint::Hostname, help_heading = "Addresses")]
    pub http: Address,

    /// Where to speak gRPC
    #[arg(long, env = "TIDEGATE_GRPC", value_name = "ADDR", default_value = "127.0.0.1:8081",
        value_hint = ValueHint::Hostname, help_heading = "Addresses")]
    pub grpc: Address,

    /// Where to speak the protocol of Redis
    #[arg(long, env = "TIDEGATE_RESP", value_name = "ADDR", default_value = "127.0.0.1:6380",
        value_hint = ValueHint::Hostname, help_heading = "Addresses")]
    pub resp: Address,

    /// Where operators are served: metrics, rules in force, resets. Beyond this machine only with a token
    #[arg(long, env = "TIDEGATE_ADMIN", value_name = "ADDR", default_value = "127.0.0.1:9090",
        value_hint = ValueHint::Hostname, help_heading = "Addresses")]
    pub admin: Address,

    /// How the addresses that were bound are printed
    #[arg(
        long,
        env = "TIDEGATE_PRINT_ADDRESSES",
        value_name = "FORMAT",
        value_enum,
        default_value_t,
        help_heading = "Addresses"
    )]
    pub print_addresses: PrintAddresses,

    /// Keep counters over a restart, in snapshots in this directory; it is created if it is missing
    #[arg(long, env = "TIDEGATE_DATA_DIR", value_name = "DIR", value_hint = ValueHint::DirPath,
        help_heading = "Counters")]
    pub data_dir: Option<PathBuf>,

    /// How often a snapshot is written
    #[arg(long, env = "TIDEGATE_SNAPSHOT_EVERY", value_name = "TIME", default_value = "10s",
        value_parser = values::snapshot_every, help_heading = "Counters")]
    pub snapshot_every: Duration,

    /// Hold no more than this of counters
    #[arg(long, env = "TIDEGATE_MEMORY_MAX", value_name = "SIZE", default_value = "256MiB",
        value_parser = crate::size::parse_memory_max, help_heading = "Counters")]
    pub memory_max: ByteSize,

    /// Where counters are: `memory`, or a Redis or Valkey that a fleet of servers shares, as redis://127.0.0.1:6379
    #[arg(
        long,
        env = "TIDEGATE_STORE",
        hide_env_values = true,
        value_name = "URL",
        default_value = "memory",
        help_heading = "The store of a fleet"
    )]
    pub store: StoreLocation,

    /// How long a decision may wait for the store, its turn included; then the rule's on_store_failure says what happens
    #[arg(long, env = "TIDEGATE_STORE_TIMEOUT", value_name = "TIME", default_value = "10ms",
        value_parser = values::store_timeout, help_heading = "The store of a fleet")]
    pub store_timeout: Duration,

    /// What all names of keys begin with, so that several fleets can share one Redis
    #[arg(long, env = "TIDEGATE_STORE_NAMESPACE", value_name = "NAME", default_value = "tg",
        value_parser = values::store_namespace, help_heading = "The store of a fleet")]
    pub store_namespace: Box<str>,

    /// Answer when so many replicas have what was written, as far as they do in time; fewer writes are lost at a failover
    #[arg(long, env = "TIDEGATE_STORE_WAIT_REPLICAS", value_name = "NUMBER",
        value_parser = values::store_wait_replicas, help_heading = "The store of a fleet")]
    pub store_wait_replicas: Option<NonZeroU32>,

    /// Authorities that vouch for an encrypted store, as PEM, instead of those of the system
    #[arg(long, env = "TIDEGATE_STORE_CA", value_name = "FILE", value_hint = ValueHint::FilePath,
        help_heading = "The store of a fleet")]
    pub store_ca: Option<PathBuf>,

    /// The certificate that is shown to an encrypted store which asks for one, as PEM
    #[arg(long, env = "TIDEGATE_STORE_CERT", value_name = "FILE", value_hint = ValueHint::FilePath,
        help_heading = "The store of a fleet")]
    pub store_cert: Option<PathBuf>,

    /// Its private key, as PEM
    #[arg(long, env = "TIDEGATE_STORE_KEY", value_name = "FILE", value_hint = ValueHint::FilePath,
        help_heading = "The store of a fleet")]
    pub store_key: Option<PathBuf>,

    /// The certificate for addresses with tls:, as PEM, with those that vouch for it after it
    #[arg(long, env = "TIDEGATE_TLS_CERT", value_name = "FILE", value_hint = ValueHint::FilePath,
        help_heading = "Who may come in")]
    pub tls_cert: Option<PathBuf>,

    /// Its private key, as PEM
    #[arg(long, env = "TIDEGATE_TLS_KEY", value_name = "FILE", value_hint = ValueHint::FilePath,
        help_heading = "Who may come in")]
    pub tls_key: Option<PathBuf>,

    /// Let only clients in whose certificate one of these authorities has signed, as PEM
    #[arg(long, env = "TIDEGATE_TLS_CLIENT_CA", value_name = "FILE",
        value_hint = ValueHint::FilePath, help_heading = "Who may come in")]
    pub tls_client_ca: Option<PathBuf>,

    /// The token that operators have to show. Others on this machine see flags: rather use a file or the environment
    #[arg(
        long,
        env = "TIDEGATE_ADMIN_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN",
        help_heading = "Who may come in"
    )]
    pub admin_token: Option<Secret>,

    /// The same, from a file
    #[arg(long, env = "TIDEGATE_ADMIN_TOKEN_FILE", value_name = "FILE",
        value_hint = ValueHint::FilePath, help_heading = "Who may come in")]
    pub admin_token_file: Option<PathBuf>,

    /// The password that clients of the protocol of Redis have to give
    #[arg(
        long,
        env = "TIDEGATE_RESP_PASSWORD",
        hide_env_values = true,
        value_name = "PASSWORD",
        help_heading = "Who may come in"
    )]
    pub resp_password: Option<Secret>,

    /// The same, from a file
    #[arg(long, env = "TIDEGATE_RESP_PASSWORD_FILE", value_name = "FILE",
        value_hint = ValueHint::FilePath, help_heading = "Who may come in")]
    pub resp_password_file: Option<PathBuf>,

    /// The most connections of a listener, if the process may have so many files open; those beyond are closed at once
    #[arg(long, env = "TIDEGATE_CONNECTIONS_MAX", value_name = "NUMBER", default_value_t = CONNECTIONS_MAX_DEFAULT,
        value_parser = values::connections_max, help_heading = "Bounds")]
    pub connections_max: NonZeroUsize,

    /// The most requests that rules with the action delay hold for one key; those beyond are denied
    #[arg(long, env = "TIDEGATE_QUEUE_MAX", value_name = "NUMBER", default_value = "16384",
        value_parser = values::queue_max, help_heading = "Bounds")]
    pub queue_max: NonZeroUsize,

    /// How long a connection may stay open with nothing asked on it
    #[arg(long, env = "TIDEGATE_IDLE_TIMEOUT", value_name = "TIME", default_value = "5m",
        value_parser = values::timeout, help_heading = "Bounds")]
    pub idle_timeout: Duration,

    /// How long a request may take to arrive
    #[arg(long, env = "TIDEGATE_HEADER_TIMEOUT", value_name = "TIME", default_value = "10s",
        value_parser = values::timeout, help_heading = "Bounds")]
    pub header_timeout: Duration,

    /// How long requests may take to finish when the server is told to stop
    #[arg(long, env = "TIDEGATE_DRAIN_TIMEOUT", value_name = "TIME", default_value = "5s",
        value_parser = values::drain_timeout, help_heading = "Bounds")]
    pub drain_timeout: Duration,

    /// How many threads serve; if it is not set, as many as there are processors
    #[arg(long, env = "TIDEGATE_WORKERS", value_name = "NUMBER",
        value_parser = values::workers, help_heading = "Bounds")]
    pub workers: Option<NonZeroUsize>,

    /// What is worth a line in the log
    #[arg(
        long,
        env = "TIDEGATE_LOG_LEVEL",
        value_name = "LEVEL",
        value_enum,
        default_value_t,
        help_heading = "Log"
    )]
    pub log_level: LogLevel,

    /// Whom the log is for; it goes to standard error
    #[arg(
        long,
        env = "TIDEGATE_LOG_FORMAT",
        value_name = "FORMAT",
        value_enum,
        default_value_t,
        help_heading = "Log"
    )]
    pub log_format: LogFormat,

    /// How the log names whom a denial was for
    #[arg(
        long,
        env = "TIDEGATE_LOG_KEYS",
        value_name = "HOW",
        value_enum,
        default_value_t,
        help_heading = "Log"
    )]
    pub log_keys: LogKeys,

    /// How many denials a second are worth a line; 0 is none
    #[arg(
        long,
        env = "TIDEGATE_LOG_DENIALS",
        value_name = "NUMBER",
        default_value = "10",
        help_heading = "Log"
    )]
    pub log_denials: u32,

    /// Which answers over gRPC say in headers and metadata which rule decided
    #[arg(
        long,
        env = "TIDEGATE_RLS_DETAILS",
        value_name = "WHICH",
        value_enum,
        default_value_t,
        help_heading = "gRPC"
    )]
    pub rls_details: RlsDetails,
}

/// Settings whose values are to be kept from sight.
pub const SECRETS: [&str; 3] = ["admin_token", "resp_password", "store"];
