//! A listener in this process, on its own port.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use envoy_types::pb::envoy::extensions::common::ratelimit::v3::RateLimitDescriptor;
use envoy_types::pb::envoy::extensions::common::ratelimit::v3::rate_limit_descriptor::Entry;
use envoy_types::pb::envoy::service::ratelimit::v3::rate_limit_service_client::RateLimitServiceClient;
use envoy_types::pb::envoy::service::ratelimit::v3::{RateLimitRequest, RateLimitResponse};
use tidegate::rules::{self, LoadOptions};
use tidegate_server::serve::grpc::Grpc;
use tidegate_server::serve::listen::{AcceptOptions, Address, Listener};
use tidegate_server::serve::rls::Details;
use tidegate_server::serve::settings::NegativeHits;
use tidegate_server::serve::{App, Bounds, Protocol};
use tokio::time::{sleep, timeout};
use tokio_util::task::TaskTracker;
use tonic::transport::Channel;

use super::raw_client::LONG;

/// How often a test polls a condition.
const LOOK_EVERY: Duration = Duration::from_millis(1);

pub const OK: i32 = 1;
pub const OVER_LIMIT: i32 = 2;

pub struct Server {
    pub address: SocketAddr,
    pub app: Arc<App>,
    pub connections: TaskTracker,
}

pub type Client = RateLimitServiceClient<Channel>;

impl Server {
    pub async fn with_rules(rules: &str) -> Self {
        Self::with(rules, Bounds::default(), Details::default()).await
    }

    /// A server that accepts negative hits.
    pub async fn with_refunds(rules: &str) -> Self {
        let app = App { negative_hits: NegativeHits::Refund, ..app_with_rules(rules) };
        Self::start(app, Bounds::default(), Details::default()).await
    }

    pub async fn with(rules: &str, bounds: Bounds, details: Details) -> Self {
        Self::start(app_with_rules(rules), bounds, details).await
    }

    pub async fn with_options(rules: &str, options: LoadOptions, bounds: Bounds, details: Details) -> Self {
        let domains = rules::parse_with("rules.yaml", rules, options).unwrap().domains;
        Self::start(App::in_memory(domains).unwrap(), bounds, details).await
    }

    async fn start(app: App, bounds: Bounds, details: Details) -> Self {
        let app = Arc::new(app);
        let listener =
            Listener::bind(Protocol::Grpc, &"127.0.0.1:0".parse().unwrap()).await.unwrap().unwrap();
        let &Address::Tcp(address) = listener.address() else { panic!("{}", listener.address()) };
        let connections = TaskTracker::new();
        let grpc = Grpc::with_options(Arc::clone(&app), bounds, details);
        let letting_in = AcceptOptions { connections_max: 100, tls: None, tasks: connections.clone() };
        tokio::spawn(listener.run(Arc::clone(&app), grpc, letting_in));
        Self { address, app, connections }
    }

    pub async fn channel(&self) -> Channel {
        Channel::from_shared(format!("http://{}", self.address)).unwrap().connect().await.unwrap()
    }

    pub async fn client(&self) -> Client {
        RateLimitServiceClient::new(self.channel().await)
    }

    /// Waits until this many requests are in wait queues.
    pub async fn wait_until_waiting(&self, count: u64) {
        let in_line = async {
            while self.app.engine.waiting_requests() != count {
                sleep(LOOK_EVERY).await;
            }
        };
        timeout(LONG, in_line)
            .await
            .unwrap_or_else(|_| panic!("{} in line", self.app.engine.waiting_requests()));
    }

    /// Removes all rules, so that waiting requests continue when the test wants it, and not by a clock.
    pub fn release_all(&self) {
        self.app.engine.replace(Vec::new()).unwrap();
    }

    /// The lines of a metric.
    pub fn metric_lines(&self, metric: &str) -> Vec<String> {
        let page = self.app.metrics_page();
        page.lines().filter(|line| line.starts_with(metric)).map(str::to_owned).collect()
    }
}

fn app_with_rules(rules: &str) -> App {
    App::in_memory(rules::parse("rules.yaml", rules).unwrap().domains).unwrap()
}

pub fn descriptor(entries: &[(&str, &str)]) -> RateLimitDescriptor {
    let entry = |(key, value): &(&str, &str)| Entry { key: (*key).to_owned(), value: (*value).to_owned() };
    RateLimitDescriptor { entries: entries.iter().map(entry).collect(), ..RateLimitDescriptor::default() }
}

pub fn request(descriptors: impl IntoIterator<Item = RateLimitDescriptor>) -> RateLimitRequest {
    RateLimitRequest {
        domain: "api".to_owned(),
        descriptors: descriptors.into_iter().collect(),
        hits_addend: 0,
    }
}

pub async fn send(client: &mut Client, request: RateLimitRequest) -> RateLimitResponse {
    client.should_rate_limit(request).await.unwrap().into_inner()
}

pub async fn call_error(client: &mut Client, request: RateLimitRequest) -> tonic::Status {
    client.should_rate_limit(request).await.unwrap_err()
}
