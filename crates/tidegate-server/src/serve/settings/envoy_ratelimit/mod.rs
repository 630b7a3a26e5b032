//! The environment variables of envoyproxy/ratelimit, for a deployment that replaces its binary by this one.
//!
//! ```text
//! table.rs      each variable: the setting that it becomes, or what to use instead
//! arguments.rs  the values, as arguments of `tidegate serve`
//! store_url.rs  the variables of Redis, as the URL of a store
//! values.rs     which values are accepted
//! ```
//!
//! Names such as `HOST` and `PORT` are set for other reasons on many machines. So the variables are read only if one of
//! [`MARKERS`] is set, which every deployment of envoyproxy/ratelimit needs and nothing else uses. The setting
//! `envoy_ratelimit_env` overrides this. A variable is the weakest source of a setting: flags, the variables of Tidegate
//! and the settings file have precedence.

mod arguments;
mod store_url;
mod table;
mod values;

use std::ffi::OsString;

use clap::ValueEnum;
use tidegate::rules::{Domain, Lookup};

use super::{ServeArgs, StoreLocation};

pub use table::{Use, VARIABLES, Variable};

/// The variables that show a deployment of envoyproxy/ratelimit: where its files are, or that it uses xDS.
pub const MARKERS: [&str; 3] = ["RUNTIME_ROOT", "RUNTIME_SUBDIRECTORY", "CONFIG_TYPE"];

/// Whether to read the variables of envoyproxy/ratelimit.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum EnvoyRatelimitEnv {
    /// If RUNTIME_ROOT, RUNTIME_SUBDIRECTORY or CONFIG_TYPE is set
    #[default]
    Auto,
    /// Always
    On,
    /// Never
    Off,
}

/// The value of a variable, if it is set and not empty.
pub(super) trait Environment: Fn(&str) -> Option<String> {}

impl<F: Fn(&str) -> Option<String>> Environment for F {}

/// The environment of this process.
pub(super) fn process_environment(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}

/// What the variables say.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct FromVariables {
    /// Arguments for the settings that no other source sets.
    pub arguments: Vec<OsString>,
    /// For the log: what is ignored, and what to use instead.
    pub warnings: Vec<String>,
}

/// Reads the variables. `is_set` tells whether another source has a setting. The errors are variables with values that
/// are not accepted.
pub(super) fn read(
    mode: EnvoyRatelimitEnv,
    environment: impl Environment,
    is_set: impl Fn(&str) -> bool,
) -> Result<FromVariables, Vec<String>> {
    let is_active = match mode {
        EnvoyRatelimitEnv::Auto => MARKERS.iter().any(|name| environment(name).is_some()),
        EnvoyRatelimitEnv::On => true,
        EnvoyRatelimitEnv::Off => false,
    };
    if !is_active {
        return Ok(FromVariables::default());
    }
    let problems = values::problems(&environment, &is_set);
    if !problems.is_empty() {
        return Err(problems);
    }
    let mut found = arguments::arguments(&environment, is_set);
    found.warnings.extend(VARIABLES.iter().filter_map(|variable| variable.warning(&environment)));
    Ok(found)
}

/// A warning about variables that are not read, although the rules are for envoyproxy/ratelimit. Names that other
/// programs use too do not count, except for those of Redis while counters are in memory.
pub fn unread_variables(args: &ServeArgs, domains: &[Domain]) -> Option<String> {
    let is_for_envoy = domains.iter().any(|domain| domain.lookup == Lookup::DescriptorTree);
    is_for_envoy.then(|| unread(args.envoy_ratelimit_env, &process_environment, &args.store)).flatten()
}

fn unread(mode: EnvoyRatelimitEnv, environment: &impl Environment, store: &StoreLocation) -> Option<String> {
    let is_marked = MARKERS.iter().any(|name| environment(name).is_some());
    if mode != EnvoyRatelimitEnv::Auto || is_marked {
        return None;
    }
    let counts = |variable: &&Variable| {
        !variable.is_common() || (*store == StoreLocation::Memory && variable.name.starts_with("REDIS_"))
    };
    let unread = VARIABLES.iter().filter(counts).filter(|variable| environment(variable.name).is_some());
    let names: Vec<&str> = unread.map(|variable| variable.name).collect();
    (!names.is_empty()).then(|| {
        format!(
            "environment variables of envoyproxy/ratelimit are set but not read: {} (hint: set envoy_ratelimit_env \
             to on to read them, or to off)",
            names.join(", ")
        )
    })
}

#[cfg(test)]
mod tests;
