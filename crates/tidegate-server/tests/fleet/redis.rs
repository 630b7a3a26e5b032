//! A Redis of a test's own: on a free port of this machine, in a directory of its own, gone when it is dropped.

use std::fs;
use std::io::{BufRead as _, BufReader, Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

/// Somebody else may take a free port before the server does.
const ATTEMPTS_MAX: usize = 20;

/// A server that runs for as long as this is kept.
pub struct Redis {
    process: Child,
    pub port: u16,
    directory: PathBuf,
}

impl Redis {
    /// Starts one with these arguments besides, and waits until it takes connections.
    pub fn start(arguments: &[&str]) -> Self {
        let mut attempts = (0..ATTEMPTS_MAX).filter_map(|_| Self::try_start(arguments));
        attempts.next().expect("redis-server runs on some port")
    }

    /// Where it is.
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}", self.port)
    }

    /// It says no more, and its connections stay open.
    pub fn stop(&self) {
        self.signal("STOP");
    }

    /// It goes on.
    pub fn go_on(&self) {
        self.signal("CONT");
    }

    /// What it answers to a command without spaces in its words, as it is written.
    pub fn ask(&self, command: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", self.port)).expect("it listens");
        stream.write_all(format!("{command}\r\nQUIT\r\n").as_bytes()).expect("it reads");
        let mut answer = String::new();
        stream.read_to_string(&mut answer).expect("it is text");
        answer.strip_suffix("+OK\r\n").unwrap_or(&answer).to_owned()
    }

    /// How often scripts were called so far.
    pub fn script_calls(&self) -> u64 {
        let stats = self.ask("INFO commandstats");
        let line = stats.lines().find_map(|line| line.strip_prefix("cmdstat_evalsha:calls="));
        line.map_or(0, |line| line.split(',').next().unwrap_or_default().parse().expect("a number"))
    }

    fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.process.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().expect("a shell").success());
    }

    fn try_start(arguments: &[&str]) -> Option<Self> {
        let port = TcpListener::bind("127.0.0.1:0").ok()?.local_addr().ok()?.port();
        let directory = new_directory();
        let mut process = Command::new("redis-server")
            .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--save", "", "--dir"])
            .arg(&directory)
            .args(arguments)
            .stdout(Stdio::piped())
            .spawn()
            .expect("redis-server is installed");
        let mut said =
            BufReader::new(process.stdout.take().expect("it is a pipe")).lines().map_while(Result::ok);
        let is_ready = said.any(|line| line.contains("Ready to accept connections"));
        let redis = Self { process, port, directory };
        // Whatever else it says has to go somewhere. This ends with the server.
        std::thread::spawn(move || said.for_each(drop));
        is_ready.then_some(redis)
    }
}

impl Drop for Redis {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = fs::remove_dir_all(&self.directory);
    }
}

fn new_directory() -> PathBuf {
    static NUMBER: AtomicU32 = AtomicU32::new(0);
    let number = NUMBER.fetch_add(1, Ordering::Relaxed);
    let directory = std::env::temp_dir().join(format!("tidegate-fleet-{}-{number}", std::process::id()));
    fs::create_dir_all(&directory).expect("a directory");
    directory
}
