//! All integration tests of the library, in one binary, because each further binary has to be linked.

mod check_many;
#[cfg(feature = "rules")]
mod config_store;
#[cfg(feature = "rules")]
mod engine;
#[cfg(feature = "rules")]
mod engine_fleet;
#[cfg(feature = "etcd")]
mod etcd_store;
mod examples;
mod executor;
mod floods;
mod golden;
#[cfg(feature = "identity")]
mod identity;
mod lease_suite;
mod leases;
mod limiter;
mod mixed;
mod modes;
mod observed;
#[cfg(feature = "rules")]
mod override_cache;
#[cfg(feature = "rules")]
mod override_filter;
mod pacer;
mod queue;
#[cfg(feature = "redis")]
mod redis_store;
#[cfg(feature = "rules")]
mod rule_tests;
#[cfg(feature = "rules")]
mod rules_envoy;
#[cfg(feature = "rules")]
mod rules_file;
#[cfg(feature = "rules")]
mod rules_source;
mod shared_store;
mod snapshot;
mod store;
#[cfg(feature = "rules")]
mod stored_rules;
mod threads;
#[cfg(feature = "tower")]
mod tower;
mod wait_result;
