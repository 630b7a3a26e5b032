//! All addresses bound, then served.

use std::sync::Arc;

use tokio_util::task::TaskTracker;

use super::parts;
use crate::serve::admin::Admin;
use crate::serve::grpc::Grpc;
use crate::serve::http::Http;
use crate::serve::listening::{AcceptOptions, Listener, ConnectionHandler, Tls};
use crate::serve::resp::{Resp, RespBounds};
use crate::serve::settings::{Bounds, ServeArgs, Settings};
use crate::serve::status::BoundAddress;
use crate::serve::{App, Protocol};

/// Sockets that are bound. Connections wait in them until they are [run](Self::run).
pub struct BoundListeners {
    listeners: Vec<(Protocol, Listener)>,
}

impl BoundListeners {
    /// Binds all addresses, or says of each that cannot be bound why.
    pub async fn bind(args: &ServeArgs) -> Result<Self, Vec<String>> {
        let (mut listeners, mut problems) = (Vec::new(), Vec::new());
        for (protocol, address) in args.addresses() {
            match Listener::bind(protocol, address).await {
                Ok(bound) => listeners.extend(bound.map(|listener| (protocol, listener))),
                Err(error) => problems.push(error.to_string()),
            }
        }
        if problems.is_empty() { Ok(Self { listeners }) } else { Err(problems) }
    }

    /// What was bound.
    pub fn addresses(&self) -> Vec<BoundAddress> {
        let listening = |(protocol, listener): &(Protocol, Listener)| BoundAddress {
            protocol: *protocol,
            address: listener.address().clone(),
        };
        self.listeners.iter().map(listening).collect()
    }

    /// Takes connections from now on, until the server drains. They are in the tracker.
    pub fn run(self, settings: &Settings, app: &Arc<App>, tls: Option<&Arc<Tls>>) -> TaskTracker {
        let letting_in = AcceptOptions {
            connections_max: settings.args.connections_max.get(),
            tls: tls.cloned(),
            tasks: TaskTracker::new(),
        };
        let (bounds, details) = (settings.bounds(), settings.args.rls_details);
        for (protocol, listener) in self.listeners {
            let serving = ListenerTask { listener, app: Arc::clone(app), options: letting_in.clone() };
            match protocol {
                Protocol::Http => serving.spawn(Http::with_options(Arc::clone(app), bounds, details)),
                Protocol::Grpc => serving.spawn(Grpc::with_options(Arc::clone(app), bounds, details)),
                Protocol::Resp => {
                    let password = settings.resp_password.clone();
                    serving.spawn(Resp::with_options(Arc::clone(app), resp_bounds(bounds), password));
                }
                Protocol::Admin => {
                    serving.spawn(Admin::with_options(Arc::clone(app), bounds, settings.admin_token.clone()));
                }
            }
        }
        letting_in.tasks
    }
}

/// A listener that is about to be served.
struct ListenerTask {
    listener: Listener,
    app: Arc<App>,
    options: AcceptOptions,
}

impl ListenerTask {
    fn spawn<S: ConnectionHandler>(self, serves: S) {
        let Self { listener, app, options: letting_in } = self;
        let part = format!("listener {}", S::PROTOCOL.as_str());
        parts::spawn(&app, &part, listener.run(Arc::clone(&app), serves, letting_in));
    }
}

/// What is said of all connections, in the words of the protocol of Redis.
fn resp_bounds(bounds: Bounds) -> RespBounds {
    let usual = RespBounds::default();
    let unused = usual.unused_timeout.map_or(bounds.idle_timeout, |unused| unused.min(bounds.idle_timeout));
    RespBounds {
        idle_timeout: Some(bounds.idle_timeout),
        unused_timeout: Some(unused),
        command_timeout: bounds.header_timeout,
        ..usual
    }
}
