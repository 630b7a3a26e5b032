//! A server process, and the import of overrides into it.

use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::Path;
use std::process::Command;

use super::Overridden;
use crate::cpu::Cpu;
use crate::measure::WallTime;
use crate::process::resident_of;
use crate::scratch::ScratchDir;
use crate::server::load_kind::Protocol;
use crate::server::running::{ChildProcess, Ports};

pub(super) const DOMAIN: &str = "api";
/// A large burst allows every request. A high rate would not do: a counter would be idle again after a microsecond, and the
/// server would not keep it.
const RULES: &str =
    "domain: api\nrules: [ { name: per-user, key: [user], limit: 1 per hour burst 1000000 } ]\n";
const OVERRIDE_LIMIT: &str = "2 per hour";

pub(super) struct Node {
    process: ChildProcess,
    overridden: Overridden,
    ports: Ports,
}

impl Node {
    pub fn start(tidegate: &Path, overridden: Overridden, scratch: &ScratchDir) -> Result<Self, String> {
        let (name, failed) = (format!("{overridden:?}"), |error: io::Error| error.to_string());
        let rules = scratch.write(&format!("{name}/rules.yaml"), RULES).map_err(failed)?;
        let ports = Ports::free().map_err(failed)?;
        let address = |port: u16| format!("127.0.0.1:{port}");
        let mut command = Command::new(tidegate);
        command.arg("serve").arg("--rules").arg(rules);
        command.arg("--data-dir").arg(scratch.path(&format!("{name}/data")));
        let listeners = [
            ("--resp", ports.resp),
            ("--http", ports.http),
            ("--grpc", ports.grpc),
            ("--admin", ports.other[0]),
        ];
        for (flag, port) in listeners {
            command.args([flag, &address(port)]);
        }
        command.args(["--override-cache-max", "2GiB", "--log-level", "error"]);
        let process = ChildProcess::start(command, &name, &listeners.map(|(_, port)| port), scratch)?;
        Ok(Self { process, overridden, ports })
    }

    pub fn port(&self, protocol: Protocol) -> u16 {
        self.ports.of(protocol)
    }

    /// Imports an override for each key. Returns how long it took, if there is anything to import.
    pub fn import(&self, tidegate: &Path, keys: u64, scratch: &ScratchDir) -> Result<Option<String>, String> {
        let prefix = match self.overridden {
            Overridden::NoKey => return Ok(None),
            Overridden::OtherKeys => "x",
            Overridden::EachKey => "",
        };
        let path = scratch.path("overrides.jsonl");
        let written = File::create(&path).map(BufWriter::new).and_then(|mut file| {
            for key in 0..keys {
                writeln!(
                    file,
                    r#"{{"domain":"{DOMAIN}","rule":"per-user","key":{{"user":"{prefix}{key:08}"}},"limit":"{OVERRIDE_LIMIT}"}}"#
                )?;
            }
            file.flush()
        });
        written.map_err(|error| format!("cannot write the overrides: {error}"))?;
        let admin = format!("http://127.0.0.1:{}", self.ports.other[0]);
        let wall = WallTime::start();
        let mut command = Command::new(tidegate);
        let status = command.args(["override", "import"]).arg(&path).args(["--admin", &admin]).status();
        let seconds = wall.elapsed_ns() as f64 / 1e9;
        match status {
            Ok(status) if status.success() => {
                let rate = keys as f64 / seconds;
                Ok(Some(format!("imported {keys} overrides in {seconds:.1} s, {rate:.0} per second")))
            }
            status => Err(format!("the import failed: {status:?}")),
        }
    }

    pub fn cpu(&self) -> Result<Cpu, String> {
        Cpu::of(self.process.id()).ok_or_else(|| "the server has ended, or there is no /proc".to_owned())
    }

    /// Resident memory; 0 without `/proc`.
    pub fn resident_bytes(&self) -> u64 {
        resident_of(self.process.id()).map_or(0, |resident| resident.now_bytes)
    }
}
