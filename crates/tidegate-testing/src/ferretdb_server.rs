//! Starts a FerretDB for a test, which speaks MongoDB's wire protocol: on a free loopback port, in its own directory, stopped on
//! drop. `scripts/install-test-parts` builds it.

use std::net::TcpStream;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc;
use std::time::Duration;

use crate::redis_server::{TempDir, free_port};

/// A FerretDB that runs until it is dropped.
pub struct FerretDbServer {
    process: Child,
    pub port: u16,
    directory: TempDir,
}

/// Another process may take the free port before the server does.
const ATTEMPTS_MAX: usize = 20;
/// How often to look whether a server accepts connections, and for how long: a minute.
const POLL_INTERVAL: Duration = Duration::from_millis(10);
const POLLS_MAX: usize = 6_000;

impl FerretDbServer {
    /// Starts a server, and waits until it accepts connections.
    ///
    /// # Panics
    ///
    /// If no server can be started, or if this run must not start servers.
    pub fn start() -> Self {
        let is_forbidden = std::env::var_os("TEST_WITHOUT_SERVERS").is_some();
        assert!(!is_forbidden, "this test starts a FerretDB: add its module to the list in scripts/check");
        let start = |_| {
            let (port, directory) = (free_port(), TempDir::new());
            let process = spawn_until_ready(port, directory.path())?;
            Some(Self { process, port, directory })
        };
        (0..ATTEMPTS_MAX).find_map(start).expect("ferretdb runs on some port")
    }

    pub fn url(&self) -> String {
        format!("mongodb://127.0.0.1:{}", self.port)
    }

    pub fn kill(&mut self) {
        self.process.kill().expect("a child");
        self.process.wait().expect("a child");
    }

    /// Starts a killed server again, on the same port and with its data.
    ///
    /// # Panics
    ///
    /// If another process has taken the port.
    pub fn start_again(&mut self) {
        let process = spawn_until_ready(self.port, self.directory.path());
        self.process = process.expect("its port is still free");
    }
}

impl Drop for FerretDbServer {
    fn drop(&mut self) {
        // The server may already be gone.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Starts a server and waits until it accepts connections. `None` if it exits before that.
fn spawn_until_ready(port: u16, directory: &Path) -> Option<Child> {
    let mut process = Command::new("ferretdb")
        .arg(format!("127.0.0.1:{port}"))
        .arg(directory)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .expect("ferretdb is installed: run scripts/install-test-parts, and add target/real/bin to PATH");
    let (_never, nothing) = mpsc::channel::<()>();
    for _ in 0..POLLS_MAX {
        if process.try_wait().expect("a child").is_some() {
            return None;
        }
        if TcpStream::connect(("127.0.0.1", port)).is_ok() {
            return Some(process);
        }
        let _ = nothing.recv_timeout(POLL_INTERVAL);
    }
    panic!("ferretdb does not accept connections");
}
