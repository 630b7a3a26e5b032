//! A request of the rate limit service, borrowed from its encoding.

use std::ops::Range;

use smallvec::SmallVec;
use tidegate::rules::{Descriptor, Entry};
use tidegate_core::rules::RequestLimit;

use super::RlsError;
use crate::json::request_bounds;

/// A request within bounds, with at least one descriptor.
///
/// The entries of all descriptors are in one list, so most requests need no allocation.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RlsRequest<'a> {
    domain: &'a str,
    entries: SmallVec<[Entry<'a>; 8]>,
    descriptors: SmallVec<[RlsDescriptor; 4]>,
    hits_addend: u32,
}

/// A descriptor without its entries.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct RlsDescriptor {
    /// A limit that replaces those of the rules.
    pub limit: Option<RequestLimit>,
    /// Number of hits, if the descriptor sets it. Zero reads without charging.
    pub hits_addend: Option<u64>,
    /// What is done with the hits.
    pub hits: HitsMode,
    /// Its range in the list of all entries.
    entries: Range<usize>,
}

/// What is done with the hits of a descriptor.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HitsMode {
    /// Charge them.
    #[default]
    Charge,
    /// Refund them; they were charged earlier.
    Refund,
}

impl<'a> RlsRequest<'a> {
    /// Sets the domain.
    pub fn set_domain(&mut self, domain: &'a str) {
        self.domain = domain;
    }

    /// Sets the hits of descriptors that do not set their own. Zero means one.
    pub fn set_hits_addend(&mut self, hits: u32) {
        self.hits_addend = hits;
    }

    /// Adds an entry to the descriptor that is [pushed](Self::push_descriptor) next.
    pub fn push_entry(&mut self, entry: Entry<'a>) -> Result<(), RlsError> {
        let start = self.descriptors.last().map_or(0, |last| last.entries.end);
        if self.entries.len() - start == request_bounds().entries_max {
            return Err(RlsError::TooManyEntries);
        }
        self.entries.push(entry);
        Ok(())
    }

    /// Adds a descriptor with the entries that were pushed since the last one.
    pub fn push_descriptor(&mut self, mut descriptor: RlsDescriptor) -> Result<(), RlsError> {
        if self.descriptors.len() == request_bounds().descriptors_max {
            return Err(RlsError::TooManyDescriptors);
        }
        let start = self.descriptors.last().map_or(0, |last| last.entries.end);
        descriptor.entries = start..self.entries.len();
        self.descriptors.push(descriptor);
        Ok(())
    }

    /// Returns the request if it has a domain and descriptors.
    pub fn validate(self) -> Result<Self, RlsError> {
        match (self.domain, self.descriptors.len()) {
            ("", _) => Err(RlsError::EmptyDomain),
            (_, 0) => Err(RlsError::NoDescriptors),
            _ => Ok(self),
        }
    }

    /// The domain whose rules apply.
    pub fn domain(&self) -> &'a str {
        self.domain
    }

    /// The descriptors.
    pub fn descriptors(&self) -> &[RlsDescriptor] {
        &self.descriptors
    }

    /// The entries of a descriptor.
    pub fn entries_of(&self, descriptor: &RlsDescriptor) -> &[Entry<'a>] {
        &self.entries[descriptor.entries.clone()]
    }

    /// The number of hits of a descriptor.
    pub fn hits_of(&self, descriptor: &RlsDescriptor) -> u64 {
        descriptor.hits_addend.unwrap_or_else(|| u64::from(self.hits_addend.max(1)))
    }

    /// Heap memory besides the message that the request borrows from. An entry may have two bytes there and takes
    /// several words here.
    pub fn heap_bytes(&self) -> usize {
        size_of_val(&*self.entries)
            + self.descriptors.len() * (size_of::<RlsDescriptor>() + size_of::<Descriptor<'_>>())
    }

    /// The descriptors for the engine, either those to charge or those to refund.
    pub fn engine_descriptors(&self, hits: HitsMode) -> SmallVec<[Descriptor<'_>; 4]> {
        let descriptors = self.descriptors.iter().filter(|descriptor| descriptor.hits == hits);
        let to_engine = |descriptor: &RlsDescriptor| Descriptor {
            entries: self.entries_of(descriptor),
            cost: self.hits_of(descriptor),
            limit: descriptor.limit,
        };
        descriptors.map(to_engine).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ENTRY: Entry<'_> = Entry { key: "user", value: "42" };

    fn request(addend: u32, descriptors: &[RlsDescriptor]) -> RlsRequest<'static> {
        let mut request = RlsRequest::default();
        request.set_domain("api");
        request.set_hits_addend(addend);
        for descriptor in descriptors {
            request.push_entry(ENTRY).unwrap();
            request.push_descriptor(descriptor.clone()).unwrap();
        }
        request.validate().unwrap()
    }

    fn hits(hits_addend: Option<u64>) -> RlsDescriptor {
        RlsDescriptor { hits_addend, ..RlsDescriptor::default() }
    }

    #[test]
    fn descriptor_hits_override_and_zero_peeks() {
        for (of_request, own, cost) in
            [(0, None, 1), (7, None, 7), (7, Some(0), 0), (7, Some(2), 2), (0, Some(1 << 40), 1 << 40)]
        {
            let request = request(of_request, &[hits(own)]);
            assert_eq!(request.engine_descriptors(HitsMode::Charge)[0].cost, cost);
        }
    }

    #[test]
    fn each_descriptor_has_its_own_entries() {
        let mut request = RlsRequest::default();
        request.set_domain("api");
        request.push_entry(ENTRY).unwrap();
        request.push_entry(Entry { key: "path", value: "/" }).unwrap();
        request.push_descriptor(hits(None)).unwrap();
        request.push_descriptor(hits(None)).unwrap();
        request.push_entry(ENTRY).unwrap();
        request.push_descriptor(RlsDescriptor { hits: HitsMode::Refund, ..hits(Some(3)) }).unwrap();
        let charged = request.engine_descriptors(HitsMode::Charge);
        assert_eq!(charged.iter().map(|one| one.entries.len()).collect::<Vec<_>>(), [2, 0]);
        let back = request.engine_descriptors(HitsMode::Refund);
        assert_eq!((back.len(), back[0].entries, back[0].cost), (1, &[ENTRY][..], 3));
    }

    #[test]
    fn required_fields_and_bounds() {
        assert_eq!(RlsRequest::default().validate(), Err(RlsError::EmptyDomain));
        let mut request = RlsRequest::default();
        request.set_domain("api");
        assert_eq!(request.clone().validate(), Err(RlsError::NoDescriptors));
        for _ in 0..request_bounds().descriptors_max {
            for _ in 0..request_bounds().entries_max {
                request.push_entry(ENTRY).unwrap();
            }
            assert_eq!(request.push_entry(ENTRY), Err(RlsError::TooManyEntries));
            request.push_descriptor(hits(None)).unwrap();
        }
        assert_eq!(request.push_descriptor(hits(None)), Err(RlsError::TooManyDescriptors));
    }
}
