//! A request that owns its attributes.

use tidegate_core::rules::{Descriptor, Entry, Request, RequestLimit};

/// A request without its domain, for requests that are read from a file or stored. It is decided as the
/// [`Request`] that [`with_request`](Self::with_request) passes on.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRequest {
    /// Each is matched independently.
    pub descriptors: Vec<OwnedDescriptor>,
}

/// Attributes of a request, in order, and its cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedDescriptor {
    /// Names and values. A name may occur twice.
    pub entries: Vec<(Box<str>, Box<str>)>,
    /// Units. Zero checks without a charge.
    pub cost: u64,
    /// The request's own limit, instead of those of rules.
    pub limit: Option<RequestLimit>,
}

impl OwnedRequest {
    /// A copy of a request, without its domain.
    pub fn from_request(request: &Request<'_>) -> Self {
        let entry = |entry: &Entry<'_>| (entry.key.into(), entry.value.into());
        let owned_descriptor = |descriptor: &Descriptor<'_>| OwnedDescriptor {
            entries: descriptor.entries.iter().map(entry).collect(),
            cost: descriptor.cost,
            limit: descriptor.limit,
        };
        Self { descriptors: request.descriptors.iter().map(owned_descriptor).collect() }
    }

    /// Calls `use_it` with this request in a domain.
    ///
    /// ```
    /// use tidegate::rules::{OwnedDescriptor, OwnedRequest};
    ///
    /// let entries = vec![("user".into(), "42".into())];
    /// let request = OwnedRequest { descriptors: vec![OwnedDescriptor { entries, cost: 1, limit: None }] };
    /// let user = request.with_request("api", |request| request.descriptors[0].entries[0].value.to_owned());
    /// assert_eq!(user, "42");
    /// ```
    pub fn with_request<T>(&self, domain: &str, use_it: impl FnOnce(&Request<'_>) -> T) -> T {
        let entries: Vec<Vec<Entry<'_>>> =
            self.descriptors.iter().map(OwnedDescriptor::borrow_entries).collect();
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
