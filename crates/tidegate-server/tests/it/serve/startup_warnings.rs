//! Settings that weaken the security are reported at the start, each with its code.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt as _;

use super::{Directory, Server};

const LONG: &str = "a-long-secret-for-the-tests-of-warnings";

/// The codes of the warnings at the start.
#[track_caller]
fn codes(args: &[&str]) -> Vec<String> {
    let log = Server::start(&[args, &["--log-format", "json"]].concat()).stop();
    let lines = log.lines().map(|line| serde_json::from_str::<serde_json::Value>(line).expect(line));
    let mut codes = Vec::new();
    for line in lines {
        if let Some(code) = line["code"].as_str() {
            assert_eq!(line["level"], "WARN");
            assert!(line["message"].as_str().is_some_and(|message| message.contains("(hint: ")), "{line}");
            assert!(!line.to_string().contains(LONG), "{line}");
            codes.push(code.to_owned());
        }
    }
    codes
}

fn file_with_mode(directory: &Directory, name: &str, content: &str, mode: u32) -> String {
    let path = directory.write(name, content);
    fs::set_permissions(&path, Permissions::from_mode(mode)).unwrap();
    path
}

#[test]
fn safe_settings_have_no_warnings() {
    let directory = Directory::new();
    let token = file_with_mode(&directory, "token", LONG, 0o640);
    let data_dir = format!("{}/data", directory.path());
    let safe = ["--admin-token-file", &token, "--resp-password-file", &token, "--data-dir", &data_dir];
    assert_eq!(codes(&safe), [""; 0]);
    let nginx = ["--forward-auth-domain", "web", "--forward-auth-source", "nginx"];
    assert_eq!(codes(&nginx), [""; 0]);
    assert_eq!(codes(&nginx[..2]), ["forward-auth-source-any"]);
    assert_eq!(codes(&[]), [""; 0]);
}

#[test]
fn weak_secrets() {
    let directory = Directory::new();
    let readable = file_with_mode(&directory, "token", LONG, 0o644);
    assert_eq!(codes(&["--admin-token-file", &readable]), ["secret-file-readable"]);
    let short = file_with_mode(&directory, "short", "short", 0o600);
    assert_eq!(codes(&["--resp-password-file", &short]), ["short-secret"]);
    assert_eq!(codes(&["--admin-token", "fifteen-bytes-1"]), ["short-secret"]);
    assert_eq!(codes(&["--admin-token", "sixteen-bytes-12"]), [""; 0]);
}

#[test]
fn secrets_without_tls() {
    let public = ["--admin", "0.0.0.0:0", "--resp", "0.0.0.0:0"];
    let secrets = ["--admin-token", LONG, "--resp-password", LONG];
    // The admin token is also used with AUTH.
    assert_eq!(codes(&[public, secrets].concat()), ["plaintext-secret"; 3]);
    let admin_token = ["--admin-token", LONG];
    let http = ["--http", "0.0.0.0:0", "--admin-token", LONG];
    assert_eq!(codes(&http), ["plaintext-secret"], "/metrics of the HTTP listener needs the token");
    assert_eq!(codes(&[&http[..], &["--metrics-access", "open"]].concat()), [""; 0]);
    let open = ["--resp", "0.0.0.0:0", "--resp-protected-mode", "off"];
    assert_eq!(codes(&[&open[..], &admin_token].concat()), ["plaintext-secret", "resp-without-password"]);
}

#[test]
fn resp_without_a_password() {
    let open = ["--resp", "0.0.0.0:0", "--resp-protected-mode", "off"];
    assert_eq!(codes(&open), ["resp-without-password"]);
}

#[test]
fn a_data_directory_that_others_can_write() {
    let directory = Directory::new();
    let data_dir = format!("{}/data", directory.path());
    fs::create_dir(&data_dir).unwrap();
    for (mode, expected) in [(0o777, true), (0o775, true), (0o755, false)] {
        fs::set_permissions(&data_dir, Permissions::from_mode(mode)).unwrap();
        let found = codes(&["--data-dir", &data_dir]);
        assert_eq!(found.iter().any(|code| code == "data-dir-writable"), expected, "{mode:o}: {found:?}");
    }
}

#[test]
fn modes_without_a_shared_store() {
    let directory = Directory::new();
    let rules = "
domain: api
rules:
  - { name: strict, limit: 5 per minute }
  - { name: leased, limit: 5 per minute, mode: leased }
  - { name: local, limit: 5 per minute, mode: local }
  - { name: eventual, limit: 5 per minute, mode: eventual }
";
    let path = directory.write("rules.yaml", rules);
    let log = Server::start(&["--rules", &path]).stop();
    let warning = "without a shared store these rules decide as with `mode: local`: `api/eventual`, `api/leased` (hint: ";
    assert_eq!(log.matches(warning).count(), 1, "{log}");
    assert_eq!(codes(&["--rules", &path]), ["mode-without-store"]);
    let strict = rules.replace("mode: leased", "mode: strict").replace("mode: eventual", "mode: local");
    let path = directory.write("strict.yaml", &strict);
    assert_eq!(codes(&["--rules", &path]), [""; 0]);
}

#[test]
fn concurrency_limits_of_proxies() {
    let directory = Directory::new();
    let rules = "
domain: web
rules:
  - { name: downloads, key: [ip], limit: { limit: 2, algorithm: concurrency, ttl: 5m } }
  - { name: per-ip, key: [ip], limit: 5 per minute }
---
domain: api
rules:
  - { name: per-ip, key: [ip], limit: 5 per minute }
";
    let paths = rules.split("---\n").enumerate();
    let paths: Vec<String> =
        paths.map(|(index, text)| directory.write(&format!("{index}.yaml"), text)).collect();
    let args = |domain| {
        let forward_auth = ["--forward-auth-domain", domain, "--forward-auth-source", "nginx"];
        [&forward_auth[..], &["--rules", &paths[0], "--rules", &paths[1]]].concat()
    };
    let log = Server::start(&args("web")).stop();
    assert_eq!(log.matches("until the ttl in these rules: `downloads` (hint: ").count(), 1, "{log}");
    assert_eq!(codes(&args("web")), ["forward-auth-concurrency"]);
    assert_eq!(codes(&args("api")), [""; 0]);
}
