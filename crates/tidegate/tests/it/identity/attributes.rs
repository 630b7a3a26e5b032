//! Attributes of whole requests.

use tidegate::Timestamp;
use tidegate::identity::{
    Attributes, ClientAddress, ForwardedHeader, Headers, HttpRequest, Identity, PathError, Source,
    TokenProblem, VerifyToken,
};

const NOW: Timestamp = Timestamp::from_nanos(0);

fn request<'a, H: ?Sized>(headers: &'a H) -> HttpRequest<'a, H> {
    let peer = Some([10, 0, 0, 1].into());
    HttpRequest {
        method: Some("GET"),
        target: Some(b"/a/../b?c"),
        host: Some(b"Example.ORG:80"),
        peer,
        headers,
    }
}

fn pairs(attributes: &Attributes<'_>) -> Vec<(String, String)> {
    attributes.entries().iter().map(|entry| (entry.key.to_owned(), entry.value.to_owned())).collect()
}

fn user(source: Source, headers: &[(&str, &str)]) -> Option<String> {
    let identity = Identity::default().with_user(source);
    let request = request(headers);
    identity.attributes(&request, None, NOW).expect("a path").value("user").map(str::to_owned)
}

#[test]
fn what_is_unknown_is_missing() {
    let none: &[(&str, &str)] = &[];
    let request = HttpRequest { method: None, target: None, host: None, peer: None, headers: none };
    let attributes = Identity::default().attributes(&request, None, NOW).unwrap();
    assert_eq!(pairs(&attributes), []);
    assert_eq!(attributes.client_address(), None);
}

#[test]
fn paths_that_upstreams_read_differently_are_refused() {
    let none: &[(&str, &str)] = &[];
    let request = HttpRequest { target: Some(b"/a%2fb"), ..request(none) };
    assert_eq!(Identity::default().attributes(&request, None, NOW).unwrap_err(), PathError::Slash);
}

#[test]
fn hosts_have_one_spelling() {
    let none: &[(&str, &str)] = &[];
    for (target, host, expected) in [
        ("/", "example.org", Some("example.org")),
        ("/", "example.org.:8080", Some("example.org")),
        ("/", "[2001:db8::1]:80", Some("[2001:db8::1]")),
        ("/", "", None),
        // As RFC 9112 says, the header does not count then.
        ("http://user@example.net:80/", "example.org", Some("example.net")),
        // It has no host, so that the header does.
        ("http:///login", "example.org", Some("example.org")),
        ("http://:80/", "example.org", Some("example.org")),
        ("http://user@/", "example.org", Some("example.org")),
        ("http:///login", "", None),
    ] {
        let request =
            HttpRequest { target: Some(target.as_bytes()), host: Some(host.as_bytes()), ..request(none) };
        let attributes = Identity::default().attributes(&request, None, NOW).unwrap();
        assert_eq!(attributes.value("host"), expected, "{target} {host}");
    }
}

#[test]
fn keys_are_hashed() {
    // printf %s secret | b2sum -l 256 | cut -c 1-32
    let found = user(Source::api_key("X-API-Key"), &[("x-api-key", " secret ")]);
    assert_eq!(found.as_deref(), Some("ae4aafb3c7d8616b739f05a30d06b4e2"));
    assert_eq!(user(Source::api_key("Authorization"), &[("Authorization", "ApiKey secret")]), found);
    assert_ne!(user(Source::api_key("X-API-Key"), &[("x-api-key", "other")]), found);
    assert_eq!(user(Source::api_key("x-api-key"), &[("x-api-key", "")]), None);
}

#[test]
fn users_of_headers() {
    assert_eq!(user(Source::header("X-User"), &[("x-user", "ann")]).as_deref(), Some("ann"));
    // Two lines: an upstream might read the other one.
    assert_eq!(user(Source::header("x-user"), &[("x-user", "ann"), ("X-User", "bob")]), None);
    assert_eq!(user(Source::header("x-user"), &[]), None);
    // ann:pass:word
    let basic = |value| user(Source::basic(), &[("authorization", value)]);
    assert_eq!(basic("bAsIc YW5uOnBhc3M6d29yZA==").as_deref(), Some("ann"));
    for wrong in ["Basic", "Basic ", "Basic !", "Basic YW5u", "Bearer YW5uOnBhc3M6d29yZA==", "Basic OnBhc3M="]
    {
        assert_eq!(basic(wrong), None, "{wrong}");
    }
    assert_eq!(basic(&format!("Basic {}", "A".repeat(16 * 1024))), None);
}

#[test]
fn sources_as_text() {
    for text in ["claim:sub", "claim:https://example.org/plan", "api-key:x-api-key", "header:x-user", "basic"]
    {
        assert_eq!(text.parse::<Source>().unwrap().to_string(), text);
    }
    for wrong in ["", "claim:", "header:", "header:a b", "basic:x", "jwt", "Header:x"] {
        assert!(wrong.parse::<Source>().is_err(), "{wrong}");
    }
}

/// Accepts the token `good`.
#[derive(Debug)]
struct OneToken;

impl VerifyToken for OneToken {
    fn verify(
        &self,
        token: &str,
        claims: &[&str],
        _: Timestamp,
    ) -> Result<Vec<Option<String>>, TokenProblem> {
        let value = |claim: &&str| (*claim != "missing").then(|| format!("{claim} of {token}"));
        if token == "good" { Ok(claims.iter().map(value).collect()) } else { Err(TokenProblem::Signature) }
    }
}

#[test]
fn claims_of_one_token() {
    let identity = Identity::default()
        .with_user(Source::claim("sub"))
        .with_tenant(Source::header("x-tenant"))
        .with_plan(Source::claim("plan"))
        .with_tokens(std::sync::Arc::new(OneToken));
    assert!(identity.uses_claims());
    let attributes = |authorization| {
        let headers = [("Authorization", authorization), ("x-tenant", "t")];
        let attributes = identity.attributes(&request(&headers), None, NOW).unwrap();
        let values = ["user", "tenant", "plan"].map(|name| attributes.value(name).map(str::to_owned));
        (values, attributes.token_problem())
    };
    let tenant = Some("t".to_owned());
    let values = [Some("sub of good".to_owned()), tenant.clone(), Some("plan of good".to_owned())];
    assert_eq!(attributes("bearer good"), (values, None));
    assert_eq!(attributes("Bearer bad"), ([None, tenant.clone(), None], Some(TokenProblem::Signature)));
    assert_eq!(attributes("Basic good"), ([None, tenant, None], None));
}

/// Panics if a header is read that no rule names.
struct OnlyNamed(&'static [&'static str]);

impl Headers for OnlyNamed {
    fn values<'h>(&'h self, name: &str) -> impl DoubleEndedIterator<Item = &'h [u8]> {
        assert!(self.0.contains(&name), "{name} is not named");
        [&b"one"[..], b"two"].into_iter()
    }
}

#[cfg(feature = "rules")]
#[test]
fn only_named_headers_are_read() {
    use tidegate::rules::{self, Ruleset};

    let file = "
domain: api
rules:
  - { name: plans, match: { header.X-Plan: free }, key: [header.cookie, path.1], limit: 5 per second }
  - { name: costs, cost: { attribute: header.x-cost, default: 1 }, limit: 5 per second }
  - { name: tenants, key: [tenant], tiers: { by: header.x-tier, plans: { a: [ 1 per second ] }, default: a } }
";
    let rules = Ruleset::compile(rules::parse("api.yaml", file).unwrap().domains).unwrap();
    let named = rules.domain("api").unwrap().named_attributes();
    let identity = Identity::default()
        .with_client_address(ClientAddress::trusted_hops(ForwardedHeader::XForwardedFor, 0))
        .with_user(Source::header("x-user"));
    let headers = OnlyNamed(&["x-plan", "cookie", "x-cost", "x-tier"]);
    let attributes = identity.attributes(&request(&headers), Some(named), NOW).unwrap();
    let expected = [
        ("method", "GET"),
        ("path", "/b"),
        ("host", "Example.ORG"),
        ("ip", "10.0.0.1"),
        ("header.cookie", "one; two"),
        ("header.x-cost", "one, two"),
        ("header.x-plan", "one, two"),
        ("header.x-tier", "one, two"),
    ];
    assert_eq!(pairs(&attributes), expected.map(|(key, value)| (key.to_owned(), value.to_owned())));
}
