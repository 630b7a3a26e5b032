//! Positions in files.

/// A file of a [`Report`](super::Report).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct FileId(pub(super) u32);

/// A range of bytes in a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Span {
    /// The file.
    pub file: FileId,
    /// The first byte, from 0.
    pub start: u32,
    /// The byte after the last.
    pub end: u32,
    /// The line of the first character, from 1.
    pub line: u32,
    /// The column of the first character, in characters, from 1.
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
