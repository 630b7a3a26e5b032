//! `--request`: explains how the rules decide one request.

use std::io::{self, Read as _};
use std::sync::Arc;

use tidegate::rules::Domain;
use tidegate::{Engine, MemoryStore, SystemClock};
use tidegate_core::text::did_you_mean;

use super::findings::{CheckResult, ExplainedRequest};
use crate::json::{self, OwnedJsonRequest, request_bounds};
use crate::output::{self, Failure};

/// Reads the request from the argument, or from standard input if that is `-`.
pub(super) fn read_request(argument: &str) -> Result<OwnedJsonRequest, Failure> {
    let request = match argument {
        "-" => {
            let mut bytes = Vec::new();
            // One byte over the maximum is enough to see that it is too large.
            let input = io::stdin()
                .lock()
                .take(request_bounds().request_bytes_max as u64 + 1)
                .read_to_end(&mut bytes);
            input.map_err(|error| {
                let hint = "give the request after --request, or send it to standard input";
                Failure::usage(format!("cannot read the request: {error} (hint: {hint})"))
            })?;
            json::read_owned(&bytes)
        }
        json => json::read_owned(json.as_bytes()),
    };
    request.map_err(|error| Failure::usage(format!("cannot read the request: {error}")))
}

/// Explains the request on fresh counters.
pub(super) fn explain(domains: Vec<Domain>, request: &OwnedJsonRequest) -> Result<CheckResult, Failure> {
    let names: Vec<&str> = domains.iter().map(|domain| &*domain.name).collect();
    let (domain, note) = match (&request.domain, names.as_slice()) {
        (Some(domain), names) if names.contains(&domain.as_str()) => (domain.clone(), None),
        (Some(domain), names) => {
            let hint = did_you_mean(domain, names)
                .unwrap_or_else(|| format!("the domains are: {}", names.join(", ")));
            (domain.clone(), Some(format!("the rules have no such domain (hint: {hint})")))
        }
        (None, [only]) => ((*only).to_owned(), None),
        (None, names) => {
            let hint = format!(
                "add \"domain\": \"{}\" to the request; the domains are: {}",
                names[0],
                names.join(", ")
            );
            return Err(Failure::usage(format!(
                "the request names no domain, and the rules have several (hint: {hint})"
            )));
        }
    };
    let store = Arc::new(MemoryStore::unbounded());
    let engine = Engine::with_store(domains, store, SystemClock::default());
    let engine = engine.map_err(|error| Failure::problem(error.to_string()))?;
    let explanation = request.request.with_request(&domain, |request| engine.explain(request));
    let explanation = explanation.map_err(|error| Failure::usage(error.to_string()))?;
    let json = output::parse_json(&explanation.to_json());
    Ok(CheckResult::Explained(ExplainedRequest { text: explanation.to_string(), json, note }))
}
