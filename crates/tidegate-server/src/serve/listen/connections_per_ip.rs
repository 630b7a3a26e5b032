//! The maximum number of connections from one client.
//!
//! The default is no maximum, because the clients of these listeners are services and proxies: a proxy holds many
//! connections from one address, and clients behind one NAT share an address.

use std::collections::HashMap;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tidegate::IpKey;

use super::Stream;

/// Counts the connections of a listener by client. A client is an IPv4 address or the first 64 bits of an IPv6 address.
#[derive(Debug)]
pub(super) struct ConnectionsPerIp {
    max: NonZeroUsize,
    /// At most one entry per open connection.
    open: Mutex<HashMap<IpKey, usize>>,
}

/// One counted connection. Not counted any more when dropped.
#[derive(Debug)]
pub(super) struct IpPermit {
    counter: Arc<ConnectionsPerIp>,
    client: IpKey,
}

/// The client has too many connections.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TooManyFromIp;

impl ConnectionsPerIp {
    /// With this maximum for each client.
    pub fn new(max: NonZeroUsize) -> Self {
        Self { max, open: Mutex::new(HashMap::new()) }
    }

    /// Counts a connection. Connections over a Unix socket have no address and are not counted.
    pub fn count(self: &Arc<Self>, stream: &Stream) -> Result<Option<IpPermit>, TooManyFromIp> {
        let address = match stream {
            // It fails if the client is gone.
            Stream::Tcp(stream) => stream.peer_addr().ok(),
            Stream::Tls(_) | Stream::Unix(_) => None,
        };
        address.map(|address| self.count_client(IpKey::new(address.ip()))).transpose()
    }

    fn count_client(self: &Arc<Self>, client: IpKey) -> Result<IpPermit, TooManyFromIp> {
        let mut open = self.lock();
        let connections = open.entry(client).or_insert(0);
        if *connections >= self.max.get() {
            return Err(TooManyFromIp);
        }
        *connections += 1;
        Ok(IpPermit { counter: Arc::clone(self), client })
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<IpKey, usize>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for IpPermit {
    fn drop(&mut self) {
        let mut open = self.counter.lock();
        if let Some(connections) = open.get_mut(&self.client) {
            *connections -= 1;
            if *connections == 0 {
                open.remove(&self.client);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::IpAddr;

    use super::*;

    #[test]
    fn each_client_has_its_own_maximum() {
        let counter = Arc::new(ConnectionsPerIp::new(NonZeroUsize::new(2).unwrap()));
        let count = |ip: &str| counter.count_client(IpKey::new(ip.parse::<IpAddr>().unwrap()));
        let first = count("192.0.2.1").unwrap();
        let _second = count("::ffff:192.0.2.1").unwrap();
        assert_eq!(count("192.0.2.1").unwrap_err(), TooManyFromIp);
        let _other = count("192.0.2.2").unwrap();
        drop(first);
        let _third = count("192.0.2.1").unwrap();
        // One client has a whole /64.
        let v6 = ["2001:db8::1", "2001:db8::2"].map(|ip| count(ip).unwrap());
        assert_eq!(count("2001:db8::3").unwrap_err(), TooManyFromIp);
        let _next = count("2001:db8:0:1::1").unwrap();
        drop(v6);
        assert_eq!(counter.lock().len(), 3);
    }
}
