//! What is said to Redis, and what its reply means.
//!
//! ```text
//! Orders -> Call: keys, terms and groups of plans, as the script reads them      call.rs, term.rs, group.rs
//! reply  -> states as they were before the call                                  reply.rs, states.rs
//!        -> each order played on them by the core's algorithms, in turn          replay.rs, keys.rs, line.rs, leases.rs
//! ```
//!
//! The script decides who is admitted and writes what is left; it says neither what remains nor when to retry. That is
//! worked out here from the states that it saw, by the same code that counts in memory. A replay that comes to another
//! verdict than the script did is an error of that order, and of those after it that touch the same keys: one of the two is
//! wrong.

mod call;
mod group;
mod keys;
mod leases;
mod limit_state;
mod replay;
mod reply;
mod key_state;
mod term;

#[cfg(all(test, feature = "calendar"))]
use call::{CALL_KEYS_MAX, CALL_PLANS_MAX};
pub(super) use call::{Call, CallTime};
pub(super) use leases::{is_token_of, new_owner};
pub(super) use limit_state::{counts_from, preview_outcomes, whole_micros};
pub(super) use replay::{ReplayError, PlanReply};
pub(super) use reply::BadReply;
pub(super) use key_state::{KeyState, KeyStates};

/// The script: the files in `lua/`, one after the other.
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
    include_str!("../lua/ledger.lua"),
    "\n",
    include_str!("../lua/sliding_log.lua"),
    "\n",
    include_str!("../lua/sub_windows.lua"),
    "\n",
    include_str!("../lua/concurrency.lua"),
    "\n",
    include_str!("../lua/nothing.lua"),
    "\n",
    include_str!("../lua/plans.lua"),
    "\n",
    include_str!("../lua/main.lua"),
);

#[cfg(all(test, feature = "calendar"))]
mod tests;
