//! A running server: its processes, its ports and its log.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;
use std::{fs, io};

use super::load_kind::Protocol;
use crate::cpu::Cpu;
use crate::measure::WallTime;
use crate::scratch::ScratchDir;

/// How long a server may take to start listening.
pub(crate) const START_MAX_NS: u64 = 20_000_000_000;
/// Time between two checks whether it listens.
pub(crate) const POLL_EVERY: Duration = Duration::from_millis(20);
/// Lines of log to show if a server does not start.
const LOG_LINES_MAX: usize = 4;

/// The local ports of a server.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ports {
    pub resp: u16,
    pub http: u16,
    pub grpc: u16,
    /// For other listeners.
    pub other: [u16; 2],
}

/// A server, stopped when this is dropped.
pub(crate) struct RunningServer {
    server: ChildProcess,
    /// The Redis of envoyproxy/ratelimit.
    backing: Option<ChildProcess>,
    ports: Ports,
}

/// A process, killed when this is dropped.
pub(crate) struct ChildProcess {
    child: Child,
    log: PathBuf,
}

impl Ports {
    /// Finds free ports.
    pub(crate) fn free() -> io::Result<Self> {
        // Keep all listeners until all ports are known, so that no two are the same.
        let mut held = Vec::new();
        let mut next = || {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let port = listener.local_addr()?.port();
            held.push(listener);
            io::Result::Ok(port)
        };
        Ok(Self { resp: next()?, http: next()?, grpc: next()?, other: [next()?, next()?] })
    }

    pub(crate) const fn of(&self, protocol: Protocol) -> u16 {
        match protocol {
            Protocol::Resp => self.resp,
            Protocol::Http => self.http,
            Protocol::Grpc => self.grpc,
        }
    }
}

impl RunningServer {
    pub(crate) fn new(server: ChildProcess, backing: Option<ChildProcess>, ports: Ports) -> Self {
        Self { server, backing, ports }
    }

    pub(crate) const fn port(&self, protocol: Protocol) -> u16 {
        self.ports.of(protocol)
    }

    /// The CPU time of the server until now.
    pub(crate) fn cpu(&self) -> Option<Cpu> {
        Cpu::of(self.server.child.id())
    }

    /// The CPU time of its Redis until now, if it has one.
    pub(crate) fn backing_cpu(&self) -> Option<Cpu> {
        Cpu::of(self.backing.as_ref()?.child.id())
    }
}

impl ChildProcess {
    /// Starts it and waits until it listens on these ports. The error includes the end of its log.
    pub(crate) fn start(
        mut command: Command,
        name: &str,
        ports: &[u16],
        scratch: &ScratchDir,
    ) -> Result<Self, String> {
        let failed = |error: io::Error| error.to_string();
        let log = scratch.path(&format!("{name}.log"));
        let output = File::create(&log).map_err(failed)?;
        let errors = output.try_clone().map_err(failed)?;
        let spawned = command.stdin(Stdio::null()).stdout(output).stderr(errors).spawn();
        let program = command.get_program().to_string_lossy();
        let child = spawned.map_err(|error| format!("cannot start {program}: {error}"))?;
        let mut process = Self { child, log };
        for port in ports {
            process.await_port(*port)?;
        }
        Ok(process)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    fn await_port(&mut self, port: u16) -> Result<(), String> {
        let wall = WallTime::start();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        while TcpStream::connect_timeout(&address, POLL_EVERY).is_err() {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("it ended with {status}: {}", self.end_of_log()));
            }
            if wall.elapsed_ns() > START_MAX_NS {
                return Err(format!("it does not listen on port {port}: {}", self.end_of_log()));
            }
            thread::park_timeout(POLL_EVERY);
        }
        Ok(())
    }

    fn end_of_log(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(LOG_LINES_MAX)..].join(" | ")
    }
}

impl Drop for ChildProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
