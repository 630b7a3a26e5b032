//! A Redis of a test's own: on a free port of the loopback, in a directory of its own, stopped when it is dropped.

#![allow(dead_code, reason = "not every test wants all of it")]

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A server that runs for as long as this is kept.
pub struct RedisServer {
    process: Child,
    pub port: u16,
    arguments: Vec<String>,
    scratch: TempDir,
}

/// A directory that goes when it is dropped.
pub struct TempDir(PathBuf);

/// Somebody else may take a free port before the server does.
const ATTEMPTS_MAX: usize = 20;

impl RedisServer {
    /// Starts one with these arguments besides, and waits until it can be connected to.
    ///
    /// # Panics
    ///
    /// If no server can be started, and in a run that is to start none.
    pub fn start(arguments: &[&str]) -> Self {
        let is_without = std::env::var_os("TEST_WITHOUT_SERVERS").is_some();
        assert!(!is_without, "this test starts a Redis: add its module to the list in scripts/check");
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let start = |_| {
            let (port, scratch) = (free_port(), TempDir::new());
            let process = spawn_until_ready(port, &arguments, scratch.path())?;
            Some(Self { process, port, arguments: arguments.clone(), scratch })
        };
        (0..ATTEMPTS_MAX).find_map(start).expect("redis-server runs on some port")
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// It stands still, does not say so, and its connections stay open.
    pub fn pause(&self) {
        self.signal("-STOP");
    }

    /// It goes on where it was stopped.
    pub fn resume(&self) {
        self.signal("-CONT");
    }

    pub fn kill(&mut self) {
        self.process.kill().expect("a child");
        self.process.wait().expect("a child");
    }

    /// On the same port. Its scripts are gone, and its data.
    pub fn restart(&mut self) {
        self.kill();
        let process = spawn_until_ready(self.port, &self.arguments, self.scratch.path());
        self.process = process.expect("its port is still free");
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.process.id().to_string()]).status();
        assert!(sent.expect("kill").success());
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // It may be gone already, and then there is nothing to stop.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

impl TempDir {
    pub fn new() -> Self {
        static NUMBER: AtomicU32 = AtomicU32::new(0);
        let number = NUMBER.fetch_add(1, Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("tidegate-redis-{}-{number}", std::process::id()));
        fs::create_dir_all(&path).expect("a directory");
        Self(path)
    }

    pub fn path(&self) -> &Path {
        &self.0
    }

    /// A file in it.
    pub fn write_file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).expect("a file");
        path
    }
}

impl Drop for TempDir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// A port that nobody listened on a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// The process, once it takes connections; none if it ended before that.
fn spawn_until_ready(port: u16, arguments: &[String], directory: &Path) -> Option<Child> {
    let mut process = Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", "", "--appendonly", "no", "--dir"])
        .arg(directory)
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .expect("redis-server is installed");
    let said = process.stdout.take().expect("it is a pipe");
    let mut said = BufReader::new(said).lines().map_while(Result::ok);
    if said.any(|line| line.contains("Ready to accept connections")) {
        // Whatever else it says has to go somewhere. This ends with the server.
        std::thread::spawn(move || said.for_each(drop));
        return Some(process);
    }
    process.wait().expect("a child");
    None
}
