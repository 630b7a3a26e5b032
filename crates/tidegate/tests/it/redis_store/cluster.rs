//! A Redis Cluster of three masters.

use std::process::{Command, Stdio};

use super::server::{RedisServer, wait_until};

pub struct RedisCluster {
    pub servers: Vec<RedisServer>,
}

impl RedisCluster {
    pub async fn start() -> Self {
        let mut servers = Vec::new();
        for _ in 0..3 {
            servers.push(RedisServer::start_with(&["--cluster-enabled", "yes"]));
        }
        let addresses = servers.iter().map(|server| server.address());
        let status = Command::new("redis-cli")
            .args(["--cluster", "create"])
            .args(addresses)
            .args(["--cluster-replicas", "0", "--cluster-yes"])
            .stdout(Stdio::null())
            .status()
            .expect("redis-cli is installed");
        assert!(status.success());
        for server in &servers {
            wait_until(async || {
                let info: String = server.run_command("CLUSTER INFO").await;
                info.contains("cluster_state:ok").then_some(())
            })
            .await;
        }
        Self { servers }
    }

    pub fn url(&self) -> String {
        let addresses: Vec<String> = self.servers.iter().map(|server| server.address()).collect();
        format!("redis-cluster://{}", addresses.join(","))
    }

    /// The server that has a key whose name contains this.
    pub async fn server_of(&self, part: &str) -> &RedisServer {
        for server in &self.servers {
            let names: Vec<String> = server.run_command(&format!("KEYS *{part}*")).await;
            if !names.is_empty() {
                return server;
            }
        }
        panic!("no server holds a key with `{part}`");
    }
}
