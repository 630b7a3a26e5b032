//! Path patterns, and the segments of a path.

use std::fmt;

use super::PatternError;
use super::error::quoted;
use super::value_pattern::check_length;

/// The most segments of a path pattern.
pub const PATH_SEGMENTS_MAX: usize = 128;

/// A path pattern: segments, and whether more may follow.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PathPattern {
    segments: Box<[Segment]>,
    /// Whether it ends with `**`.
    is_open_ended: bool,
}

/// A segment of a path pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// This text.
    Literal(Box<str>),
    /// Any text that is not empty: `*`, or `{name}` with a name.
    Any(Option<Box<str>>),
}

impl PathPattern {
    /// Reads a path in which `{name}` and `*` stand for one segment, and `**` at the end for any number of segments.
    ///
    /// ```
    /// use tidegate_core::rules::PathPattern;
    ///
    /// let pattern = PathPattern::parse("/users/{id}/**")?;
    /// assert_eq!(pattern.segment_of("id"), Some(1));
    /// assert_eq!(pattern.to_string(), "/users/{id}/**");
    /// # Ok::<(), tidegate_core::rules::PatternError>(())
    /// ```
    pub fn parse(text: &str) -> Result<Self, PatternError> {
        check_length(text)?;
        let Some(inner) = text.strip_prefix('/') else {
            return Err(PatternError::new(
                format!("{} does not begin with `/`", quoted(text)),
                format!("a path is {}", quoted(&format!("/{text}"))),
            ));
        };
        if let Some(mark) = text.find(['?', '#']) {
            return Err(PatternError::new(
                format!("{} has a `{}`", quoted(text), &text[mark..=mark]),
                format!("only the part before it is compared: {}", quoted(&text[..mark])),
            ));
        }
        let (inner, is_open_ended) = match inner.strip_suffix("**") {
            Some("") => return Ok(Self { segments: Box::default(), is_open_ended: true }),
            Some(before) if before.ends_with('/') => (&before[..before.len() - 1], true),
            _ => (inner, false),
        };
        Ok(Self { segments: segments(text, inner)?, is_open_ended })
    }

    /// Its segments, without slashes.
    pub fn segments(&self) -> &[Segment] {
        &self.segments
    }

    /// Whether any number of segments may follow.
    pub fn is_open_ended(&self) -> bool {
        self.is_open_ended
    }

    /// The index of the segment `{name}`, from 0.
    pub fn segment_of(&self, name: &str) -> Option<usize> {
        self.segments.iter().position(|segment| segment.name() == Some(name))
    }

    pub(crate) fn is_match(&self, value: &str) -> bool {
        let Some(mut texts) = path_segments(value) else { return false };
        self.segments.iter().all(|segment| texts.next().is_some_and(|text| segment.is_match(text)))
            && (self.is_open_ended || texts.next().is_none())
    }
}

impl Segment {
    /// The name of a segment `{name}`.
    pub fn name(&self) -> Option<&str> {
        match self {
            Self::Any(Some(name)) => Some(name),
            Self::Any(None) | Self::Literal(_) => None,
        }
    }

    /// The text of a literal segment.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::Literal(text) => Some(text),
            Self::Any(_) => None,
        }
    }

    fn is_match(&self, text: &str) -> bool {
        match self {
            Self::Literal(literal) => **literal == *text,
            Self::Any(_) => !text.is_empty(),
        }
    }
}

impl fmt::Display for PathPattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for segment in &self.segments {
            match segment {
                Segment::Literal(text) => write!(f, "/{text}")?,
                Segment::Any(None) => f.write_str("/*")?,
                Segment::Any(Some(name)) => write!(f, "/{{{name}}}")?,
            }
        }
        f.write_str(if self.is_open_ended { "/**" } else { "" })
    }
}

/// A path up to `?` or `#`.
pub fn path_without_query(value: &str) -> &str {
    let end = value.bytes().position(|byte| matches!(byte, b'?' | b'#'));
    end.map_or(value, |end| &value[..end])
}

/// A segment of a path by index, from 0. `None` if there is no such segment or it is empty.
pub fn path_segment(value: &str, index: usize) -> Option<&str> {
    path_segments(value)?.nth(index).filter(|segment| !segment.is_empty())
}

/// The segments of a path, without the leading slash. `/a/` has two segments, and the second is empty.
pub(crate) fn path_segments(value: &str) -> Option<PathSegments<'_>> {
    Some(PathSegments { rest: Some(value.strip_prefix('/')?) })
}

/// The segments of a path, up to `?` or `#`. It is lazy because a path may be long.
pub(crate) struct PathSegments<'a> {
    rest: Option<&'a str>,
}

impl<'a> Iterator for PathSegments<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        let rest = self.rest.take()?;
        let Some(end) = rest.bytes().position(|byte| matches!(byte, b'/' | b'?' | b'#')) else {
            return Some(rest);
        };
        if rest.as_bytes()[end] == b'/' {
            self.rest = Some(&rest[end + 1..]);
        }
        Some(&rest[..end])
    }
}

/// Reads the segments of `inner`. `whole` is the text that it comes from, for errors.
fn segments(whole: &str, inner: &str) -> Result<Box<[Segment]>, PatternError> {
    let mut segments: Vec<Segment> = Vec::new();
    for text in inner.split('/') {
        if segments.len() == PATH_SEGMENTS_MAX {
            return Err(PatternError::new(
                format!("{} has more than {PATH_SEGMENTS_MAX} segments", quoted(whole)),
                "end it earlier, with `**`",
            ));
        }
        let segment = segment(whole, text)?;
        if let Some(name) = segment.name()
            && segments.iter().any(|earlier| earlier.name() == Some(name))
        {
            return Err(PatternError::new(
                format!("{} has `{{{name}}}` twice", quoted(whole)),
                "give each segment a name of its own, or write `*` for one that needs none",
            ));
        }
        segments.push(segment);
    }
    Ok(segments.into())
}

fn segment(whole: &str, text: &str) -> Result<Segment, PatternError> {
    if text == "*" {
        return Ok(Segment::Any(None));
    }
    let inner = text.strip_prefix('{').and_then(|text| text.strip_suffix('}'));
    if let Some(name) = inner {
        return named(whole, name);
    }
    if text.contains(['{', '}']) {
        return Err(PatternError::new(
            format!("{} has braces within the segment {}", quoted(whole), quoted(text)),
            "`{name}` stands for a whole segment; `{ exact: ... }` is for paths with braces",
        ));
    }
    match text {
        "**" => Err(PatternError::new(
            format!("{} has `**` before its end", quoted(whole)),
            "`**` is allowed only as the last segment; `*` stands for one segment",
        )),
        _ if text.contains('*') => Err(PatternError::new(
            format!("{} has a `*` within the segment {}", quoted(whole), quoted(text)),
            "`*` stands for a whole segment; `{ wildcard: ... }` is for parts of it",
        )),
        _ => Ok(Segment::Literal(text.into())),
    }
}

/// Reads a named segment. A key can refer to it as `path.NAME`, where `path.1` is the first segment.
fn named(whole: &str, name: &str) -> Result<Segment, PatternError> {
    let problem = match name {
        "" => "an empty name",
        _ if name.starts_with('*') => {
            return Err(PatternError::new(
                format!("{} has a star in {}", quoted(whole), quoted(&format!("{{{name}}}"))),
                "`**` as the last segment stands for all that follow",
            ));
        }
        _ if name.starts_with(|first: char| first.is_ascii_digit()) => "a name that begins with a digit",
        _ if !name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-') => {
            "a name with other characters than letters, digits, `_` and `-`"
        }
        _ => return Ok(Segment::Any(Some(name.into()))),
    };
    Err(PatternError::new(
        format!("{} has {problem} in {}", quoted(whole), quoted(&format!("{{{name}}}"))),
        "`{id}` is a name; write `*` for a segment that needs none",
    ))
}
