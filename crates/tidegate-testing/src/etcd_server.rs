//! Starts etcd for a test: one member or several, on free loopback ports, in their own directories, stopped on drop.

use std::fs::File;
use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::redis_server::{TempDir, free_port};

/// A cluster of etcd members that run until it is dropped. Election timeouts are short, so that tests are.
pub struct EtcdCluster {
    members: Vec<EtcdMember>,
    token: String,
    tls: Option<EtcdTls>,
}

struct EtcdMember {
    /// None while it is stopped.
    process: Option<Child>,
    client_port: u16,
    peer_port: u16,
    directory: TempDir,
}

/// Certificates of the members, as PEM files.
#[derive(Clone, Debug)]
pub struct EtcdTls {
    pub certificate_file: std::path::PathBuf,
    pub key_file: std::path::PathBuf,
    /// Clients need a certificate of this CA, if there is one.
    pub client_ca_file: Option<std::path::PathBuf>,
}

/// Another process may take a free port before etcd does.
const ATTEMPTS_MAX: usize = 20;
/// How long a member may take to answer, on a busy machine.
const START_POLLS_MAX: usize = 3_000;
const POLL_EVERY: Duration = Duration::from_millis(20);
const HEARTBEAT_MS: &str = "50";
const ELECTION_MS: &str = "500";

impl EtcdCluster {
    /// Starts members, and waits until they have a leader.
    ///
    /// # Panics
    ///
    /// If they cannot be started, or if this run must not start servers.
    pub fn start(members: usize) -> Self {
        Self::start_with(members, None)
    }

    /// As [`start`](Self::start), with TLS for clients.
    pub fn start_with(members: usize, tls: Option<&EtcdTls>) -> Self {
        let is_forbidden = std::env::var_os("TEST_WITHOUT_SERVERS").is_some();
        assert!(!is_forbidden, "this test starts an etcd: add its module to the list in scripts/check");
        (0..ATTEMPTS_MAX)
            .find_map(|_| Self::try_start(members, tls.cloned()))
            .expect("etcd runs on some ports")
    }

    fn try_start(members: usize, tls: Option<EtcdTls>) -> Option<Self> {
        let member = |_| EtcdMember {
            process: None,
            client_port: free_port(),
            peer_port: free_port(),
            directory: TempDir::new(),
        };
        let members: Vec<EtcdMember> = (0..members).map(member).collect();
        let token = format!("tidegate-{}", members[0].peer_port);
        let mut cluster = Self { members, token, tls };
        (0..cluster.members.len()).for_each(|index| cluster.spawn(index));
        cluster.wait_until_ready().then_some(cluster)
    }

    /// The URL for [`EtcdStore`](https://docs.rs/tidegate).
    pub fn url(&self) -> String {
        let scheme = if self.tls.is_some() { "etcds" } else { "etcd" };
        let members: Vec<String> =
            self.members.iter().map(|member| format!("127.0.0.1:{}", member.client_port)).collect();
        format!("{scheme}://{}", members.join(","))
    }

    pub fn len(&self) -> usize {
        self.members.len()
    }

    pub fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// The index of the leader, if a majority of the running members knows one.
    pub fn leader(&self) -> Option<usize> {
        let statuses: Vec<Option<(String, String)>> =
            (0..self.members.len()).map(|index| self.status(index)).collect();
        let mut leaders: Vec<&str> = statuses.iter().flatten().map(|(_, leader)| &**leader).collect();
        leaders.sort_unstable();
        let leader = *leaders.get(leaders.len() / 2)?;
        let has_majority = 2 * leaders.iter().filter(|known| **known == leader).count() > self.members.len();
        let is_leader =
            |status: &Option<(String, String)>| status.as_ref().is_some_and(|(id, _)| id == leader);
        statuses.iter().position(is_leader).filter(|_| has_majority)
    }

    /// Waits until there is a leader, and returns its index.
    pub fn wait_for_leader(&self) -> usize {
        poll(|| self.leader()).expect("a leader is elected")
    }

    /// Kills a member with SIGKILL.
    pub fn kill(&mut self, index: usize) {
        if let Some(mut process) = self.members[index].process.take() {
            process.kill().expect("a child");
            process.wait().expect("a child");
        }
    }

    /// Starts a killed member again, with its data.
    pub fn restart(&mut self, index: usize) {
        self.spawn(index);
        poll(|| self.status(index)).expect("its ports are still free");
    }

    /// Stops a member without closing its connections, and waits until it has stopped.
    pub fn pause(&self, index: usize) {
        self.signal(index, "-STOP");
        let process = self.members[index].process.as_ref().expect("it runs");
        let tasks = format!("/proc/{}/task", process.id());
        let is_stopped = |stat: String| stat.rsplit_once(") ").is_some_and(|(_, rest)| rest.starts_with('T'));
        let all_stopped = || {
            let tasks = std::fs::read_dir(&tasks).ok()?;
            let stats = tasks.flatten().map(|task| std::fs::read_to_string(task.path().join("stat")));
            stats.flatten().all(is_stopped).then_some(())
        };
        poll(all_stopped).expect("it stops");
    }

    pub fn resume(&self, index: usize) {
        self.signal(index, "-CONT");
    }

    /// Sends a request to the first running member, and returns the body of the reply. Without TLS only.
    pub fn post(&self, path: &str, body: &str) -> String {
        let running = self.members.iter().filter(|member| member.process.is_some());
        running.map(|member| member.post(path, body)).find_map(Result::ok).expect("a member answers")
    }

    fn spawn(&mut self, index: usize) {
        let peers = self.members.iter().enumerate();
        let peers: Vec<String> =
            peers.map(|(index, member)| format!("m{index}=http://127.0.0.1:{}", member.peer_port)).collect();
        let member = &self.members[index];
        let scheme = if self.tls.is_some() { "https" } else { "http" };
        let client_url = format!("{scheme}://127.0.0.1:{}", member.client_port);
        let peer_url = format!("http://127.0.0.1:{}", member.peer_port);
        let log = File::create(member.directory.path().join("etcd.log")).expect("a file");
        let mut command = Command::new("etcd");
        command
            .args(["--name", &format!("m{index}")])
            .arg("--data-dir")
            .arg(member.directory.path().join("data"))
            .args(["--listen-client-urls", &client_url, "--advertise-client-urls", &client_url])
            .args(["--listen-peer-urls", &peer_url, "--initial-advertise-peer-urls", &peer_url])
            .args(["--initial-cluster", &peers.join(","), "--initial-cluster-token", &self.token])
            .args(["--heartbeat-interval", HEARTBEAT_MS, "--election-timeout", ELECTION_MS])
            .stdout(Stdio::null())
            .stderr(log);
        if let Some(tls) = &self.tls {
            command.arg("--cert-file").arg(&tls.certificate_file).arg("--key-file").arg(&tls.key_file);
            if let Some(client_ca_file) = &tls.client_ca_file {
                command.arg("--client-cert-auth").arg("--trusted-ca-file").arg(client_ca_file);
            }
        }
        self.members[index].process = Some(command.spawn().expect("etcd is installed"));
    }

    /// False if a member has ended.
    fn wait_until_ready(&mut self) -> bool {
        let is_tls = self.tls.is_some();
        for _ in 0..START_POLLS_MAX {
            let has_ended = |member: &mut EtcdMember| {
                member.process.as_mut().is_none_or(|process| process.try_wait().expect("a child").is_some())
            };
            if self.members.iter_mut().any(has_ended) {
                return false;
            }
            let is_up = |member: &EtcdMember| TcpStream::connect(("127.0.0.1", member.client_port)).is_ok();
            let all_answer = || (0..self.members.len()).all(|index| self.status(index).is_some());
            let is_ready =
                if is_tls { self.members.iter().all(is_up) } else { all_answer() && self.leader().is_some() };
            if is_ready {
                return true;
            }
            pause();
        }
        false
    }

    /// The id of a member, and that of its leader.
    fn status(&self, index: usize) -> Option<(String, String)> {
        let member = &self.members[index];
        member.process.as_ref()?;
        let body = member.post("/v3/maintenance/status", "{}").ok()?;
        Some((field(&body, "member_id")?, field(&body, "leader")?)).filter(|(_, leader)| leader != "0")
    }

    fn signal(&self, index: usize, signal: &str) {
        let process = self.members[index].process.as_ref().expect("it runs");
        let sent = Command::new("kill").args([signal, &process.id().to_string()]).status();
        assert!(sent.expect("kill").success());
    }
}

impl EtcdMember {
    fn post(&self, path: &str, body: &str) -> std::io::Result<String> {
        let mut stream = TcpStream::connect(("127.0.0.1", self.client_port))?;
        stream.set_read_timeout(Some(Duration::from_secs(2)))?;
        let length = body.len();
        write!(
            stream,
            "POST {path} HTTP/1.1\r\nhost: etcd\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}"
        )?;
        let mut reply = String::new();
        stream.read_to_string(&mut reply)?;
        Ok(reply)
    }
}

impl Drop for EtcdMember {
    fn drop(&mut self) {
        if let Some(process) = &mut self.process {
            // It may already be gone.
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// The text of a field in flat JSON.
fn field(json: &str, name: &str) -> Option<String> {
    let (_, rest) = json.split_once(&format!("\"{name}\":\""))?;
    Some(rest.split_once('"')?.0.to_owned())
}

fn poll<T>(mut result: impl FnMut() -> Option<T>) -> Option<T> {
    (0..START_POLLS_MAX).find_map(|_| {
        let found = result();
        if found.is_none() {
            pause();
        }
        found
    })
}

/// Waits for another process, which cannot wake this one.
#[allow(clippy::disallowed_methods, reason = "polls a process that cannot notify")]
fn pause() {
    std::thread::sleep(POLL_EVERY);
}
