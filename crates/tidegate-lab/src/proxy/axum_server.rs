//! The axum programs. They differ only in the layer.

use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;

use axum::Router;
use axum::body::Body;
use axum::extract::ConnectInfo;
use axum::routing::get;
use tidegate::tower::server::{HeaderDialect, PeerLookup, PerIp, RateLimitLayer};
use tidegate::{Engine, Limiter, rules};
use tower_governor::GovernorLayer;
use tower_governor::governor::GovernorConfigBuilder;
use tower_governor::key_extractor::PeerIpKeyExtractor;

use super::AxumKind;

/// High enough that no request is denied.
const LIMIT: &str = "100000000 per second";
const RULES: &str = "{ domain: api, rules: [ { name: per-ip, key: [ip], limit: 100000000 per second } ] }";
const GOVERNOR_BURST: u32 = 100_000_000;

/// Serves until the process is killed.
pub fn run(kind: AxumKind, address: SocketAddr) -> ExitCode {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    match runtime.and_then(|runtime| runtime.block_on(serve(kind, address))) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("{error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(kind: AxumKind, address: SocketAddr) -> io::Result<()> {
    let app = limited(Router::new().route("/", get(async || "hello")), kind).map_err(io::Error::other)?;
    let listener = tokio::net::TcpListener::bind(address).await?;
    axum::serve(listener, app.into_make_service_with_connect_info::<SocketAddr>()).await
}

fn limited(app: Router, kind: AxumKind) -> Result<Router, Box<dyn std::error::Error + Send + Sync>> {
    let per_ip = PerIp::of(|info: &ConnectInfo<SocketAddr>| info.0.ip());
    let limits = |dialect| -> Result<_, tidegate::LimiterError> {
        Ok(RateLimitLayer::new(Limiter::new(LIMIT)?, per_ip).headers(dialect))
    };
    Ok(match kind {
        AxumKind::Plain => app,
        AxumKind::Governor => {
            let config =
                GovernorConfigBuilder::default().per_nanosecond(1).burst_size(GOVERNOR_BURST).finish();
            app.layer(GovernorLayer::new(config.ok_or("no such quota")?))
        }
        AxumKind::GovernorHeaders => {
            let mut builder = GovernorConfigBuilder::default();
            let mut builder = builder.per_nanosecond(1).burst_size(GOVERNOR_BURST).use_headers();
            let config = builder.key_extractor(PeerIpKeyExtractor).finish();
            app.layer(GovernorLayer::new(config.ok_or("no such quota")?))
        }
        AxumKind::LimitsNoHeaders => app.layer(limits(HeaderDialect::None)?.keep_body(Body::new)),
        AxumKind::LimitsXRatelimit => app.layer(limits(HeaderDialect::XRateLimit)?.keep_body(Body::new)),
        AxumKind::Limits => app.layer(limits(HeaderDialect::Draft)?.keep_body(Body::new)),
        AxumKind::LimitsSlotBody => app.layer(limits(HeaderDialect::Draft)?),
        AxumKind::Rules => {
            let domains = rules::parse("rules.yaml", RULES).map_err(|error| error.to_string())?.domains;
            let peer = PeerLookup::in_extension(|info: &ConnectInfo<SocketAddr>| info.0.ip());
            let layer = RateLimitLayer::by_rules(Engine::new(domains)?, "api").peer(peer);
            app.layer(layer.keep_body(Body::new))
        }
    })
}
