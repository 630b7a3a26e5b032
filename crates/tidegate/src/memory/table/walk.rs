//! A walk over all pages while decisions go on.
//!
//! Pages are copied one at a time in the order of their numbers, each as it is at one instant. No key that is
//! there all along is missed: a key moves only when its page is split, and then to a new page, whose number is
//! higher than that of any page before it. So if a page is copied before its split, the key is in that copy, and
//! if after, it is in a page that is yet to come. The walk sees that page: the number of pages is counted up
//! before a split releases its page, and is read again after each copy.
//!
//! A key whose page is split after it was copied is seen twice, and what is seen later is newer. The walk ends,
//! for there is a most of pages.

use tidegate_core::PackedState;

use super::Table;
use crate::sync::Ordering;

impl Table {
    /// Hands every page's keys and states to `visit`, until that fails.
    pub(in crate::memory) fn walk<E>(
        &self,
        mut visit: impl FnMut(&[(u64, PackedState)]) -> Result<(), E>,
    ) -> Result<(), E> {
        let mut held = Vec::new();
        let mut number = 0;
        while number < self.pages.load(Ordering::Acquire) {
            self.page(number).copy_to(&mut held);
            visit(&held)?;
            number += 1;
        }
        Ok(())
    }
}
