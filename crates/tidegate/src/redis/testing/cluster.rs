//! A Redis cluster of six servers.

use std::process::Command;

use super::{RedisProcess, free_port, wait_until};

/// Three masters with one replica each.
pub(crate) struct RedisCluster {
    pub nodes: Vec<RedisProcess>,
}

impl RedisCluster {
    pub async fn start() -> Self {
        let mut nodes = Vec::new();
        for _ in 0..6 {
            // The default bus port, 10,000 higher, may be out of range.
            let bus = free_port().to_string();
            let settings =
                ["--cluster-enabled", "yes", "--cluster-node-timeout", "1000", "--cluster-port", &bus];
            nodes.push(RedisProcess::start_with(&settings));
        }
        let cluster = Self { nodes };
        let created = Command::new("redis-cli")
            .args(["--cluster", "create", "--cluster-replicas", "1", "--cluster-yes"])
            .args(cluster.nodes.iter().map(|node| node.address()))
            .output()
            .expect("redis-cli");
        assert!(created.status.success(), "{}", String::from_utf8_lossy(&created.stdout));
        cluster.wait_until_stable().await;
        cluster
    }

    /// Waits until all nodes agree that the cluster is up and replicas are in sync.
    pub async fn wait_until_stable(&self) {
        wait_until("the cluster is stable", async || {
            self.nodes.iter().all(|node| {
                let replication = node.cli(&["INFO", "replication"]);
                node.cli(&["CLUSTER", "INFO"]).contains("cluster_state:ok")
                    && (replication.contains("role:master") || replication.contains("master_link_status:up"))
            }) && self.masters().len() == 3
                && self.masters().iter().all(|&node| self.replicas(node) == 1)
        })
        .await;
    }

    /// Waits until the replicas of a master have everything written so far. Redis replicates in the
    /// background.
    pub async fn wait_until_replicated(&self, master: usize) {
        let number_after = |text: &str, name: &str| -> Option<u64> {
            let rest = &text[text.find(name)? + name.len()..];
            rest.split(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        };
        let info = || self.nodes[master].cli(&["INFO", "replication"]);
        let master_offset = number_after(&info(), "master_repl_offset:").expect("an offset");
        wait_until("the replica has it", async || {
            number_after(&info(), ",offset=").is_some_and(|replica_offset| replica_offset >= master_offset)
        })
        .await;
    }

    fn replicas(&self, node: usize) -> usize {
        self.nodes[node].cli(&["INFO", "replication"]).matches("state=online").count()
    }

    /// The indexes of the nodes that are masters now.
    pub fn masters(&self) -> Vec<usize> {
        let is_master = |node: &RedisProcess| node.cli(&["INFO", "replication"]).contains("role:master");
        (0..self.nodes.len()).filter(|&node| is_master(&self.nodes[node])).collect()
    }

    pub fn url(&self) -> String {
        let seeds: Vec<_> = self.nodes.iter().map(|node| node.address()).collect();
        format!("redis-cluster://{}", seeds.join(","))
    }

    /// The id of a node in the cluster.
    pub fn node_id(&self, node: usize) -> String {
        self.nodes[node].cli(&["CLUSTER", "MYID"]).trim().to_owned()
    }

    /// The index of the master that has this key.
    pub fn owner(&self, key: &str) -> usize {
        let replica_offset = |node: usize| !self.nodes[node].cli(&["GET", key]).contains("MOVED");
        self.masters().into_iter().find(|&node| replica_offset(node)).expect("an owner")
    }
}
