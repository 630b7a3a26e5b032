//! A set of path patterns.

use std::cmp::Ordering;

use smallvec::SmallVec;

use super::path::path_segments;
use super::{PathPattern, PatternError, SET_ENTRIES_MAX, Segment};

/// Up to this many groups need no allocation.
const GROUPS_INLINE: usize = 8;

/// Path patterns, each once and sorted. A path matches the set if it matches one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathSet {
    /// Sorted segment by segment, ignoring the names of segments, and then by names. So patterns with the same prefix
    /// are adjacent, and shorter patterns come first.
    paths: Box<[PathPattern]>,
}

impl PathSet {
    /// A set of these patterns, without duplicates. Two patterns that differ only in names are both kept, because a key
    /// may refer to the names.
    ///
    /// ```
    /// use tidegate_core::rules::{PathPattern, PathSet};
    ///
    /// let patterns = ["/users/{id}", "/login", "/users/{id}"].map(PathPattern::parse);
    /// let set = PathSet::new(patterns.into_iter().collect::<Result<Vec<_>, _>>()?)?;
    /// let texts: Vec<String> = set.paths().iter().map(PathPattern::to_string).collect();
    /// assert_eq!(texts, ["/login", "/users/{id}"]);
    /// # Ok::<(), tidegate_core::rules::PatternError>(())
    /// ```
    pub fn new(paths: impl IntoIterator<Item = PathPattern>) -> Result<Self, PatternError> {
        let mut paths: Vec<PathPattern> = paths.into_iter().take(SET_ENTRIES_MAX + 1).collect();
        if paths.len() > SET_ENTRIES_MAX {
            return Err(PatternError::new(
                format!("a list of more than {SET_ENTRIES_MAX} paths"),
                "split the rule into several",
            ));
        }
        if paths.is_empty() {
            return Err(PatternError::new(
                "an empty list matches no path",
                "name at least one path, or write `{ exists: false }`",
            ));
        }
        paths.sort_unstable_by(path_order);
        paths.dedup();
        Ok(Self { paths: paths.into() })
    }

    /// The patterns.
    pub fn paths(&self) -> &[PathPattern] {
        &self.paths
    }

    /// Whether a path matches one of the patterns. Takes a few binary searches for each segment and each group of
    /// patterns that the path has matched so far, and none beyond the longest pattern.
    pub(crate) fn is_match(&self, value: &str) -> bool {
        let Some(segments) = path_segments(value) else { return false };
        let mut groups: PathGroups<'_> = SmallVec::from_slice(&[&*self.paths]);
        let mut longer: PathGroups<'_> = SmallVec::new();
        let mut segment_count = 0;
        for (index, segment) in segments.enumerate() {
            for group in groups.drain(..) {
                let (ended, rest) =
                    group.split_at(group.partition_point(|path| path.segments().len() == index));
                // Patterns that end with `**` come last.
                if ended.last().is_some_and(PathPattern::is_open_ended) {
                    return true;
                }
                longer.extend(
                    matching_groups(rest, index, segment).into_iter().filter(|group| !group.is_empty()),
                );
            }
            std::mem::swap(&mut groups, &mut longer);
            if groups.is_empty() {
                return false;
            }
            segment_count = index + 1;
        }
        groups.iter().any(|group| group.first().is_some_and(|path| path.segments().len() == segment_count))
    }
}

/// Groups of patterns. The patterns of a group have the same prefix.
type PathGroups<'s> = SmallVec<[&'s [PathPattern]; GROUPS_INLINE]>;

/// The patterns of a group that have this segment as literal text, and those that accept any segment.
fn matching_groups<'s>(group: &'s [PathPattern], index: usize, segment: &str) -> [&'s [PathPattern]; 2] {
    let (any, literal) = group.split_at(group.partition_point(|path| text_at(path, index).is_none()));
    let start = literal.partition_point(|path| text_at(path, index) < Some(segment));
    let end = literal.partition_point(|path| text_at(path, index) <= Some(segment));
    [&literal[start..end], if segment.is_empty() { &[] } else { any }]
}

/// Compares segment by segment. A segment that accepts any text comes before literal segments.
fn path_order(one: &PathPattern, other: &PathPattern) -> Ordering {
    let (left, right) = (one.segments().iter(), other.segments().iter());
    let by_text = left.clone().map(Segment::text).cmp(right.clone().map(Segment::text));
    let by_name = || left.map(Segment::name).cmp(right.map(Segment::name));
    by_text.then_with(|| one.is_open_ended().cmp(&other.is_open_ended())).then_with(by_name)
}

/// The literal text of a segment. `None` if the segment accepts any text. The pattern must have the segment.
fn text_at(path: &PathPattern, index: usize) -> Option<&str> {
    path.segments().get(index).and_then(Segment::text)
}
