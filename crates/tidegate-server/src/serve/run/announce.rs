//! Where the server listens, for whoever started it.

use serde_json::{Map, Value};

use super::first_minute;
use crate::output;
use crate::serve::settings::{PrintAddresses, Settings};
use crate::serve::status::BoundAddress;

/// Prints the addresses that were bound to standard output, and what to try if there are no rules.
pub fn announce(settings: &Settings, listening: &[BoundAddress]) {
    let args = &settings.args;
    let text = match args.print_addresses {
        PrintAddresses::Json => to_json(listening),
        PrintAddresses::Text if args.rules.is_empty() => {
            to_lines(listening) + &first_minute::example_commands(listening)
        }
        PrintAddresses::Text => to_lines(listening),
    };
    // That nobody reads it any more is no reason not to serve.
    if output::print_stdout(&text).is_err() {
        tracing::warn!("the addresses could not be printed to standard output");
    }
}

fn to_lines(listening: &[BoundAddress]) -> String {
    let line = |one: &BoundAddress| format!("{} {}\n", one.protocol.as_str(), one.address);
    listening.iter().map(line).collect()
}

fn to_json(listening: &[BoundAddress]) -> String {
    let named = |one: &BoundAddress| (one.protocol.as_str().to_owned(), Value::from(one.address.to_string()));
    let object: Map<String, Value> = listening.iter().map(named).collect();
    format!("{}\n", Value::from(object))
}
