//! A set of blocks of addresses.

use std::net::IpAddr;

use super::{Net, PatternError, SET_ENTRIES_MAX};

/// Blocks of addresses in order. No block contains another.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetSet {
    nets: Box<[Net]>,
}

impl NetSet {
    /// A set of these blocks. A block inside another one is dropped.
    pub fn new(nets: impl IntoIterator<Item = Net>) -> Result<Self, PatternError> {
        let mut nets: Vec<Net> = nets.into_iter().take(SET_ENTRIES_MAX + 1).collect();
        if nets.len() > SET_ENTRIES_MAX {
            return Err(PatternError::new(
                format!("a list of more than {SET_ENTRIES_MAX} blocks of addresses"),
                "split the rule into several",
            ));
        }
        if nets.is_empty() {
            return Err(PatternError::new(
                "an empty list matches no address",
                "name at least one block, or write `{ exists: false }`",
            ));
        }
        // Two blocks are disjoint, or one contains the other. If two begin with the same address, the larger comes
        // first.
        nets.sort_unstable();
        nets.dedup_by(|net, previous| previous.contains(net.first()));
        Ok(Self { nets: nets.into() })
    }

    /// The blocks.
    pub fn nets(&self) -> &[Net] {
        &self.nets
    }

    /// Whether a block contains the address. IPv4-mapped IPv6 counts as IPv4.
    pub fn contains(&self, address: IpAddr) -> bool {
        let address = address.to_canonical();
        let after = self.nets.partition_point(|net| net.first() <= address);
        self.nets[..after].last().is_some_and(|net| net.contains(address))
    }
}
