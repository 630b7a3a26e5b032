//! Servers with their leases in a real etcd, run as an operator runs them.

mod outage;
mod protocols;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use serde_json::Value;
use tidegate_testing::etcd_server::EtcdCluster;

use crate::serve::server::Server;
use crate::support::{Directory, wait_until};

const RULES: &str = "
domain: api
rules:
  - { name: door, key: [door], missing: skip, limit: { algorithm: concurrency, limit: 1, ttl: 1h } }
  - { name: slot, key: [slot], missing: skip, limit: { algorithm: concurrency, limit: 1, ttl: 2s } }
  - { name: rate, key: [user], missing: skip, limit: { limit: 5, per: day, algorithm: sliding_log } }
  - { name: open, key: [open], missing: skip, limit: { algorithm: concurrency, limit: 1, ttl: 1h },
      on_store_failure: allow }
";

/// A server whose leases are in this etcd.
struct Node {
    server: Server,
    _rules: Directory,
}

impl Node {
    fn start(url: &str, more: &[&str]) -> Self {
        let directory = Directory::new();
        let rules = directory.write("rules.yaml", RULES);
        let args = [&["--rules", &rules, "--lease-store", url], more].concat();
        Self { server: Server::start(&args), _rules: directory }
    }

    /// A node that always waits for etcd.
    fn start_patient(cluster: &EtcdCluster) -> Self {
        Self::start(&cluster.url(), &["--lease-store-timeout", "30s"])
    }

    /// Sends a request with these attributes, as JSON, and more fields.
    fn post(&self, path: &str, attributes: &str, more: &str) -> (u16, Value) {
        let body = format!(r#"{{"domain": "api", "attributes": {{{attributes}}}{more}}}"#);
        let answer = self.server.post(path, &body);
        (answer.status, answer.body.parse().unwrap_or_else(|error| panic!("{error}: {answer:?}")))
    }

    /// The lines of the reply to a command with the Redis protocol.
    fn resp(&self, command: &str) -> Vec<String> {
        let mut stream = TcpStream::connect(self.server.address("resp")).unwrap();
        stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes()).unwrap();
        let mut reply = String::new();
        stream.read_to_string(&mut reply).unwrap();
        reply.lines().map(str::to_owned).collect()
    }
}

/// The token of the lease in an answer.
fn token_of(answer: &Value) -> String {
    answer["lease"]["token"].as_str().unwrap_or_else(|| panic!("no lease: {answer}")).to_owned()
}
