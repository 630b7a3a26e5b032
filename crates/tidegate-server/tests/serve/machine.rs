//! What the system lets the server have.

use crate::server::{ask, connect};
use crate::{HTTP_ALONE, Server};

/// What the process may have open, by its metrics.
fn open_files_max(server: &Server) -> String {
    let metrics = ask(connect(server.address("http")), "GET", "/metrics", "").body;
    let line = metrics.lines().find_map(|line| line.strip_prefix("process_max_fds "));
    line.unwrap_or_else(|| panic!("{metrics}")).to_owned()
}

#[test]
fn it_has_as_many_files_open_as_it_may() {
    let server = Server::start_after("ulimit -S -n 100 && ulimit -H -n 500", &["--connections-max", "100"]);
    assert_eq!(open_files_max(&server), "500");
    let log = server.stop();
    assert!(!log.contains("files open"), "{log}");
}

#[test]
fn it_warns_if_that_is_less_than_all_connections_need() {
    let args = [&["--connections-max", "1000"], &HTTP_ALONE[..]].concat();
    let server = Server::start_after("ulimit -S -n 100 && ulimit -H -n 500", &args);
    assert_eq!(open_files_max(&server), "500");
    let log = server.stop();
    for text in [
        "WARN",
        "may have 500 files open, and 1064 are needed for 1000 connections on each of 1 listeners",
        "LimitNOFILE=1064",
        "connections_max to 436 or less",
    ] {
        assert!(log.contains(text), "{text}: {log}");
    }
}

/// It starts all the same: memory is taken as there are keys.
#[test]
fn it_warns_if_counters_may_take_more_memory_than_there_is() {
    let server = Server::start(&[&["--memory-max", "900TiB"], &HTTP_ALONE[..]].concat());
    assert_eq!(server.get("/readyz").status, 200);
    let log = server.stop();
    assert!(log.contains("memory_max is 900TiB, and the ") && log.contains("(hint: "), "{log}");
    let log = Server::start(&[&["--memory-max", "1MiB"], &HTTP_ALONE[..]].concat()).stop();
    assert!(!log.contains("memory_max is"), "{log}");
}
