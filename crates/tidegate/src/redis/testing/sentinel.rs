//! A master, a replica, and three Sentinels that watch them.

use std::process::{Child, Command, Stdio};

use super::{RedisProcess, TempDir, cli, free_port, wait_until};

/// A master, a replica, and three Sentinels that watch them.
pub(crate) struct RedisSentinels {
    /// The first is the master at the start.
    pub servers: Vec<RedisProcess>,
    sentinels: Vec<(Child, u16, TempDir)>,
    passwords: Option<Passwords>,
}

/// The passwords that clients need.
#[derive(Clone, Copy)]
pub(crate) struct Passwords {
    pub servers: &'static str,
    pub sentinels: &'static str,
}

impl RedisSentinels {
    pub const MASTER: &str = "the-master";

    /// Starts without passwords.
    pub async fn start() -> Self {
        Self::start_with(None).await
    }

    pub async fn start_with(passwords: Option<Passwords>) -> Self {
        let of_servers = passwords.map(|passwords| passwords.servers);
        let login: Vec<_> = of_servers
            .into_iter()
            .flat_map(|password| ["--requirepass", password, "--masterauth", password])
            .collect();
        let master = RedisProcess::start_with(&login);
        let port = master.port.to_string();
        let replica =
            RedisProcess::start_with(&[&["--replicaof", "127.0.0.1", &port], login.as_slice()].concat());
        let sentinels = (0..3).map(|_| start_sentinel(master.port, passwords)).collect();
        let group = Self { servers: vec![master, replica], sentinels, passwords };
        wait_until("the sentinels know of each other and of the replica", async || {
            (0..3).all(|number| {
                let info = group.sentinel_cli(number, &["INFO", "sentinel"]);
                info.contains("slaves=1,sentinels=3") && info.contains("status=ok")
            }) && group.servers[1].cli(&["INFO", "replication"]).contains("master_link_status:up")
        })
        .await;
        group
    }

    pub fn sentinel_cli(&self, number: usize, command: &[&str]) -> String {
        let (_, port, _) = &self.sentinels[number];
        let login =
            self.passwords.iter().flat_map(|passwords| ["-a", passwords.sentinels, "--no-auth-warning"]);
        cli(*port, &login.chain(command.iter().copied()).collect::<Vec<_>>())
    }

    pub fn url(&self) -> String {
        let addresses: Vec<_> =
            self.sentinels.iter().map(|(_, port, _)| format!("127.0.0.1:{port}")).collect();
        format!("redis+sentinel://{}/{}", addresses.join(","), Self::MASTER)
    }

    /// Promotes another master while the old one still runs.
    pub fn failover(&self) {
        let reply = self.sentinel_cli(0, &["SENTINEL", "FAILOVER", Self::MASTER]);
        assert_eq!(reply.trim(), "OK");
    }

    /// Kills a Sentinel.
    pub fn kill_sentinel(&mut self, number: usize) {
        let (child, _, _) = &mut self.sentinels[number];
        child.kill().expect("a child");
        child.wait().expect("a child");
    }
}

fn start_sentinel(master: u16, passwords: Option<Passwords>) -> (Child, u16, TempDir) {
    let (directory, port, name) = (TempDir::new(), free_port(), RedisSentinels::MASTER);
    let login =
        passwords.map_or_else(String::new, |Passwords { servers: of_servers, sentinels: of_sentinels }| {
            format!("requirepass {of_sentinels}\nsentinel auth-pass {name} {of_servers}\n")
        });
    let settings = directory.write_file(
        "sentinel.conf",
        &format!(
            "port {port}\nbind 127.0.0.1\nsentinel monitor {name} 127.0.0.1 {master} 2\n\
             sentinel down-after-milliseconds {name} 1000\nsentinel failover-timeout {name} 4000\n{login}"
        ),
    );
    let child = Command::new("redis-server")
        .arg(settings)
        .arg("--sentinel")
        .current_dir(directory.path())
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server");
    (child, port, directory)
}

impl Drop for RedisSentinels {
    fn drop(&mut self) {
        for (child, _, _) in &mut self.sentinels {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
