//! What rules make of a request.

use std::io::{self, Read as _};
use std::sync::Arc;

use tidegate::rules::Domain;
use tidegate::{Engine, MemoryStore, SystemClock};
use tidegate_core::text::did_you_mean;

use super::findings::{ExplainedRequest, CheckResult};
use crate::output::{self, Failure};
use crate::json::{self, OwnedJsonRequest, REQUEST_BYTES_MAX};

/// A request from the command line, or from standard input.
pub(super) fn read_request(argument: &str) -> Result<OwnedJsonRequest, Failure> {
    let read = match argument {
        "-" => {
            let mut bytes = Vec::new();
            // No more than shows that it is too large.
            let input = io::stdin().lock().take(REQUEST_BYTES_MAX as u64 + 1).read_to_end(&mut bytes);
            input.map_err(|error| {
                let hint = "give the request after --request, or send it to standard input";
                Failure::usage(format!("cannot read the request: {error} (hint: {hint})"))
            })?;
            json::read_owned(&bytes)
        }
        json => json::read_owned(json.as_bytes()),
    };
    read.map_err(|error| Failure::usage(format!("the request cannot be read: {error}")))
}

/// Explains what counters that were never used say to it now.
pub(super) fn explain(domains: Vec<Domain>, request: &OwnedJsonRequest) -> Result<CheckResult, Failure> {
    let names: Vec<&str> = domains.iter().map(|domain| &*domain.name).collect();
    let (domain, note) = match (&request.domain, names.as_slice()) {
        (Some(domain), names) if names.contains(&domain.as_str()) => (domain.clone(), None),
        (Some(domain), names) => {
            let there = || format!("there are: {}", names.join(", "));
            let hint = did_you_mean(domain, names).unwrap_or_else(there);
            (domain.clone(), Some(format!("the rules have no domain of this name (hint: {hint})")))
        }
        (None, [only]) => ((*only).to_owned(), None),
        (None, names) => {
            let hint = format!("add \"domain\": \"{}\" to it; there are: {}", names[0], names.join(", "));
            return Err(Failure::usage(format!("the request names none of several domains (hint: {hint})")));
        }
    };
    let store = Arc::new(MemoryStore::unbounded());
    let engine = Engine::with_store(domains, store, SystemClock::default());
    let engine = engine.map_err(|error| Failure::problem(error.to_string()))?;
    let explanation = request.request.with_request(&domain, |request| engine.explain(request));
    let explanation = explanation.map_err(|full| Failure::usage(full.to_string()))?;
    let json = output::parse_json(&explanation.to_json());
    Ok(CheckResult::Explained(ExplainedRequest { text: explanation.to_string(), json, note }))
}
