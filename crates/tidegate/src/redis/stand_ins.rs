//! What the other parts are going to look like, until they are here.
#![allow(
    dead_code,
    unused_variables,
    clippy::needless_pass_by_value,
    clippy::unused_async,
    clippy::result_large_err
)]

pub(super) mod script {
    use smallvec::SmallVec;
    use tidegate_core::{Charge, Leases, Ledger, Packed, Timestamp, Verdict};

    use super::super::order::{KeyName, Order, OrderCharge};
    use crate::{Lease, Outcomes};

    pub struct Call {
        orders: Vec<Order>,
    }
    pub enum CallTime {
        OfTheServer,
    }
    #[derive(Clone, Debug)]
    pub struct Seen {
        pub at: Timestamp,
        pub outcomes: Outcomes,
        pub admitted: Verdict,
        pub lease: Option<Lease>,
        pub states: States,
    }
    pub type States = SmallVec<[KeyState; 2]>;
    #[derive(Clone, Debug)]
    pub enum KeyState {
        Packed(Packed),
        Ledger(Ledger),
        Leases(Leases),
    }
    #[derive(Debug)]
    pub enum Unreadable {
        Key(KeyName),
        EdgesElsewhere { at: Timestamp },
    }
    #[derive(Debug)]
    pub struct BadReply;
    pub const SCRIPT: &str = "";
    impl std::fmt::Display for BadReply {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("bad reply")
        }
    }
    impl Call {
        pub fn new(time: CallTime) -> Self {
            Self { orders: Vec::new() }
        }
        pub fn add(&mut self, order: Order, edges_around: Timestamp) -> Result<(), Order> {
            self.orders.push(order);
            Ok(())
        }
        pub fn orders(&self) -> &[Order] {
            &self.orders
        }
        pub fn command(&self, sha: &str) -> redis::Cmd {
            redis::cmd("EVALSHA")
        }
        pub fn read(&self, reply: redis::Value) -> Result<Vec<Result<Seen, Unreadable>>, BadReply> {
            Err(BadReply)
        }
    }
    pub fn outcomes_of(
        charges: &[OrderCharge],
        states: &[KeyState],
        at: Timestamp,
        fate: Verdict,
    ) -> Outcomes {
        Outcomes::new()
    }
    pub fn key_name(namespace: &str, charge: &Charge<'_>) -> KeyName {
        KeyName::from_slice(charge.key)
    }
}

pub(super) mod servers {
    use std::sync::Arc;

    use super::super::RedisSettings;

    pub struct Servers;
    /// Why.
    #[derive(Debug)]
    pub struct ConnectError;
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub struct ServerId(pub u32);
    #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
    pub struct Place {
        pub server: ServerId,
        pub slot: u16,
    }
    pub struct Sent {
        pub slot: u16,
        pub command: redis::Cmd,
    }
    #[derive(Debug)]
    pub enum SendError {
        Refused(Box<str>),
        Lost,
        Away,
        Crowded,
    }
    /// Counts.
    #[derive(Clone, Debug)]
    pub struct ServersStats;
    impl Servers {
        pub async fn connect(
            settings: &RedisSettings,
            scripts: &[&'static str],
        ) -> Result<Arc<Self>, ConnectError> {
            Err(ConnectError)
        }
        pub fn place(&self, tag: &[u8]) -> Place {
            Place { server: ServerId(0), slot: 0 }
        }
        pub fn sha(&self, script: usize) -> &str {
            ""
        }
        pub async fn send(&self, server: ServerId, sent: Vec<Sent>) -> Vec<Result<redis::Value, SendError>> {
            Vec::new()
        }
        pub fn stats(&self) -> ServersStats {
            ServersStats
        }
    }
}
