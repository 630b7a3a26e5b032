//! Reads a request from the query of a URL: `domain=api&user=42&cost=2`.

use std::borrow::Cow;

use super::fields::NAME_CHARS_MAX;
use super::request::{DescriptorSpan, JsonEntry};
use super::{JsonRequest, RequestError, request_bounds};
use crate::text;

/// Reads a request with one descriptor. `domain` and `cost` are what they are in JSON. Every other parameter is an
/// attribute. Names and values are percent-decoded, and a `+` is a space, as in a form.
///
/// ```
/// use tidegate_server::json::read_query;
///
/// let read = read_query("domain=api&user=4%202&cost=3").unwrap();
/// let entries = read.entry_refs();
/// assert_eq!((read.domain(), entries.descriptors()[0].cost), ("api", 3));
/// assert_eq!(entries.descriptors()[0].entries[0].value, "4 2");
/// ```
pub fn read_query(query: &str) -> Result<JsonRequest<'_>, RequestError> {
    let bytes_max = request_bounds().request_bytes_max;
    if query.len() > bytes_max {
        return Err(error(format!(
            "the query is larger than {bytes_max} bytes (hint: send the request as JSON with POST)"
        )));
    }
    let (mut request, mut cost) = (JsonRequest::default(), None);
    // An empty pair is what a trailing `&` leaves.
    for pair in query.split('&').filter(|pair| !pair.is_empty()) {
        let (name, value) = pair.split_once('=').unwrap_or((pair, ""));
        let (name, value) = (decode(name)?, decode(value)?);
        let is_repeated = match &*name {
            "domain" => request.domain.replace(value).is_some(),
            "cost" => cost.replace(parse_cost(&value)?).is_some(),
            "" => return Err(error(format!("`{}` has no name (hint: name=value)", shown(pair)))),
            _ => push_attribute(&mut request, name.clone(), value)?,
        };
        if is_repeated {
            let message = format!("`{}` appears twice (hint: remove one)", shown(&name));
            return Err(error(message));
        }
    }
    if request.domain().is_empty() {
        return Err(error(
            "the request has no domain (hint: add domain=api, as in the rules file)".to_owned(),
        ));
    }
    let entries_end = request.entries.len();
    request.descriptors.push(DescriptorSpan { entries_end, cost: cost.unwrap_or(super::COST_DEFAULT) });
    Ok(request)
}

/// Adds an attribute. Returns whether the request had it already.
fn push_attribute<'q>(
    request: &mut JsonRequest<'q>,
    name: Cow<'q, str>,
    value: Cow<'q, str>,
) -> Result<bool, RequestError> {
    if request.entries.iter().any(|entry| entry.key == name) {
        return Ok(true);
    }
    let entries_max = request_bounds().entries_max;
    if request.entries.len() >= entries_max {
        let message = format!("there are more than {entries_max} attributes (hint: that is the maximum)");
        return Err(error(message));
    }
    request.entries.push(JsonEntry { key: name, value });
    Ok(false)
}

fn parse_cost(value: &str) -> Result<u64, RequestError> {
    // `parse` alone would accept a sign.
    let is_number = value.bytes().all(|byte| byte.is_ascii_digit());
    let parsed = value.parse().ok().filter(|_| is_number);
    parsed.ok_or_else(|| {
        let value = shown(value);
        error(format!("the cost `{value}` is not a whole number from 0 (hint: omit it for 1)"))
    })
}

/// Borrows text without escapes.
fn decode(text: &str) -> Result<Cow<'_, str>, RequestError> {
    if !text.contains(['%', '+']) {
        return Ok(Cow::Borrowed(text));
    }
    let decoded = String::from_utf8(text::percent_decode(&text.replace('+', " ")));
    // Replacing the bytes would give different clients the same key.
    decoded.map(Cow::Owned).map_err(|_| {
        let text = shown(text);
        error(format!(
            "`{text}` is not UTF-8 when it is decoded (hint: encode text as UTF-8, then percent-encode it)"
        ))
    })
}

fn shown(text: &str) -> String {
    text::printable(text.as_bytes(), NAME_CHARS_MAX)
}

#[cold]
fn error(message: String) -> RequestError {
    RequestError::without_position(message)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn assert_read(query: &str, domain: &str, attributes: &[(&str, &str)], cost: u64) {
        let read = read_query(query).unwrap_or_else(|error| panic!("{query}: {error}"));
        let entries = read.entry_refs();
        let descriptors = entries.descriptors();
        let [descriptor] = &descriptors[..] else { panic!("{query}: {descriptors:?}") };
        let pairs: Vec<(&str, &str)> =
            descriptor.entries.iter().map(|entry| (entry.key, entry.value)).collect();
        assert_eq!((read.domain(), &pairs[..], descriptor.cost), (domain, attributes, cost), "{query}");
    }

    #[test]
    fn parameters_are_attributes() {
        assert_read("domain=api", "api", &[], 1);
        assert_read("domain=api&ip=203.0.113.9&user=7", "api", &[("ip", "203.0.113.9"), ("user", "7")], 1);
        assert_read("user=7&cost=0&domain=a%2Fb&", "a/b", &[("user", "7")], 0);
        assert_read("&domain=a&&flag&x=a=b", "a", &[("flag", ""), ("x", "a=b")], 1);
        assert_read("domain=a&%6eame=caf%C3%A9+%2B&q=%zz", "a", &[("name", "café +"), ("q", "%zz")], 1);
        assert_read("domain=a&cost=18446744073709551615", "a", &[], u64::MAX);
        assert_read(r#"domain=a&path=/a"b"#, "a", &[("path", r#"/a"b"#)], 1);
    }

    #[test]
    fn what_is_wrong_is_said() {
        for (query, words) in [
            ("", "no domain"),
            ("user=7", "no domain"),
            ("domain=&user=7", "no domain"),
            ("domain=a&domain=b", "`domain` appears twice"),
            ("domain=a&domain=", "`domain` appears twice"),
            ("domain=a&user=1&%75ser=2", "`user` appears twice"),
            ("domain=a&cost=1&cost=1", "`cost` appears twice"),
            ("domain=a&cost=-1", "`-1`"),
            ("domain=a&cost=%2B1", "`+1`"),
            ("domain=a&cost=", "whole number"),
            ("domain=a&cost=18446744073709551616", "whole number"),
            ("domain=a&=x", "no name"),
            ("domain=a&user=%ff", "UTF-8"),
        ] {
            let error = read_query(query).unwrap_err().to_string();
            assert!(error.contains(words) && error.contains("(hint: "), "{query}: {error}");
        }
        let many: String = (0..=request_bounds().entries_max).map(|index| format!("&a{index}=1")).collect();
        assert!(read_query(&format!("domain=a{many}")).unwrap_err().to_string().contains("more than"));
    }
}
