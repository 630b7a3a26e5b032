//! Reads what to reset: the keys of a request, or a key of a rule.
//!
//! ```text
//! {"domain": "api", "attributes": {"user": "42"}}
//! {"domain": "api", "rule": "per-user", "key": {"user": "42"}}
//! ```

use std::collections::BTreeMap;

use serde::Deserialize;
use serde::de::IgnoredAny;

use super::{JsonRequest, ObjectSeed, RequestError, RequestForm, read_single, read_with};

/// What to reset.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "there is only one")]
pub enum ResetTarget<'j> {
    /// The keys of a request.
    Request(JsonRequest<'j>),
    /// A key of a rule.
    Key(RuleKey),
}

/// A key of a rule.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct RuleKey {
    /// The domain of the rule.
    pub domain: String,
    /// The name of the rule.
    pub rule: String,
    /// The parts of the key, by name. `null` stands for requests that lack the part.
    #[serde(default)]
    pub key: BTreeMap<String, Option<String>>,
}

/// Only a key of a rule has this field.
#[derive(Deserialize)]
struct RuleField {
    rule: Option<IgnoredAny>,
}

/// Reads what to reset.
pub fn read_reset(json: &[u8]) -> Result<ResetTarget<'_>, RequestError> {
    let expecting = "a request or a key of a rule (hint: an object)";
    match read_with(json, ObjectSeed::<RuleField>::new(expecting)) {
        Ok(RuleField { rule: Some(_) }) => {
            read_with(json, ObjectSeed::<RuleKey>::new(expecting)).map(ResetTarget::Key)
        }
        _ => read_single(json, RequestForm::Check).map(ResetTarget::Request),
    }
}
