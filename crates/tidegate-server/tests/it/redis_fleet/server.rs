//! A node of a fleet, in this process.

use std::net::SocketAddr;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use tidegate::redis::{RedisSettings, RedisStore};
use tidegate::rules::Domain;
use tidegate::store::NodeStore;
use tidegate::{Engine, MemoryStore, SystemClock, rules};
use tidegate_server::serve::grpc::Grpc;
use tidegate_server::serve::http::Http;
use tidegate_server::serve::http::admin::Admin;
use tidegate_server::serve::listen::{AcceptOptions, Address, ConnectionHandler, Listener};
use tidegate_server::serve::resp::{Resp, RespBounds, RespSecrets};
use tidegate_server::serve::settings::NegativeHits;
use tidegate_server::serve::{App, Fleet};
use tokio::runtime::Runtime;
use tokio_util::task::TaskTracker;

use crate::redis_fleet::Redis;

/// A timeout for decisions that Redis must make, even on a busy machine.
pub const LONG_TIMEOUT: Duration = Duration::from_secs(30);

/// Options of a server.
pub struct Options {
    pub domains: Vec<Domain>,
    /// The timeout of decisions by Redis.
    pub timeout: Duration,
    /// Bounds of connections with the Redis protocol.
    pub resp: RespBounds,
    /// The replicas that must have a charge.
    pub wait_replicas: Option<NonZeroU32>,
}

impl Options {
    pub fn new(rules: &str, timeout: Duration) -> Self {
        Self { domains: domains(rules), timeout, resp: RespBounds::default(), wait_replicas: None }
    }
}

/// All listeners in front of an engine with counters in Redis.
pub struct Server {
    pub app: Arc<App>,
    pub http: SocketAddr,
    pub grpc: SocketAddr,
    pub resp: SocketAddr,
    pub admin: SocketAddr,
    pub runtime: Runtime,
}

impl Server {
    /// A server that always waits for Redis.
    pub fn start_with_long_timeout(redis: &Redis, rules: &str) -> Self {
        Self::start(redis, rules, LONG_TIMEOUT)
    }

    /// A server with this timeout for Redis.
    pub fn start(redis: &Redis, rules: &str, timeout: Duration) -> Self {
        Self::with(redis, Options::new(rules, timeout))
    }

    pub fn with(redis: &Redis, options: Options) -> Self {
        let runtime = tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build();
        let runtime = runtime.expect("a runtime");
        let mut settings = RedisSettings::new(redis.url().parse().expect("a valid URL"));
        settings.timeout = options.timeout;
        settings.wait_replicas = options.wait_replicas;
        let store = runtime.block_on(RedisStore::connect(settings)).unwrap_or_else(|error| panic!("{error}"));
        let store = Arc::new(store);
        let memory = Arc::new(MemoryStore::bounded(1 << 26));
        let node_store = NodeStore::shared(Arc::clone(&store) as _, memory);
        let engine =
            Engine::with_store(options.domains, node_store, SystemClock::new()).expect("valid rules");
        let app = App::new(engine).with_fleet(Fleet::new(store, redis.url()));
        let app = Arc::new(App { negative_hits: NegativeHits::Refund, ..app });
        let serving = ListenerStarter { runtime: &runtime, app: &app };
        let http = serving.with(Http::new(Arc::clone(&app)));
        let grpc = serving.with(Grpc::new(Arc::clone(&app)));
        let resp = serving.with(Resp::with_options(Arc::clone(&app), options.resp, RespSecrets::default()));
        let admin = serving.with(Admin::new(Arc::clone(&app)));
        Self { app, http, grpc, resp, admin, runtime }
    }

    /// The value of a metric, by name and labels.
    pub fn sample(&self, name: &str) -> u64 {
        let page = self.app.metrics_page();
        let line = page.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.unwrap_or_else(|| panic!("no {name}: {page}")).parse().expect("a whole number")
    }
}

/// Parses rules.
pub fn domains(rules: &str) -> Vec<Domain> {
    rules::parse("rules.yaml", rules).unwrap_or_else(|report| panic!("{report}")).domains
}

struct ListenerStarter<'a> {
    runtime: &'a Runtime,
    app: &'a Arc<App>,
}

impl ListenerStarter<'_> {
    fn with<S: ConnectionHandler>(&self, serves: S) -> SocketAddr {
        let any = Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
        let bound = self.runtime.block_on(Listener::bind(S::PROTOCOL, &any)).unwrap().unwrap();
        let Address::Tcp(address) = *bound.address() else { panic!("{}", bound.address()) };
        let letting_in = AcceptOptions { connections_max: 100, tls: None, tasks: TaskTracker::new() };
        self.runtime.spawn(bound.run(Arc::clone(self.app), serves, letting_in));
        address
    }
}
