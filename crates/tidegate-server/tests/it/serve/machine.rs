//! What the system lets the server have.

use std::io::Read as _;
use std::net::TcpStream;
use std::time::Duration;

use crate::serve::server::{ask, connect};
use crate::serve::{HTTP_ONLY, Server, wait_until};

/// What the process may have open, by its metrics.
fn open_files_max(server: &Server) -> String {
    let metrics = ask(connect(server.address("http")), "GET", "/metrics", "").body;
    let line = metrics.lines().find_map(|line| line.strip_prefix("process_max_fds "));
    line.unwrap_or_else(|| panic!("{metrics}")).to_owned()
}

#[test]
fn the_file_limit_is_raised() {
    let server = Server::start_in_shell("ulimit -S -n 100 && ulimit -H -n 500", &["--connections-max", "100"]);
    assert_eq!(open_files_max(&server), "500");
    let log = server.stop();
    assert!(!log.contains("files open"), "{log}");
}

#[test]
fn connections_fit_the_file_limit() {
    let args = [&["--connections-max", "1000"], &HTTP_ONLY[..]].concat();
    let server = Server::start_in_shell("ulimit -S -n 60 && ulimit -H -n 66", &args);
    assert_eq!(open_files_max(&server), "66");
    // There is room for two, and perhaps for one more that takes the place of the connection before.
    let mut several: Vec<TcpStream> =
        (0..5).map(|_| TcpStream::connect(server.address("http")).unwrap()).collect();
    several.iter().for_each(|one| one.set_read_timeout(Some(Duration::from_millis(10))).unwrap());
    let mut is_closed = |one: &mut TcpStream| matches!(one.read(&mut [0]), Ok(0));
    wait_until("one is turned away", || several.iter_mut().any(&mut is_closed));
    drop(several);
    let log = server.stop();
    for text in [
        "WARN",
        "takes 2 connections and not 1000, since the process may have 66 files open and 1064 are needed",
        "LimitNOFILE=1064",
    ] {
        assert!(log.contains(text), "{text}: {log}");
    }
}

#[test]
fn defaults_do_not_warn() {
    let server = Server::start_in_shell("ulimit -n 500", &[]);
    let log = server.stop();
    let line = log.lines().find(|line| line.contains("takes 109 connections and not 10000"));
    assert!(line.unwrap_or_else(|| panic!("{log}")).contains("INFO"), "{log}");
}

/// It starts all the same: memory is taken as there are keys.
#[test]
fn memory_max_above_available_memory_warns() {
    let server = Server::start(&[&["--memory-max", "900TiB"], &HTTP_ONLY[..]].concat());
    assert_eq!(server.get("/readyz").status, 200);
    let log = server.stop();
    assert!(log.contains("memory_max is 900TiB, and the ") && log.contains("(hint: "), "{log}");
    let log = Server::start(&[&["--memory-max", "1MiB"], &HTTP_ONLY[..]].concat()).stop();
    assert!(!log.contains("memory_max is"), "{log}");
}
