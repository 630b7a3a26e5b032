//! Unix sockets.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::UnixListener;

use crate::serve::{Directory, HTTP_ONLY, RULES, Server, run_to_exit};

fn setup() -> (Directory, String, String) {
    let directory = Directory::new();
    let rules = directory.write("rules.yaml", RULES);
    let path = format!("{}/http.sock", directory.path());
    (directory, rules, path)
}

#[test]
fn a_socket_has_mode_0660_and_is_removed() {
    let (_directory, rules, path) = setup();
    let address = format!("unix:{path}");
    let server = Server::start(&["--rules", &rules, "--http", &address]);
    assert_eq!(server.address("http"), address);
    assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660);
    assert_eq!([server.check("ann"), server.check("ann")], [200, 200]);
    server.stop();
    assert!(!fs::exists(&path).unwrap());
}

#[test]
fn socket_mode_ignores_the_umask() {
    for umask in ["umask 0", "umask 077", "umask 0777"] {
        let (_directory, _, path) = setup();
        let server = Server::start_in_shell(umask, &["--http", &format!("unix:{path}")]);
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o660, "{umask}");
        server.stop();
    }
}

#[test]
fn a_stale_socket_is_replaced() {
    let (_directory, rules, path) = setup();
    let address = format!("unix:{path}");
    Server::start(&["--http", &address]).kill();
    assert!(fs::exists(&path).unwrap(), "a server that is killed leaves its socket");
    let server = Server::start(&["--rules", &rules, "--http", &address]);
    assert_eq!(server.check("ann"), 200);
}

#[track_caller]
fn bind_error(path: &str) -> String {
    let address = format!("unix:{path}");
    let run = run_to_exit(&[&["--http", &*address], &HTTP_ONLY[..]].concat(), &[]);
    assert_eq!((run.code, &*run.out), (Some(2), ""));
    run.err
}

#[test]
fn a_live_socket_is_kept() {
    let (_directory, _, path) = setup();
    let _somebody = UnixListener::bind(&path).unwrap();
    let error = bind_error(&path);
    assert!(
        error.contains("it is in use") && error.contains("(hint: another process uses it; stop"),
        "{error}"
    );
    assert!(fs::exists(&path).unwrap());
}

#[test]
fn a_regular_file_is_kept() {
    let (directory, _, path) = setup();
    directory.write("http.sock", "precious");
    let error = bind_error(&path);
    assert!(error.contains("the file exists and is not a socket") && error.contains("(hint: "), "{error}");
    assert_eq!(fs::read_to_string(&path).unwrap(), "precious");
}

#[test]
fn a_replaced_socket_is_not_removed() {
    let (_directory, _, path) = setup();
    let server = Server::start(&["--http", &format!("unix:{path}")]);
    fs::remove_file(&path).unwrap();
    let _another = UnixListener::bind(&path).unwrap();
    server.stop();
    assert!(fs::exists(&path).unwrap());
}
