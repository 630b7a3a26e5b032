//! A master, a replica, and three who watch them.

use std::process::{Child, Command, Stdio};

use super::{RedisProcess, Scratch, cli, free_port, until};

/// A master, a replica, and three Sentinels that watch them.
pub(crate) struct RedisSentinels {
    /// The first is the master, to begin with.
    pub servers: Vec<RedisProcess>,
    sentinels: Vec<(Child, u16, Scratch)>,
}

impl RedisSentinels {
    pub const MASTER: &str = "the-master";

    pub async fn start() -> Self {
        let master = RedisProcess::start();
        let replica = RedisProcess::with(&["--replicaof", "127.0.0.1", &master.port.to_string()]);
        let sentinels = (0..3).map(|_| sentinel(master.port)).collect();
        let watched = Self { servers: vec![master, replica], sentinels };
        until("the sentinels know of each other and of the replica", async || {
            watched.sentinels.iter().all(|(_, port, _)| {
                let info = cli(*port, &["INFO", "sentinel"]);
                info.contains("slaves=1,sentinels=3") && info.contains("status=ok")
            }) && watched.servers[1].cli(&["INFO", "replication"]).contains("master_link_status:up")
        })
        .await;
        watched
    }

    pub fn url(&self) -> String {
        let addresses: Vec<_> =
            self.sentinels.iter().map(|(_, port, _)| format!("127.0.0.1:{port}")).collect();
        format!("redis+sentinel://{}/{}", addresses.join(","), Self::MASTER)
    }

    /// Another master, though the old one is well.
    pub fn failover(&self) {
        let (_, port, _) = &self.sentinels[0];
        let said = cli(*port, &["SENTINEL", "FAILOVER", Self::MASTER]);
        assert_eq!(said.trim(), "OK");
    }

    /// A Sentinel that is there no more.
    pub fn kill_sentinel(&mut self, number: usize) {
        let (child, _, _) = &mut self.sentinels[number];
        child.kill().expect("a child");
        child.wait().expect("a child");
    }
}

fn sentinel(master: u16) -> (Child, u16, Scratch) {
    let (scratch, port, name) = (Scratch::new(), free_port(), RedisSentinels::MASTER);
    let settings = scratch.file(
        "sentinel.conf",
        &format!(
            "port {port}\nbind 127.0.0.1\nsentinel monitor {name} 127.0.0.1 {master} 2\n\
             sentinel down-after-milliseconds {name} 1000\nsentinel failover-timeout {name} 4000\n"
        ),
    );
    let child = Command::new("redis-server")
        .arg(settings)
        .arg("--sentinel")
        .current_dir(scratch.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server");
    (child, port, scratch)
}

impl Drop for RedisSentinels {
    fn drop(&mut self) {
        for (child, _, _) in &mut self.sentinels {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
