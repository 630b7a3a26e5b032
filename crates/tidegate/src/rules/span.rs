//! Where in which file something stands.

/// Which file of a [`Report`](super::Report).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub(super) u32);

/// A piece of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The file.
    pub file: FileId,
    /// Its first byte, from 0.
    pub start: u32,
    /// The byte after its last.
    pub end: u32,
    /// The line of its first character, from 1.
    pub line: u32,
    /// The column of its first character, in characters, from 1.
    pub column: u32,
}

impl Span {
    /// The bytes, as a range.
    pub fn bytes(&self) -> std::ops::Range<usize> {
        self.start as usize..self.end as usize
    }

    /// Whether `other` lies within it.
    pub(super) fn contains(&self, other: &Span) -> bool {
        self.file == other.file && self.start <= other.start && other.end <= self.end
    }
}
