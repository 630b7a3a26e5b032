//! Binds all addresses, then serves them.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::tasks;
use crate::serve::grpc::Grpc;
use crate::serve::http::admin::Admin;
use crate::serve::http::{AllowedHosts, Http};
use crate::serve::listen::{AcceptOptions, ConnectionHandler, Listener, Tls};
use crate::serve::resp::{Resp, RespBounds, RespSecrets};
use crate::serve::settings::{Bounds, ServeArgs, Settings};
use crate::serve::status::BoundAddress;
use crate::serve::{App, Protocol};

/// Bound sockets. Connections wait in the backlog until [`run`](Self::run).
pub struct BoundListeners {
    listeners: Vec<(Protocol, Listener)>,
}

impl BoundListeners {
    /// Binds all addresses, or returns an error for each that cannot be bound.
    pub async fn bind(args: &ServeArgs) -> Result<Self, Vec<String>> {
        let (mut listeners, mut problems) = (Vec::new(), Vec::new());
        for (protocol, address) in args.addresses() {
            match Listener::bind(protocol, address).await {
                Ok(bound) => listeners.extend(bound.map(|listener| {
                    (protocol, listener.with_connections_per_ip_max(args.connections_per_ip_max))
                })),
                Err(error) => problems.push(error.to_string()),
            }
        }
        if problems.is_empty() { Ok(Self { listeners }) } else { Err(problems) }
    }

    /// The bound addresses.
    pub fn addresses(&self) -> Vec<BoundAddress> {
        let bound_address = |(protocol, listener): &(Protocol, Listener)| BoundAddress {
            protocol: *protocol,
            address: listener.address().clone(),
        };
        self.listeners.iter().map(bound_address).collect()
    }

    /// Accepts connections until the server drains. The tracker holds their tasks.
    pub fn run(self, settings: &Settings, app: &Arc<App>, tls: Option<&Arc<Tls>>) -> TaskTracker {
        let options = AcceptOptions {
            connections_max: settings.args.connections_max.get(),
            tls: tls.cloned(),
            tasks: TaskTracker::new(),
        };
        let (bounds, details) = (settings.bounds(), settings.args.rls_details);
        for (protocol, listener) in self.listeners {
            let task = ListenerTask { listener, app: Arc::clone(app), options: options.clone() };
            match protocol {
                Protocol::Http => {
                    let hosts = AllowedHosts::for_address(task.listener.address(), &settings.args.http_hosts);
                    let http = Http::with_options(Arc::clone(app), bounds, details);
                    let http = http.with_allowed_hosts(hosts).with_metrics_token(settings.metrics_token());
                    let forward_auth = &settings.args.forward_auth;
                    let http =
                        http.with_forward_auth(forward_auth.forward_auth(settings.token_keys.as_ref()));
                    task.spawn(http.with_proxy_protocol(forward_auth.proxy_protocol()));
                }
                Protocol::Grpc => task.spawn(Grpc::with_options(Arc::clone(app), bounds, details)),
                Protocol::Resp => {
                    let secrets = RespSecrets {
                        password: settings.resp_password.clone(),
                        admin_token: settings.admin_token.clone(),
                    };
                    task.spawn(Resp::with_options(Arc::clone(app), resp_bounds(bounds), secrets));
                }
                Protocol::Admin => {
                    let admin = Admin::with_options(Arc::clone(app), bounds, settings.admin_token.clone());
                    task.spawn(admin.with_metrics_access(settings.args.metrics_access));
                }
            }
        }
        options.tasks
    }
}

/// A listener and what it needs to serve.
struct ListenerTask {
    listener: Listener,
    app: Arc<App>,
    options: AcceptOptions,
}

impl ListenerTask {
    fn spawn<S: ConnectionHandler>(self, handler: S) {
        let Self { listener, app, options } = self;
        let name = format!("listener {}", S::PROTOCOL.as_str());
        tasks::spawn(&app, &name, listener.run(Arc::clone(&app), handler, options));
    }
}

/// The bounds of all connections, as bounds of the Redis protocol.
fn resp_bounds(bounds: Bounds) -> RespBounds {
    let default = RespBounds::default();
    let unused_timeout =
        default.unused_timeout.map_or(bounds.idle_timeout, |timeout| timeout.min(bounds.idle_timeout));
    RespBounds {
        idle_timeout: Some(bounds.idle_timeout),
        unused_timeout: Some(unused_timeout),
        command_timeout: bounds.header_timeout,
        ..default
    }
}
