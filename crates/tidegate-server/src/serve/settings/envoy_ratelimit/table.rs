//! All variables of envoyproxy/ratelimit (its `src/settings/settings.go`). docs/migrating-from-envoy-ratelimit.md has the
//! same table, which a test compares.

use super::Environment;
use super::values::is_false;

/// A variable, and what becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Variable {
    /// Its name.
    pub name: &'static str,
    /// What becomes of it.
    pub used: Use,
}

/// What becomes of a variable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Use {
    /// It sets this setting.
    Setting(&'static str),
    /// It is not needed, for this reason, and it changes no decision.
    NotNeeded(&'static str),
    /// A warning at the start says what to use instead, unless the variable has this value, which changes nothing.
    Warned {
        /// The value that needs no warning, or an empty text.
        unless: &'static str,
        /// What to use instead.
        instead: &'static str,
    },
}

/// Names that programs other than envoyproxy/ratelimit use too.
const COMMON_NAMES: [&str; 12] = [
    "HOST",
    "PORT",
    "DEBUG_HOST",
    "DEBUG_PORT",
    "GRPC_HOST",
    "GRPC_PORT",
    "LOG_LEVEL",
    "LOG_FORMAT",
    "REDIS_URL",
    "REDIS_AUTH",
    "STATSD_HOST",
    "STATSD_PORT",
];

const fn setting(name: &'static str, setting: &'static str) -> Variable {
    Variable { name, used: Use::Setting(setting) }
}

const fn warned(name: &'static str, unless: &'static str, instead: &'static str) -> Variable {
    Variable { name, used: Use::Warned { unless, instead } }
}

const XDS: &str = "rules come from files: write them to a directory, and set rules to it";
const MEMCACHED: &str = "counters are in memory or in Redis: set store";
const PER_SECOND: &str = "all limits are in one store: set store";
const POOL: &str = "nothing: decisions share pipelined connections";
const STATSD: &str = "Prometheus reads /metrics of the admin listener: set admin";
const TRACING: &str = "nothing: there are no traces";
const HEADER_NAMES: &str = "header names are fixed: see docs/rls.md";

/// All variables.
pub const VARIABLES: [Variable; 108] = [
    setting("HOST", "http"),
    setting("PORT", "http"),
    warned("DEBUG_HOST", "", "set admin, which needs admin_token if other machines can reach it"),
    warned("DEBUG_PORT", "", "set admin, which needs admin_token if other machines can reach it"),
    setting("GRPC_UDS", "grpc"),
    setting("GRPC_HOST", "grpc"),
    setting("GRPC_PORT", "grpc"),
    warned("GRPC_MAX_CONNECTION_AGE", "", "connections have no maximum age: set idle_timeout"),
    warned("GRPC_MAX_CONNECTION_AGE_GRACE", "", "connections have no maximum age: set idle_timeout"),
    setting("GRPC_SERVER_USE_TLS", "grpc"),
    setting("GRPC_SERVER_TLS_CERT", "tls_cert"),
    setting("GRPC_SERVER_TLS_KEY", "tls_key"),
    setting("GRPC_CLIENT_TLS_CACERT", "tls_client_ca"),
    warned(
        "GRPC_CLIENT_TLS_SAN",
        "",
        "each certificate of tls_client_ca is accepted, whatever its names: use a CA for these clients only",
    ),
    setting("LOG_LEVEL", "log_level"),
    setting("LOG_FORMAT", "log_format"),
    warned("CONFIG_TYPE", "FILE", XDS),
    warned(
        "FORCE_START_WITHOUT_INITIAL_CONFIG",
        "false",
        "the server does not start without valid rules: a file with an empty list of descriptors is valid",
    ),
    warned("CONFIG_GRPC_XDS_NODE_ID", "", XDS),
    warned("CONFIG_GRPC_XDS_NODE_METADATA", "", XDS),
    warned("CONFIG_GRPC_XDS_SERVER_URL", "", XDS),
    warned("CONFIG_GRPC_XDS_SERVER_CONNECT_RETRY_INTERVAL", "", XDS),
    warned("CONFIG_GRPC_XDS_CLIENT_ADDITIONAL_HEADERS", "", XDS),
    warned("CONFIG_GRPC_XDS_SERVER_USE_TLS", "false", XDS),
    warned("CONFIG_GRPC_XDS_CLIENT_TLS_CERT", "", XDS),
    warned("CONFIG_GRPC_XDS_CLIENT_TLS_KEY", "", XDS),
    warned("CONFIG_GRPC_XDS_SERVER_TLS_CACERT", "", XDS),
    warned("CONFIG_GRPC_XDS_SERVER_TLS_SAN", "", XDS),
    warned("XDS_CLIENT_BACKOFF_INITIAL_INTERVAL", "", XDS),
    warned("XDS_CLIENT_BACKOFF_MAX_INTERVAL", "", XDS),
    warned("XDS_CLIENT_BACKOFF_RANDOM_FACTOR", "", XDS),
    warned("XDS_CLIENT_BACKOFF_JITTER", "", XDS),
    warned("XDS_CLIENT_MAX_MSG_SIZE_IN_BYTES", "", XDS),
    warned("USE_DOG_STATSD", "false", STATSD),
    warned("USE_DOG_STATSD_MOGRIFIERS", "", STATSD),
    warned("USE_STATSD", "false", STATSD),
    warned("STATSD_HOST", "", STATSD),
    warned("STATSD_PORT", "", STATSD),
    warned("EXTRA_TAGS", "", "add labels in Prometheus"),
    warned("STATS_FLUSH_INTERVAL", "", STATSD),
    warned("DISABLE_STATS", "false", "set admin to off"),
    warned("USE_PROMETHEUS", "false", STATSD),
    warned("PROMETHEUS_ADDR", "", STATSD),
    warned("PROMETHEUS_PATH", "/metrics", "metrics are at /metrics of the admin listener"),
    warned("PROMETHEUS_MAPPER_YAML", "", "relabel in Prometheus"),
    setting("RUNTIME_ROOT", "rules"),
    setting("RUNTIME_SUBDIRECTORY", "rules"),
    setting("RUNTIME_APPDIRECTORY", "rules"),
    setting("RUNTIME_IGNOREDOTFILES", "ignore_dotfiles"),
    Variable {
        name: "RUNTIME_WATCH_ROOT",
        used: Use::NotNeeded("all files are compared every reload_every, whichever way they are replaced"),
    },
    warned("EXPIRATION_JITTER_MAX_SECONDS", "", "nothing: a key expires when its counter is idle"),
    warned(
        "LOCAL_CACHE_SIZE_IN_BYTES",
        "0",
        "nothing: denials are cached while they are certain (deny_cache)",
    ),
    setting("NEAR_LIMIT_RATIO", "near_limit_ratio"),
    setting("CACHE_KEY_PREFIX", "store_namespace"),
    warned("BACKEND_TYPE", "redis", MEMCACHED),
    setting("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT", "counting"),
    warned("LIMIT_RESPONSE_HEADERS_ENABLED", "false", "set rls_details to all"),
    warned("LIMIT_LIMIT_HEADER", "", HEADER_NAMES),
    warned("LIMIT_REMAINING_HEADER", "", HEADER_NAMES),
    warned("LIMIT_RESET_HEADER", "", HEADER_NAMES),
    warned(
        "HEALTHY_WITH_AT_LEAST_ONE_CONFIG_LOADED",
        "true",
        "the server does not start without valid rules, and is healthy as soon as it listens",
    ),
    setting("REDIS_SOCKET_TYPE", "store"),
    setting("REDIS_TYPE", "store"),
    setting("REDIS_URL", "store"),
    warned("REDIS_POOL_SIZE", "", POOL),
    setting("REDIS_AUTH", "store"),
    setting("REDIS_TLS", "store"),
    setting("REDIS_TLS_CLIENT_CERT", "store_cert"),
    setting("REDIS_TLS_CLIENT_KEY", "store_key"),
    setting("REDIS_TLS_CACERT", "store_ca"),
    warned(
        "REDIS_TLS_SKIP_HOSTNAME_VERIFICATION",
        "false",
        "names are always verified: use a certificate with the right name, and store_ca",
    ),
    warned("REDIS_PIPELINE_WINDOW", "0", POOL),
    warned("REDIS_PIPELINE_LIMIT", "0", POOL),
    warned("REDIS_PERSECOND", "false", PER_SECOND),
    warned("REDIS_PERSECOND_SOCKET_TYPE", "", PER_SECOND),
    warned("REDIS_PERSECOND_TYPE", "", PER_SECOND),
    warned("REDIS_PERSECOND_URL", "", PER_SECOND),
    warned("REDIS_PERSECOND_POOL_SIZE", "", PER_SECOND),
    warned("REDIS_PERSECOND_AUTH", "", PER_SECOND),
    warned("REDIS_PERSECOND_TLS", "false", PER_SECOND),
    setting("REDIS_SENTINEL_AUTH", "store"),
    warned("REDIS_PERSECOND_SENTINEL_AUTH", "", PER_SECOND),
    warned("REDIS_PERSECOND_PIPELINE_WINDOW", "0", PER_SECOND),
    warned("REDIS_PERSECOND_PIPELINE_LIMIT", "0", PER_SECOND),
    warned(
        "REDIS_HEALTH_CHECK_ACTIVE_CONNECTION",
        "false",
        "without Redis, on_store_failure of a rule decides",
    ),
    warned("REDIS_TIMEOUT", "", "set store_timeout, the time that a decision waits for Redis"),
    warned("REDIS_PERSECOND_TIMEOUT", "", PER_SECOND),
    warned("REDIS_POOL_ON_EMPTY_BEHAVIOR", "WAIT", POOL),
    warned("REDIS_PERSECOND_POOL_ON_EMPTY_BEHAVIOR", "WAIT", PER_SECOND),
    warned("MEMCACHE_HOST_PORT", "", MEMCACHED),
    warned("MEMCACHE_MAX_IDLE_CONNS", "", MEMCACHED),
    warned("MEMCACHE_SRV", "", MEMCACHED),
    warned("MEMCACHE_SRV_REFRESH", "", MEMCACHED),
    warned("MEMCACHE_TLS", "false", MEMCACHED),
    warned("MEMCACHE_TLS_CLIENT_CERT", "", MEMCACHED),
    warned("MEMCACHE_TLS_CLIENT_KEY", "", MEMCACHED),
    warned("MEMCACHE_TLS_CACERT", "", MEMCACHED),
    warned("MEMCACHE_TLS_SKIP_HOSTNAME_VERIFICATION", "false", MEMCACHED),
    setting("SHADOW_MODE", "global_shadow"),
    warned("QUOTA_MODE", "false", "requests ARE denied: set quota_mode in each descriptor"),
    warned("RESPONSE_DYNAMIC_METADATA", "false", "set rls_details to all"),
    setting("MERGE_DOMAIN_CONFIG", "merge_domain_config"),
    warned("TRACING_ENABLED", "false", TRACING),
    warned("TRACING_SERVICE_NAME", "", TRACING),
    warned("TRACING_SERVICE_NAMESPACE", "", TRACING),
    warned("TRACING_SERVICE_INSTANCE_ID", "", TRACING),
    warned("TRACING_EXPORTER_PROTOCOL", "", TRACING),
    warned("TRACING_SAMPLING_RATE", "", TRACING),
];

impl Variable {
    /// Whether other programs use the name too.
    pub fn is_common(&self) -> bool {
        COMMON_NAMES.contains(&self.name)
    }

    /// The warning about a variable that is set and has no setting.
    pub(super) fn warning(&self, environment: &impl Environment) -> Option<String> {
        let Use::Warned { unless, instead } = self.used else { return None };
        let value = environment(self.name)?;
        let is_harmless = value.eq_ignore_ascii_case(unless) || (unless == "false" && is_false(&value));
        (!is_harmless).then(|| {
            format!(
                "the environment variable {} of envoyproxy/ratelimit has no effect (hint: {instead})",
                self.name
            )
        })
    }
}
