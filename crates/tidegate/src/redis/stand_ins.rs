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
