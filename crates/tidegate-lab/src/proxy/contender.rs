//! What is compared.

use std::process::Command;
use std::thread;
use std::time::Duration;

use super::{Options, nginx};
use crate::cpu::Cpu;
use crate::scratch::ScratchDir;
use crate::server::check::http_get_status;
use crate::server::running::{ChildProcess, Ports};

/// A program in the path of requests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// An axum program.
    Axum(AxumKind),
    /// nginx.
    Nginx(NginxTask, NginxKind),
}

/// What limits the requests of an axum program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum AxumKind {
    /// Nothing
    Plain,
    /// tower_governor
    Governor,
    /// tower_governor, with headers on responses
    GovernorHeaders,
    /// Our layer by limits, without headers
    LimitsNoHeaders,
    /// Our layer by limits, with X-RateLimit-*
    LimitsXRatelimit,
    /// Our layer by limits
    Limits,
    /// Our layer by limits, without keep_body
    LimitsSlotBody,
    /// Our layer by rules
    Rules,
}

/// What limits the requests of nginx.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NginxKind {
    /// Nothing.
    Plain,
    /// limit_req.
    LimitReq,
    /// auth_request to Tidegate over a Unix socket.
    AuthRequest,
    /// auth_request to another nginx, which lets every request pass: what auth_request costs with the least service.
    AuthRequestOnly,
}

/// What nginx does with a request that passes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NginxTask {
    /// It sends a file.
    File,
    /// It asks an application. The figures leave the application out.
    Proxy,
}

/// A running contender.
pub(super) struct Running {
    /// All are in the figures.
    processes: Vec<ChildProcess>,
    /// The application behind nginx, which is not.
    _application: Option<ChildProcess>,
    pub port: u16,
}

impl Contender {
    /// All, in the order of the table.
    pub const ALL: [Self; 16] = [
        Self::Axum(AxumKind::Plain),
        Self::Axum(AxumKind::Governor),
        Self::Axum(AxumKind::LimitsNoHeaders),
        Self::Axum(AxumKind::GovernorHeaders),
        Self::Axum(AxumKind::LimitsXRatelimit),
        Self::Axum(AxumKind::Limits),
        Self::Axum(AxumKind::LimitsSlotBody),
        Self::Axum(AxumKind::Rules),
        Self::Nginx(NginxTask::Proxy, NginxKind::Plain),
        Self::Nginx(NginxTask::Proxy, NginxKind::LimitReq),
        Self::Nginx(NginxTask::Proxy, NginxKind::AuthRequestOnly),
        Self::Nginx(NginxTask::Proxy, NginxKind::AuthRequest),
        Self::Nginx(NginxTask::File, NginxKind::Plain),
        Self::Nginx(NginxTask::File, NginxKind::LimitReq),
        Self::Nginx(NginxTask::File, NginxKind::AuthRequestOnly),
        Self::Nginx(NginxTask::File, NginxKind::AuthRequest),
    ];

    /// The name in tables.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Axum(AxumKind::Plain) => "axum",
            Self::Axum(AxumKind::Governor) => "axum + tower_governor",
            Self::Axum(AxumKind::LimitsNoHeaders) => "axum + our layer by limits, no headers",
            Self::Axum(AxumKind::GovernorHeaders) => "axum + tower_governor with headers",
            Self::Axum(AxumKind::LimitsXRatelimit) => "axum + our layer by limits, X-RateLimit-*",
            Self::Axum(AxumKind::Limits) => "axum + our layer by limits",
            Self::Axum(AxumKind::LimitsSlotBody) => "axum + our layer by limits, without keep_body",
            Self::Axum(AxumKind::Rules) => "axum + our layer by rules",
            Self::Nginx(NginxTask::Proxy, NginxKind::Plain) => "nginx proxy",
            Self::Nginx(NginxTask::Proxy, NginxKind::LimitReq) => "nginx proxy + limit_req",
            Self::Nginx(NginxTask::Proxy, NginxKind::AuthRequest) => "nginx proxy + auth_request to tidegate",
            Self::Nginx(NginxTask::Proxy, NginxKind::AuthRequestOnly) => {
                "nginx proxy + auth_request to nginx"
            }
            Self::Nginx(NginxTask::File, NginxKind::AuthRequestOnly) => "nginx file + auth_request to nginx",
            Self::Nginx(NginxTask::File, NginxKind::Plain) => "nginx file",
            Self::Nginx(NginxTask::File, NginxKind::LimitReq) => "nginx file + limit_req",
            Self::Nginx(NginxTask::File, NginxKind::AuthRequest) => "nginx file + auth_request to tidegate",
        }
    }

    /// What it is compared with.
    pub(super) const fn plain(self) -> Self {
        match self {
            Self::Axum(_) => Self::Axum(AxumKind::Plain),
            Self::Nginx(task, _) => Self::Nginx(task, NginxKind::Plain),
        }
    }

    pub(super) fn start(self, options: &Options, scratch: &ScratchDir) -> Result<Running, String> {
        let ports = Ports::free().map_err(|error| error.to_string())?;
        let (mut processes, mut application) = (Vec::new(), None);
        let command = match self {
            Self::Axum(kind) => axum(kind, ports.http)?,
            Self::Nginx(task, kind) => {
                let socket = scratch.path(&format!("auth-{}.sock", ports.http));
                if task == NginxTask::Proxy {
                    let (plain, name) = (axum(AxumKind::Plain, ports.grpc)?, format!("app-{}", ports.grpc));
                    application = Some(ChildProcess::start(plain, &name, &[ports.grpc], scratch)?);
                }
                let application_port = (task == NginxTask::Proxy).then_some(ports.grpc);
                let service = match kind {
                    NginxKind::AuthRequest => {
                        Some(nginx::tidegate(options, &socket, ports.other[0], scratch)?)
                    }
                    NginxKind::AuthRequestOnly => Some(nginx::responder(ports.other[0], &socket, scratch)?),
                    NginxKind::Plain | NginxKind::LimitReq => None,
                };
                if let Some(service) = service {
                    let name = format!("auth-{}", ports.http);
                    processes.push(ChildProcess::start(service, &name, &[ports.other[0]], scratch)?);
                }
                nginx::command(kind, ports.http, application_port, &socket, scratch)?
            }
        };
        let name = format!("proxy-{}", ports.http);
        processes.push(ChildProcess::start(command, &name, &[ports.http], scratch)?);
        Ok(Running { processes, _application: application, port: ports.http })
    }
}

impl Running {
    /// Whether a request is answered with 200.
    pub fn check(&self) -> Result<(), String> {
        match http_get_status(self.port, "/")? {
            200 => Ok(()),
            status => Err(format!("it answers {status}")),
        }
    }

    /// The CPU time of all processes until now.
    pub fn cpu(&self) -> Result<Cpu, String> {
        // Work that a request leaves behind counts for it.
        thread::park_timeout(Duration::from_millis(50));
        let cpus = self.processes.iter().map(|process| Cpu::of(process.id()).ok_or("a process has ended"));
        cpus.sum::<Result<Cpu, _>>().map_err(str::to_owned)
    }
}

/// This program again, as the server.
fn axum(kind: AxumKind, port: u16) -> Result<Command, String> {
    if !cfg!(feature = "proxy") {
        return Err("this program was built without it (hint: build with --features proxy)".to_owned());
    }
    let mut command = Command::new(std::env::current_exe().map_err(|error| error.to_string())?);
    let kind = clap::ValueEnum::to_possible_value(&kind).map(|kind| kind.get_name().to_owned());
    command.args(["axum-server", &kind.unwrap_or_default(), &format!("127.0.0.1:{port}")]);
    Ok(command)
}
