//! Four nodes above the limit of one key: what they admit together, divided by the limit.
//!
//! Each node has a client that sends at a steady rate. Clients pause around the edges of windows, so that it is certain
//! in which window a request was decided.

use std::sync::atomic::{AtomicU64, Ordering};
use std::thread;
use std::time::Duration;

use tidegate::{Clock as _, SystemClock};

use super::client::Client;
use super::process::{Node, Redis, SentToRedis, Signal};
use super::{CountedIn, ModesMeasurement};
use crate::goals::{self, Goal, Wanted};
use crate::scratch::ScratchDir;
use crate::server::turns_bar;
use crate::table::Table;

const NODES: usize = 4;
const LIMIT: u64 = 4_000;
const WINDOW_NS: u64 = 2_000_000_000;
const RULE: &str = "{ algorithm: fixed_window, limit: 4000, per: 2s }";
/// The default interval of the mode eventual.
const SYNC_S: f64 = 0.1;
/// Clients pause this long before and after the edge of a window.
const BEFORE_EDGE_NS: u64 = 30_000_000;
const AFTER_EDGE_NS: u64 = 5_000_000;
/// A pipeline has at most this many requests.
const PIPELINE_MAX: u64 = 64;
const HOT_USER: u64 = 1;
const STEP: Duration = Duration::from_millis(1);
/// Longer than the life of a lease, which is a tenth of the window.
const STOPPED_NS: u64 = 1_500_000_000;

/// What happens to the last node in the second window.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    Killed,
    Stopped,
    /// It continues in the third window, with what it had in the second.
    StoppedOverEdge,
}

struct Case {
    counted: CountedIn,
    /// Requests sent, divided by the limit.
    overload: u64,
    fault: Fault,
}

struct CaseResult {
    case: Case,
    /// Admitted units of each whole window.
    admitted: Vec<u64>,
    decisions: u64,
    /// Decisions without Redis, because it did not answer in time.
    degraded: u64,
    sent: SentToRedis,
}

/// What the clients of a case share.
struct Tally {
    first_window: u64,
    admitted: Vec<AtomicU64>,
    decisions: AtomicU64,
    degraded: AtomicU64,
}

pub(super) fn run(measurement: &ModesMeasurement, scratch: &ScratchDir) -> Result<(), String> {
    let mut results = Vec::new();
    let modes = [CountedIn::Strict, CountedIn::Leased, CountedIn::Eventual];
    let kinds = [
        (2, Fault::None),
        (10, Fault::None),
        (10, Fault::Killed),
        (10, Fault::Stopped),
        (10, Fault::StoppedOverEdge),
    ];
    let bar = turns_bar(modes.len() * kinds.len());
    for counted in modes {
        for (overload, fault) in kinds {
            results.push(Case { counted, overload, fault }.run(measurement, scratch)?);
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    print(&results);
    Ok(())
}

impl Case {
    fn run(self, measurement: &ModesMeasurement, scratch: &ScratchDir) -> Result<CaseResult, String> {
        let redis = Redis::start(scratch)?;
        let start = |number| {
            let name = format!("node-{number}");
            Node::start(&measurement.tidegate, &name, self.counted, RULE, Some(&redis), scratch)
        };
        let nodes = (0..NODES).map(start).collect::<Result<Vec<_>, _>>()?;
        let clock = SystemClock::new();
        // The nodes learn of each other with their first heartbeats.
        wait_until(&clock, clock.now().as_nanos() + 2 * WINDOW_NS);
        let first_window = clock.now().as_nanos() / WINDOW_NS + 1;
        let windows = u64::from(measurement.windows);
        let tally = Tally {
            first_window,
            admitted: (0..windows).map(|_| AtomicU64::new(0)).collect(),
            decisions: AtomicU64::new(0),
            degraded: AtomicU64::new(0),
        };
        let sent = |nodes: &[Node]| nodes.iter().map(Node::sent).sum::<Result<SentToRedis, String>>();
        let before = sent(&nodes)?;
        let (faulty, healthy) = nodes.split_last().ok_or("there are nodes")?;
        let rate = self.overload * LIMIT * 1_000_000_000 / WINDOW_NS / NODES as u64;
        let sent_by_faulty = thread::scope(|scope| {
            for node in &nodes {
                let (tally, clock) = (&tally, clock.clone());
                let client = Client::connect(node.resp_port)?;
                scope.spawn(move || send(client, rate, tally, &clock));
            }
            self.inflict(faulty, first_window, &clock)
        })?;
        // What a killed node has sent is known from before.
        let sent_by_faulty = match sent_by_faulty {
            Some(sent) => sent,
            None => faulty.sent()?,
        };
        Ok(CaseResult {
            admitted: tally.admitted.iter().map(|admitted| admitted.load(Ordering::Relaxed)).collect(),
            decisions: tally.decisions.load(Ordering::Relaxed),
            degraded: tally.degraded.load(Ordering::Relaxed),
            sent: sent(healthy)? + sent_by_faulty - before,
            case: self,
        })
    }

    /// Makes the fault happen in the second window. Returns what the node had sent, if it is killed.
    fn inflict(
        &self,
        node: &Node,
        first_window: u64,
        clock: &SystemClock,
    ) -> Result<Option<SentToRedis>, String> {
        let into_ns = match self.fault {
            Fault::StoppedOverEdge => WINDOW_NS - STOPPED_NS / 2,
            _ => WINDOW_NS / 10,
        };
        let at_ns = (first_window + 1) * WINDOW_NS + into_ns;
        match self.fault {
            Fault::None => {}
            Fault::Killed => {
                wait_until(clock, at_ns);
                let sent = node.sent()?;
                node.signal(Signal::Kill)?;
                return Ok(Some(sent));
            }
            Fault::Stopped | Fault::StoppedOverEdge => {
                wait_until(clock, at_ns);
                node.signal(Signal::Stop)?;
                wait_until(clock, at_ns + STOPPED_NS);
                node.signal(Signal::Continue)?;
            }
        }
        Ok(None)
    }

    fn name(&self) -> String {
        let fault = match self.fault {
            Fault::None => "",
            Fault::Killed => ", a node killed",
            Fault::Stopped => ", a node stopped for 1.5 s",
            Fault::StoppedOverEdge => ", a node stopped for 1.5 s over the end of a window",
        };
        format!("{}, {} x the limit{fault}", self.counted.name(), self.overload)
    }

    /// The stated bound, divided by the limit.
    fn bound(&self) -> f64 {
        match self.counted {
            CountedIn::Eventual => {
                let rate = (self.overload * LIMIT) as f64 / (WINDOW_NS as f64 / 1e9) / NODES as f64;
                // A unit waits for the push of its node, and then for that of another.
                1.0 + (NODES - 1) as f64 * rate * 2.0 * SYNC_S / LIMIT as f64
            }
            _ => 1.0,
        }
    }
}

/// Sends until the last window is over, or the node is gone.
fn send(mut client: Client, rate: u64, tally: &Tally, clock: &SystemClock) {
    let last_window = tally.first_window + tally.admitted.len() as u64;
    let mut sent_until_ns = tally.first_window * WINDOW_NS;
    loop {
        thread::park_timeout(STEP);
        let now_ns = clock.now().as_nanos();
        let (window, into_ns) = (now_ns / WINDOW_NS, now_ns % WINDOW_NS);
        if window >= last_window {
            return;
        }
        let is_pause = !(AFTER_EDGE_NS..=WINDOW_NS - BEFORE_EDGE_NS).contains(&into_ns);
        if window < tally.first_window || is_pause {
            sent_until_ns = now_ns;
            continue;
        }
        let due = u128::from(now_ns.saturating_sub(sent_until_ns)) * u128::from(rate) / 1_000_000_000;
        let due = u64::try_from(due).unwrap_or(PIPELINE_MAX).min(PIPELINE_MAX);
        if due == 0 {
            continue;
        }
        sent_until_ns = now_ns;
        let Ok(decided) = client.check((0..due).map(|_| HOT_USER)) else { return };
        tally.decisions.fetch_add(due, Ordering::Relaxed);
        tally.degraded.fetch_add(decided.degraded, Ordering::Relaxed);
        let decided_in = clock.now().as_nanos() / WINDOW_NS;
        let index = usize::try_from(decided_in - tally.first_window).unwrap_or(usize::MAX);
        if let Some(count) = tally.admitted.get(index) {
            count.fetch_add(decided.admitted, Ordering::Relaxed);
        }
    }
}

fn wait_until(clock: &SystemClock, at_ns: u64) {
    while clock.now().as_nanos() < at_ns {
        thread::park_timeout(STEP);
    }
}

fn print(results: &[CaseResult]) {
    let mut table = Table::new(
        "four nodes, one key, a fixed window of 4,000 per 2 s: admitted divided by the limit, for each window",
        ["", "least", "most", "stated bound", "decisions", "without Redis", "script calls per decision"],
    );
    let mut goals = Vec::new();
    for result in results {
        let ratio = |admitted: &u64| *admitted as f64 / LIMIT as f64;
        let (least, most) = (
            result.admitted.iter().map(ratio).fold(f64::MAX, f64::min),
            result.admitted.iter().map(ratio).fold(0.0, f64::max),
        );
        let calls = result.sent.calls as f64 / result.decisions.max(1) as f64;
        let case = &result.case;
        table.row([
            case.name(),
            format!("{least:.3}"),
            format!("{most:.3}"),
            format!("{:.3}", case.bound()),
            result.decisions.to_string(),
            result.degraded.to_string(),
            format!("{calls:.4}"),
        ]);
        let mut goal = |what: &str, wanted, measured| {
            let what = format!("{}: {what}", case.name());
            goals.push(Goal { what, wanted, measured: Some(measured), is_sound: result.degraded == 0 });
        };
        let is_healthy = case.fault == Fault::None;
        match case.counted {
            CountedIn::Leased => {
                goal("most", Wanted::AtMost(1.0), most);
                if is_healthy {
                    goal("least", Wanted::AtLeast(0.97), least);
                    goal("script calls per decision", Wanted::AtMost(0.05), calls);
                }
            }
            CountedIn::Eventual if is_healthy => {
                goal("least", Wanted::AtLeast(0.97), least);
                goal("most", Wanted::AtMost(1.10), most);
            }
            _ => goal("most", Wanted::AtMost(case.bound()), most),
        }
    }
    table.note("without Redis: it did not answer in time, so the node decided by its share of the limit, beside the bound");
    print!("{table}");
    goals::print(&goals);
}
