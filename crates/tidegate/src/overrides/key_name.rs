//! The key of overrides in the config store: the domain, the rule, and the attributes of the key with their values.
//!
//! ```text
//! o␟api␟per-user␟user=241531          overrides of a key
//! w␟api␟per-user␟user=*@acme.com      overrides of a wildcard
//! ```
//!
//! `␟` is U+001F. The attributes are in the order that rules have them in. In names and values, control characters, `%`, and a
//! `*` that stands for itself are written as in URLs (`%2A`); in names, `=` too. So no two keys have the same text, and all keys
//! of a domain or a rule begin with the same text.

use std::fmt::{self, Write as _};

use smallvec::SmallVec;
use tidegate_core::rules::{
    AddressAttribute, AppliedOverride, KeyPart, OverridePlaceNames, OverrideScope, Ruleset,
};
use tidegate_core::{KeyValue, key_values, push_key_value};

use crate::config::CONFIG_KEY_BYTES_MAX;

/// Separates the parts.
const SEPARATOR: char = '\u{1f}';
/// Begins the text of a key.
const EXACT: &str = "o";
/// Begins the text of a wildcard.
pub(super) const WILDCARD: &str = "w";

/// A key in the form that counters use.
pub(crate) type KeyBytes = SmallVec<[u8; 192]>;

/// A key or a wildcard of a rule.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeyName {
    /// The domain.
    pub domain: Box<str>,
    /// The oldest name of the rule, so that overrides survive when it is renamed.
    pub rule: Box<str>,
    /// The attributes of the key with their values, in the order of the rule's key.
    pub parts: Vec<(Box<str>, ValuePattern)>,
}

/// The values of an attribute.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum ValuePattern {
    /// Exactly this one.
    Exact(Box<str>),
    /// All that begin with this text.
    Prefix(Box<str>),
    /// All that end with this text.
    Suffix(Box<str>),
}

/// Why a text is not a key of overrides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum KeyNameError {
    /// It does not have the parts of a key.
    Malformed,
    /// It is longer than the config store takes.
    TooLong,
}

impl ValuePattern {
    /// Reads a value as operators write it: a `*` at its beginning or its end stands for any text. One in the middle is a
    /// character like others, but not beside such a `*`, where it would look as if it stood for any text too.
    pub fn parse(text: &str) -> Result<Self, &'static str> {
        const ONE_STAR: &str = "only one `*` is allowed, at the beginning or at the end (hint: set an override for each beginning or end)";
        match (text.strip_prefix('*'), text.strip_suffix('*')) {
            _ if text == "*" => Err("`*` alone would match every key (hint: change the rule instead)"),
            (Some(_), Some(_)) => Err(ONE_STAR),
            (Some(literal), None) | (None, Some(literal)) if literal.contains('*') => Err(ONE_STAR),
            (Some(suffix), None) => Ok(Self::Suffix(suffix.into())),
            (None, Some(prefix)) => Ok(Self::Prefix(prefix.into())),
            (None, None) => Ok(Self::Exact(text.into())),
        }
    }

    /// Whether it matches many values.
    pub fn is_wildcard(&self) -> bool {
        !matches!(self, Self::Exact(_))
    }

    /// The text without the star.
    pub fn literal(&self) -> &str {
        match self {
            Self::Exact(text) | Self::Prefix(text) | Self::Suffix(text) => text,
        }
    }
}

/// As operators write it.
impl fmt::Display for ValuePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Exact(text) => f.write_str(text),
            Self::Prefix(text) => write!(f, "{text}*"),
            Self::Suffix(text) => write!(f, "*{text}"),
        }
    }
}

impl KeyName {
    /// Whether it is a wildcard.
    pub fn is_wildcard(&self) -> bool {
        self.parts.iter().any(|(_, value)| value.is_wildcard())
    }

    /// The scope of its overrides.
    pub(super) fn scope(&self) -> OverrideScope {
        OverrideScope::new(&self.domain, &self.rule, self.parts.iter().map(|(name, _)| &**name))
    }

    /// The key in the form that counters use. The star of a wildcard is left out. `None` if it is not the key of a counter.
    pub(crate) fn key_bytes(&self) -> Option<KeyBytes> {
        let mut key = KeyBytes::new();
        for (name, value) in &self.parts {
            // The name of an address may be followed by the length of a prefix: `ip/56`.
            let attribute = name.split('/').next().unwrap_or_default();
            match AddressAttribute::ALL.iter().any(|address| address.name() == attribute) {
                true => {
                    let address = value.literal().split('/').next()?;
                    push_key_value(&mut key, KeyValue::Address(address.parse().ok()?));
                }
                false => push_key_value(&mut key, KeyValue::Text(value.literal().as_bytes())),
            }
        }
        Some(key)
    }

    /// The text of all keys of a rule begins with this. Without a rule, that of all keys of a domain; without a domain, that of
    /// all keys.
    pub fn prefix(domain: Option<&str>, rule: Option<&str>, wildcards: bool) -> String {
        let mut text = String::from(if wildcards { WILDCARD } else { EXACT });
        text.push(SEPARATOR);
        for name in [domain, rule].into_iter().map_while(|name| name) {
            push_escaped(&mut text, name, "");
            text.push(SEPARATOR);
        }
        text
    }

    /// The text.
    pub fn encode(&self) -> Result<Box<str>, KeyNameError> {
        let mut text = Self::prefix(Some(&self.domain), Some(&self.rule), self.is_wildcard());
        let mut is_first = true;
        for (name, value) in &self.parts {
            let star = |is_there: bool| if is_there { "*" } else { "" };
            push_part_name(&mut text, name, &mut is_first);
            text.push_str(star(matches!(value, ValuePattern::Suffix(_))));
            push_escaped(&mut text, value.literal(), "*");
            text.push_str(star(matches!(value, ValuePattern::Prefix(_))));
        }
        checked(text)
    }

    /// The text for a key in the form that counters use. `None` if a value is too long to have overrides.
    pub(super) fn encode_key(place: &OverridePlaceNames<'_>, key: &[u8]) -> Option<Box<str>> {
        let mut text = Self::prefix(Some(place.domain), Some(place.rule), false);
        let mut is_first = true;
        let mut values = key_values(key);
        for part in place.key.parts() {
            push_part_name(&mut text, &part.to_string(), &mut is_first);
            match (values.next()?, part) {
                (KeyValue::Text(value), _) => push_escaped(&mut text, std::str::from_utf8(value).ok()?, "*"),
                (KeyValue::Address(address), KeyPart::Address { ipv6_prefix_bits, .. }) => {
                    // Writing to a string does not fail.
                    let _ = write!(text, "{address}");
                    if address.is_ipv6() && *ipv6_prefix_bits < 128 {
                        let _ = write!(text, "/{ipv6_prefix_bits}");
                    }
                }
                _ => return None,
            }
        }
        checked(text).ok()
    }

    /// The key or wildcard whose override applied to a limit of these rules.
    pub fn of_applied(applied: &AppliedOverride, rules: &Ruleset) -> Option<Self> {
        let text = match &applied.entry.wildcard {
            Some(wildcard) => return Self::decode(wildcard).ok(),
            None => Self::encode_key(&rules.override_place(applied.position), &applied.key)?,
        };
        Self::decode(&text).ok()
    }

    /// Reads a text that [`encode`](Self::encode) wrote.
    pub fn decode(text: &str) -> Result<Self, KeyNameError> {
        let mut fields = text.split(SEPARATOR);
        let kind =
            fields.next().filter(|kind| [EXACT, WILDCARD].contains(kind)).ok_or(KeyNameError::Malformed)?;
        let mut name = || fields.next().and_then(unescape).ok_or(KeyNameError::Malformed);
        let (domain, rule) = (name()?, name()?);
        let parts = fields.map(|field| {
            let (name, value) = field.split_once('=')?;
            let value = match (kind, value.strip_prefix('*'), value.strip_suffix('*')) {
                (WILDCARD, Some(suffix), None) => ValuePattern::Suffix(unescape(suffix)?),
                (WILDCARD, None, Some(prefix)) => ValuePattern::Prefix(unescape(prefix)?),
                _ => ValuePattern::Exact(unescape(value)?),
            };
            Some((unescape(name)?, value))
        });
        let parts: Option<Vec<_>> = parts.collect();
        let parts = parts.filter(|parts| !parts.is_empty()).ok_or(KeyNameError::Malformed)?;
        Ok(Self { domain, rule, parts })
    }
}

/// As operators read it: `api/per-user/user=241531`.
impl fmt::Display for KeyName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}/", self.domain, self.rule)?;
        for (position, (name, value)) in self.parts.iter().enumerate() {
            let separator = if position > 0 { "," } else { "" };
            write!(f, "{separator}{name}={value}")?;
        }
        Ok(())
    }
}

fn push_part_name(text: &mut String, name: &str, is_first: &mut bool) {
    if !std::mem::take(is_first) {
        text.push(SEPARATOR);
    }
    push_escaped(text, name, "=");
    text.push('=');
}

/// Appends a name or a value. Control characters, `%` and the characters in `also` are escaped.
fn push_escaped(text: &mut String, value: &str, also: &str) {
    for c in value.chars() {
        if c.is_control() || c == '%' || also.contains(c) {
            let mut bytes = [0; 4];
            for byte in c.encode_utf8(&mut bytes).bytes() {
                // Writing to a string does not fail.
                let _ = write!(text, "%{byte:02X}");
            }
        } else {
            text.push(c);
        }
    }
}

fn unescape(text: &str) -> Option<Box<str>> {
    if !text.contains('%') {
        return Some(text.into());
    }
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let Some((byte, after)) = rest.split_first() {
        rest = after;
        if *byte == b'%' {
            let (digits, after) = rest.split_at_checked(2)?;
            bytes.push(u8::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?);
            rest = after;
        } else {
            bytes.push(*byte);
        }
    }
    String::from_utf8(bytes).ok().map(Into::into)
}

fn checked(text: String) -> Result<Box<str>, KeyNameError> {
    if text.len() > CONFIG_KEY_BYTES_MAX { Err(KeyNameError::TooLong) } else { Ok(text.into()) }
}

impl fmt::Display for KeyNameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Malformed => f.write_str("not the key of an override"),
            Self::TooLong => {
                write!(f, "the names and values of the key have more than {CONFIG_KEY_BYTES_MAX} bytes")
            }
        }
    }
}

impl std::error::Error for KeyNameError {}

// Not under loom, which has no dependency for tests.
#[cfg(all(test, not(loom)))]
mod tests {
    use proptest::prelude::*;
    use tidegate_core::rules::{Attribute, KeySpec, counted_value};

    use super::*;

    fn pattern() -> impl Strategy<Value = ValuePattern> {
        // A star without a text is refused.
        let text = || "[a-z*%=\u{1f}\n é]{1,6}".prop_map(Box::<str>::from);
        prop_oneof![
            text().prop_map(ValuePattern::Exact),
            text().prop_map(ValuePattern::Prefix),
            text().prop_map(ValuePattern::Suffix)
        ]
    }

    proptest! {
        #![proptest_config(tidegate_testing::proptest_config(500))]
        #[test]
        fn a_text_decodes_to_its_key(
            domain in "[a-z%\u{1f}]{1,4}", rule in "[a-z=%]{1,4}", name in "[a-z=%\u{1f}]{1,4}",
            first in pattern(), second in "[a-z*%]{0,4}",
        ) {
            let parts = vec![(name.into(), first), ("z".into(), ValuePattern::Exact(second.into()))];
            let name = KeyName { domain: domain.into(), rule: rule.into(), parts };
            let text = name.encode().unwrap();
            prop_assert_eq!(KeyName::decode(&text).unwrap(), name);
            prop_assert!(text.chars().all(|c| !c.is_control() || c == SEPARATOR));
        }
    }

    proptest! {
        #![proptest_config(tidegate_testing::proptest_config(500))]
        /// The filter has the key of each name in the store, and decisions ask it with the key of the request.
        #[test]
        fn a_key_is_found_again_from_its_name(
            text in "[a-zA-Z0-9*%=\u{1f}\n é]{0,6}", address in any::<std::net::IpAddr>(), prefix_bits in 32..=128_u8,
            attribute in proptest::sample::select(&AddressAttribute::ALL),
        ) {
            let ip = KeyPart::Address { attribute, ipv6_prefix_bits: prefix_bits };
            let spec = KeySpec::new([KeyPart::Attribute(Attribute::from_name("user")), ip.clone()]);
            let text_of_address = address.to_string();
            let address = counted_value(&ip, &text_of_address).unwrap();
            let address = address.split('/').next().unwrap().parse().unwrap();
            let mut key = KeyBytes::new();
            push_key_value(&mut key, KeyValue::Text(text.as_bytes()));
            push_key_value(&mut key, KeyValue::Address(address));
            let place = OverridePlaceNames { domain: "api", rule: "r", key: &spec };
            let name = KeyName::decode(&KeyName::encode_key(&place, &key).unwrap()).unwrap();
            prop_assert_eq!(name.key_bytes().unwrap(), key);
        }
    }

    #[test]
    fn other_texts_are_refused() {
        for text in [
            "",
            "o",
            "x\u{1f}a\u{1f}b\u{1f}c=d",
            "o\u{1f}a\u{1f}b",
            "o\u{1f}a\u{1f}b\u{1f}c",
            "o\u{1f}a\u{1f}%4\u{1f}c=d",
        ] {
            assert_eq!(KeyName::decode(text), Err(KeyNameError::Malformed), "{text:?}");
        }
    }
}
