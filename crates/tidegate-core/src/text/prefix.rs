//! The beginning of a text.

/// The longest beginning of `text` with at most so many bytes that ends between two characters.
///
/// ```
/// use tidegate_core::text::prefix;
///
/// assert_eq!(prefix("naïve", 3), "na");
/// assert_eq!(prefix("naïve", 4), "naï");
/// assert_eq!(prefix("naïve", 9), "naïve");
/// ```
pub fn truncated(text: &str, bytes_max: usize) -> &str {
    let end = (0..=bytes_max.min(text.len())).rev().find(|end| text.is_char_boundary(*end));
    &text[..end.unwrap_or(0)]
}
