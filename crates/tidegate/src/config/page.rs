//! Merges the pages of the shards into one page, for stores that spread their entries over shards.
//!
//! Each shard returns the first of its items in order. A shard that has more may follow with any item after the last one
//! it returned, so the merged page ends there. If every shard of 16 were asked for a whole page, 16 times as much
//! would be read as is returned. So each is asked for its share and some more. If the share of one shard was too small, the page is
//! shorter than it could be, and the caller continues from its end.

use std::borrow::Borrow;

/// How much more than its share a shard is asked for, in standard deviations. Hashing spreads the items of a page over the
/// shards at random. With three of them, nearly every page is full.
const SHARE_DEVIATIONS: usize = 3;
/// The least to ask a shard for, because small shares vary most.
const SHARE_MIN: usize = 4;

/// The items of one shard, in order.
#[derive(Clone, Debug)]
pub struct ShardPage<T> {
    /// The items.
    pub items: Vec<T>,
    /// Whether the shard has more.
    pub has_more: bool,
}

/// The items of all shards, in order.
#[derive(Debug, PartialEq, Eq)]
pub struct MergedPage<T> {
    /// The items.
    pub items: Vec<T>,
    /// Whether there are more. If so, there is at least one item.
    pub has_more: bool,
}

/// How many items to ask each of `shards` for, if a page has up to `items_max`.
pub fn shard_share(items_max: usize, shards: usize) -> usize {
    let even_share = items_max / shards.max(1);
    (even_share + SHARE_DEVIATIONS * even_share.isqrt() + SHARE_MIN).min(items_max)
}

/// Merges pages by the key of their items. A page that has more must have at least one item.
pub fn merge_pages<T, K: Ord + ToOwned + ?Sized>(
    pages: impl IntoIterator<Item = ShardPage<T>>,
    items_max: usize,
    key: impl Fn(&T) -> &K,
) -> MergedPage<T> {
    let (mut items, mut end): (Vec<T>, Option<K::Owned>) = (Vec::new(), None);
    for page in pages {
        if let Some(last) = page.items.last().filter(|_| page.has_more).map(&key)
            && end.as_ref().is_none_or(|end| last < end.borrow())
        {
            end = Some(last.to_owned());
        }
        items.extend(page.items);
    }
    if let Some(end) = &end {
        items.retain(|item| key(item) <= end.borrow());
    }
    items.sort_by(|one, other| key(one).cmp(key(other)));
    let has_more = end.is_some() || items.len() > items_max;
    items.truncate(items_max);
    MergedPage { items, has_more }
}

#[cfg(test)]
mod tests {
    use super::{MergedPage, ShardPage, merge_pages, shard_share};

    fn page(items: &[u32], has_more: bool) -> ShardPage<u32> {
        ShardPage { items: items.to_vec(), has_more }
    }

    fn merged(pages: impl IntoIterator<Item = ShardPage<u32>>, items_max: usize) -> (Vec<u32>, bool) {
        let MergedPage { items, has_more } = merge_pages(pages, items_max, |item| item);
        (items, has_more)
    }

    #[test]
    fn a_page_ends_where_a_shard_has_more() {
        assert_eq!(merged([], 9), (vec![], false));
        assert_eq!(merged([page(&[1, 4], false), page(&[2, 3], false)], 9), (vec![1, 2, 3, 4], false));
        assert_eq!(merged([page(&[1, 4], false), page(&[2, 3], true)], 9), (vec![1, 2, 3], true));
        assert_eq!(
            merged([page(&[7, 8], true), page(&[2], true), page(&[1, 3], false)], 9),
            (vec![1, 2], true)
        );
        assert_eq!(merged([page(&[1, 4], false), page(&[2, 3], false)], 3), (vec![1, 2, 3], true));
        assert_eq!(merged([page(&[5], true), page(&[], false)], 1), (vec![5], true));
    }

    #[test]
    fn shares_are_larger_than_even_ones() {
        assert_eq!(
            [1, 3, 16, 100, 1_600, 10_000].map(|items_max| shard_share(items_max, 16)),
            [1, 3, 8, 16, 134, 704]
        );
    }
}
