//! The variables of Redis, as the URL of a store.

use std::fmt::Write as _;

use tidegate_core::text::percent_encode;

use super::Environment;
use super::values::is_true;

/// The URL of the store, if there is one. The error is a warning.
pub(super) fn store_url(environment: &impl Environment) -> Result<Option<String>, String> {
    if environment("BACKEND_TYPE").is_some_and(|backend| !backend.eq_ignore_ascii_case("redis")) {
        return Err("BACKEND_TYPE is not redis, so counters are in memory (hint: set store)".to_owned());
    }
    let Some(servers) = environment("REDIS_URL") else {
        return Err("REDIS_URL is not set, so counters are in memory (hint: set store to the URL of a Redis that all \
                    nodes share, or to memory)"
            .to_owned());
    };
    if servers.starts_with("redis://") || servers.starts_with("rediss://") {
        return Ok(Some(servers));
    }
    let is_socket = environment("REDIS_SOCKET_TYPE").is_none_or(|kind| kind.eq_ignore_ascii_case("unix"));
    if servers.starts_with('/') || (is_socket && !servers.contains(':')) {
        return Err(
            "REDIS_URL is a Unix socket, which is not supported, so counters are in memory (hint: set store \
                    to redis://HOST:PORT)"
                .to_owned(),
        );
    }
    let tls = if environment("REDIS_TLS").is_some_and(|value| is_true(&value)) { "s" } else { "" };
    let login = environment("REDIS_AUTH").map(|auth| login(&auth)).unwrap_or_default();
    let kind = environment("REDIS_TYPE").unwrap_or_default().to_ascii_lowercase();
    Ok(Some(match &*kind {
        "cluster" => format!("redis{tls}-cluster://{login}{servers}"),
        "sentinel" => {
            let (master, sentinels) = servers.split_once(',').unwrap_or((&servers, ""));
            let mut url = format!("redis{tls}+sentinel://{login}{sentinels}/{}", percent_encoded(master));
            if let Some(auth) = environment("REDIS_SENTINEL_AUTH") {
                let (user, password) = auth.split_once(':').unwrap_or(("", &auth));
                let user = Some(user).filter(|user| !user.is_empty());
                let user = user.map(|user| format!("sentinel_user={}&", percent_encoded(user)));
                _ = write!(
                    url,
                    "?{}sentinel_password={}",
                    user.unwrap_or_default(),
                    percent_encoded(password)
                );
            }
            url
        }
        _ => format!("redis{tls}://{login}{servers}"),
    }))
}

/// `password` or `user:password`, as the part of a URL before the servers.
fn login(auth: &str) -> String {
    let (user, password) = auth.split_once(':').unwrap_or(("", auth));
    format!("{}:{}@", percent_encoded(user), percent_encoded(password))
}

/// Only unreserved characters stay as they are.
fn percent_encoded(text: &str) -> String {
    percent_encode(text, |c| c.is_ascii_alphanumeric() || matches!(c, '-' | '.' | '_' | '~'))
}
