//! Mixes of rules, and requests that match them.

use tidegate_core::rules::{Attribute, Condition, EntryPatterns, Net, Pattern, Rule};

/// What the rules match. Every mix can make any number of rules, and a request that matches each of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuleMix {
    /// One user.
    User,
    /// A method, a path and a tenant, each shared by many rules.
    ThreeValues,
    /// A method and a path template.
    PathTemplate,
    /// A tenant, a method and a path template, each shared by many rules.
    TenantPathTemplate,
    /// One of ten users.
    Users,
    /// A path prefix.
    PathPrefix,
    /// A block of addresses.
    AddressBlock,
    /// A host suffix.
    HostSuffix,
    /// Descriptor entries, as Envoy sends them.
    Entries,
    /// All of the above, and two rules that match almost every request.
    Everything,
}

const METHODS: [&str; 4] = ["GET", "POST", "PUT", "DELETE"];

impl RuleMix {
    pub(super) const ALL: [Self; 10] = [
        Self::User,
        Self::ThreeValues,
        Self::PathTemplate,
        Self::TenantPathTemplate,
        Self::Users,
        Self::PathPrefix,
        Self::AddressBlock,
        Self::HostSuffix,
        Self::Entries,
        Self::Everything,
    ];

    /// The parts of [`Self::Everything`].
    const PARTS: &[Self] = Self::ALL.split_last().expect("it is not empty").1;

    /// The most entries in a request.
    pub(super) const ENTRIES_MAX: usize = 8;

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::ThreeValues => "method, path, tenant",
            Self::PathTemplate => "method, /a{n}/{id}/b{n}",
            Self::TenantPathTemplate => "tenant, method, /a{n}/{id}/**",
            Self::Users => "one of ten users",
            Self::PathPrefix => "path prefix",
            Self::AddressBlock => "block of addresses",
            Self::HostSuffix => "*.tenant{n}.example",
            Self::Entries => "entries, as Envoy's",
            Self::Everything => "all of these",
        }
    }

    pub(super) fn rules(self, number: usize) -> Vec<Rule> {
        (0..number).map(|rule| self.rule(rule)).collect()
    }

    fn rule(self, n: usize) -> Rule {
        let conditions = match self {
            Self::User => vec![exact("user", user(n))],
            Self::ThreeValues => vec![
                exact("method", METHODS[n % 4].to_owned()),
                exact("path", format!("/orders/{}", n / 4 % 50)),
                exact("tenant", tenant(n / 200)),
            ],
            Self::PathTemplate => {
                vec![exact("method", METHODS[n % 4].to_owned()), path(&format!("/a{}/{{id}}/b{n}", n / 64))]
            }
            Self::TenantPathTemplate => vec![
                exact("tenant", tenant(n % 50)),
                exact("method", METHODS[n / 50 % 4].to_owned()),
                path(&format!("/a{}/{{id}}/**", n / 200)),
            ],
            Self::Users => {
                let users = (0..10).map(|member| user(n * 10 + member));
                vec![Condition {
                    attribute: Attribute::from_name("user"),
                    pattern: checked(Pattern::one_of(users)),
                }]
            }
            Self::PathPrefix => {
                let pattern = checked(Pattern::prefix(&path_prefix(n)));
                vec![Condition { attribute: Attribute::Path, pattern }]
            }
            Self::AddressBlock => {
                vec![Condition {
                    attribute: Attribute::from_name("ip"),
                    pattern: checked(Pattern::nets([checked(Net::parse(&address_block(n)))])),
                }]
            }
            Self::HostSuffix => {
                let pattern = checked(Pattern::wildcard(&format!("*.tenant{n}.example")));
                vec![Condition { attribute: Attribute::Host, pattern }]
            }
            Self::Entries => return entries_rule(n),
            Self::Everything if n == 0 => vec![],
            Self::Everything if n == 1 => {
                vec![not("header.x-plan", "internal"), not("method", "OPTIONS")]
            }
            Self::Everything => return Self::PARTS[n % Self::PARTS.len()].rule(n / Self::PARTS.len()),
        };
        Rule { name: format!("rule{n}").into(), conditions, ..Rule::default() }
    }

    /// A request that matches this rule, with all usual attributes.
    pub(super) fn request(self, n: usize) -> Vec<(String, String)> {
        let mut request = RequestDraft::new(n);
        match self {
            Self::User => request.user = user(n),
            Self::ThreeValues => {
                request.method = METHODS[n % 4];
                request.path = format!("/orders/{}?page=2", n / 4 % 50);
                request.tenant = tenant(n / 200);
            }
            Self::PathTemplate => {
                request.method = METHODS[n % 4];
                request.path = format!("/a{}/{}/b{n}", n / 64, n % 977);
            }
            Self::TenantPathTemplate => {
                request.tenant = tenant(n % 50);
                request.method = METHODS[n / 50 % 4];
                request.path = format!("/a{}/{}/items/7", n / 200, n % 977);
            }
            Self::Users => request.user = user(n * 10 + n % 10),
            Self::PathPrefix => request.path = format!("{}items/7", path_prefix(n)),
            Self::AddressBlock => request.ip = address(n),
            Self::HostSuffix => request.host = format!("api.tenant{n}.example"),
            Self::Entries => return entries_request(n),
            Self::Everything => return Self::PARTS[n % Self::PARTS.len()].request(n / Self::PARTS.len()),
        }
        request.entries()
    }
}

/// The attributes of every request.
struct RequestDraft {
    method: &'static str,
    path: String,
    host: String,
    ip: String,
    user: String,
    tenant: String,
    plan: &'static str,
}

impl RequestDraft {
    /// Attributes that match no rule.
    fn new(n: usize) -> Self {
        Self {
            method: METHODS[n % 4],
            path: format!("/nowhere/{}/item", n % 997),
            host: "api.example".to_owned(),
            ip: format!("203.0.113.{}", n % 256),
            user: format!("nobody{}", n % 997),
            tenant: format!("none{}", n % 97),
            plan: if n.is_multiple_of(3) { "free" } else { "paid" },
        }
    }

    fn entries(self) -> Vec<(String, String)> {
        let entries = [
            ("method", self.method.to_owned()),
            ("path", self.path),
            ("host", self.host),
            ("ip", self.ip),
            ("user", self.user),
            ("tenant", self.tenant),
            ("header.X-Plan", self.plan.to_owned()),
        ];
        entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
    }
}

fn entries_rule(n: usize) -> Rule {
    let each = vec![
        ("route".into(), Pattern::Exact(format!("route{}", n / 20).into())),
        ("tenant".into(), Pattern::Exact(tenant(n % 20).into())),
        ("remote_address".into(), Pattern::Any),
    ];
    let entries = Some(EntryPatterns { patterns: each, allows_more: false });
    Rule { name: format!("rule{n}").into(), entries, ..Rule::default() }
}

fn entries_request(n: usize) -> Vec<(String, String)> {
    let (route, tenant) = (format!("route{}", n / 20), tenant(n % 20));
    let entries =
        [("route", route), ("tenant", tenant), ("remote_address", format!("203.0.113.{}", n % 256))];
    entries.into_iter().map(|(key, value)| (key.to_owned(), value)).collect()
}

fn exact(name: &str, value: String) -> Condition {
    Condition { attribute: Attribute::from_name(name), pattern: Pattern::Exact(value.into()) }
}

fn not(name: &str, value: &str) -> Condition {
    Condition { attribute: Attribute::from_name(name), pattern: Pattern::Exact(value.into()).negated() }
}

fn path(text: &str) -> Condition {
    Condition { attribute: Attribute::Path, pattern: checked(Pattern::path(text)) }
}

fn checked<T>(pattern: Result<T, tidegate_core::rules::PatternError>) -> T {
    pattern.expect("the patterns of the lab are valid")
}

fn user(n: usize) -> String {
    format!("user:{}", 100_000 + n)
}

fn tenant(n: usize) -> String {
    format!("tenant-{n}")
}

/// Prefixes of several lengths.
fn path_prefix(n: usize) -> String {
    format!("/{}/team{n}/", ["v1", "api/v2", "internal/api", "x"][n % 4])
}

/// Blocks of four sizes, of both versions of IP.
fn address_block(n: usize) -> String {
    let (high, low) = (n / 256 % 256, n % 256);
    match n % 4 {
        0 => format!("10.{high}.{low}.0/24"),
        1 => format!("{}.{low}.0.0/16", 20 + high % 80),
        2 => format!("172.16.{high}.{low}"),
        _ => format!("2001:{:x}:{:x}::/48", 0xdb8 + n / 65_536, n % 65_536),
    }
}

fn address(n: usize) -> String {
    let (high, low) = (n / 256 % 256, n % 256);
    match n % 4 {
        0 => format!("10.{high}.{low}.7"),
        1 => format!("{}.{low}.3.7", 20 + high % 80),
        2 => format!("172.16.{high}.{low}"),
        _ => format!("2001:{:x}:{:x}:1::7", 0xdb8 + n / 65_536, n % 65_536),
    }
}

#[cfg(test)]
mod tests {
    use tidegate_core::rules::{Apply, Descriptor, Entry, RuleIndex, RuleMatches};

    use super::*;

    #[test]
    fn requests_match_their_rules() {
        const RULES: usize = 10_000;
        for mix in RuleMix::ALL {
            let rules = mix.rules(RULES);
            let index = RuleIndex::new(&rules);
            let mut matches = RuleMatches::new();
            for number in (0..RULES).step_by(7) {
                let request = mix.request(number);
                assert!(request.len() <= RuleMix::ENTRIES_MAX, "{mix:?}");
                let entries: Vec<Entry<'_>> =
                    request.iter().map(|(key, value)| Entry { key, value }).collect();
                let descriptor = Descriptor::new(&entries, 1);
                index.matching_rules(&rules, &descriptor, Apply::All, &mut matches);
                assert!(matches.contains(&u32::try_from(number).unwrap()), "{mix:?} {number}");
            }
        }
    }
}
