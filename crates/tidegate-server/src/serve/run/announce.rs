//! Prints the bound addresses, for the user or a script that started the server.

use serde_json::{Map, Value};

use super::example;
use crate::output;
use crate::serve::settings::{PrintAddresses, Settings};
use crate::serve::status::BoundAddress;

/// Prints the bound addresses to standard output, and commands to try if there are no rules.
pub fn announce(settings: &Settings, listeners: &[BoundAddress]) {
    let args = &settings.args;
    let text = match args.print_addresses {
        PrintAddresses::Json => to_json(listeners),
        PrintAddresses::Text if args.rules.is_empty() => {
            to_lines(listeners) + &example::example_commands(listeners)
        }
        PrintAddresses::Text => to_lines(listeners),
    };
    // Serve even if standard output is closed.
    if output::print_stdout(&text).is_err() {
        tracing::warn!("cannot print the addresses to standard output");
    }
}

fn to_lines(listeners: &[BoundAddress]) -> String {
    let line = |BoundAddress { protocol, address }: &_| format!("{} {address}\n", protocol.as_str());
    listeners.iter().map(line).collect()
}

fn to_json(listeners: &[BoundAddress]) -> String {
    let field = |BoundAddress { protocol, address }: &_| {
        (protocol.as_str().to_owned(), Value::from(address.to_string()))
    };
    let object: Map<String, Value> = listeners.iter().map(field).collect();
    format!("{}\n", Value::from(object))
}
