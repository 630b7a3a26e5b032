//! Settings of forward auth: how proxies ask, and where the attributes of requests come from.

use clap::{ArgAction, Args, ValueEnum};
use tidegate::identity::{ClientAddress, ForwardedHeader, HOPS_MAX, Identity, Net, NetSet, Source};

use crate::serve::http::ProxyProtocol;
use crate::serve::http::forward_auth::ForwardAuth;
use crate::serve::token_keys::TokenKeys;

/// The settings.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Forward auth")]
pub struct ForwardAuthArgs {
    /// Answer proxies at /v1/authorize by the rules of this domain (docs/proxies.md)
    #[arg(long, env = "TIDEGATE_FORWARD_AUTH_DOMAIN", value_name = "NAME")]
    pub forward_auth_domain: Option<Box<str>>,

    /// The proxy that asks: it says which headers have the method, path and host of a request
    #[arg(long, env = "TIDEGATE_FORWARD_AUTH_SOURCE", value_name = "PROXY", value_enum, default_value_t)]
    pub forward_auth_source: ForwardAuthSource,

    /// How many proxies there are between the client and Tidegate. The client's address is this entry of the header, from
    /// the right; 0: the address of the connection
    #[arg(long, env = "TIDEGATE_TRUSTED_HOPS", value_name = "NUMBER", default_value = "0",
        value_parser = clap::value_parser!(u8).range(..=i64::from(HOPS_MAX)))]
    pub trusted_hops: u8,

    /// Instead of a number of hops: the addresses of all proxies, as in 10.0.0.0/8,192.0.2.7
    #[arg(long, env = "TIDEGATE_TRUSTED_PROXIES", value_name = "NETS", value_delimiter = ',',
        value_parser = parse_net)]
    pub trusted_proxies: Vec<Net>,

    /// The header in which proxies pass on addresses
    #[arg(long, env = "TIDEGATE_FORWARDED_HEADER", value_name = "NAME", value_enum, default_value_t)]
    pub forwarded_header: ForwardedHeaderName,

    /// Every connection to the HTTP listener begins with a header of PROXY protocol, version 1 or 2
    #[arg(long, env = "TIDEGATE_HTTP_PROXY_PROTOCOL", value_name = "BOOL", default_value_t, action = ArgAction::Set,
        num_args = 0..=1, require_equals = true, default_missing_value = "true")]
    pub http_proxy_protocol: bool,

    /// Where the attribute `user` comes from: claim:NAME, api-key:HEADER, header:HEADER or basic (docs/identity.md)
    #[arg(long, env = "TIDEGATE_USER_FROM", value_name = "SOURCE")]
    pub user_from: Option<Source>,

    /// Where the attribute `tenant` comes from
    #[arg(long, env = "TIDEGATE_TENANT_FROM", value_name = "SOURCE")]
    pub tenant_from: Option<Source>,

    /// Where the attribute `plan` comes from
    #[arg(long, env = "TIDEGATE_PLAN_FROM", value_name = "SOURCE")]
    pub plan_from: Option<Source>,
}

/// Which headers have the method, path and host of a request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ForwardAuthSource {
    /// X-Forwarded-*, else X-Original-*; only if the proxy replaces all of them
    #[default]
    Any,
    /// X-Original-Method, X-Original-URI and Host
    Nginx,
    /// X-Forwarded-Method, -Host and -Uri
    Traefik,
    /// The same
    Caddy,
    /// The same
    Haproxy,
}

/// The header in which proxies pass on addresses.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum)]
pub enum ForwardedHeaderName {
    /// X-Forwarded-For
    #[default]
    XForwardedFor,
    /// Forwarded, of RFC 7239
    Forwarded,
}

impl ForwardAuthArgs {
    /// How to answer proxies, if that is on.
    pub fn forward_auth(&self, token_keys: Option<&TokenKeys>) -> Option<ForwardAuth> {
        let domain = self.forward_auth_domain.as_deref()?;
        let identity = match token_keys {
            Some(keys) => self.identity().with_tokens(keys.verifier()),
            None => self.identity(),
        };
        let forward_auth = ForwardAuth::new(domain, self.forward_auth_source, identity);
        Some(forward_auth.with_proxy_protocol(self.proxy_protocol()))
    }

    /// Whether connections begin with a header of PROXY protocol.
    pub fn proxy_protocol(&self) -> ProxyProtocol {
        match self.http_proxy_protocol {
            true => ProxyProtocol::Required,
            false => ProxyProtocol::Off,
        }
    }

    /// Whether an attribute is a claim of a token.
    pub fn uses_claims(&self) -> bool {
        self.identity().uses_claims()
    }

    /// Names of settings that need `forward_auth_domain` and are set without it.
    pub fn unused(&self) -> Vec<&'static str> {
        if self.forward_auth_domain.is_some() {
            return Vec::new();
        }
        let set = [
            ("forward_auth_source", self.forward_auth_source != ForwardAuthSource::default()),
            ("trusted_hops", self.trusted_hops > 0),
            ("trusted_proxies", !self.trusted_proxies.is_empty()),
            ("forwarded_header", self.forwarded_header != ForwardedHeaderName::default()),
            ("user_from", self.user_from.is_some()),
            ("tenant_from", self.tenant_from.is_some()),
            ("plan_from", self.plan_from.is_some()),
        ];
        set.iter().filter(|(_, is_set)| *is_set).map(|(name, _)| *name).collect()
    }

    fn identity(&self) -> Identity {
        let mut identity = Identity::default().with_client_address(self.client_address());
        if let Some(source) = &self.user_from {
            identity = identity.with_user(source.clone());
        }
        if let Some(source) = &self.tenant_from {
            identity = identity.with_tenant(source.clone());
        }
        if let Some(source) = &self.plan_from {
            identity = identity.with_plan(source.clone());
        }
        identity
    }

    fn client_address(&self) -> ClientAddress {
        let header = match self.forwarded_header {
            ForwardedHeaderName::XForwardedFor => ForwardedHeader::XForwardedFor,
            ForwardedHeaderName::Forwarded => ForwardedHeader::Forwarded,
        };
        match NetSet::new(self.trusted_proxies.iter().copied()) {
            Ok(networks) => ClientAddress::trusted_networks(header, networks),
            // None are named.
            Err(_) => ClientAddress::trusted_hops(header, self.trusted_hops),
        }
    }
}

impl std::fmt::Display for ForwardAuthSource {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Any => "any",
            Self::Nginx => "nginx",
            Self::Traefik => "traefik",
            Self::Caddy => "caddy",
            Self::Haproxy => "haproxy",
        })
    }
}

fn parse_net(text: &str) -> Result<Net, String> {
    Net::parse(text).map_err(|error| error.to_string())
}
