//! All settings: flag, environment variable, default and help.
//!
//! `--data-dir`, `TIDEGATE_DATA_DIR` and `data_dir:` are one setting. `file.rs` reads the settings file by these
//! definitions, so there is no second list.

use std::num::{NonZeroU32, NonZeroUsize};
use std::path::PathBuf;
use std::time::Duration;

use clap::{ArgAction, Parser, ValueHint};

use super::values::{
    self, CountingMode, LogFormat, LogKeys, LogLevel, MetricsAccess, NegativeHits, PrintAddresses,
    ProtectedMode, RateLimitHeaders, RlsDetails, UnknownDomain,
};
use super::{EnvoyRatelimitEnv, ForwardAuthArgs, LeaseStoreLocation, Secret, StoreLocation, TokenArgs};
use crate::config_store::ConfigStoreLocation;
use crate::serve::listen::Address;
use crate::size::ByteSize;

/// The default of `--connections-max`.
pub const CONNECTIONS_MAX_DEFAULT: NonZeroUsize = NonZeroUsize::new(10_000).unwrap();

/// Run the rate limit server: HTTP, gRPC (Envoy's rate limit service) and the Redis protocol
///
/// Reads rules from files and reloads them when they change. Counters are in memory, and survive a restart if there is
/// a data directory; or they are in Redis, shared by a fleet. Without settings, the server listens on this
/// machine only and uses a small example of rules.
#[derive(Clone, Debug, Parser)]
#[command(
    name = "tidegate serve",
    after_long_help = include_str!("../../help/serve.txt"),
)]
pub struct ServeArgs {
    /// Read settings from this file; flags and environment variables take precedence
    #[arg(long, env = "TIDEGATE_CONFIG", value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub config: Option<PathBuf>,

    /// A rules file, or a directory of rules files; may be repeated. `store`: the rules are in the config store, see
    /// `tidegate rules`. Default: a built-in example
    #[arg(long, env = "TIDEGATE_RULES", value_name = "PATH", value_delimiter = ',',
        value_hint = ValueHint::AnyPath)]
    pub rules: Vec<PathBuf>,

    /// Merge files for envoyproxy/ratelimit that have the same domain; otherwise that is an error
    #[arg(long, env = "TIDEGATE_MERGE_DOMAIN_CONFIG", value_name = "BOOL", default_value_t, action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub merge_domain_config: bool,

    /// Ignore files for envoyproxy/ratelimit whose names, or whose directories' names, begin with a dot
    #[arg(long, env = "TIDEGATE_IGNORE_DOTFILES", value_name = "BOOL", default_value_t, action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub ignore_dotfiles: bool,

    /// Whether to read the environment variables of envoyproxy/ratelimit; see docs/migrating-from-envoy-ratelimit.md
    #[arg(long, env = "TIDEGATE_ENVOY_RATELIMIT_ENV", value_name = "WHEN", value_enum, default_value_t)]
    pub envoy_ratelimit_env: EnvoyRatelimitEnv,

    /// What the limits of files for envoyproxy/ratelimit count
    #[arg(long, env = "TIDEGATE_COUNTING", value_name = "HOW", value_enum, default_value_t)]
    pub counting: CountingMode,

    /// Dry run of all rules: count and report everything, deny and delay nothing
    #[arg(long, env = "TIDEGATE_GLOBAL_SHADOW", value_name = "BOOL", default_value_t, action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub global_shadow: bool,

    /// How often to check rules and certificates for changes
    #[arg(long, env = "TIDEGATE_RELOAD_EVERY", value_name = "TIME", default_value = "1s",
        value_parser = values::reload_every)]
    pub reload_every: Duration,

    /// What happens to requests of a domain without rules
    #[arg(long, env = "TIDEGATE_UNKNOWN_DOMAIN", value_name = "WHAT", value_enum, default_value_t)]
    pub unknown_domain: UnknownDomain,

    /// Which headers tell clients about their limits, over HTTP and through Envoy
    #[arg(long, env = "TIDEGATE_RATELIMIT_HEADERS", value_name = "WHICH", value_enum, default_value_t)]
    pub ratelimit_headers: RateLimitHeaders,

    /// Address of the HTTP listener
    #[arg(long, env = "TIDEGATE_HTTP", value_name = "ADDR", default_value = "127.0.0.1:8080",
        value_hint = ValueHint::Hostname, help_heading = "Addresses")]
    pub http: Address,

    /// Address of the gRPC listener
    #[arg(long, env = "TIDEGATE_GRPC", value_name = "ADDR", default_value = "127.0.0.1:8081",
        value_hint = ValueHint::Hostname, help_heading = "Addresses")]
    pub grpc: Address,

    /// Address of the listener for the Redis protocol
    #[arg(long, env = "TIDEGATE_RESP", value_name = "ADDR", default_value = "127.0.0.1:6380",
        value_hint = ValueHint::Hostname, help_heading = "Addresses")]
    pub resp: Address,

    /// Address of the admin listener: metrics, active rules, resets. Needs a token if other machines can reach it
    #[arg(long, env = "TIDEGATE_ADMIN", value_name = "ADDR", default_value = "127.0.0.1:9090",
        value_hint = ValueHint::Hostname, help_heading = "Addresses")]
    pub admin: Address,

    /// How to print the bound addresses
    #[arg(
        long,
        env = "TIDEGATE_PRINT_ADDRESSES",
        value_name = "FORMAT",
        value_enum,
        default_value_t,
        help_heading = "Addresses"
    )]
    pub print_addresses: PrintAddresses,

    /// Keep counters across restarts in snapshots in this directory, which is created if missing
    #[arg(long, env = "TIDEGATE_DATA_DIR", value_name = "DIR", value_hint = ValueHint::DirPath,
        help_heading = "Counters")]
    pub data_dir: Option<PathBuf>,

    /// How often to write a snapshot
    #[arg(long, env = "TIDEGATE_SNAPSHOT_EVERY", value_name = "TIME", default_value = "10s",
        value_parser = values::snapshot_every, help_heading = "Counters")]
    pub snapshot_every: Duration,

    /// Maximum memory for counters
    #[arg(long, env = "TIDEGATE_MEMORY_MAX", value_name = "SIZE", default_value = "256MiB",
        value_parser = crate::size::parse_memory_max, help_heading = "Counters")]
    pub memory_max: ByteSize,

    /// Where to keep counters: `memory`, or the URL of a Redis or Valkey that a fleet shares: redis://127.0.0.1:6379
    #[arg(
        long,
        env = "TIDEGATE_STORE",
        hide_env_values = true,
        value_name = "URL",
        default_value = "memory",
        help_heading = "Shared store"
    )]
    pub store: StoreLocation,

    /// How long a decision waits for the store, including queueing; then the rule's on_store_failure applies
    #[arg(long, env = "TIDEGATE_STORE_TIMEOUT", value_name = "TIME", default_value = "10ms",
        value_parser = values::store_timeout, help_heading = "Shared store")]
    pub store_timeout: Duration,

    /// Prefix of all key names, so that several fleets can share one Redis
    #[arg(long, env = "TIDEGATE_STORE_NAMESPACE", value_name = "NAME", default_value = "tg",
        value_parser = values::store_namespace, help_heading = "Shared store")]
    pub store_namespace: Box<str>,

    /// Wait for this many replicas, up to a quarter of the timeout, so that a failover loses fewer writes
    #[arg(long, env = "TIDEGATE_STORE_WAIT_REPLICAS", value_name = "NUMBER",
        value_parser = values::store_wait_replicas, help_heading = "Shared store")]
    pub store_wait_replicas: Option<NonZeroU32>,

    /// Exit if the store cannot be reached at the start, instead of deciding without it until it can be reached
    #[arg(long, env = "TIDEGATE_STORE_REQUIRED", value_name = "BOOL", default_value_t, action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = "Shared store")]
    pub store_required: bool,

    /// Report the node as not ready until it has reached the store for the first time
    #[arg(long, env = "TIDEGATE_STORE_BEFORE_READY", value_name = "BOOL", default_value_t, action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true", help_heading = "Shared store")]
    pub store_before_ready: bool,

    /// CA certificates (PEM) to verify a store with TLS, instead of the system's
    #[arg(long, env = "TIDEGATE_STORE_CA", value_name = "FILE", value_hint = ValueHint::FilePath,
        help_heading = "Shared store")]
    pub store_ca: Option<PathBuf>,

    /// Client certificate (PEM) for a store with TLS that asks for one
    #[arg(long, env = "TIDEGATE_STORE_CERT", value_name = "FILE", value_hint = ValueHint::FilePath,
        help_heading = "Shared store")]
    pub store_cert: Option<PathBuf>,

    /// Private key (PEM) of the client certificate
    #[arg(long, env = "TIDEGATE_STORE_KEY", value_name = "FILE", value_hint = ValueHint::FilePath,
        help_heading = "Shared store")]
    pub store_key: Option<PathBuf>,

    /// Where to keep leases and locks: `auto` (where counters are), or the URL of an etcd, which never loses a lock
    #[arg(
        long,
        env = "TIDEGATE_LEASE_STORE",
        hide_env_values = true,
        value_name = "URL",
        default_value = "auto",
        help_heading = "Lease store"
    )]
    pub lease_store: LeaseStoreLocation,

    /// How long an operation on leases waits for etcd; then the rule's on_store_failure applies
    #[arg(long, env = "TIDEGATE_LEASE_STORE_TIMEOUT", value_name = "TIME", default_value = "1s",
        value_parser = values::store_timeout, help_heading = "Lease store")]
    pub lease_store_timeout: Duration,

    /// CA certificates (PEM) to verify an etcd with TLS, instead of the system's
    #[arg(long, env = "TIDEGATE_LEASE_STORE_CA", value_name = "FILE", value_hint = ValueHint::FilePath,
        help_heading = "Lease store")]
    pub lease_store_ca: Option<PathBuf>,

    /// Client certificate (PEM) for an etcd with TLS that asks for one
    #[arg(long, env = "TIDEGATE_LEASE_STORE_CERT", value_name = "FILE", value_hint = ValueHint::FilePath,
        help_heading = "Lease store")]
    pub lease_store_cert: Option<PathBuf>,

    /// Private key (PEM) of the client certificate
    #[arg(long, env = "TIDEGATE_LEASE_STORE_KEY", value_name = "FILE", value_hint = ValueHint::FilePath,
        help_heading = "Lease store")]
    pub lease_store_key: Option<PathBuf>,

    /// Where to keep overrides: `auto` (on the Redis of --store, else in --data-dir, else in memory), or the URL of a database
    /// (docs/overrides.md)
    #[arg(
        long,
        env = "TIDEGATE_CONFIG_STORE",
        hide_env_values = true,
        value_name = "URL",
        default_value = "auto",
        help_heading = "Overrides"
    )]
    pub config_store: ConfigStoreLocation,

    /// Maximum memory for overrides that were used lately: about 50 bytes for a key, and 350 bytes if no other key has the same
    /// values
    #[arg(long, env = "TIDEGATE_OVERRIDE_CACHE_MAX", value_name = "SIZE", default_value = "64MiB",
        value_parser = crate::size::parse_memory_max, help_heading = "Overrides")]
    pub override_cache_max: ByteSize,

    /// Maximum memory for the filter of overridden keys, at 2 bytes for a key: 128MiB for a store on this node, 8MiB for one
    /// that nodes share. 0 for none
    #[arg(long, env = "TIDEGATE_OVERRIDE_FILTER_MAX", value_name = "SIZE", help_heading = "Overrides")]
    pub override_filter_max: Option<ByteSize>,

    /// How long a decision waits for overrides that are not in memory, as part of the time it has; then the rule applies
    #[arg(long, env = "TIDEGATE_OVERRIDE_TIMEOUT", value_name = "TIME", default_value = "5ms",
        value_parser = values::store_timeout, help_heading = "Overrides")]
    pub override_timeout: Duration,

    /// Certificate chain (PEM) for addresses with tls:, the server's certificate first
    #[arg(long, env = "TIDEGATE_TLS_CERT", value_name = "FILE", value_hint = ValueHint::FilePath,
        help_heading = "Access")]
    pub tls_cert: Option<PathBuf>,

    /// Private key (PEM) of the certificate
    #[arg(long, env = "TIDEGATE_TLS_KEY", value_name = "FILE", value_hint = ValueHint::FilePath,
        help_heading = "Access")]
    pub tls_key: Option<PathBuf>,

    /// Accept only clients with a certificate that one of these CAs (PEM) has signed
    #[arg(long, env = "TIDEGATE_TLS_CLIENT_CA", value_name = "FILE",
        value_hint = ValueHint::FilePath, help_heading = "Access")]
    pub tls_client_ca: Option<PathBuf>,

    /// Token for the admin listener. Other users can see flags, so prefer a file or the environment
    #[arg(
        long,
        env = "TIDEGATE_ADMIN_TOKEN",
        hide_env_values = true,
        value_name = "TOKEN",
        help_heading = "Access"
    )]
    pub admin_token: Option<Secret>,

    /// Read the admin token from this file
    #[arg(long, env = "TIDEGATE_ADMIN_TOKEN_FILE", value_name = "FILE",
        value_hint = ValueHint::FilePath, help_heading = "Access")]
    pub admin_token_file: Option<PathBuf>,

    /// Password for clients of the Redis protocol
    #[arg(
        long,
        env = "TIDEGATE_RESP_PASSWORD",
        hide_env_values = true,
        value_name = "PASSWORD",
        help_heading = "Access"
    )]
    pub resp_password: Option<Secret>,

    /// Read the password from this file
    #[arg(long, env = "TIDEGATE_RESP_PASSWORD_FILE", value_name = "FILE",
        value_hint = ValueHint::FilePath, help_heading = "Access")]
    pub resp_password_file: Option<PathBuf>,

    /// Whether RESP needs a password if other machines can reach it
    #[arg(
        long,
        env = "TIDEGATE_RESP_PROTECTED_MODE",
        value_name = "MODE",
        value_enum,
        default_value_t,
        help_heading = "Access"
    )]
    pub resp_protected_mode: ProtectedMode,

    /// Further names by which clients may call an HTTP listener on 127.0.0.1; others are refused (DNS rebinding)
    #[arg(long, env = "TIDEGATE_HTTP_HOSTS", value_name = "NAME", value_delimiter = ',',
        value_parser = values::host_name, help_heading = "Access")]
    pub http_hosts: Vec<Box<str>>,

    /// Whether /metrics needs the admin token
    #[arg(
        long,
        env = "TIDEGATE_METRICS_ACCESS",
        value_name = "HOW",
        value_enum,
        default_value_t,
        help_heading = "Access"
    )]
    pub metrics_access: MetricsAccess,

    /// What negative hits of Envoy's rate limit service do, over gRPC and /json
    #[arg(
        long,
        env = "TIDEGATE_NEGATIVE_HITS",
        value_name = "HOW",
        value_enum,
        default_value_t,
        help_heading = "Access"
    )]
    pub negative_hits: NegativeHits,

    /// How proxies ask, and where the attributes of their requests come from
    #[command(flatten)]
    pub forward_auth: ForwardAuthArgs,

    /// Which tokens of users are accepted
    #[command(flatten)]
    pub tokens: TokenArgs,

    /// Maximum connections per listener, reduced if the limit of open files is too low; more are closed immediately
    #[arg(long, env = "TIDEGATE_CONNECTIONS_MAX", value_name = "NUMBER", default_value_t = CONNECTIONS_MAX_DEFAULT,
        value_parser = values::connections_max, help_heading = "Bounds")]
    pub connections_max: NonZeroUsize,

    /// Maximum connections per listener from one client: an IPv4 address, or the first 64 bits of an IPv6 address
    #[arg(long, env = "TIDEGATE_CONNECTIONS_PER_IP_MAX", value_name = "NUMBER",
        value_parser = values::connections_per_ip_max, help_heading = "Bounds")]
    pub connections_per_ip_max: Option<NonZeroUsize>,

    /// Maximum memory for connections and for requests that wait; more are refused
    #[arg(long, env = "TIDEGATE_CONNECTIONS_MEMORY_MAX", value_name = "SIZE", default_value = "1GiB",
        value_parser = values::connections_memory_max, help_heading = "Bounds")]
    pub connections_memory_max: ByteSize,

    /// Maximum requests that wait for one key because of the action delay; more are denied
    #[arg(long, env = "TIDEGATE_QUEUE_MAX", value_name = "NUMBER", default_value = "16384",
        value_parser = values::queue_max, help_heading = "Bounds")]
    pub queue_max: NonZeroUsize,

    /// Maximum size of a request: the body over HTTP, the message over gRPC
    #[arg(long, env = "TIDEGATE_REQUEST_BYTES_MAX", value_name = "SIZE", default_value = "4MiB",
        value_parser = values::request_bytes_max, help_heading = "Bounds")]
    pub request_bytes_max: ByteSize,

    /// Maximum descriptors of a request
    #[arg(long, env = "TIDEGATE_DESCRIPTORS_MAX", value_name = "NUMBER", default_value = "1000",
        value_parser = values::items_max, help_heading = "Bounds")]
    pub descriptors_max: NonZeroUsize,

    /// Maximum entries of a descriptor, or attributes of a request
    #[arg(long, env = "TIDEGATE_ENTRIES_MAX", value_name = "NUMBER", default_value = "1000",
        value_parser = values::items_max, help_heading = "Bounds")]
    pub entries_max: NonZeroUsize,

    /// Maximum limits that a request may fall under; at most 1024, because one script call in Redis charges all of them
    #[arg(long, env = "TIDEGATE_LIMITS_MAX", value_name = "NUMBER", default_value = "1024",
        value_parser = values::limits_max, help_heading = "Bounds")]
    pub limits_max: NonZeroUsize,

    /// How long a connection may be idle
    #[arg(long, env = "TIDEGATE_IDLE_TIMEOUT", value_name = "TIME", default_value = "5m",
        value_parser = values::timeout, help_heading = "Bounds")]
    pub idle_timeout: Duration,

    /// How long a request may take to arrive
    #[arg(long, env = "TIDEGATE_HEADER_TIMEOUT", value_name = "TIME", default_value = "10s",
        value_parser = values::timeout, help_heading = "Bounds")]
    pub header_timeout: Duration,

    /// How long to wait for requests to finish when the server stops
    #[arg(long, env = "TIDEGATE_DRAIN_TIMEOUT", value_name = "TIME", default_value = "5s",
        value_parser = values::drain_timeout, help_heading = "Bounds")]
    pub drain_timeout: Duration,

    /// Number of worker threads. Default: one per processor
    #[arg(long, env = "TIDEGATE_WORKERS", value_name = "NUMBER",
        value_parser = values::workers, help_heading = "Bounds")]
    pub workers: Option<NonZeroUsize>,

    /// The least severe level to log
    #[arg(
        long,
        env = "TIDEGATE_LOG_LEVEL",
        value_name = "LEVEL",
        value_enum,
        default_value_t,
        help_heading = "Log"
    )]
    pub log_level: LogLevel,

    /// Format of the log, which goes to standard error
    #[arg(
        long,
        env = "TIDEGATE_LOG_FORMAT",
        value_name = "FORMAT",
        value_enum,
        default_value_t,
        help_heading = "Log"
    )]
    pub log_format: LogFormat,

    /// How keys appear in the denial log
    #[arg(
        long,
        env = "TIDEGATE_LOG_KEYS",
        value_name = "HOW",
        value_enum,
        default_value_t,
        help_heading = "Log"
    )]
    pub log_keys: LogKeys,

    /// Attributes that the denial log shows as they are, even if it hashes others; an empty value hashes all
    #[arg(
        long,
        env = "TIDEGATE_LOG_PLAIN",
        value_name = "NAMES",
        value_delimiter = ',',
        default_value = "method,path,host",
        help_heading = "Log"
    )]
    pub log_plain: Vec<String>,

    /// Maximum denials to log per second; 0 logs none
    #[arg(
        long,
        env = "TIDEGATE_LOG_DENIALS",
        value_name = "NUMBER",
        default_value = "10",
        help_heading = "Log"
    )]
    pub log_denials: u32,

    /// Maximum descriptors with their own metrics; 0 for none
    #[arg(long, env = "TIDEGATE_DESCRIPTOR_METRICS_MAX", value_name = "NUMBER", default_value = "1000",
        value_parser = values::descriptor_metrics_max, help_heading = "Metrics")]
    pub descriptor_metrics_max: usize,

    /// The part of a limit from which on hits are counted as near it
    #[arg(long, env = "TIDEGATE_NEAR_LIMIT_RATIO", value_name = "RATIO", default_value = "0.8",
        value_parser = values::near_limit_ratio, help_heading = "Metrics")]
    pub near_limit_ratio: f32,

    /// Which gRPC answers name the deciding rule in headers and metadata
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

/// Settings whose values must not be shown.
pub const SECRETS: [&str; 5] = ["admin_token", "config_store", "lease_store", "resp_password", "store"];
