//! Logs requests whose answer is not simply `allowed`, up to a maximum of lines per second.
//!
//! During an attack most requests are denied, so a denial without a line must cost almost nothing: one clock reading
//! and one addition.

use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};

use tidegate::overrides::KeyName;
use tidegate::rules::{
    Answer, AnswerKind, AppliedOverride, Attribute, KeyPart, LimitAnswer, Request, Ruleset,
};
use tidegate::{Timestamp, Wait};
use tidegate_core::rules::key_value;
use tidegate_core::text::write_date;

use super::Protocol;
use super::line_limiter::{LineBudget, LineLimiter};
use super::rounding::{self, SECOND_NS};
use super::settings::LogKeys;
use crate::text;

/// The default maximum of lines per second.
pub const LINES_PER_SECOND_DEFAULT: u32 = 10;
/// The maximum of attributes in a line.
const ATTRIBUTES_MAX: usize = 16;
/// The maximum of characters of a name or a value.
const SHOWN_CHARS_MAX: usize = 64;

/// Writes denials to the log.
#[derive(Debug)]
pub struct DenialLog {
    lines: LineLimiter,
    keys: LogKeys,
    /// The attributes that are shown as they are, even if others are hashed.
    plain: Vec<String>,
    /// With a random key, so that values cannot be found in a table of hashes.
    hasher: RandomState,
}

impl DenialLog {
    /// Creates a log with a maximum of lines per second. 0 turns it off.
    pub fn new(lines_per_second: u32, keys: LogKeys) -> Self {
        Self {
            lines: LineLimiter::new(lines_per_second, SECOND_NS),
            keys,
            plain: Vec::new(),
            hasher: RandomState::new(),
        }
    }

    /// Sets the attributes that are shown as they are, even if others are hashed.
    #[must_use]
    pub fn with_plain(self, plain: Vec<String>) -> Self {
        Self { plain, ..self }
    }

    /// Writes a line if the answer is not simply `allowed` and the maximum is not reached.
    #[inline]
    pub fn log(
        &self,
        protocol: Protocol,
        request: &Request<'_>,
        answer: &Answer,
        now: impl Fn() -> Timestamp,
    ) {
        if answer.kind != AnswerKind::Allowed
            && !self.lines.is_off()
            && let LineBudget::Write { suppressed } = self.lines.take_line(now())
        {
            self.write(protocol, request, answer, suppressed);
        }
    }

    #[cold]
    fn write(&self, protocol: Protocol, request: &Request<'_>, answer: &Answer, suppressed: u64) {
        let decider = answer.decider();
        let retry_after = answer.retry_after;
        tracing::info!(
            target: "tidegate::denials",
            protocol = protocol.as_str(),
            decision = answer.kind.as_str(),
            domain = text::printable(request.domain.as_bytes(), SHOWN_CHARS_MAX),
            rule = decider.map(|limit| &*limit.rule.name),
            limit = decider.map(|limit| limit.id.to_string()),
            key = decider.map(|limit| self.key(request, &limit)),
            attributes = self.attributes(request, decider.map_or(0, |limit| limit.descriptor)),
            retry_after_ms = retry_after_ms(retry_after),
            r#override = decider.and_then(|limit| limit.applied_override).map(|applied| self.override_text(applied, answer.rules())),
            suppressed,
            "not plainly allowed",
        );
    }

    /// The attributes of the descriptor that fell under the deciding limit.
    fn attributes(&self, request: &Request<'_>, descriptor: usize) -> String {
        let entries = request.descriptors.get(descriptor).map_or(&[][..], |descriptor| descriptor.entries);
        let mut text = String::new();
        for entry in entries.iter().take(ATTRIBUTES_MAX) {
            let attribute = Attribute::from_name(entry.key);
            self.push_value(&mut text, entry.key, attribute.comparable_part(entry.value), entry.key);
        }
        if entries.len() > ATTRIBUTES_MAX {
            text.push_str(" …");
        }
        text
    }

    /// The key of the limit that decided. A limit of the request has the whole descriptor as its key. A deny list has no
    /// counter, and the descriptor shows what it denied.
    fn key(&self, request: &Request<'_>, limit: &LimitAnswer<'_>) -> String {
        let Some(descriptor) = request.descriptors.get(limit.descriptor) else { return String::new() };
        let key_parts = limit.limit.key.parts();
        if key_parts.is_empty() && (limit.is_request_limit || limit.current_limit() == 0) {
            return self.attributes(request, limit.descriptor);
        }
        let mut text = String::new();
        for part in key_parts.iter().take(ATTRIBUTES_MAX) {
            let name = part.to_string();
            let attribute = match part {
                KeyPart::Attribute(_) => name.as_str(),
                KeyPart::Address { attribute, .. } => attribute.name(),
                KeyPart::PathSegment { .. } => "path",
                KeyPart::Entry(index) | KeyPart::EntryName(index) => {
                    descriptor.entries.get(*index).map_or("", |entry| entry.key)
                }
            };
            match key_value(part, descriptor) {
                Some(value) => self.push_value(&mut text, &name, &value, attribute),
                None => {
                    let separator = if text.is_empty() { "" } else { " " };
                    let _ = write!(text, "{separator}{name} missing");
                }
            }
        }
        text
    }

    /// The override that the limit came from: its key as the log shows it, the limit it names, its version, its author and its
    /// end.
    fn override_text(&self, applied: &AppliedOverride, rules: &Ruleset) -> String {
        let limit_name = applied.get().limit_name.as_deref();
        let limit_name = limit_name.map_or_else(String::new, |name| format!("#{name}"));
        let mut version = applied.entry.version.to_string();
        if let Some(author) = &applied.get().author {
            version.push_str(" by ");
            version.push_str(&text::printable(author.as_bytes(), SHOWN_CHARS_MAX));
        }
        if let Some(at) = applied.get().expires_at {
            version.push_str(" until ");
            version.push_str(&write_date(at));
        }
        match KeyName::of_applied(applied, rules) {
            Some(KeyName { domain, rule, parts }) => {
                let key = self.key_text(parts.iter().map(|(name, value)| (&**name, value.to_string())));
                format!("{domain}/{rule}/{key}{limit_name} version {version}")
            }
            None => format!("version {version}"),
        }
    }

    /// A key as the log shows it, for other lines of the log about the same key.
    pub fn key_text<'a>(&self, parts: impl Iterator<Item = (&'a str, String)>) -> String {
        let mut text = String::new();
        for (name, value) in parts {
            let attribute = if name.starts_with("ip/") { "ip" } else { name };
            self.push_value(&mut text, name, &value, attribute);
        }
        text
    }

    /// Appends `name=value`, hashed unless the log shows this attribute.
    fn push_value(&self, text: &mut String, name: &str, value: &str, attribute: &str) {
        let separator = if text.is_empty() { "" } else { " " };
        let name = text::printable(name.as_bytes(), SHOWN_CHARS_MAX);
        let is_plain = self.keys == LogKeys::Plain || self.plain.iter().any(|plain| plain == attribute);
        // Writing to a string does not fail.
        let _ = match is_plain {
            true => {
                write!(text, "{separator}{name}={}", text::printable(value.as_bytes(), SHOWN_CHARS_MAX))
            }
            false => write!(text, "{separator}{name}=#{:016x}", self.hasher.hash_one(value)),
        };
    }
}

impl Default for DenialLog {
    fn default() -> Self {
        Self::new(LINES_PER_SECOND_DEFAULT, LogKeys::default())
    }
}

/// In milliseconds, rounded up. `None` for never and for zero.
fn retry_after_ms(wait: Wait) -> Option<u64> {
    wait.span().map(rounding::ceil_millis).filter(|ms| *ms > 0)
}

#[cfg(test)]
mod tests {
    use tidegate::rules::{Descriptor, Entry};

    use super::*;

    fn attributes(keys: LogKeys, value: &str) -> String {
        let entries = [Entry { key: "us\ner", value }, Entry { key: "b", value: "x" }];
        let request = Request { domain: "api", descriptors: &[Descriptor::new(&entries, 1)] };
        DenialLog::new(1, keys).attributes(&request, 0)
    }

    #[test]
    fn values_are_hashed_with_another_key_every_time() {
        let (one, other) = (attributes(LogKeys::Hashed, "42"), attributes(LogKeys::Hashed, "42"));
        assert_ne!(one, other);
        assert!(one.starts_with("us\\ner=#") && one.contains(" b=#") && !one.contains("42="), "{one}");
        assert_eq!(one.len(), "us\\ner=#0123456789abcdef b=#0123456789abcdef".len());
    }

    #[test]
    fn attributes_of_the_list_are_plain() {
        let entries = [
            Entry { key: "method", value: "GET" },
            Entry { key: "path", value: "/login?token=secret" },
            Entry { key: "user", value: "ann" },
        ];
        let request = Request { domain: "api", descriptors: &[Descriptor::new(&entries, 1)] };
        let log = DenialLog::new(1, LogKeys::Hashed).with_plain(vec!["method".to_owned(), "path".to_owned()]);
        let text = log.attributes(&request, 0);
        assert!(text.starts_with("method=GET path=/login user=#"), "{text}");
        let log = DenialLog::new(1, LogKeys::Hashed).with_plain(vec![String::new()]);
        assert!(log.attributes(&request, 0).starts_with("method=#"));
    }

    #[test]
    fn plain_values_are_escaped_and_shortened() {
        let long = "x".repeat(1 << 20);
        assert_eq!(attributes(LogKeys::Plain, "a\nlevel=ERROR"), "us\\ner=a\\nlevel=ERROR b=x");
        assert!(attributes(LogKeys::Plain, &long).chars().count() < 100);
        let many = vec![Entry { key: "a", value: "x" }; 1_000];
        let request = Request { domain: "api", descriptors: &[Descriptor::new(&many, 1)] };
        let shown = DenialLog::new(1, LogKeys::Plain).attributes(&request, 0);
        assert_eq!(shown.split(' ').count(), ATTRIBUTES_MAX + 1);
    }
}
