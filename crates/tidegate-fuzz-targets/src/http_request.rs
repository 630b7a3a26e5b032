//! Any bytes as what a proxy says of a request, and as the query of a check. Nothing panics, every error has a message, and
//! what is accepted is within bounds.

use std::sync::LazyLock;

use tidegate::Timestamp;
use tidegate::identity::{ClientAddress, ForwardedHeader, Headers, Identity, Source, normal_path};
use tidegate::rules;
use tidegate_server::json::{self, request_bounds};
use tidegate_server::serve::http::forward_auth::ForwardAuth;
use tidegate_server::serve::{App, ForwardAuthSource};

const SOURCES: [ForwardAuthSource; 3] =
    [ForwardAuthSource::Any, ForwardAuthSource::Nginx, ForwardAuthSource::Caddy];

const RULES: &str = "
domain: web
rules:
  - { name: all, match: { header.cookie: { exists: true } }, key: [ip, user, tenant, plan], limit: 5 per minute }
";

static APP: LazyLock<App> =
    LazyLock::new(|| App::in_memory(rules::parse("web.yaml", RULES).unwrap().domains).unwrap());

/// The lines of a head, each `name: value`.
struct Lines<'b>(Vec<(&'b [u8], &'b [u8])>);

impl Headers for Lines<'_> {
    fn values<'h>(&'h self, name: &str) -> impl DoubleEndedIterator<Item = &'h [u8]> {
        self.0.values(name)
    }
}

/// Reads the bytes as headers of a proxy, and as a query.
pub fn http_request(bytes: &[u8]) {
    let lines = bytes.split(|byte| *byte == b'\n').filter_map(|line| {
        let colon = line.iter().position(|byte| *byte == b':')?;
        Some((&line[..colon], line[colon + 1..].trim_ascii()))
    });
    let headers = Lines(lines.collect());
    let rules = APP.engine.rules();
    for source in SOURCES {
        let forward_auth = ForwardAuth::new("web", source, identity());
        match forward_auth.attributes(&headers, None, &rules, Timestamp::from_nanos(0)) {
            Ok(attributes) => {
                if let Some(path) = attributes.value("path") {
                    assert_eq!(normal_path(path.as_bytes()).as_deref(), Ok(path), "it is in its normal form");
                }
                assert!(attributes.value("ip").is_none_or(|ip| ip.parse::<std::net::IpAddr>().is_ok()));
            }
            Err(error) => assert!(!error.to_string().is_empty()),
        }
    }
    if let Ok(query) = str::from_utf8(bytes) {
        read_query(query);
    }
}

fn read_query(query: &str) {
    match json::read_query(query) {
        Ok(request) => {
            assert!(!request.domain().is_empty());
            let entries = request.entry_refs();
            let descriptors = entries.descriptors();
            assert_eq!(descriptors.len(), 1);
            assert!(descriptors[0].entries.len() <= request_bounds().entries_max);
        }
        Err(error) => assert!(!error.to_string().is_empty()),
    }
}

fn identity() -> Identity {
    Identity::default()
        .with_client_address(ClientAddress::trusted_hops(ForwardedHeader::XForwardedFor, 1))
        .with_user(Source::basic())
        .with_tenant(Source::api_key("x-api-key"))
        .with_plan(Source::header("x-plan"))
}
