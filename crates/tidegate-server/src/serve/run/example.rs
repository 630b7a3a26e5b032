//! The built-in example rules, and commands that show them at work.

use std::fmt::Write as _;

use crate::serve::Protocol;
use crate::serve::listen::Address;
use crate::serve::status::BoundAddress;

/// The name of the example in messages.
pub const EXAMPLE_NAME: &str = "the built-in example";

/// Its limit is so small that the fourth request is denied.
pub const EXAMPLE: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/first-minute.yaml"));

/// One command per protocol, to copy. Each sends four requests, one too many, for its own user, so that the commands do
/// not affect each other.
pub fn example_commands(listeners: &[BoundAddress]) -> String {
    let mut text = String::new();
    for BoundAddress { protocol, address } in listeners {
        // TLS and Unix sockets need more than one line to copy.
        let Address::Tcp(address) = address else { continue };
        let command = match protocol {
            Protocol::Http => format!(
                "for i in 1 2 3 4; do curl -s -w ' %{{http_code}}\\n' \
                 -d '{{\"domain\": \"example\", \"attributes\": {{\"user\": \"ann\"}}}}' \
                 http://{address}/v1/check; done"
            ),
            Protocol::Resp => {
                let (host, port) = (address.ip(), address.port());
                format!("redis-cli -h {host} -p {port} -r 4 TIDEGATE.CHECK example user bob")
            }
            Protocol::Grpc => format!(
                "for i in 1 2 3 4; do grpcurl -plaintext \
                 -d '{{\"domain\": \"example\", \"descriptors\": [{{\"entries\": [{{\"key\": \"user\", \"value\": \"eve\"}}]}}]}}' \
                 {address} envoy.service.ratelimit.v3.RateLimitService/ShouldRateLimit; done"
            ),
            Protocol::Admin => continue,
        };
        let _ = writeln!(text, "  {command}");
    }
    if text.is_empty() {
        return text;
    }
    format!(
        "\nNo --rules were given, so an example rule is active: 3 requests per minute for each user. Each of these commands\n\
         sends four requests, and the fourth is denied:\n\n{text}\n\
         Write your own rules (docs/rules.md) and start again: tidegate serve --rules rules.yaml\n"
    )
}
