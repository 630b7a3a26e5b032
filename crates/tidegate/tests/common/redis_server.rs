//! A Redis of a test's own: on a free port of the loopback, in a directory of its own, stopped when it is dropped.

use std::io::{BufRead, BufReader};
use std::net::TcpListener;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A server that runs for as long as this is kept.
pub struct RedisServer {
    process: Child,
    port: u16,
    directory: PathBuf,
}

/// Somebody else may take a free port before the server does.
const ATTEMPTS_MAX: usize = 20;

impl RedisServer {
    /// Starts one with these arguments besides, and waits until it can be connected to.
    pub fn start(arguments: &[&str]) -> Self {
        let mut attempts = (0..ATTEMPTS_MAX).map(|_| Self::try_start(arguments));
        attempts.find_map(|server| server).expect("redis-server runs on some port")
    }

    /// Its port on 127.0.0.1.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The id of its process.
    #[allow(dead_code, reason = "not every test wants it")]
    pub fn process_id(&self) -> u32 {
        self.process.id()
    }

    /// A connection that blocks.
    #[allow(dead_code, reason = "not every test wants it")]
    pub fn connection(&self) -> redis::Connection {
        let client =
            redis::Client::open(format!("redis://127.0.0.1:{}", self.port)).expect("it is an address");
        client.get_connection().expect("the server is there")
    }

    fn try_start(arguments: &[&str]) -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
        let directory = new_directory();
        let process = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
            .arg(&directory)
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("redis-server is installed");
        let mut server = Self { process, port, directory };
        let mut said = BufReader::new(server.process.stdout.take()?).lines().map_while(Result::ok);
        let is_ready = said.any(|line| line.contains("Ready to accept connections"));
        // Whatever else it says has to go somewhere. This ends with the server.
        std::thread::spawn(move || said.for_each(drop));
        is_ready.then_some(server)
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // It may be gone already, and then there is nothing to stop.
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

fn new_directory() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let directory = std::env::temp_dir().join(format!("tidegate-redis-{}-{number}", std::process::id()));
    std::fs::create_dir_all(&directory).expect("a directory for the server");
    directory
}
