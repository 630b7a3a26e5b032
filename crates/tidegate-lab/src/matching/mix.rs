//! What rules ask for, and requests that match them.

use tidegate_core::rules::{Attribute, Condition, EntryPatterns, Net, Pattern, Rule};

/// What the rules of a rulebook ask for. Each has rules by number, and for each a request that matches it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mix {
    /// A user.
    User,
    /// A method, a path and a tenant, of which none is rare.
    ThreeValues,
    /// A method and the shape of a path.
    Shape,
    /// A tenant, a method and the shape of a path, of which none is rare.
    TenantShape,
    /// One of ten users.
    Users,
    /// The beginning of a path.
    Beginning,
    /// Blocks of addresses.
    Blocks,
    /// The end of a host.
    Host,
    /// Entries, as Envoy sends them.
    Entries,
    /// All of the above, and two rules for everyone.
    Everything,
}

const METHODS: [&str; 4] = ["GET", "POST", "PUT", "DELETE"];

impl Mix {
    pub(super) const ALL: [Self; 10] = [
        Self::User,
        Self::ThreeValues,
        Self::Shape,
        Self::TenantShape,
        Self::Users,
        Self::Beginning,
        Self::Blocks,
        Self::Host,
        Self::Entries,
        Self::Everything,
    ];

    /// Those that [`Self::Everything`] is made of.
    const PARTS: &[Self] = Self::ALL.split_last().expect("there are some").1;

    /// The most entries of a request.
    pub(super) const ENTRIES_MAX: usize = 8;

    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::User => "user",
            Self::ThreeValues => "method, path, tenant",
            Self::Shape => "method, /a{n}/{id}/b{n}",
            Self::TenantShape => "tenant, method, /a{n}/{id}/**",
            Self::Users => "one of ten users",
            Self::Beginning => "beginning of a path",
            Self::Blocks => "block of addresses",
            Self::Host => "*.tenant{n}.example",
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
            Self::Shape => {
                vec![exact("method", METHODS[n % 4].to_owned()), path(&format!("/a{}/{{id}}/b{n}", n / 64))]
            }
            Self::TenantShape => vec![
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
            Self::Beginning => {
                let pattern = checked(Pattern::prefix(&beginning(n)));
                vec![Condition { attribute: Attribute::Path, pattern }]
            }
            Self::Blocks => {
                vec![Condition {
                    attribute: Attribute::Ip,
                    pattern: checked(Pattern::nets([checked(Net::parse(&block(n)))])),
                }]
            }
            Self::Host => {
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

    /// A request that matches this rule, with what else a request has.
    pub(super) fn request(self, n: usize) -> Vec<(String, String)> {
        let mut request = Draft::new(n);
        match self {
            Self::User => request.user = user(n),
            Self::ThreeValues => {
                request.method = METHODS[n % 4];
                request.path = format!("/orders/{}?page=2", n / 4 % 50);
                request.tenant = tenant(n / 200);
            }
            Self::Shape => {
                request.method = METHODS[n % 4];
                request.path = format!("/a{}/{}/b{n}", n / 64, n % 977);
            }
            Self::TenantShape => {
                request.tenant = tenant(n % 50);
                request.method = METHODS[n / 50 % 4];
                request.path = format!("/a{}/{}/items/7", n / 200, n % 977);
            }
            Self::Users => request.user = user(n * 10 + n % 10),
            Self::Beginning => request.path = format!("{}items/7", beginning(n)),
            Self::Blocks => request.ip = address(n),
            Self::Host => request.host = format!("api.tenant{n}.example"),
            Self::Entries => return entries_request(n),
            Self::Everything => return Self::PARTS[n % Self::PARTS.len()].request(n / Self::PARTS.len()),
        }
        request.entries()
    }
}

/// What a request has in any case.
struct Draft {
    method: &'static str,
    path: String,
    host: String,
    ip: String,
    user: String,
    tenant: String,
    plan: &'static str,
}

impl Draft {
    /// Nothing that any rule asks for.
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

fn checked<T>(made: Result<T, tidegate_core::rules::PatternError>) -> T {
    made.expect("the lab writes patterns that are some")
}

fn user(n: usize) -> String {
    format!("user:{}", 100_000 + n)
}

fn tenant(n: usize) -> String {
    format!("tenant-{n}")
}

/// Of several lengths.
fn beginning(n: usize) -> String {
    format!("/{}/team{n}/", ["v1", "api/v2", "internal/api", "x"][n % 4])
}

/// Of four sizes, and both kinds.
fn block(n: usize) -> String {
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
        for mix in Mix::ALL {
            let rules = mix.rules(RULES);
            let index = RuleIndex::new(&rules);
            let mut matches = RuleMatches::new();
            for number in (0..RULES).step_by(7) {
                let request = mix.request(number);
                assert!(request.len() <= Mix::ENTRIES_MAX, "{mix:?}");
                let entries: Vec<Entry<'_>> =
                    request.iter().map(|(key, value)| Entry { key, value }).collect();
                let descriptor = Descriptor::new(&entries, 1);
                index.matching_rules(&rules, &descriptor, Apply::All, &mut matches);
                assert!(matches.contains(&u32::try_from(number).unwrap()), "{mix:?} {number}");
            }
        }
    }
}
