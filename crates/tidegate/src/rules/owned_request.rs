//! A request that owns what is known of it.

use tidegate_core::rules::{Descriptor, Entry, Request, RequestLimit};

/// A request without its domain, read from somewhere and kept. It is decided as the [`Request`] that it lends.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRequest {
    /// Each is matched by itself.
    pub descriptors: Vec<OwnedDescriptor>,
}

/// Attributes of a request, in their order, and what it costs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedDescriptor {
    /// Names and values. A name may stand twice.
    pub entries: Vec<(Box<str>, Box<str>)>,
    /// Units. Zero asks without charging.
    pub cost: u64,
    /// A limit of its own, instead of those of rules.
    pub limit: Option<RequestLimit>,
}

impl OwnedRequest {
    /// A copy of a request, without its domain.
    pub fn from_request(request: &Request<'_>) -> Self {
        let entry = |entry: &Entry<'_>| (entry.key.into(), entry.value.into());
        let descriptor = |one: &Descriptor<'_>| OwnedDescriptor {
            entries: one.entries.iter().map(entry).collect(),
            cost: one.cost,
            limit: one.limit,
        };
        Self { descriptors: request.descriptors.iter().map(descriptor).collect() }
    }

    /// Lends it as a request to a domain, for as long as `use_it` takes.
    ///
    /// ```
    /// use tidegate::rules::{OwnedDescriptor, OwnedRequest};
    ///
    /// let entries = vec![("user".into(), "42".into())];
    /// let request = OwnedRequest { descriptors: vec![OwnedDescriptor { entries, cost: 1, limit: None }] };
    /// let user = request.lend("api", |request| request.descriptors[0].entries[0].value.to_owned());
    /// assert_eq!(user, "42");
    /// ```
    pub fn with_request<T>(&self, domain: &str, use_it: impl FnOnce(&Request<'_>) -> T) -> T {
        let entries: Vec<Vec<Entry<'_>>> = self.descriptors.iter().map(OwnedDescriptor::borrow_entries).collect();
        let descriptors: Vec<Descriptor<'_>> = self
            .descriptors
            .iter()
            .zip(&entries)
            .map(|(owned, entries)| Descriptor { entries, cost: owned.cost, limit: owned.limit })
            .collect();
        use_it(&Request { domain, descriptors: &descriptors })
    }
}

impl OwnedDescriptor {
    fn borrow_entries(&self) -> Vec<Entry<'_>> {
        self.entries.iter().map(|(key, value)| Entry { key, value }).collect()
    }
}
