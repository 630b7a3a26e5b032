//! A server that runs, its end, and its log.

use std::fs::File;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::thread;
use std::time::Duration;
use std::{fs, io};

use super::cpu::Cpu;
use super::scratch::Scratch;
use super::shape::Wire;
use crate::stopwatch::WallTime;

/// How long a server may take until it listens.
pub(super) const START_MAX_NS: u64 = 20_000_000_000;
/// Between two looks whether it listens.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Of the log of a server that did not start, as much as this is shown.
const LOG_LINES_MAX: usize = 4;

/// Where a server listens; all on this machine.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ports {
    pub resp: u16,
    pub http: u16,
    pub grpc: u16,
    /// For whatever else it wants to listen on.
    pub other: [u16; 2],
}

/// A server that runs, until it is dropped.
pub(super) struct Running {
    server: OneProcess,
    /// What it cannot do without: the Redis of envoyproxy/ratelimit.
    backing: Option<OneProcess>,
    ports: Ports,
}

/// A process that ends when this is dropped.
pub(super) struct OneProcess {
    child: Child,
    log: PathBuf,
}

impl Ports {
    /// Ports that are free now.
    pub(super) fn free() -> io::Result<Self> {
        // All are held until all are known, so that no two are the same.
        let mut held = Vec::new();
        let mut next = || {
            let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?;
            let port = listener.local_addr()?.port();
            held.push(listener);
            io::Result::Ok(port)
        };
        Ok(Self { resp: next()?, http: next()?, grpc: next()?, other: [next()?, next()?] })
    }

    pub(super) const fn of(&self, wire: Wire) -> u16 {
        match wire {
            Wire::Resp => self.resp,
            Wire::Http => self.http,
            Wire::Grpc => self.grpc,
        }
    }
}

impl Running {
    pub(super) fn new(server: OneProcess, backing: Option<OneProcess>, ports: Ports) -> Self {
        Self { server, backing, ports }
    }

    pub(super) const fn port(&self, wire: Wire) -> u16 {
        self.ports.of(wire)
    }

    /// What the server has taken until now.
    pub(super) fn cpu(&self) -> Option<Cpu> {
        Cpu::of(self.server.child.id())
    }

    /// What it cannot do without has taken; none if it needs nothing.
    pub(super) fn backing_cpu(&self) -> Option<Cpu> {
        Cpu::of(self.backing.as_ref()?.child.id())
    }
}

impl OneProcess {
    /// Starts it and waits until it listens on these ports. The error says what it had to say.
    pub(super) fn start(
        mut command: Command,
        name: &str,
        ports: &[u16],
        scratch: &Scratch,
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

    pub(super) fn id(&self) -> u32 {
        self.child.id()
    }

    fn await_port(&mut self, port: u16) -> Result<(), String> {
        let wall = WallTime::start();
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        while TcpStream::connect_timeout(&address, LOOK_EVERY).is_err() {
            if let Ok(Some(status)) = self.child.try_wait() {
                return Err(format!("it ended at once with {status}: {}", self.last_words()));
            }
            if wall.elapsed_ns() > START_MAX_NS {
                return Err(format!("it does not listen on port {port}: {}", self.last_words()));
            }
            thread::park_timeout(LOOK_EVERY);
        }
        Ok(())
    }

    fn last_words(&self) -> String {
        let log = fs::read_to_string(&self.log).unwrap_or_default();
        let lines: Vec<&str> = log.lines().filter(|line| !line.trim().is_empty()).collect();
        lines[lines.len().saturating_sub(LOG_LINES_MAX)..].join(" | ")
    }
}

impl Drop for OneProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
