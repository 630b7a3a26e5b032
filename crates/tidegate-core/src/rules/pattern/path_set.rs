//! A set of shapes of paths.

use std::cmp::Ordering;

use smallvec::SmallVec;

use super::path::path_segments;
use super::{PathPattern, PatternError, SET_ENTRIES_MAX, Segment};

/// Groups of shapes that the beginning of a path has at once, without memory of their own.
const GROUPS_INLINE: usize = 8;

/// Shapes of paths, each once, in an order of their own. A path is of the set if it has any of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathSet {
    /// Sorted segment by segment without regard to names, and by names only where that leaves a tie. So shapes that
    /// begin alike stand beside each other, and those that end first come first.
    paths: Box<[PathPattern]>,
}

impl PathSet {
    /// A set of these shapes; one that comes twice counts once. Two that differ in names alone are both kept, as a
    /// key may refer to the names.
    ///
    /// ```
    /// use tidegate_core::rules::{PathPattern, PathSet};
    ///
    /// let shapes = ["/users/{id}", "/login", "/users/{id}"].map(PathPattern::parse);
    /// let set = PathSet::new(shapes.into_iter().collect::<Result<Vec<_>, _>>()?)?;
    /// let kept: Vec<String> = set.paths().iter().map(PathPattern::to_string).collect();
    /// assert_eq!(kept, ["/login", "/users/{id}"]);
    /// # Ok::<(), tidegate_core::rules::PatternError>(())
    /// ```
    pub fn new(paths: impl IntoIterator<Item = PathPattern>) -> Result<Self, PatternError> {
        let mut paths: Vec<PathPattern> = paths.into_iter().take(SET_ENTRIES_MAX + 1).collect();
        if paths.len() > SET_ENTRIES_MAX {
            return Err(PatternError::new(
                format!("a list of more than {SET_ENTRIES_MAX} paths"),
                "split the rule in several",
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

    /// The shapes.
    pub fn paths(&self) -> &[PathPattern] {
        &self.paths
    }

    /// Whether a path has any of the shapes. Takes a few searches for each segment and each beginning of shapes that
    /// the path has, and none beyond the longest shape.
    pub(in crate::rules) fn is_match(&self, value: &str) -> bool {
        let Some(segments) = path_segments(value) else { return false };
        let mut groups: PathGroups<'_> = SmallVec::from_slice(&[&*self.paths]);
        let mut longer: PathGroups<'_> = SmallVec::new();
        let mut segments_seen = 0;
        for (at, segment) in segments.enumerate() {
            for group in groups.drain(..) {
                let (ended, rest) = group.split_at(group.partition_point(|path| path.segments().len() == at));
                // Those with `**` come last.
                if ended.last().is_some_and(PathPattern::is_open_ended) {
                    return true;
                }
                longer.extend(matching_groups(rest, at, segment).into_iter().filter(|group| !group.is_empty()));
            }
            std::mem::swap(&mut groups, &mut longer);
            if groups.is_empty() {
                return false;
            }
            segments_seen = at + 1;
        }
        groups.iter().any(|group| group.first().is_some_and(|path| path.segments().len() == segments_seen))
    }
}

/// Shapes that begin alike, beside those that begin otherwise.
type PathGroups<'s> = SmallVec<[&'s [PathPattern]; GROUPS_INLINE]>;

/// Of shapes that begin alike and have this segment, those that ask for what it is, and those that take any.
fn matching_groups<'s>(group: &'s [PathPattern], at: usize, segment: &str) -> [&'s [PathPattern]; 2] {
    let (any, literal) = group.split_at(group.partition_point(|path| text_at(path, at).is_none()));
    let start = literal.partition_point(|path| text_at(path, at) < Some(segment));
    let end = literal.partition_point(|path| text_at(path, at) <= Some(segment));
    [&literal[start..end], if segment.is_empty() { &[] } else { any }]
}

/// Segment by segment; a segment that may be any comes before those that may not.
fn path_order(one: &PathPattern, other: &PathPattern) -> Ordering {
    let (left, right) = (one.segments().iter(), other.segments().iter());
    let by_text = left.clone().map(Segment::text).cmp(right.clone().map(Segment::text));
    let by_name = || left.map(Segment::name).cmp(right.map(Segment::name));
    by_text.then_with(|| one.is_open_ended().cmp(&other.is_open_ended())).then_with(by_name)
}

/// What a segment has to be; none if it may be any. Only asked of shapes that have it.
fn text_at(path: &PathPattern, at: usize) -> Option<&str> {
    path.segments().get(at).and_then(Segment::text)
}
