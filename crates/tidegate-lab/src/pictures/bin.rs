//! Requests cut into bins: what is drawn as one bar or one stack.

use super::run::Request;
use super::tally::Tally;

/// Requests within the same bin; at least one.
#[derive(Clone, Copy, Debug)]
pub struct Bin<'a> {
    /// Where it begins.
    pub from_ns: u64,
    /// What is in it, in order.
    pub requests: &'a [Request],
}

impl<'a> Bin<'a> {
    /// Cuts requests, which are in order, at every multiple of `width_ns`.
    pub fn all_of(requests: &'a [Request], width_ns: u64) -> impl Iterator<Item = Self> {
        let together = move |one: &Request, next: &Request| one.at_ns / width_ns == next.at_ns / width_ns;
        let bin = move |requests: &'a [Request]| Self {
            from_ns: requests.first().map_or(0, |first| first.at_ns / width_ns * width_ns),
            requests,
        };
        requests.chunk_by(together).map(bin)
    }

    /// The same, but a request that is alone stands where it came: an even stream then looks even.
    #[must_use]
    pub fn lone_in_place(self) -> Self {
        match self.requests {
            [lone] => Self { from_ns: lone.at_ns, ..self },
            _ => self,
        }
    }

    /// Its requests by their fate.
    pub fn tally(&self) -> Tally {
        Tally::of(self.requests)
    }
}
