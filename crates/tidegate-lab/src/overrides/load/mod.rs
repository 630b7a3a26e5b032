//! Decisions of random keys, over one of the protocols.

mod grpc;
mod http;
mod resp;

use grpc::GrpcConnection;
use http::HttpConnections;
use resp::RespConnection;

use super::node::Node;
use crate::server::load_kind::Protocol;

/// Decisions that are in flight together: commands in a pipeline, connections, or streams.
const IN_FLIGHT: usize = 16;
/// An odd number, so that adding it visits all keys before one comes again.
const STRIDE: u64 = 0x9e37_79b9_7f4a_7c15;

/// Connections to a server, over one protocol.
trait Connection {
    /// Decides requests for these keys together. All have to be allowed.
    fn decide(&mut self, keys: &[u64]) -> Result<(), String>;
}

pub(super) struct Load {
    connection: Box<dyn Connection>,
    keys: u64,
    state: u64,
}

impl Load {
    pub fn connect(node: &Node, protocol: Protocol, keys: u64) -> Result<Self, String> {
        let port = node.port(protocol);
        let connection: Result<Box<dyn Connection>, _> = match protocol {
            Protocol::Resp => RespConnection::connect(port).map(|resp| Box::new(resp) as _),
            Protocol::Http => HttpConnections::connect(port).map(|http| Box::new(http) as _),
            Protocol::Grpc => GrpcConnection::connect(port).map(|grpc| Box::new(grpc) as _),
        };
        let connection = connection.map_err(|error| format!("cannot connect to the server: {error}"))?;
        Ok(Self { connection, keys, state: 1 })
    }

    /// A decision for each key, in order.
    pub fn send_each(&mut self) -> Result<(), String> {
        let mut next = 0..self.keys;
        self.send_keys(self.keys, |_, _| next.next().unwrap_or(0))
    }

    /// Decisions for random keys.
    pub fn send(&mut self, decisions: u64) -> Result<(), String> {
        self.send_keys(decisions, |state, keys| {
            *state = state.wrapping_add(STRIDE);
            // The upper half of a product is spread evenly over all keys.
            let mixed = *state ^ (*state >> 29);
            ((u128::from(mixed.wrapping_mul(STRIDE)) * u128::from(keys)) >> 64) as u64
        })
    }

    fn send_keys(
        &mut self,
        decisions: u64,
        mut next_key: impl FnMut(&mut u64, u64) -> u64,
    ) -> Result<(), String> {
        let mut left = decisions;
        let mut batch = Vec::with_capacity(IN_FLIGHT);
        while left > 0 {
            batch.clear();
            batch.extend((0..left.min(IN_FLIGHT as u64)).map(|_| next_key(&mut self.state, self.keys)));
            self.connection.decide(&batch)?;
            left -= batch.len() as u64;
        }
        Ok(())
    }
}

/// A reply that is not what was expected.
fn wrong_reply(reply: &[u8]) -> String {
    format!("the server did not allow a request: {:?}", String::from_utf8_lossy(reply))
}
