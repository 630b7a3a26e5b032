//! `GET /`: the paths of a listener, with a command to copy that works here.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use hyper::StatusCode;
use serde_json::{Map, Value, json};
use tidegate::rules::{CompiledDomain, KeyPart, Rule, RuleLimits};

use super::reply::{ContentType, Reply, reply};
use crate::serve::listen::Address;
use crate::serve::status::limiting_rules;
use crate::serve::{App, Protocol};

/// The page of a listener. In the template, `$CURL`, `$URL` and `$REQUEST` are replaced.
pub(super) fn page(app: &App, listener: Protocol, template: &str) -> Reply {
    let bound = app.status.listeners().iter().find(|bound| bound.protocol == listener);
    let (curl, url) = match bound.map(|bound| &bound.address) {
        Some(Address::Tcp(address)) => ("curl".to_owned(), format!("http://{}", reachable(*address))),
        Some(Address::Tls(address)) => ("curl".to_owned(), format!("https://{}", reachable(*address))),
        Some(Address::Unix(path)) => {
            let path = shell_quoted(&path.to_string_lossy());
            (format!("curl --unix-socket {path}"), "http://localhost".to_owned())
        }
        Some(Address::Off) | None => ("curl".to_owned(), "http://localhost".to_owned()),
    };
    let text = template.replace("$CURL", &curl).replace("$URL", &url);
    // Last, because names of domains may contain anything.
    let text = text.replace("$REQUEST", &shell_quoted(&example_request(app).to_string()));
    reply(StatusCode::OK, ContentType::Text, text)
}

/// The address for a client on this machine.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => Ipv4Addr::LOCALHOST.into(),
        IpAddr::V6(ip) if ip.is_unspecified() => Ipv6Addr::LOCALHOST.into(),
        ip => ip,
    };
    SocketAddr::new(ip, address.port())
}

/// A request of the first domain, with the attributes that its first key has.
fn example_request(app: &App) -> Value {
    let rules = app.engine.rules();
    let domain = rules.domains().min_by_key(|domain| domain.name());
    let attributes = domain.and_then(example_attributes).unwrap_or_else(|| json!({ "user": "42" }));
    json!({ "domain": domain.map_or("api", CompiledDomain::name), "attributes": attributes })
}

fn example_attributes(domain: &CompiledDomain) -> Option<Value> {
    let attributes = |rule: &Rule| -> Map<String, Value> {
        let limits = match &rule.limits {
            RuleLimits::Same(limits) => limits.as_slice(),
            RuleLimits::Tiers(tiers) => &tiers.default,
        };
        let parts = limits.first().map_or(&[][..], |limit| limit.key.parts());
        let named = parts.iter().filter_map(|part| match part {
            KeyPart::Attribute(attribute) => Some((attribute.to_string(), json!("42"))),
            KeyPart::Address { attribute, .. } => Some((attribute.name().to_owned(), json!("192.0.2.1"))),
            KeyPart::PathSegment { .. } | KeyPart::Entry(_) | KeyPart::EntryName(_) => None,
        });
        named.collect()
    };
    limiting_rules(domain).map(attributes).find(|attributes| !attributes.is_empty()).map(Value::Object)
}

fn shell_quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', r"'\''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shell_quotes() {
        assert_eq!(shell_quoted("a b"), "'a b'");
        assert_eq!(shell_quoted("it's"), r"'it'\''s'");
    }
}
