//! Where the server listens, for whoever started it.

use serde_json::{Map, Value};

use super::first_minute;
use crate::output;
use crate::serve::settings::{PrintAddresses, Settings};
use crate::serve::status::Listening;

/// Prints the addresses that were bound to standard output, and what to try if there are no rules.
pub fn announce(settings: &Settings, listening: &[Listening]) {
    let args = &settings.args;
    let text = match args.print_addresses {
        PrintAddresses::Json => as_json(listening),
        PrintAddresses::Text if args.rules.is_empty() => {
            as_lines(listening) + &first_minute::commands(listening)
        }
        PrintAddresses::Text => as_lines(listening),
    };
    // That nobody reads it any more is no reason not to serve.
    if output::print(&text).is_err() {
        tracing::warn!("the addresses could not be printed to standard output");
    }
}

fn as_lines(listening: &[Listening]) -> String {
    let line = |one: &Listening| format!("{} {}\n", one.protocol.as_str(), one.address);
    listening.iter().map(line).collect()
}

fn as_json(listening: &[Listening]) -> String {
    let named = |one: &Listening| (one.protocol.as_str().to_owned(), Value::from(one.address.to_string()));
    let object: Map<String, Value> = listening.iter().map(named).collect();
    format!("{}\n", Value::from(object))
}
