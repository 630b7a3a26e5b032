//! A redis-server.

use std::fs;
use std::net::TcpListener;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};

use super::until;

/// A redis-server. Its data is gone when it is dropped.
pub(crate) struct RedisProcess {
    child: Child,
    pub port: u16,
    args: Vec<String>,
    password: Option<String>,
    scratch: Scratch,
}

/// A directory that goes when it is dropped.
pub(crate) struct Scratch(PathBuf);

impl RedisProcess {
    /// With nothing but defaults.
    pub async fn start() -> Self {
        Self::with(&[]).await
    }

    /// With these settings as well.
    pub async fn with(args: &[&str]) -> Self {
        // Somebody else may take the port in between.
        for _ in 0..20 {
            let args = args.iter().map(|arg| (*arg).to_owned()).collect();
            if let Some(started) = Self::try_on(free_port(), args).await {
                return started;
            }
        }
        panic!("redis-server does not start: is it installed?");
    }

    async fn try_on(port: u16, args: Vec<String>) -> Option<Self> {
        let scratch = Scratch::new();
        let child = spawn(port, &args, scratch.path());
        let password =
            args.iter().position(|arg| arg == "--requirepass").map(|place| args[place + 1].clone());
        let mut process = Self { child, port, args, password, scratch };
        process.until_up().await.then_some(process)
    }

    /// Whether it is up, or has ended.
    async fn until_up(&mut self) -> bool {
        let mut ended = false;
        until("redis-server is up", async || {
            ended = self.child.try_wait().expect("a child").is_some();
            ended || self.cli(&["PING"]).contains("PONG")
        })
        .await;
        !ended
    }

    pub fn address(&self) -> String {
        format!("127.0.0.1:{}", self.port)
    }

    pub fn url(&self) -> String {
        format!("redis://{}", self.address())
    }

    /// What it says to a command.
    pub fn cli(&self, command: &[&str]) -> String {
        match &self.password {
            Some(password) => {
                let mut with_password = vec!["-a", password, "--no-auth-warning"];
                with_password.extend_from_slice(command);
                cli(self.port, &with_password)
            }
            None => cli(self.port, command),
        }
    }

    /// It does nothing any more, and does not say so.
    pub fn stop(&self) {
        self.signal("-STOP");
    }

    /// It goes on where it was stopped.
    pub fn go_on(&self) {
        self.signal("-CONT");
    }

    pub fn kill(&mut self) {
        self.child.kill().expect("a child");
        self.child.wait().expect("a child");
    }

    /// On the same port. Its scripts are gone, and its data.
    pub async fn restart(&mut self) {
        self.kill();
        self.child = spawn(self.port, &self.args, self.scratch.path());
        assert!(self.until_up().await, "its port was taken");
    }

    fn signal(&self, signal: &str) {
        let sent = Command::new("kill").args([signal, &self.child.id().to_string()]).status();
        assert!(sent.expect("kill").success());
    }
}

impl Drop for RedisProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Scratch {
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
    pub fn file(&self, name: &str, content: &str) -> PathBuf {
        let path = self.0.join(name);
        fs::write(&path, content).expect("a file");
        path
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// What redis-cli prints.
pub(crate) fn cli(port: u16, args: &[&str]) -> String {
    let output =
        Command::new("redis-cli").args(["-p", &port.to_string()]).args(args).output().expect("redis-cli");
    String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr)
}

/// A port that nobody listened on a moment ago.
pub(crate) fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    listener.local_addr().expect("an address").port()
}

fn spawn(port: u16, args: &[String], directory: &Path) -> Child {
    let directory = directory.to_str().expect("text");
    Command::new("redis-server")
        .args(["--port", &port.to_string(), "--bind", "127.0.0.1", "--dir", directory])
        .args(["--save", "", "--appendonly", "no"])
        .args(args)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("redis-server")
}
