//! What there is to see without any settings: an example, and three commands that show it at work.

use std::fmt::Write as _;

use crate::serve::Protocol;
use crate::serve::listening::Address;
use crate::serve::status::BoundAddress;

/// What messages call the example.
pub const EXAMPLE_NAME: &str = "the built-in example";

/// Small enough a limit that four requests show it.
pub const EXAMPLE: &str = include_str!("../../../../../examples/rules/first-minute.yaml");

/// A command for each protocol, to be copied. Each has a user of its own, so that none is denied for what another did,
/// and asks four times, which is once too often.
pub fn example_commands(listening: &[BoundAddress]) -> String {
    let mut text = String::new();
    for one in listening {
        // What is encrypted or a file asks for more than a line to copy.
        let Address::Tcp(address) = one.address else { continue };
        let command = match one.protocol {
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
        "\nWithout --rules, an example is in force: 3 requests a minute for each user. Each of these commands asks four\n\
         times, and is denied the fourth:\n\n{text}\n\
         Write rules of your own (docs/rules.md) and start again: tidegate serve --rules rules.yaml\n"
    )
}
