//! A server in this process.

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tidegate::config::MemoryConfigStore;
use tidegate::overrides::OverrideCache;
use tidegate::rules;
use tidegate_server::serve::failed_logins::FailedLogins;
use tidegate_server::serve::http::admin::Admin;
use tidegate_server::serve::http::forward_auth::ForwardAuth;
use tidegate_server::serve::http::{Http, ProxyProtocol};
use tidegate_server::serve::listen::{AcceptOptions, Address, ConnectionHandler, Listener};
use tidegate_server::serve::rls::Details;
use tidegate_server::serve::{App, Bounds, Secret};
use tokio::runtime::Runtime;
use tokio_util::task::TaskTracker;

/// How long a test waits for a condition before it fails.
pub const TEST_TIMEOUT: Duration = Duration::from_secs(60);

/// How often a test polls a condition.
const POLL_INTERVAL: Duration = Duration::from_millis(1);

/// A server with both listeners.
pub struct Server {
    pub http: SocketAddr,
    pub admin: SocketAddr,
    pub app: Arc<App>,
    pub tasks: TaskTracker,
    pub runtime: Runtime,
}

/// Options of a server.
#[derive(Default)]
pub struct ServerOptions {
    pub bounds: Bounds,
    pub token: Option<Secret>,
    pub failed_login_delay: Duration,
    pub forward_auth: Option<ForwardAuth>,
    pub proxy_protocol: ProxyProtocol,
}

impl Server {
    /// With these rules and default options.
    pub fn new(rules: &str) -> Self {
        Self::with(rules, ServerOptions::default())
    }

    /// Without loaded rules.
    pub fn without_rules() -> Self {
        Self::start(App::in_memory(Vec::new()).unwrap(), ServerOptions::default())
    }

    pub fn with(rules: &str, start: ServerOptions) -> Self {
        let files = rules.split("---\n");
        let domains = files.flat_map(|file| match rules::parse("rules.yaml", file) {
            Ok(loaded) => loaded.domains,
            Err(report) => panic!("{report}"),
        });
        let app = App::in_memory(domains.collect()).unwrap();
        let overrides = OverrideCache::builder()
            .build(Arc::new(MemoryConfigStore::bounded(1 << 20)), Arc::new(|_| panic!("it is in memory")));
        let app = App { engine: app.engine.with_overrides(Arc::new(overrides)), ..app };
        app.status.rules_loaded(vec![PathBuf::from("rules.yaml")], &app.engine.rules());
        Self::start(app, start)
    }

    /// Removes all rules, so that waiting requests continue when the test wants it, and not by a clock.
    pub fn release_all(&self) {
        self.app.engine.replace(Vec::new()).unwrap();
    }

    /// With this state.
    pub fn start(app: App, start: ServerOptions) -> Self {
        let app = Arc::new(App { failed_logins: FailedLogins::with_delay(start.failed_login_delay), ..app });
        let runtime =
            tokio::runtime::Builder::new_multi_thread().worker_threads(2).enable_all().build().unwrap();
        let tasks = TaskTracker::new();
        let serve = ListenerStarter { runtime: &runtime, app: &app, tasks: &tasks };
        let http = Http::with_options(Arc::clone(&app), start.bounds, Details::default());
        let http = http.with_forward_auth(start.forward_auth).with_proxy_protocol(start.proxy_protocol);
        let http = serve.on_any_port(http);
        let admin = serve.on_any_port(Admin::with_options(Arc::clone(&app), start.bounds, start.token));
        Self { http, admin, app, tasks, runtime }
    }
}

struct ListenerStarter<'a> {
    runtime: &'a Runtime,
    app: &'a Arc<App>,
    tasks: &'a TaskTracker,
}

impl ListenerStarter<'_> {
    fn on_any_port<S: ConnectionHandler>(&self, serves: S) -> SocketAddr {
        let any = Address::Tcp(SocketAddr::from(([127, 0, 0, 1], 0)));
        let bound = self.runtime.block_on(Listener::bind(S::PROTOCOL, &any)).unwrap().unwrap();
        let Address::Tcp(address) = *bound.address() else { panic!("{}", bound.address()) };
        let letting_in = AcceptOptions { connections_max: 100, tls: None, tasks: self.tasks.clone() };
        self.runtime.spawn(bound.run(Arc::clone(self.app), serves, letting_in));
        address
    }
}

/// Waits until the condition is true.
#[track_caller]
pub fn wait_until(server: &Server, what: &str, mut is_so: impl FnMut() -> bool) {
    let waited = async {
        while !is_so() {
            tokio::time::sleep(POLL_INTERVAL).await;
        }
    };
    let in_time = server.runtime.block_on(async { tokio::time::timeout(TEST_TIMEOUT, waited).await });
    assert!(in_time.is_ok(), "{what}");
}
