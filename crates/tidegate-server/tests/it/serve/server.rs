//! Runs the server binary.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, BufRead as _, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::process::{Child, ChildStdout, Command, ExitStatus, Stdio};
use std::sync::{Arc, Mutex};

use serde_json::Value;

use crate::support::{Run, wait_until};

/// A server process on free ports. Killed on drop.
pub struct Server {
    child: Child,
    pub addresses: BTreeMap<String, String>,
    stdout: BufReader<ChildStdout>,
    log: Arc<Mutex<String>>,
}

/// The answer of a server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Answer {
    pub status: u16,
    pub body: String,
}

impl Server {
    /// Starts a server with these arguments. Addresses that they do not set are free ports.
    pub fn start(args: &[&str]) -> Self {
        Self::start_with_env(&with_free_ports(args), &[])
    }

    /// Starts a server with only these arguments, in this environment.
    pub fn start_with_env(args: &[&str], env: &[(&str, &str)]) -> Self {
        let mut command = Self::command(env);
        command.args(args);
        Self::start_by(command)
    }

    /// Starts a server on free ports after a shell command such as `umask 0`.
    pub fn start_in_shell(words: &str, args: &[&str]) -> Self {
        let mut command = Command::new("sh");
        command.args([
            "-c",
            &format!("{words}; exec \"$0\" \"$@\""),
            env!("CARGO_BIN_EXE_tidegate"),
            "serve",
        ]);
        command.args(with_free_ports(args));
        Self::start_by(command)
    }

    /// Starts a server on free ports, without the word `serve`.
    pub fn start_without_command(args: &[&str]) -> Self {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        command.args(with_free_ports(args));
        Self::start_by(command)
    }

    fn start_by(mut command: Command) -> Self {
        command.args(["--print-addresses", "json"]);
        let mut child =
            command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().expect("the binary runs");
        let log = follow(child.stderr.take().expect("it is a pipe"));
        let mut stdout = BufReader::new(child.stdout.take().expect("it is a pipe"));
        let mut line = String::new();
        stdout.read_line(&mut line).expect("it is text");
        let Ok(addresses) = serde_json::from_str(&line) else {
            let status = child.wait();
            wait_until("the log is complete", || Arc::strong_count(&log) == 1);
            panic!("expected addresses, got {line:?}, {status:?}: {}", log.lock().unwrap());
        };
        Self { child, addresses, stdout, log }
    }

    /// `tidegate serve` with only these `TIDEGATE_` variables.
    pub fn command(env: &[(&str, &str)]) -> Command {
        let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
        for (name, _) in std::env::vars().filter(|(name, _)| name.starts_with("TIDEGATE_")) {
            command.env_remove(name);
        }
        command.envs(env.iter().copied()).arg("serve");
        command
    }

    /// The address of a protocol.
    pub fn address(&self, protocol: &str) -> &str {
        &self.addresses[protocol]
    }

    /// The log so far.
    pub fn log(&self) -> String {
        self.log.lock().unwrap().clone()
    }

    /// Waits for a text in the log.
    pub fn wait_for_log(&self, text: &str) {
        wait_until(&format!("{text:?} in the log"), || self.log().contains(text));
    }

    /// The HTTP status of a check for this user.
    pub fn check(&self, user: &str) -> u16 {
        let body = format!(r#"{{"domain": "api", "attributes": {{"user": "{user}"}}}}"#);
        self.post("/v1/check", &body).status
    }

    pub fn post(&self, path: &str, body: &str) -> Answer {
        http_request(connect(self.address("http")), "POST", path, body)
    }

    pub fn get(&self, path: &str) -> Answer {
        http_request(connect(self.address("http")), "GET", path, "")
    }

    /// `/healthz?verbose`, of the admin listener if there is one.
    pub fn health(&self) -> Value {
        let address = self.addresses.get("admin").unwrap_or_else(|| &self.addresses["http"]);
        let answer = http_request(connect(address), "GET", "/healthz?verbose", "");
        answer.body.parse().unwrap_or_else(|error| panic!("{error}: {answer:?}"))
    }

    /// A metric of the admin listener.
    pub fn metric(&self, name: &str) -> u64 {
        let page = self.metrics();
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("{name} in {page}")).parse().unwrap()
    }

    /// The metrics of the admin listener.
    pub fn metrics(&self) -> String {
        http_request(connect(self.address("admin")), "GET", "/metrics", "").body
    }

    /// The memory of the process that is in RAM.
    #[cfg(target_os = "linux")]
    pub fn resident_bytes(&self) -> u64 {
        let status = fs::read_to_string(format!("/proc/{}/status", self.child.id())).unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")?.strip_suffix("kB"));
        line.unwrap_or_else(|| panic!("{status}")).trim().parse::<u64>().unwrap() << 10
    }

    /// Sends a signal, such as `TERM`.
    pub fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().unwrap().success());
    }

    /// Waits for the process to end. Returns the rest of standard output and the log.
    pub fn wait(mut self) -> (ExitStatus, String, String) {
        let status = wait_for_exit(&mut self.child);
        let mut rest = String::new();
        self.stdout.read_to_string(&mut rest).expect("it is text");
        wait_until("the log is complete", || Arc::strong_count(&self.log) == 1);
        (status, rest, self.log())
    }

    /// Stops the server with SIGTERM and asserts that it exits with 0. Returns the log.
    pub fn stop(self) -> String {
        self.signal("TERM");
        let (status, rest, log) = self.wait();
        assert_eq!((status.code(), &*rest), (Some(0), ""), "{log}");
        log
    }

    /// Kills the server, as a power cut would.
    pub fn kill(mut self) {
        self.child.kill().expect("the process runs");
        self.child.wait().expect("the process ends");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Runs `tidegate serve` with arguments for which it must end by itself. It is killed if it does not.
pub fn run_to_exit(args: &[&str], env: &[(&str, &str)]) -> Run {
    struct Ending(Child);
    impl Drop for Ending {
        fn drop(&mut self) {
            let _ = self.0.kill();
            let _ = self.0.wait();
        }
    }
    let mut command = Server::command(env);
    command.args(args).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = command.spawn().expect("the binary runs");
    let mut ending = Ending(child);
    let out = follow(ending.0.stdout.take().expect("it is a pipe"));
    let err = follow(ending.0.stderr.take().expect("it is a pipe"));
    let status = wait_for_exit(&mut ending.0);
    wait_until("all output is read", || Arc::strong_count(&out) + Arc::strong_count(&err) == 2);
    let text = |of: Arc<Mutex<String>>| of.lock().unwrap().clone();
    Run { code: status.code(), out: text(out), err: text(err) }
}

/// These arguments, and a free port for each address that they do not set.
fn with_free_ports<'a>(args: &[&'a str]) -> Vec<&'a str> {
    let mut args = args.to_vec();
    for flag in ["--http", "--grpc", "--resp", "--admin"] {
        if !args.contains(&flag) {
            args.extend([flag, "127.0.0.1:0"]);
        }
    }
    args
}

fn wait_for_exit(child: &mut Child) -> ExitStatus {
    let mut ended = None;
    wait_until("the process ends", || {
        ended = child.try_wait().expect("it is a child");
        ended.is_some()
    });
    ended.expect("it ended")
}

/// A TCP, TLS or Unix connection.
pub trait Connection: Read + Write {}
impl<T: Read + Write> Connection for T {}

pub fn connect(address: &str) -> Box<dyn Connection> {
    match address.strip_prefix("unix:") {
        Some(path) => Box::new(UnixStream::connect(path).expect("the server listens")),
        None => Box::new(TcpStream::connect(address).expect("the server listens")),
    }
}

/// Sends one request, after which the connection is closed.
pub fn http_request(connection: impl Connection, method: &str, path: &str, body: &str) -> Answer {
    try_http_request(connection, method, path, body).expect("the server answers")
}

/// Like [`http_request`], but the server may not answer.
pub fn try_http_request(
    mut connection: impl Connection,
    method: &str,
    path: &str,
    body: &str,
) -> io::Result<Answer> {
    let length = body.len();
    write!(
        connection,
        "{method} {path} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\ncontent-type: application/json\r\n\
         content-length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    connection.read_to_string(&mut answer)?;
    let (head, body) = answer.split_once("\r\n\r\n").ok_or(io::ErrorKind::UnexpectedEof)?;
    let status = head.split(' ').nth(1).and_then(|status| status.parse().ok());
    Ok(Answer { status: status.ok_or(io::ErrorKind::InvalidData)?, body: body.to_owned() })
}

/// Collects the output on a thread. When the output ends, the returned `Arc` is the only one.
fn follow(mut from: impl Read + Send + 'static) -> Arc<Mutex<String>> {
    let log = Arc::new(Mutex::new(String::new()));
    let written = Arc::clone(&log);
    std::thread::spawn(move || {
        let mut buffer = [0; 4096];
        while let Ok(count @ 1..) = from.read(&mut buffer) {
            written.lock().unwrap().push_str(&String::from_utf8_lossy(&buffer[..count]));
        }
    });
    log
}

/// Overwrites a file in place, as some editors do.
pub fn write_in_place(path: &str, text: &str) {
    fs::write(path, text).unwrap();
}

/// Replaces a file atomically: writes a new file and renames it.
pub fn write_by_rename(path: &str, text: &str) {
    let new = Path::new(path).with_extension("new");
    fs::write(&new, text).unwrap();
    fs::rename(&new, path).unwrap();
}
