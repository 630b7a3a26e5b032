//! Settings of the server, from flags, the environment and a file.
//!
//! ```text
//! args.rs         all settings: flag, environment variable, default and help
//! values.rs       types and parsers of their values; secret.rs for secrets, store.rs for the URL of a store,
//!                 lease_store.rs for that of a store of leases
//! forward_auth.rs the settings of forward auth, and what they mean; tokens.rs those of tokens
//! file.rs         reads the settings file, by the definitions in args.rs
//! environment.rs  names the variable of a bad value, finds misspelled variables
//! envoy_ratelimit/ the environment variables of envoyproxy/ratelimit
//! conflicts.rs    settings that contradict each other
//! ```

mod args;
mod conflicts;
mod environment;
mod envoy_ratelimit;
mod file;
mod forward_auth;
mod lease_store;
mod secret;
mod store;
mod tokens;
mod values;

use std::ffi::OsString;
use std::io::Read as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use clap::parser::ValueSource;
use clap::{ArgMatches, CommandFactory as _, FromArgMatches as _};
use tidegate::etcd::EtcdSettings;
use tidegate::redis::RedisSettings;
use tidegate::rules::{LoadOptions, Report};

use crate::json::RequestBounds;
use crate::regular_file;
use crate::serve::token_keys::TokenKeys;
use file::FileError;

pub use args::{CONNECTIONS_MAX_DEFAULT, ServeArgs};
pub use environment::{misspelled_variables, variable_of_error};
pub use envoy_ratelimit::{
    EnvoyRatelimitEnv, MARKERS as ENVOY_RATELIMIT_MARKERS, Use as EnvoyRatelimitUse,
    VARIABLES as ENVOY_RATELIMIT_VARIABLES, Variable as EnvoyRatelimitVariable, unread_variables,
};
pub use forward_auth::{ForwardAuthArgs, ForwardAuthSource, ForwardedHeaderName};
pub use lease_store::LeaseStoreLocation;
pub use secret::{EmptySecret, Secret};
pub use store::StoreLocation;
pub use tokens::TokenArgs;
pub use values::{
    CountingMode, LogFormat, LogKeys, LogLevel, MetricsAccess, NegativeHits, PrintAddresses, ProtectedMode,
    RateLimitHeaders, RlsDetails, UnknownDomain,
};

/// The value of `rules` for rules in the config store. A file of this name is `./store`.
const STORED_RULES: &str = "store";
/// The largest secret file, in bytes.
const SECRET_FILE_BYTES_MAX: u64 = 4 << 10;

/// Validated settings.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Merged from flags, environment, file and defaults, in this order of precedence.
    pub args: ServeArgs,
    /// The token of the admin listener, from the setting or its file.
    pub admin_token: Option<Secret>,
    /// The password of the Redis protocol, from the setting or its file.
    pub resp_password: Option<Secret>,
    /// The shared store, unless counters are in memory.
    pub store: Option<RedisSettings>,
    /// The etcd for leases, unless they are where counters are.
    pub lease_store: Option<EtcdSettings>,
    /// The keys of tokens, if users come from tokens.
    pub token_keys: Option<TokenKeys>,
    /// What the environment has that is ignored, for the log.
    pub warnings: Vec<String>,
}

impl ServeArgs {
    /// Whether the rules are in the config store.
    pub fn has_stored_rules(&self) -> bool {
        self.rules.iter().any(|path| path.as_os_str() == STORED_RULES)
    }

    /// How to load rules files.
    pub fn load_options(&self) -> LoadOptions {
        let mut options = LoadOptions::default();
        options.merge_domains = self.merge_domain_config;
        options.ignore_dotfiles = self.ignore_dotfiles;
        options.counting = self.counting.into();
        options.global_shadow = self.global_shadow;
        options
    }
}

/// Time and size bounds of a connection. The same for all listeners.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// How long a request may take to arrive, from its first byte to its last.
    pub header_timeout: Duration,
    /// How long a connection may be idle.
    pub idle_timeout: Duration,
    /// The largest body of a request, in bytes.
    pub body_bytes_max: usize,
}

impl Default for Bounds {
    fn default() -> Self {
        Self {
            header_timeout: Duration::from_secs(10),
            idle_timeout: Duration::from_secs(300),
            body_bytes_max: RequestBounds::default().request_bytes_max,
        }
    }
}

/// Whether a flag or the environment sets a setting.
fn is_set(matches: &ArgMatches, setting: &str) -> bool {
    matches!(matches.value_source(setting), Some(ValueSource::CommandLine | ValueSource::EnvVariable))
}

/// Why settings are invalid.
#[derive(Debug)]
pub enum SettingsError {
    /// Wrong usage, or `--help`.
    Usage(Box<clap::Error>),
    /// Errors in the settings file.
    File(Report),
    /// Other problems, each with a hint.
    Problems(Vec<String>),
}

impl Settings {
    /// Loads settings from the arguments after `tidegate serve`, the environment, and the file that either may name.
    pub fn load(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, SettingsError> {
        let usage_error = |error: clap::Error| SettingsError::Usage(Box::new(error));
        let command = ServeArgs::command();
        let mut arguments: Vec<OsString> =
            std::iter::once("tidegate serve".into()).chain(arguments).collect();
        let matches = command.clone().try_get_matches_from(&arguments).map_err(usage_error)?;
        if let Some(path) = matches.get_one::<PathBuf>("config") {
            arguments.extend(file::read_arguments(path, &command, &matches)?);
        }
        let matches = command.clone().try_get_matches_from(&arguments).map_err(usage_error)?;
        let mode = matches.get_one("envoy_ratelimit_env").copied().unwrap_or_default();
        let is_set = |setting: &str| is_set(&matches, setting);
        let variables = envoy_ratelimit::read(mode, envoy_ratelimit::process_environment, is_set)
            .map_err(SettingsError::Problems)?;
        arguments.extend(variables.arguments);
        let matches = command.try_get_matches_from(&arguments).map_err(usage_error)?;
        let settings = Self::from_args(ServeArgs::from_arg_matches(&matches).map_err(usage_error)?)?;
        Ok(Self { warnings: variables.warnings, ..settings })
    }

    /// Validates settings that were parsed.
    pub fn from_args(args: ServeArgs) -> Result<Self, SettingsError> {
        let mut problems = conflicts::find_conflicts(&args);
        problems.extend(args.config_store.check().err().map(|error| error.to_string()));
        let mut from_file = |name: &str, path: &Option<PathBuf>| {
            let secret = path.as_deref().map(|path| read_secret(name, path)).transpose();
            secret.unwrap_or_else(|problem| {
                problems.push(problem);
                None
            })
        };
        let admin_token = from_file("admin_token_file", &args.admin_token_file);
        let resp_password = from_file("resp_password_file", &args.resp_password_file);
        let store = store::redis_settings(&args).unwrap_or_else(|problem| {
            problems.push(problem);
            None
        });
        let lease_store = lease_store::etcd_settings(&args).unwrap_or_else(|problem| {
            problems.push(problem);
            None
        });
        let token_keys = args.tokens.token_keys().unwrap_or_else(|problem| {
            problems.push(problem);
            None
        });
        if !problems.is_empty() {
            return Err(SettingsError::Problems(problems));
        }
        Ok(Self {
            admin_token: args.admin_token.clone().or(admin_token),
            resp_password: args.resp_password.clone().or(resp_password),
            store,
            lease_store,
            token_keys,
            warnings: Vec::new(),
            args,
        })
    }

    /// The token that `/metrics` of the HTTP listener needs.
    pub fn metrics_token(&self) -> Option<Secret> {
        self.admin_token.clone().filter(|_| self.args.metrics_access == MetricsAccess::Token)
    }

    /// The time and size bounds of a connection.
    pub fn bounds(&self) -> Bounds {
        Bounds {
            header_timeout: self.args.header_timeout,
            idle_timeout: self.args.idle_timeout,
            body_bytes_max: self.request_bounds().request_bytes_max,
        }
    }

    /// The bounds of a request.
    pub fn request_bounds(&self) -> RequestBounds {
        RequestBounds {
            request_bytes_max: usize::try_from(self.args.request_bytes_max.bytes()).unwrap_or(usize::MAX),
            descriptors_max: self.args.descriptors_max.get(),
            entries_max: self.args.entries_max.get(),
        }
    }
}

impl From<FileError> for SettingsError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Invalid(report) => Self::File(report),
            FileError::Unreadable { path, error } => Self::Problems(vec![format!(
                "cannot read the settings file `{}`: {error} (hint: check the path in --config or \
                 TIDEGATE_CONFIG)",
                path.display()
            )]),
        }
    }
}

/// Reads a secret from a file, without the final line break.
pub(crate) fn read_secret(name: &str, path: &Path) -> Result<Secret, String> {
    let mut text = String::new();
    let result = regular_file::open(path)
        .and_then(|file| file.take(SECRET_FILE_BYTES_MAX + 1).read_to_string(&mut text));
    let path = path.display();
    match result {
        Err(error) => Err(format!("cannot read {name} `{path}`: {error} (hint: check the path)")),
        Ok(bytes) if bytes as u64 > SECRET_FILE_BYTES_MAX => Err(format!(
            "{name} `{path}` has more than {SECRET_FILE_BYTES_MAX} bytes (hint: the file must contain only the secret)"
        )),
        Ok(_) => {
            text.trim_end_matches(['\r', '\n']).parse().map_err(|error| format!("{name} `{path}`: {error}"))
        }
    }
}
