//! `tidegate override`, `ban` and `unban` against a server process, and what clients of each protocol get.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use serde_json::Value;
use tonic::transport::Channel;

use super::server::{connect, write_by_rename};
use super::{Directory, RULES, Server};
use crate::grpc::server::{OVER_LIMIT, descriptor, request, send};
use crate::support::{Run, tidegate, tidegate_with};

/// A server, and the command line of an operator.
struct Operator {
    server: Server,
    admin: String,
}

impl Operator {
    fn start(directory: &Directory, flags: &[&str]) -> Self {
        let rules = directory.write("rules.yaml", RULES);
        let server = Server::start(&[&["--rules", &*rules][..], flags].concat());
        let admin = format!("http://{}", server.address("admin"));
        Self { server, admin }
    }

    fn run(&self, args: &[&str]) -> Run {
        tidegate(&[args, &["--admin", &self.admin]].concat(), "")
    }

    #[track_caller]
    fn must(&self, args: &[&str]) -> String {
        let run = self.run(args);
        assert_eq!(run.code, Some(0), "{args:?}: {run:?}");
        run.out
    }
}

const PLACE: [&str; 6] = ["--domain", "api", "--rule", "per-user", "--key", "user=7"];

fn with_place<'a>(command: &'a str, more: &[&'a str]) -> Vec<&'a str> {
    [&["override", command], &PLACE[..], more].concat()
}

#[test]
fn a_banned_user_is_denied_on_every_protocol() {
    let directory = Directory::new();
    let operator = Operator::start(&directory, &[]);
    let server = &operator.server;
    assert_eq!(server.check("7"), 200);
    let banned = operator.must(&["ban", "user=7", "--for", "15m", "--author", "ann"]);
    assert!(
        banned.starts_with("banned api/per-user/user=7, version 1: blocked with status 429, until "),
        "{banned}"
    );
    assert!(banned.ends_with(", by ann\n"), "{banned}");
    assert_eq!((server.check("7"), server.check("8")), (429, 200));
    let mut resp = TcpStream::connect(server.address("resp")).unwrap();
    resp.write_all(b"TIDEGATE.CHECK api user 7\r\nQUIT\r\n").unwrap();
    let mut reply = String::new();
    resp.read_to_string(&mut reply).unwrap();
    assert!(reply.contains("denied"), "{reply}");
    let json = r#"{"domain": "api", "descriptors": [{"entries": [{"key": "user", "value": "7"}]}]}"#;
    let rls = server.post("/json", json);
    assert!(rls.status == 429 && rls.body.contains("OVER_LIMIT"), "{rls:?}");
    assert_eq!(grpc_code(server, "7"), OVER_LIMIT);
    let unbanned = operator.must(&["unban", "user=7"]);
    assert!(unbanned.starts_with("unbanned api/per-user/user=7, version 2: blocked"), "{unbanned}");
    assert_eq!(server.check("7"), 200);
    let again = operator.run(&["unban", "user=7"]);
    assert_eq!(again.code, Some(1), "{again:?}");
    assert!(again.err.contains("the key is not banned") && again.err.contains("(hint: "), "{again:?}");
    operator.must(&["ban", "user=7", "--status", "403", "--author", "ann"]);
    assert_eq!(server.check("7"), 403);
}

/// The code over gRPC for a user.
fn grpc_code(server: &Server, user: &str) -> i32 {
    let url = format!("http://{}", server.address("grpc"));
    tokio::runtime::Runtime::new().unwrap().block_on(async {
        let channel = Channel::from_shared(url).unwrap().connect().await.unwrap();
        let mut client = RateLimitServiceClient::new(channel);
        send(&mut client, request([descriptor(&[("user", user)])])).await.overall_code
    })
}

#[test]
fn an_override_is_set_shown_and_deleted() {
    let directory = Directory::new();
    let operator = Operator::start(&directory, &["--log-keys", "plain"]);
    assert_eq!([1, 2, 3, 4].map(|_| operator.server.check("7")), [200, 200, 200, 429]);
    let more = ["--limit", "5", "--expires", "2h", "--note", "ticket 4711", "--author", "ann"];
    let set = operator.must(&with_place("set", &more));
    assert!(set.starts_with("set api/per-user/user=7, version 1: limit 5, until "), "{set}");
    assert_eq!([1, 2, 3].map(|_| operator.server.check("7")), [200, 200, 429]);
    let json: Value = operator.must(&with_place("get", &["--json"])).parse().unwrap();
    assert_eq!((&json["limit"], &json["note"]), (&Value::from(5), &Value::from("ticket 4711")));
    let listed =
        operator.must(&["override", "list", "--domain", "api", "--rule", "per-user", "--prefix", "user="]);
    assert!(listed.contains("user=7, version 1") && listed.lines().count() == 1, "{listed}");
    let conflict = operator.run(&with_place("set", &["--limit", "9", "--if-version", "0"]));
    assert_eq!(conflict.code, Some(1), "{conflict:?}");
    assert!(conflict.err.contains("has version 1 now"), "{conflict:?}");
    let deleted = operator.must(&with_place("delete", &["--author", "bob"]));
    assert!(deleted.starts_with("deleted api/per-user/user=7, version 2: limit 5"), "{deleted}");
    assert_eq!(operator.run(&with_place("get", &[])).code, Some(1));
    let page =
        super::server::http_request(connect(operator.server.address("admin")), "GET", "/metrics", "").body;
    for metric in [
        "cache_entries",
        "cache_bytes",
        "cache_hits_total",
        "cache_misses_total",
        "loads_total",
        "wildcards",
        "filter_bytes",
        "feed_age_seconds",
    ] {
        assert!(page.contains(&format!("\ntidegate_override_{metric} ")), "{metric}: {page}");
    }
    let config_store = operator.server.health()["config_store"].clone();
    assert_eq!((&config_store["kind"], &config_store["failure"]), (&Value::from("memory"), &Value::Null));
    let log = operator.server.stop();
    let lines: Vec<&str> = log.lines().filter(|line| line.contains("tidegate::audit")).collect();
    assert_eq!(lines.len(), 2, "{log}");
    assert!(
        lines[0].contains("set") && lines[0].contains("ann") && lines[0].contains("user=7"),
        "{}",
        lines[0]
    );
    assert!(lines[1].contains("bob") && lines[1].contains("limit 5"), "{}", lines[1]);
    let denials: Vec<&str> = log.lines().filter(|line| line.contains("tidegate::denials")).collect();
    let named = "api/per-user/user=7 version 1 by ann until ";
    assert!(denials.iter().any(|line| line.contains(named)), "{log}");
    let note = "overrides of single keys are in memory and end with the process (hint: set --data-dir)";
    assert!(log.contains(note), "{log}");
}

#[test]
fn imports_and_exports() {
    let directory = Directory::new();
    let operator = Operator::start(&directory, &[]);
    let csv = directory.write(
        "overrides.csv",
        "domain,rule,key.user,limit,blocked,note\napi,per-user,1,1,,first\napi,per-usr,2,1,,\napi,per-user,3,,true,\n\
         api,per-user,4,1\n",
    );
    let imported = operator.run(&["override", "import", &csv]);
    assert_eq!(
        (imported.code, &*imported.out),
        (Some(1), "2 overrides set, 2 lines refused\n"),
        "{imported:?}"
    );
    assert!(imported.err.contains(&format!("{csv}:3: no rule is named `per-usr`")), "{imported:?}");
    assert!(imported.err.contains(&format!("{csv}:5: 4 cells for 6 columns")), "{imported:?}");
    assert_eq!([1, 2].map(|_| operator.server.check("1")), [200, 429]);
    assert_eq!(operator.server.check("3"), 429);
    let exported = operator.must(&["override", "export"]);
    assert_eq!(exported.lines().count(), 2, "{exported}");
    let other = Operator::start(&directory, &[]);
    let jsonl = directory.write("overrides.jsonl", &exported);
    assert_eq!(
        other.must(&["override", "import", &jsonl, "--from-line", "2"]),
        "1 overrides set, 0 lines refused\n"
    );
    assert_eq!(other.server.check("3"), 429);
    assert_eq!(other.must(&["override", "import", &jsonl]), "2 overrides set, 0 lines refused\n");
    let missing = other.run(&["override", "import", "nowhere.csv"]);
    assert!(missing.code == Some(2) && missing.err.contains("nowhere.csv"), "{missing:?}");
}

/// A nightly import of customers' limits must not lift bans.
#[test]
fn a_ban_stays_when_other_overrides_of_the_key_change() {
    let directory = Directory::new();
    let operator = Operator::start(&directory, &[]);
    operator.must(&with_place("set", &["--limit", "50"]));
    operator.must(&["ban", "user=7", "--author", "ann"]);
    // What the operator expects it to do is said not to happen.
    for more in [&["--limit", "60"][..], &["--allow"], &["--limit", "60"]] {
        let set = operator.run(&with_place("set", more));
        assert_eq!(set.code, Some(0), "{set:?}");
        let warning = "warning: the key stays blocked, by ann (hint: `tidegate unban user=7 --domain api --rule per-user` \
                       lifts the block)\n";
        assert_eq!(set.err, warning);
    }
    assert_eq!(operator.server.check("7"), 429);
    let exported = operator.must(&["override", "export"]);
    assert_eq!(exported.lines().count(), 2, "{exported}");
    let jsonl = directory.write("overrides.jsonl", &exported);
    operator.must(&["override", "import", &jsonl]);
    let limits: String = exported.lines().filter(|line| !line.contains("blocked")).collect();
    operator.must(&["override", "import", &directory.write("limits.jsonl", limits)]);
    assert_eq!(operator.server.check("7"), 429);
    let deleted = operator.run(&with_place("delete", &[]));
    assert!(deleted.code == Some(0) && deleted.err.contains("stays blocked"), "{deleted:?}");
    assert_eq!(operator.server.check("7"), 429);
    // A ban that is deleted is not there any more.
    let deleted = operator.run(&with_place("delete", &[]));
    assert_eq!((deleted.code, &*deleted.err), (Some(0), ""));
    assert_eq!(operator.server.check("7"), 200);
    // A file with both makes both again.
    let other = Operator::start(&directory, &[]);
    other.must(&["override", "import", &jsonl]);
    assert_eq!(other.server.check("7"), 429);
    other.must(&["unban", "user=7"]);
    let shown = other.must(&with_place("get", &[]));
    assert!(shown.contains("limit 60"), "{shown}");
    assert_eq!(other.server.check("7"), 200);
}

#[test]
fn refusals_and_unreachable_servers_have_exit_codes_and_hints() {
    let directory = Directory::new();
    let token = directory.write("token", "s3cret\n");
    let operator = Operator::start(&directory, &["--admin-token-file", &token]);
    let refused = operator.run(&with_place("set", &["--limit", "5"]));
    assert_eq!(refused.code, Some(1), "{refused:?}");
    assert!(refused.err.contains("TIDEGATE_ADMIN_TOKEN"), "{refused:?}");
    let with_token =
        |limit| operator.run(&with_place("set", &["--limit", limit, "--admin-token-file", &token]));
    assert_eq!(with_token("5").code, Some(0));
    let ban = ["ban", "user=8", "--admin", &operator.admin];
    let from_environment = tidegate_with(&ban, &[("TIDEGATE_ADMIN_TOKEN", "s3cret")], "");
    assert_eq!(from_environment.code, Some(0), "{from_environment:?}");
    let wrong = tidegate_with(&ban, &[("TIDEGATE_ADMIN_TOKEN", "guess")], "");
    assert!(wrong.code == Some(1) && !wrong.err.contains("guess"), "{wrong:?}");
    let refused = with_token("5 per moment");
    assert!(refused.code == Some(1) && refused.err.contains("moment"), "{refused:?}");
    assert!(refused.err.contains("(hint: "), "{refused:?}");
    let jsonl =
        directory.write("o.jsonl", r#"{"domain":"api","rule":"per-user","key":{"user":"1"},"limit":1}"#);
    // Nothing listens on port 1.
    for args in
        [with_place("set", &["--limit", "5"]), vec!["ban", "user=7"], vec!["override", "import", &jsonl]]
    {
        let away = tidegate(&[&args[..], &["--admin", "http://127.0.0.1:1"]].concat(), "");
        assert_eq!(away.code, Some(2), "{away:?}");
        assert!(away.err.contains("cannot reach the server at http://127.0.0.1:1"), "{away:?}");
        assert!(away.err.contains("(hint: is `tidegate serve` running?"), "{away:?}");
        assert!(!away.err.contains("stopped") || away.err.contains("--from-line 1"), "{away:?}");
    }
}

#[test]
fn the_admin_listener_may_be_a_unix_socket() {
    let directory = Directory::new();
    let rules = directory.write("rules.yaml", RULES);
    // The path of a socket must be short.
    let socket = format!("unix:/tmp/tidegate-overrides-{}.sock", std::process::id());
    let server = Server::start(&["--rules", &rules, "--admin", &socket]);
    let banned = tidegate(&["ban", "user=7", "--admin", &socket], "");
    assert_eq!(banned.code, Some(0), "{banned:?}");
    assert_eq!(server.check("7"), 429);
}

#[test]
fn help_teaches_by_examples() {
    let commands: [&[&str]; 5] =
        [&["override"], &["override", "set"], &["override", "import"], &["ban"], &["unban"]];
    for command in commands {
        let run = tidegate(&[command, &["--help"]].concat(), "");
        assert_eq!(run.code, Some(0), "{run:?}");
        assert!(run.out.contains("Examples:") && run.out.contains("Exit codes:"), "{command:?}");
        let examples = run.out.lines().filter(|line| line.starts_with("      tidegate "));
        for line in examples {
            assert!(line.chars().count() < 80, "{line}");
        }
    }
}

/// An override that names no limit would have two meanings if its rule gets a second limit with the same key.
#[test]
fn a_second_limit_with_the_key_of_an_override_is_warned_about() {
    let directory = Directory::new();
    let operator = Operator::start(&directory, &["--reload-every", "10ms"]);
    operator.must(&with_place("set", &["--limit", "50"]));
    let one = "    limit: { limit: 3, per: day, algorithm: sliding_log }\n";
    let two = "    limits: [{ name: daily, limit: 3 per day }, { name: hourly, limit: 2 per hour }]\n";
    assert!(RULES.contains(one));
    write_by_rename(&directory.write("rules.yaml", RULES), &RULES.replace(one, two));
    operator
        .server
        .wait_for_log("several limits have the key [user] now, so overrides of its keys that name no limit");
    assert_eq!([1, 2, 3].map(|_| operator.server.check("7")), [200, 200, 429]);
}
