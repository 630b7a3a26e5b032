//! The values of the variables, as arguments of `tidegate serve`.

use std::path::Path;

use super::store_url::store_url;
use super::values::is_true;
use super::{Environment, FromVariables};

/// The arguments for the settings that no other source sets. The defaults are those of envoyproxy/ratelimit: it listens
/// on all addresses of the machine.
pub(super) fn arguments(environment: &impl Environment, is_set: impl Fn(&str) -> bool) -> FromVariables {
    let mut found = FromVariables::default();
    let value = |name: &str| environment(name);
    let is_on = |name: &str| environment(name).is_some_and(|value| is_true(&value));
    let mut add = |setting: &str, value: Option<String>| {
        if let (Some(value), false) = (value, is_set(setting)) {
            found.arguments.push(format!("--{}={value}", setting.replace('_', "-")).into());
        }
    };
    add("rules", Some(rules_directory(environment)));
    add("http", Some(address(environment, "HOST", "PORT", "8080")));
    let uses_tls = is_on("GRPC_SERVER_USE_TLS");
    let grpc = match value("GRPC_UDS") {
        Some(path) => format!("unix:{path}"),
        None => address(environment, "GRPC_HOST", "GRPC_PORT", "8081"),
    };
    add("grpc", Some(if uses_tls { format!("tls:{grpc}") } else { grpc }));
    for (setting, name) in [
        ("tls_cert", "GRPC_SERVER_TLS_CERT"),
        ("tls_key", "GRPC_SERVER_TLS_KEY"),
        ("tls_client_ca", "GRPC_CLIENT_TLS_CACERT"),
    ] {
        add(setting, value(name).filter(|_| uses_tls));
    }
    add("log_level", value("LOG_LEVEL").map(|level| log_level(&level)));
    add("log_format", value("LOG_FORMAT").map(|format| format.to_ascii_lowercase()));
    add("near_limit_ratio", value("NEAR_LIMIT_RATIO"));
    add("ignore_dotfiles", value("RUNTIME_IGNOREDOTFILES").map(|value| is_true(&value).to_string()));
    add("merge_domain_config", value("MERGE_DOMAIN_CONFIG").map(|value| is_true(&value).to_string()));
    add("global_shadow", value("SHADOW_MODE").map(|value| is_true(&value).to_string()));
    let stops = value("STOP_CACHE_KEY_INCREMENT_WHEN_OVERLIMIT").filter(|value| is_true(value));
    add("counting", stops.map(|_| "upstream_stop".to_owned()));
    let store = store_url(environment);
    let has_store = matches!(store, Ok(Some(_))) && !is_set("store");
    match store {
        Ok(url) => add("store", url),
        Err(warning) if !is_set("store") => found.warnings.push(warning),
        Err(_) => {}
    }
    let mut add_to_store = |setting: &str, value: Option<String>| {
        if let (Some(value), false, true) = (value, is_set(setting), has_store) {
            found.arguments.push(format!("--{}={value}", setting.replace('_', "-")).into());
        }
    };
    add_to_store("store_namespace", value("CACHE_KEY_PREFIX").map(|prefix| namespace(&prefix)));
    if is_on("REDIS_TLS") {
        add_to_store("store_ca", value("REDIS_TLS_CACERT"));
        add_to_store("store_cert", value("REDIS_TLS_CLIENT_CERT"));
        add_to_store("store_key", value("REDIS_TLS_CLIENT_KEY"));
    }
    found
}

/// The directory that envoyproxy/ratelimit reads.
fn rules_directory(environment: &impl Environment) -> String {
    let value = |name: &str, default: &str| environment(name).unwrap_or_else(|| default.to_owned());
    let path = Path::new(&value("RUNTIME_ROOT", "/srv/runtime_data/current"))
        .join(value("RUNTIME_SUBDIRECTORY", ""))
        .join(value("RUNTIME_APPDIRECTORY", "config"));
    path.to_string_lossy().into()
}

fn address(environment: &impl Environment, host: &str, port: &str, default_port: &str) -> String {
    let host = environment(host).unwrap_or_else(|| "0.0.0.0".to_owned());
    let port = environment(port).unwrap_or_else(|| default_port.to_owned());
    if host.contains(':') && !host.starts_with('[') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// The level with the name that Tidegate uses.
fn log_level(level: &str) -> String {
    match &*level.to_ascii_lowercase() {
        "panic" | "fatal" => "error".to_owned(),
        "warning" => "warn".to_owned(),
        level => level.to_owned(),
    }
}

/// A prefix of keys as a namespace, which has fewer characters. Two prefixes stay different, because a change is marked
/// with a checksum.
fn namespace(prefix: &str) -> String {
    const NAME_BYTES_MAX: usize = 20;
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"._:-".contains(&byte);
    if prefix.len() <= NAME_BYTES_MAX && prefix.bytes().all(is_plain) {
        return prefix.to_owned();
    }
    let plain =
        prefix.bytes().take(NAME_BYTES_MAX).map(|byte| if is_plain(byte) { byte as char } else { '-' });
    // FNV-1a.
    let sum = prefix
        .bytes()
        .fold(0xcbf2_9ce4_8422_2325_u64, |sum, byte| (sum ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3));
    format!("{}-{:08x}", plain.collect::<String>(), sum >> 32)
}
