//! Leases in etcd, with real members that the tests start, kill and pause.

mod access;
mod conformance;
mod fencing;
mod leader_loss;
mod locks;
mod mixed;
mod setup;
mod without_majority;
