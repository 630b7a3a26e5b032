//! The output at startup.

use std::io::{BufRead as _, BufReader};
use std::process::{Command, Stdio};

use crate::serve::{Directory, Server};

#[test]
fn bound_addresses_are_printed_as_json() {
    let server = Server::start(&[]);
    let names: Vec<&str> = server.addresses.keys().map(String::as_str).collect();
    assert_eq!(names, ["admin", "grpc", "http", "resp"]);
    for address in server.addresses.values() {
        assert!(address.starts_with("127.0.0.1:") && !address.ends_with(":0"), "{address}");
    }
    let log = server.stop();
    assert!(log.contains("ready"), "{log}");
}

#[test]
fn off_disables_a_listener() {
    let server = Server::start(&["--grpc", "off", "--resp", "off", "--admin", "off"]);
    assert_eq!(server.addresses.keys().collect::<Vec<_>>(), ["http"]);
}

/// The lines that the server prints at startup.
fn printed_lines(args: &[&str]) -> Vec<String> {
    let mut child = Server::command(&[])
        .args([
            "--http",
            "127.0.0.1:0",
            "--grpc",
            "127.0.0.1:0",
            "--resp",
            "127.0.0.1:0",
            "--admin",
            "127.0.0.1:0",
        ])
        .args(args)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // `ready` is logged after everything is printed.
    for line in BufReader::new(child.stderr.take().unwrap()).lines() {
        if line.unwrap().contains("ready") {
            break;
        }
    }
    child.kill().unwrap();
    let lines = BufReader::new(child.stdout.take().unwrap()).lines().map(Result::unwrap).collect();
    child.wait().unwrap();
    lines
}

#[test]
fn with_rules_the_addresses_are_printed_one_on_a_line() {
    let directory = Directory::new();
    let lines = printed_lines(&["--rules", &directory.write("rules.yaml", crate::serve::RULES)]);
    let words: Vec<&str> =
        lines.iter().filter_map(|line| line.split_once(" 127.0.0.1:")).map(|(word, _)| word).collect();
    assert_eq!(words, ["http", "grpc", "resp", "admin"], "{lines:?}");
    assert_eq!(lines.len(), 4, "{lines:?}");
}

#[test]
fn without_rules_example_commands_are_printed() {
    let lines = printed_lines(&[]);
    let address = |protocol: &str| {
        let line = lines.iter().find_map(|line| line.strip_prefix(&format!("{protocol} ")));
        line.unwrap_or_else(|| panic!("{protocol}: {lines:?}"))
    };
    let command = |tool: &str| {
        lines.iter().find(|line| line.starts_with(' ') && line.contains(&format!("{tool} "))).expect(tool)
    };
    assert!(command("curl").contains(&format!("http://{}/v1/check", address("http"))));
    assert!(command("grpcurl").contains(&format!(" {} envoy.service.ratelimit.v3", address("grpc"))));
    let port = address("resp").rsplit_once(':').unwrap().1;
    assert!(command("redis-cli").contains(&format!("-p {port} ")));
}

/// As with `cargo run`.
#[test]
fn without_a_command_it_serves() {
    let mut command = Command::new(env!("CARGO_BIN_EXE_tidegate"));
    for protocol in ["HTTP", "GRPC", "RESP", "ADMIN"] {
        command.env(format!("TIDEGATE_{protocol}"), "127.0.0.1:0");
    }
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
    let first = BufReader::new(child.stdout.take().unwrap()).lines().next();
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(first.unwrap().unwrap().starts_with("http 127.0.0.1:"));
}

/// The printed command needs `curl`, so the test sends its request itself.
#[test]
fn the_http_example_is_denied_at_the_fourth_request() {
    let server = Server::start(&[]);
    let body = r#"{"domain": "example", "attributes": {"user": "ann"}}"#;
    let statuses: Vec<u16> = (0..4).map(|_| server.post("/v1/check", body).status).collect();
    assert_eq!(statuses, [200, 200, 200, 429]);
}

/// `tidegate --rules x.yaml` is `tidegate serve --rules x.yaml`.
#[test]
fn settings_without_the_command_serve() {
    let directory = Directory::new();
    let rules = "{ domain: api, rules: [ { name: per-user, key: [user], limit: 1 per hour } ] }";
    let rules = directory.write("rules.yaml", rules);
    let server = Server::start_without_command(&["--rules", &rules]);
    assert_eq!([server.check("ann"), server.check("ann")], [200, 429]);
    let wrong = crate::support::tidegate(&["--rulez", "x"], "");
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.err.contains("--rules"), "{}", wrong.err);
    assert_eq!(crate::support::tidegate(&["--version"], "").code, Some(0));
}
