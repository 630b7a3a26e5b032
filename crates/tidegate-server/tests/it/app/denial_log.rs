//! The denial log.

use std::io;
use std::sync::{Arc, LazyLock, Mutex};

use serde_json::Value;
use tidegate::rules::{Descriptor, Entry, Request, RequestLimit, TimeUnit};
use tidegate_server::serve::denial_log::DenialLog;
use tidegate_server::serve::settings::LogKeys;
use tidegate_server::serve::{App, Protocol};
use tracing::Dispatch;
use tracing::subscriber::NoSubscriber;
use tracing_subscriber::fmt::MakeWriter;

use crate::app::{app, check, ready_now};

const RULES: &str = "
domain: api
rules:
  - { name: per-user, key: [user], limits: [ { limit: 1 per hour, name: hourly } ] }
";

#[derive(Clone, Default)]
struct LogBuffer(Arc<Mutex<Vec<u8>>>);

impl io::Write for LogBuffer {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().unwrap().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl<'a> MakeWriter<'a> for LogBuffer {
    type Writer = Self;

    fn make_writer(&'a self) -> Self {
        self.clone()
    }
}

/// The lines about denials that `doing` writes, as JSON.
fn lines(denials: DenialLog, doing: impl FnOnce(&App)) -> Vec<Value> {
    let mut lines = log_lines(&app(RULES).with_denials(denials), doing);
    lines.retain(|line| line["target"] == "tidegate::denials");
    lines
}

/// A second subscriber besides that of a test. With only one, tracing asks the thread that first reaches a log line whether anyone
/// reads the line, and that may be the thread of another test, which has no subscriber. No test would then see the line.
static SECOND_SUBSCRIBER: LazyLock<Dispatch> = LazyLock::new(|| Dispatch::new(NoSubscriber::new()));

/// The log lines that `doing` writes, as JSON.
pub fn log_lines(app: &App, doing: impl FnOnce(&App)) -> Vec<Value> {
    LazyLock::force(&SECOND_SUBSCRIBER);
    let written = LogBuffer::default();
    let log = tracing_subscriber::fmt().json().flatten_event(true).with_writer(written.clone()).finish();
    tracing::subscriber::with_default(log, || doing(app));
    let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).expect(line)).collect()
}

#[test]
fn a_denial_has_a_line_and_what_is_allowed_has_none() {
    let lines = lines(DenialLog::new(10, LogKeys::Hashed), |app| {
        check(app, Protocol::Grpc, "api", "user=alice path=/x");
        check(app, Protocol::Grpc, "api", "user=alice path=/x");
        check(app, Protocol::Grpc, "nobodys", "user=alice");
    });
    let [line] = lines.as_slice() else { panic!("{lines:?}") };
    assert_eq!((&line["protocol"], &line["decision"]), (&"grpc".into(), &"denied".into()));
    assert_eq!((&line["domain"], &line["rule"]), (&"api".into(), &"per-user".into()));
    assert_eq!((&line["limit"], &line["suppressed"]), (&"hourly".into(), &0.into()));
    assert!(line["retry_after_ms"].as_u64().is_some_and(|ms| ms > 0 && ms <= 3_600_000), "{line}");
    assert_eq!((&line["level"], &line["target"]), (&"INFO".into(), &"tidegate::denials".into()));
    let attributes = line["attributes"].as_str().unwrap();
    assert!(attributes.starts_with("user=#") && !attributes.contains("alice"), "{attributes}");
}

/// An operator sees which attribute to block, and its value if the attribute is in the list.
#[test]
fn the_key_of_the_limit_is_shown() {
    let denials = || DenialLog::new(10, LogKeys::Hashed);
    let deny = |app: &App| {
        for _ in 0..2 {
            check(app, Protocol::Http, "api", "method=GET user=alice ip=192.0.2.1");
        }
    };
    let hashed = lines(denials().with_plain(vec!["method".to_owned()]), deny);
    let (key, attributes) = (hashed[0]["key"].as_str().unwrap(), hashed[0]["attributes"].as_str().unwrap());
    assert!(key.starts_with("user=#") && attributes.contains(key), "{key} {attributes}");
    assert!(attributes.starts_with("method=GET user=#"), "{attributes}");
    let plain = lines(denials().with_plain(vec!["user".to_owned()]), deny);
    assert_eq!(plain[0]["key"], "user=alice");
    assert!(!plain[0]["attributes"].as_str().unwrap().contains("192.0.2.1"));
}

/// These limits have no key of their own.
#[test]
fn a_deny_list_and_a_limit_of_a_request_have_the_descriptor_as_key() {
    let rules = "
domain: api
rules:
  - { name: blocked, match: { ip: 192.0.2.1 }, limit: deny }
  - { name: all, limit: 1 per hour }
";
    let log = DenialLog::new(10, LogKeys::Plain);
    let lines = log_lines(&app(rules).with_denials(log), |app| {
        check(app, Protocol::Http, "api", "ip=192.0.2.1");
        let entries = [Entry { key: "user", value: "ann" }];
        let limit = Some(RequestLimit { units: 0, per: TimeUnit::Hour });
        let descriptors = [Descriptor { limit, ..Descriptor::new(&entries, 1) }];
        let request = Request { domain: "api", descriptors: &descriptors };
        assert!(ready_now(app.check(Protocol::Grpc, &request)).is_ok());
        check(app, Protocol::Http, "api", "user=bob");
        check(app, Protocol::Http, "api", "user=bob");
    });
    let keys: Vec<_> = lines.iter().map(|line| (&line["rule"], &line["key"])).collect();
    assert_eq!(keys[0], (&"blocked".into(), &"ip=192.0.2.1".into()));
    assert_eq!(keys[1], (&"override".into(), &"user=ann".into()));
    assert_eq!(keys[2], (&"all".into(), &"".into()), "one counter for everyone");
}

#[test]
fn values_are_shown_if_asked_for() {
    let lines = lines(DenialLog::new(10, LogKeys::Plain), |app| {
        for _ in 0..2 {
            check(app, Protocol::Http, "api", "user=alice");
        }
    });
    assert_eq!(lines[0]["attributes"], "user=alice");
}

#[test]
fn a_flood_logs_few_lines() {
    const TIMES: usize = 20_000;
    let lines = lines(DenialLog::new(3, LogKeys::Hashed), |app| {
        for _ in 0..TIMES {
            check(app, Protocol::Resp, "api", "user=alice");
        }
    });
    // Three lines in every second that the test took. The last suppressed denials are not reported yet.
    assert!(lines.len() >= 3 && lines.len() < TIMES / 10, "{}", lines.len());
    let suppressed: u64 = lines.iter().map(|line| line["suppressed"].as_u64().unwrap()).sum();
    assert!(usize::try_from(suppressed).unwrap() + lines.len() < TIMES);
}

#[test]
fn zero_lines_per_second_logs_nothing() {
    let lines = lines(DenialLog::new(0, LogKeys::Hashed), |app| {
        for _ in 0..5 {
            check(app, Protocol::Resp, "api", "user=alice");
        }
    });
    assert_eq!(lines, Vec::<Value>::new());
}
