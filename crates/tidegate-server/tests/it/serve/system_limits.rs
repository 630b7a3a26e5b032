//! System limits: open files and memory.

use std::io::Read as _;
use std::net::TcpStream;
use std::time::Duration;

use crate::serve::server::{connect, http_request};
use crate::serve::{HTTP_ONLY, Server, wait_until};

/// The limit of open files, from the metrics.
fn open_files_max(server: &Server) -> String {
    let metrics = http_request(connect(server.address("http")), "GET", "/metrics", "").body;
    let line = metrics.lines().find_map(|line| line.strip_prefix("process_max_fds "));
    line.unwrap_or_else(|| panic!("{metrics}")).to_owned()
}

#[test]
fn the_file_limit_is_raised() {
    let server =
        Server::start_in_shell("ulimit -S -n 100 && ulimit -H -n 500", &["--connections-max", "100"]);
    assert_eq!(open_files_max(&server), "500");
    let log = server.stop();
    assert!(!log.contains("may open"), "{log}");
}

#[test]
fn connections_fit_the_file_limit() {
    let args = [&["--connections-max", "1000"], &HTTP_ONLY[..]].concat();
    let server = Server::start_in_shell("ulimit -S -n 60 && ulimit -H -n 66", &args);
    assert_eq!(open_files_max(&server), "66");
    // There is room for two, and perhaps for a third if the connection for the metrics is closed by then.
    let mut several: Vec<TcpStream> =
        (0..5).map(|_| TcpStream::connect(server.address("http")).unwrap()).collect();
    several.iter().for_each(|one| one.set_read_timeout(Some(Duration::from_millis(10))).unwrap());
    let mut is_closed = |one: &mut TcpStream| matches!(one.read(&mut [0]), Ok(0));
    wait_until("one connection is refused", || several.iter_mut().any(&mut is_closed));
    drop(several);
    let log = server.stop();
    for text in [
        "WARN",
        "accepts 2 connections instead of 1000: the process may open 66 files, but 1000 connections on each of 1 listeners",
        "need 1064",
        "LimitNOFILE=1064",
    ] {
        assert!(log.contains(text), "{text}: {log}");
    }
}

#[test]
fn defaults_do_not_warn() {
    let server = Server::start_in_shell("ulimit -n 500", &[]);
    let log = server.stop();
    let line = log.lines().find(|line| line.contains("accepts 109 connections instead of 10000"));
    assert!(line.unwrap_or_else(|| panic!("{log}")).contains("INFO"), "{log}");
}

/// The server starts anyway, because it uses memory only as keys arrive.
#[test]
fn memory_max_above_available_memory_warns() {
    let server = Server::start(&[&["--memory-max", "900TiB"], &HTTP_ONLY[..]].concat());
    assert_eq!(server.get("/readyz").status, 200);
    let log = server.stop();
    assert!(
        log.contains("memory_max is 900TiB and connections_memory_max is 1GiB, but the ")
            && log.contains("(hint: "),
        "{log}"
    );
    let log = Server::start(&[&["--memory-max", "1MiB"], &HTTP_ONLY[..]].concat()).stop();
    assert!(!log.contains("memory_max is"), "{log}");
}
