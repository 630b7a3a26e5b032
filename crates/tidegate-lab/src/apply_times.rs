//! How soon all nodes of a fleet apply an override that one of them took.
//!
//! Each round blocks another key on one node, and asks the other nodes about this key until all of them deny it. They have
//! decided about the key before, so they know that it has no override, and have to learn of the change.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};
use std::thread;
use std::time::Duration;

use crate::measure::WallTime;
use crate::process::{load_average, print_machine};
use crate::scratch::ScratchDir;
use crate::server::running::{ChildProcess, Ports};
use crate::server::turns_bar;
use crate::table::Table;

const RULES: &str = "domain: api\nrules: [ { name: per-user, key: [user], limit: 2000000 per second } ]\n";
/// The longest time after which a node should apply a change.
const GOAL_MS: f64 = 2_000.0;
/// After this time a node counts as not applying the change at all.
const APPLY_NS_MAX: u64 = 30_000_000_000;
/// Time between two questions to a node.
const ASK_EVERY: Duration = Duration::from_millis(1);
/// How long a node may take to reply.
const REPLY_MAX: Duration = Duration::from_secs(10);
/// The most bytes of a reply.
const REPLY_BYTES_MAX: usize = 64 << 10;

/// What to measure.
pub struct ApplyTimes {
    /// Nodes of the fleet.
    pub nodes: u16,
    /// How many overrides are set.
    pub changes: u16,
    /// The program `tidegate`.
    pub tidegate: PathBuf,
    /// Arguments of each node, such as the URL of the store.
    pub serve_args: Vec<String>,
}

struct Node {
    /// Kept until the end, because dropping it ends the process.
    _process: ChildProcess,
    admin_port: u16,
    resp: TcpStream,
}

/// Measures and prints.
pub fn run(measurement: &ApplyTimes) -> ExitCode {
    print_machine();
    let ApplyTimes { nodes, changes, .. } = measurement;
    println!("{nodes} nodes, {changes} overrides; {}", load_average());
    match measure(measurement) {
        Ok(times_ms) => {
            print(&times_ms);
            println!("{}", load_average());
            ExitCode::SUCCESS
        }
        Err(problem) => {
            eprintln!("{problem}");
            ExitCode::FAILURE
        }
    }
}

/// For each change, when the last node applied it, in milliseconds after it was confirmed.
fn measure(measurement: &ApplyTimes) -> Result<Vec<f64>, String> {
    let scratch = ScratchDir::new().map_err(|error| {
        format!("cannot create a temporary directory: {error} (hint: set TMPDIR to a writable directory)")
    })?;
    let rules = scratch.write("rules.yaml", RULES).map_err(|error| error.to_string())?;
    let start = |number| Node::start(measurement, &rules, number, &scratch);
    let mut nodes = (0..measurement.nodes).map(start).collect::<Result<Vec<_>, _>>()?;
    let bar = turns_bar(usize::from(measurement.changes));
    let mut times_ms = Vec::new();
    for change in 0..measurement.changes {
        let user = format!("u{change}");
        for node in &mut nodes {
            if node.is_denied(&user)? {
                return Err(format!("{user} is already denied (hint: use an empty config store)"));
            }
        }
        let editor = usize::from(change) % nodes.len();
        nodes[editor].block(&user)?;
        let confirmed = WallTime::start();
        for node in &mut nodes {
            while !node.is_denied(&user)? {
                if confirmed.elapsed_ns() > APPLY_NS_MAX {
                    return Err(format!("a node does not apply the override of {user}"));
                }
                thread::park_timeout(ASK_EVERY);
            }
        }
        times_ms.push(confirmed.elapsed_ns() as f64 / 1e6);
        bar.inc(1);
    }
    bar.finish_and_clear();
    times_ms.sort_by(f64::total_cmp);
    Ok(times_ms)
}

fn print(times_ms: &[f64]) {
    let (Some(least), Some(most)) = (times_ms.first(), times_ms.last()) else { return };
    let mut table = Table::new(
        "time from the confirmed override until all nodes apply it",
        ["", "least ms", "median ms", "most ms"],
    );
    let median = times_ms[times_ms.len() / 2];
    table.row([String::new(), format!("{least:.0}"), format!("{median:.0}"), format!("{most:.0}")]);
    let result = if *most <= GOAL_MS { "met" } else { "missed" };
    table.note(format!("goal at most {GOAL_MS:.0} ms, {result}"));
    print!("{table}");
}

impl Node {
    fn start(
        measurement: &ApplyTimes,
        rules: &Path,
        number: u16,
        scratch: &ScratchDir,
    ) -> Result<Self, String> {
        let ports = Ports::free().map_err(|error| error.to_string())?;
        let (resp_port, admin_port) = (ports.resp, ports.other[0]);
        let address = |port: u16| format!("127.0.0.1:{port}");
        let name = format!("node-{number}");
        let mut command = Command::new(&measurement.tidegate);
        command.arg("serve").arg("--rules").arg(rules).args(&measurement.serve_args);
        command.args(["--resp", &address(resp_port), "--admin", &address(admin_port)]);
        command.args(["--http", "off", "--grpc", "off", "--log-level", "error"]);
        let process = ChildProcess::start(command, &name, &[resp_port, admin_port], scratch)?;
        Ok(Self { _process: process, admin_port, resp: connect(resp_port)? })
    }

    /// Decides a request of the user.
    fn is_denied(&mut self, user: &str) -> Result<bool, String> {
        let command = format!(
            "*4\r\n$14\r\nTIDEGATE.CHECK\r\n$3\r\napi\r\n$4\r\nuser\r\n${}\r\n{user}\r\n",
            user.len()
        );
        self.resp.write_all(command.as_bytes()).map_err(|error| error.to_string())?;
        let mut reply = Vec::new();
        let mut part = [0; 4096];
        loop {
            let bytes = self.resp.read(&mut part).map_err(|error| error.to_string())?;
            reply.extend_from_slice(&part[..bytes]);
            let has = |word: &[u8]| reply.windows(word.len()).any(|window| window == word);
            if bytes == 0 || reply.len() > REPLY_BYTES_MAX || has(b"-ERR") {
                return Err(format!("a node did not decide: {:?}", String::from_utf8_lossy(&reply)));
            }
            if reply.ends_with(b"\r\n") && (has(b"allowed") || has(b"denied")) {
                return Ok(has(b"denied"));
            }
        }
    }

    /// Sets an override that blocks the user.
    fn block(&self, user: &str) -> Result<(), String> {
        let body = format!(
            r#"{{"domain":"api","rule":"per-user","key":{{"user":"{user}"}},"blocked":true,"expires_in":"10m"}}"#
        );
        let mut admin = connect(self.admin_port)?;
        let mut reply = String::new();
        let sent = write!(
            admin,
            "PUT /v1/overrides HTTP/1.1\r\nhost: 127.0.0.1:{}\r\nconnection: close\r\ncontent-type: application/json\r\n\
             content-length: {}\r\n\r\n{body}",
            self.admin_port,
            body.len()
        )
        .and_then(|()| admin.read_to_string(&mut reply));
        sent.map_err(|error| format!("the admin listener did not reply: {error}"))?;
        let status = reply.split(' ').nth(1).unwrap_or_default();
        if status.starts_with('2') { Ok(()) } else { Err(format!("the override was refused: {reply}")) }
    }
}

fn connect(port: u16) -> Result<TcpStream, String> {
    let stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port));
    let stream = stream.and_then(|stream| {
        stream.set_nodelay(true)?;
        stream.set_read_timeout(Some(REPLY_MAX)).map(|()| stream)
    });
    stream.map_err(|error| format!("cannot connect to a node: {error}"))
}
