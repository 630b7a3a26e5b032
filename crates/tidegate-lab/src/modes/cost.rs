//! One node under load: CPU time and Redis commands per decision in each mode.

use std::thread;

use rand::SeedableRng as _;
use rand::rngs::SmallRng;
use rand_distr::{Distribution as _, Uniform, Zipf};

use super::client::Client;
use super::process::{Node, Redis};
use super::{CountedIn, ModesMeasurement};
use crate::goals::{self, Goal, Wanted};
use crate::scratch::ScratchDir;
use crate::server::turns_bar;
use crate::table::Table;

/// Connections, each with a pipeline of this many requests.
const CONNECTIONS: u64 = 4;
const PIPELINE: usize = 16;
/// More than the load sends.
const LARGE_LIMIT: &str = "{ algorithm: fixed_window, limit: 1000000000, per: minute }";
/// Reached at once.
const SMALL_LIMIT: &str = "{ algorithm: fixed_window, limit: 10, per: day }";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Traffic {
    Uniform,
    FewZipf,
    Zipf,
    HotKey,
    /// Keys that are over their limits. The deny cache of a node answers for them.
    DeniedUniform,
    DeniedZipf,
    DeniedKey,
}

/// CPU time in nanoseconds, and what was sent to Redis, for each decision.
#[derive(Clone, Copy, Debug)]
struct Cost {
    node_ns: f64,
    redis_ns: f64,
    plans: f64,
    script_calls: f64,
}

impl Traffic {
    const ALL: [Self; 7] = [
        Self::Uniform,
        Self::FewZipf,
        Self::Zipf,
        Self::HotKey,
        Self::DeniedUniform,
        Self::DeniedZipf,
        Self::DeniedKey,
    ];

    const fn name(self) -> &'static str {
        match self {
            Self::Uniform => "10,000 keys, uniform",
            Self::FewZipf => "10,000 keys, Zipf s = 1",
            Self::Zipf => "1,000,000 keys, Zipf s = 1",
            Self::HotKey => "one key",
            Self::DeniedUniform => "10,000 keys over their limits, uniform",
            Self::DeniedZipf => "10,000 keys over their limits, Zipf s = 1",
            Self::DeniedKey => "one key over its limit",
        }
    }

    const fn limit(self) -> &'static str {
        match self {
            Self::DeniedUniform | Self::DeniedZipf | Self::DeniedKey => SMALL_LIMIT,
            _ => LARGE_LIMIT,
        }
    }

    /// Decisions before those that count: of keys over their limits as many as it takes to get most of them there.
    const fn decisions_before(self, decisions: u64) -> u64 {
        match self {
            Self::DeniedUniform | Self::DeniedZipf => decisions,
            _ => decisions / 4,
        }
    }

    /// Keys of one connection.
    fn users(self, connection: u64, count: u64) -> Vec<u64> {
        let mut random = SmallRng::seed_from_u64(connection);
        let mut draw =
            |sample: &mut dyn FnMut(&mut SmallRng) -> u64| (0..count).map(|_| sample(&mut random)).collect();
        match self {
            Self::Uniform | Self::DeniedUniform => {
                let keys = Uniform::new(0, 10_000).expect("a range");
                draw(&mut |random| keys.sample(random))
            }
            Self::FewZipf | Self::DeniedZipf | Self::Zipf => {
                let number = if self == Self::Zipf { 1e6 } else { 1e4 };
                let keys = Zipf::new(number, 1.0).expect("the parameters are in range");
                draw(&mut |random| rank(keys.sample(random)))
            }
            Self::HotKey | Self::DeniedKey => draw(&mut |_| 1),
        }
    }
}

/// A sample of Zipf's law is a whole number.
#[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "at most a million, and positive")]
fn rank(sample: f64) -> u64 {
    sample as u64
}

pub(super) fn run(measurement: &ModesMeasurement, scratch: &ScratchDir) -> Result<(), String> {
    let modes = [CountedIn::Memory, CountedIn::Strict, CountedIn::Leased, CountedIn::Eventual];
    let bar = turns_bar(Traffic::ALL.len() * modes.len());
    let mut costs = Vec::new();
    for traffic in Traffic::ALL {
        for counted in modes {
            costs.push((traffic, counted, measure(measurement, traffic, counted, scratch)?));
            bar.inc(1);
        }
    }
    bar.finish_and_clear();
    print(&costs);
    Ok(())
}

fn measure(
    measurement: &ModesMeasurement,
    traffic: Traffic,
    counted: CountedIn,
    scratch: &ScratchDir,
) -> Result<Cost, String> {
    let redis = Redis::start(scratch)?;
    let shared = (counted != CountedIn::Memory).then_some(&redis);
    let node = Node::start(&measurement.tidegate, "node", counted, traffic.limit(), shared, scratch)?;
    let send = |count: u64| -> Result<(), String> {
        thread::scope(|scope| {
            let senders: Vec<_> = (0..CONNECTIONS)
                .map(|connection| {
                    let mut client = Client::connect(node.resp_port)?;
                    Ok(scope.spawn(move || -> Result<(), String> {
                        for users in traffic.users(connection, count / CONNECTIONS).chunks(PIPELINE) {
                            client.check(users.iter().copied()).map_err(|error| error.to_string())?;
                        }
                        Ok(())
                    }))
                })
                .collect::<Result<_, String>>()?;
            senders
                .into_iter()
                .try_for_each(|sender| sender.join().unwrap_or_else(|_| Err("a client failed".into())))
        })
    };
    send(traffic.decisions_before(measurement.decisions))?;
    let before = (node.cpu()?, redis.cpu()?, node.sent()?);
    send(measurement.decisions)?;
    let (decisions, sent) = (measurement.decisions as f64, node.sent()? - before.2);
    Ok(Cost {
        node_ns: (node.cpu()? - before.0).total_s() * 1e9 / decisions,
        redis_ns: (redis.cpu()? - before.1).total_s() * 1e9 / decisions,
        plans: sent.plans as f64 / decisions,
        script_calls: sent.calls as f64 / decisions,
    })
}

fn print(costs: &[(Traffic, CountedIn, Cost)]) {
    let find = |traffic, counted| {
        costs.iter().find(|(one, other, _)| (*one, *other) == (traffic, counted)).map(|(_, _, cost)| *cost)
    };
    let mut table = Table::new(
        "one node, TIDEGATE.CHECK over 4 connections, 16 in a pipeline",
        [
            "",
            "node, ns CPU",
            "x memory",
            "Redis, ns CPU",
            "decisions per CPU second",
            "plans sent per decision",
            "fewer than strict",
            "script calls per decision",
            "fewer than strict",
        ],
    );
    let mut goals = Vec::new();
    for (traffic, counted, cost) in costs {
        let (memory, strict) = (find(*traffic, CountedIn::Memory), find(*traffic, CountedIn::Strict));
        let ratio = memory.map(|memory| cost.node_ns / memory.node_ns);
        let fewer = |figure: fn(&Cost) -> f64| strict.map(|strict| figure(&strict) / figure(cost));
        let (fewer_plans, fewer_calls) = (fewer(|cost| cost.plans), fewer(|cost| cost.script_calls));
        let text = |figure: Option<f64>| {
            figure.filter(|figure| figure.is_finite()).map_or("-".to_owned(), |figure| format!("{figure:.2}"))
        };
        table.row([
            format!("{}, {}", traffic.name(), counted.name()),
            format!("{:.0}", cost.node_ns),
            text(ratio),
            format!("{:.0}", cost.redis_ns),
            format!("{:.0}", 1e9 / (cost.node_ns + cost.redis_ns)),
            format!("{:.5}", cost.plans),
            text(fewer_plans),
            format!("{:.5}", cost.script_calls),
            text(fewer_calls),
        ]);
        let is_new = matches!(counted, CountedIn::Leased | CountedIn::Eventual);
        let mut goal = |what: &str, wanted, measured| {
            let what = format!("{}, {}: {what}", traffic.name(), counted.name());
            goals.push(Goal { what, wanted, measured, is_sound: true });
        };
        match traffic {
            Traffic::FewZipf | Traffic::Zipf if is_new => {
                goal("node, x memory", Wanted::AtMost(1.5), ratio);
                goal("times fewer plans than strict", Wanted::AtLeast(10.0), fewer_plans);
                goal("times fewer script calls than strict", Wanted::AtLeast(10.0), fewer_calls);
            }
            Traffic::HotKey if is_new => {
                goal("times fewer plans than strict", Wanted::AtLeast(50.0), fewer_plans);
                goal("times fewer script calls than strict", Wanted::AtLeast(50.0), fewer_calls);
            }
            _ => {}
        }
    }
    print!("{table}");
    goals::print(&goals);
}
