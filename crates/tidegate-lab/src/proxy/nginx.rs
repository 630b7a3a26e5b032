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
        NginxKind::AuthRequest => (
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
    let config = format!(
        "daemon off;\nmaster_process off;\npid {directory}/nginx-{port}.pid;\nerror_log stderr error;\n\
         events {{ worker_connections 1024; }}\nhttp {{\n\
         \x20 access_log off;\n  keepalive_requests 1000000000;\n\
         \x20 client_body_temp_path {directory};\n  proxy_temp_path {directory};\n  fastcgi_temp_path {directory};\n\
         \x20 uwsgi_temp_path {directory};\n  scgi_temp_path {directory};\n\
         \x20 {http}\n  {upstream}\n  server {{\n    listen 127.0.0.1:{port};\n\
         \x20   location / {{ {location} {task} }}\n    {more}\n  }}\n}}\n",
        directory = directory.display(),
    );
    let failed = |error: std::io::Error| error.to_string();
    scratch.write("nginx/html/index.html", "hello").map_err(failed)?;
    let path = scratch.write(&format!("nginx/{port}.conf"), config).map_err(failed)?;
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
