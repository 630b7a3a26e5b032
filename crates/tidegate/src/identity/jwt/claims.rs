//! The claims of a token whose signature is valid.

use serde_json::{Map, Value};
use tidegate_core::Timestamp;

use super::JwtSettings;
use crate::identity::TokenProblem;

const NANOS_PER_SECOND: i128 = 1_000_000_000;

/// The claims.
#[derive(Debug)]
pub(super) struct Claims(Map<String, Value>);

impl Claims {
    pub(super) fn read(json: &[u8]) -> Result<Self, TokenProblem> {
        serde_json::from_slice(json).map(Self).map_err(|_| TokenProblem::Malformed)
    }

    /// Checks times, issuer and audience.
    pub(super) fn check(&self, settings: &JwtSettings, now: Timestamp) -> Result<(), TokenProblem> {
        let (now, leeway) =
            (i128::from(now.as_nanos()), i128::try_from(settings.leeway.as_nanos()).unwrap_or(0));
        // A token that never expires could not be revoked.
        let expires = self.time("exp")?.ok_or(TokenProblem::Expired)?;
        if now >= expires + leeway {
            return Err(TokenProblem::Expired);
        }
        if self.time("nbf")?.is_some_and(|start| now + leeway < start) {
            return Err(TokenProblem::NotYetValid);
        }
        let is_issuer = |issuer: &String| self.0.get("iss").and_then(Value::as_str) == Some(issuer);
        if !settings.issuer.iter().all(is_issuer) {
            return Err(TokenProblem::Issuer);
        }
        let is_audience =
            |value: &Value| value.as_str().is_some_and(|one| settings.audiences.iter().any(|own| own == one));
        let is_for_us = match self.0.get("aud") {
            Some(Value::Array(list)) => list.iter().any(is_audience),
            Some(value) => is_audience(value),
            None => false,
        };
        if !settings.audiences.is_empty() && !is_for_us {
            return Err(TokenProblem::Audience);
        }
        Ok(())
    }

    /// The value of a claim for an attribute. A dot leads into an object.
    pub(super) fn value(&self, name: &str) -> Option<String> {
        let value = match self.0.get(name) {
            Some(value) => value,
            None => {
                let mut path = name.split('.');
                let first = self.0.get(path.next()?)?;
                path.try_fold(first, |value, name| value.get(name))?
            }
        };
        match value {
            Value::String(text) => Some(text.clone()).filter(|text| !text.is_empty()),
            Value::Number(_) | Value::Bool(_) => Some(value.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }

    /// A time in nanoseconds since the epoch. Fractions of seconds are cut off.
    fn time(&self, name: &str) -> Result<Option<i128>, TokenProblem> {
        let Some(value) = self.0.get(name) else { return Ok(None) };
        let Value::Number(number) = value else { return Err(TokenProblem::Malformed) };
        let text = number.to_string();
        let seconds = text.split('.').next().and_then(|seconds| seconds.parse::<i64>().ok());
        seconds.map(|seconds| Some(i128::from(seconds) * NANOS_PER_SECOND)).ok_or(TokenProblem::Malformed)
    }
}
