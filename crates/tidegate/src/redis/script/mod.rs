//! Calls of the Lua script: how they are written, and what the replies mean.
//!
//! ```text
//! plans  -> Call: keys, terms and groups of plans, as the script reads them   call.rs, term.rs, group.rs
//! reply  -> the states before the call                                        reply.rs, key_state.rs
//!        -> each plan replayed on them by the core, in order                  replay.rs, keys.rs,
//!                                                                             limit_state.rs, leases.rs
//! ```
//!
//! The script decides which plans are admitted and writes the new states. It reports neither what remains nor
//! when to retry. This module computes both from the states that the script saw, with the same code that
//! counts in memory. If a replay decides differently from the script, one of the two is wrong. Then that plan
//! fails, and so do the later plans of the call that share a key with it.
//!
//! Numbers in Lua are doubles. So `term.rs` computes whole parts and remainders here, and the script only
//! adds and compares integers below 2^53. Golden files and random plans check the script against the memory
//! store, to the nanosecond.

mod call;
mod group;
mod key_state;
mod keys;
mod leases;
mod limit_state;
mod replay;
mod reply;
mod term;

#[cfg(all(test, feature = "calendar"))]
use call::{CALL_KEYS_MAX, CALL_PLANS_MAX};

pub(super) use call::{Call, CallTime};
pub(super) use key_state::{KeyState, KeyStates};
pub(super) use leases::{governing_key, lease_keys, new_owner, owner_of};
pub(super) use limit_state::{counts_from, preview_outcomes, whole_micros};
pub(super) use replay::{PlanReply, ReplayError};
pub(super) use reply::BadReply;

/// The script: the files in `lua/`, joined.
pub(super) const SCRIPT: &str = concat!(
    include_str!("../lua/prelude.lua"),
    "\n",
    include_str!("../lua/gcra.lua"),
    "\n",
    include_str!("../lua/gcra_wide.lua"),
    "\n",
    include_str!("../lua/token_bucket.lua"),
    "\n",
    include_str!("../lua/leaky_bucket.lua"),
    "\n",
    include_str!("../lua/windows.lua"),
    "\n",
    include_str!("../lua/fixed_window.lua"),
    "\n",
    include_str!("../lua/sliding_window.lua"),
    "\n",
    include_str!("../lua/usage_log.lua"),
    "\n",
    include_str!("../lua/sliding_log.lua"),
    "\n",
    include_str!("../lua/sub_windows.lua"),
    "\n",
    include_str!("../lua/concurrency.lua"),
    "\n",
    include_str!("../lua/zero_limit.lua"),
    "\n",
    include_str!("../lua/plans.lua"),
    "\n",
    include_str!("../lua/main.lua"),
);

#[cfg(all(test, feature = "calendar"))]
mod tests;
