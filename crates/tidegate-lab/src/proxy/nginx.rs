//! nginx, and Tidegate behind it.

use std::path::Path;
use std::process::Command;

use super::Options;
use super::contender::NginxKind;
use crate::scratch::ScratchDir;

const RULES: &str = "{ domain: web, rules: [ { name: per-ip, key: [ip], limit: 100000000 per second } ] }";

/// nginx with one process, in front of an application or with a file of its own.
pub(super) fn command(
    kind: NginxKind,
    port: u16,
    application_port: Option<u16>,
    socket: &Path,
    scratch: &ScratchDir,
) -> Result<Command, String> {
    let (http, location, more) = match kind {
        NginxKind::Plain => (String::new(), "", ""),
        NginxKind::LimitReq => (
            "limit_req_zone $binary_remote_addr zone=per_ip:10m rate=1000000r/s;".to_owned(),
            "limit_req zone=per_ip burst=1000000 nodelay;",
            "",
        ),
        NginxKind::AuthRequest | NginxKind::AuthRequestOnly => (
            format!("upstream tidegate {{ server unix:{}; keepalive 32; }}", socket.display()),
            "auth_request /_tidegate;",
            "location = /_tidegate {
                internal;
                proxy_pass http://tidegate/v1/authorize?deny_status=403;
                proxy_http_version 1.1;
                proxy_set_header Connection \"\";
                proxy_pass_request_body off;
                proxy_set_header Content-Length \"\";
                proxy_set_header Host $host;
                proxy_set_header X-Original-Method $request_method;
                proxy_set_header X-Original-URI $request_uri;
                proxy_set_header X-Forwarded-For $remote_addr;
            }",
        ),
    };
    let directory = scratch.path("nginx");
    let (upstream, task) = match application_port {
        Some(port) => (
            format!("upstream application {{ server 127.0.0.1:{port}; keepalive 32; }}"),
            "proxy_pass http://application; proxy_http_version 1.1; proxy_set_header Connection \"\";"
                .to_owned(),
        ),
        None => (String::new(), format!("root {}/html;", directory.display())),
    };
    scratch.write("nginx/html/index.html", "hello").map_err(|error| error.to_string())?;
    let server = format!("listen 127.0.0.1:{port};\n    location / {{ {location} {task} }}\n    {more}");
    start(&port.to_string(), &format!("{http}\n  {upstream}"), &server, scratch)
}

/// nginx as the service that `auth_request` asks: it lets every request pass, and does nothing else.
pub(super) fn responder(port: u16, socket: &Path, scratch: &ScratchDir) -> Result<Command, String> {
    // A port besides, so that the start can be awaited.
    let server = format!(
        "listen unix:{};\n    listen 127.0.0.1:{port};\n    location / {{ return 204; }}",
        socket.display()
    );
    start(&format!("responder-{port}"), "", &server, scratch)
}

/// One process of nginx with one server.
fn start(name: &str, http: &str, server: &str, scratch: &ScratchDir) -> Result<Command, String> {
    let directory = scratch.path("nginx");
    let config = format!(
        "daemon off;\nmaster_process off;\npid {directory}/nginx-{name}.pid;\nerror_log stderr error;\n\
         events {{ worker_connections 1024; }}\nhttp {{\n\
         \x20 access_log off;\n  keepalive_requests 1000000000;\n\
         \x20 client_body_temp_path {directory};\n  proxy_temp_path {directory};\n  fastcgi_temp_path {directory};\n\
         \x20 uwsgi_temp_path {directory};\n  scgi_temp_path {directory};\n\
         \x20 {http}\n  server {{\n    {server}\n  }}\n}}\n",
        directory = directory.display(),
    );
    let path = scratch.write(&format!("nginx/{name}.conf"), config).map_err(|error| error.to_string())?;
    let mut command = Command::new("nginx");
    command.arg("-p").arg(&directory).arg("-e").arg("stderr").arg("-c").arg(path);
    Ok(command)
}

/// `tidegate serve` on a Unix socket.
pub(super) fn tidegate(
    options: &Options,
    socket: &Path,
    admin_port: u16,
    scratch: &ScratchDir,
) -> Result<Command, String> {
    let rules = scratch.write("web.yaml", RULES).map_err(|error| error.to_string())?;
    let mut command = Command::new(&options.tidegate);
    command.arg("serve").arg("--rules").arg(rules).arg(format!("--http=unix:{}", socket.display()));
    // Two such servers run at the same time, so neither may use the default ports.
    command.args(["--grpc", "off", "--resp", "off", "--admin", &format!("127.0.0.1:{admin_port}")]);
    command.args(["--forward-auth-domain", "web", "--forward-auth-source", "nginx", "--trusted-hops", "1"]);
    Ok(command)
}
