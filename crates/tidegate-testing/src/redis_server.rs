//! Starts a Redis server for a test: on a free loopback port, in its own directory, stopped on drop.

use std::fs;
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// A Redis server that runs until it is dropped.
pub struct RedisServer {
    process: Child,
    pub port: u16,
    arguments: Vec<String>,
    directory: TempDir,
}

/// A directory that is removed on drop.
pub struct TempDir(PathBuf);

/// Another process may take the free port before the server does.
const ATTEMPTS_MAX: usize = 20;

impl RedisServer {
    /// Starts a server with these additional arguments, and waits until it accepts connections.
    ///
    /// # Panics
    ///
    /// If no server can be started, or if this run must not start servers.
    pub fn start(arguments: &[&str]) -> Self {
        let is_forbidden = std::env::var_os("TEST_WITHOUT_SERVERS").is_some();
        assert!(!is_forbidden, "this test starts a Redis: add its module to the list in scripts/check");
        let arguments: Vec<String> = arguments.iter().map(|argument| (*argument).to_owned()).collect();
        let start = |_| {
            let (port, directory) = (free_port(), TempDir::new());
            let process = spawn_until_ready(port, &arguments, directory.path())?;
            Some(Self { process, port, arguments: arguments.clone(), directory })
        };
        (0..ATTEMPTS_MAX).find_map(start).expect("redis-server runs on some port")
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// Pauses the server. Its connections stay open.
    pub fn pause(&self) {
        self.signal("-STOP");
    }

    /// Resumes a paused server.
    pub fn resume(&self) {
        self.signal("-CONT");
    }

    pub fn kill(&mut self) {
        self.process.kill().expect("a child");
        self.process.wait().expect("a child");
    }

    /// Restarts on the same port. Scripts and data are lost.
    pub fn restart(&mut self) {
        self.kill();
        let process = spawn_until_ready(self.port, &self.arguments, self.directory.path());
        self.process = process.expect("its port is still free");
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.process.id().to_string()]).status();
        assert!(sent.expect("kill").success());
    }
}

impl Drop for RedisServer {
    fn drop(&mut self) {
        // The server may already be gone.
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

    /// Writes a file in the directory.
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

/// A port that was free a moment ago.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

/// Starts a server and waits until it accepts connections. `None` if it exits before that.
fn spawn_until_ready(port: u16, arguments: &[String], directory: &Path) -> Option<Child> {
    let mut process = Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1"])
        .args(["--save", "", "--appendonly", "no", "--dir"])
        .arg(directory)
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .expect("redis-server is installed");
    let output = process.stdout.take().expect("it is a pipe");
    let mut output = BufReader::new(output).lines().map_while(Result::ok);
    if output.any(|line| line.contains("Ready to accept connections")) {
        // Drain the rest of the output, so that the pipe does not fill up. The thread ends with the server.
        std::thread::spawn(move || output.for_each(drop));
        return Some(process);
    }
    process.wait().expect("a child");
    None
}
