//! Counters: where a limit counts, and what identifies them.

use std::hash::Hasher;
use std::num::NonZeroU32;

use siphasher::sip::SipHasher13;

use crate::algorithm::{CountDenied, FastPath, PackedAlgorithm};
use crate::{Algorithm, Limit, LimitId};

/// A limit with the identity of its counters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Counter {
    id: CounterId,
    /// Follows from the limit.
    fast_path: Option<FastPath>,
    limit: Limit,
    key_form: KeyForm,
}

/// Identifies a limit of a rule and the format of its state. Together with a key it identifies a counter.
///
/// Stored state is found by this number, so it is stable across processes, platforms and versions. L and burst are not
/// part of it, so changing them keeps every count. The algorithm, W and n are part of it, so a state is never read in
/// the wrong format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct CounterId(u64);

/// What the bytes of a counter's keys are, for code that shows keys to people.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum KeyForm {
    /// What a caller passed as the key.
    #[default]
    Plain,
    /// Values by rules, which [`key_values`](crate::key_values) decodes.
    Values,
    /// Values that may be secrets. Do not show them.
    Secret,
}

impl Counter {
    /// The counter of the limit at this position in `rule`. A limit with a name is identified by its name, whatever its
    /// position.
    pub fn new(rule: &str, position: usize, limit: Limit) -> Self {
        Self::with_id(rule, &LimitId::from_limit(&limit, position), limit)
    }

    /// The counter of the limit that `id` identifies in `rule`, whatever its name and position are now.
    pub fn with_id(rule: &str, id: &LimitId, limit: Limit) -> Self {
        let mut hasher = SipHasher13::new();
        let mut write = |field: &[u8]| {
            hasher.write(&(field.len() as u64).to_le_bytes());
            hasher.write(field);
        };
        write(rule.as_bytes());
        match id {
            LimitId::Name(name) => write(name.as_bytes()),
            LimitId::Position(position) => write(&(*position as u64).to_le_bytes()),
        }
        write(limit.state_format().as_bytes());
        Self::from_parts(CounterId(hasher.finish()), limit, KeyForm::Plain)
    }

    /// The counter of a `gcra` limit that only its rule identifies. A key then has one arrival time, whatever L, W and
    /// burst a request comes with. `None` for another algorithm.
    ///
    /// This is sound because the state of `gcra` is an instant, which means the same under every rate. The remainder
    /// below one nanosecond is in units of 1/L. Read under another L, it is still less than one nanosecond.
    pub fn shared_gcra(rule: &str, limit: Limit) -> Option<Self> {
        let Algorithm::Packed(PackedAlgorithm::Gcra(_)) = limit.algorithm() else { return None };
        let mut hasher = SipHasher13::new();
        hasher.write(&(rule.len() as u64).to_le_bytes());
        hasher.write(rule.as_bytes());
        hasher.write(b"gcra");
        Some(Self::from_parts(CounterId(hasher.finish()), limit, KeyForm::Plain))
    }

    /// The same counter with another L, as set by a signal or a request.
    #[must_use]
    pub fn resized(&self, limit: u64) -> Self {
        Self::from_parts(self.id, self.limit.resized(limit), self.key_form)
    }

    /// The same counter that counts these denied requests, if it is a fixed window.
    #[must_use]
    pub fn counting_denied(self, count_denied: CountDenied) -> Self {
        Self::from_parts(self.id, self.limit.counting_denied(count_denied), self.key_form)
    }

    /// The same counter with keys in this form.
    #[must_use]
    pub fn with_key_form(self, key_form: KeyForm) -> Self {
        Self { key_form, ..self }
    }

    /// What the bytes of its keys are.
    #[inline]
    pub fn key_form(&self) -> KeyForm {
        self.key_form
    }

    /// The same counter with the limit divided among this many nodes.
    #[must_use]
    pub fn node_share(&self, nodes: NonZeroU32) -> Self {
        Self::from_parts(self.id, self.limit.node_share(nodes), self.key_form)
    }

    fn from_parts(id: CounterId, limit: Limit, key_form: KeyForm) -> Self {
        Self { id, fast_path: FastPath::new(limit.algorithm()), limit, key_form }
    }

    /// How one unit is charged in the common case, if the limit has a fast path.
    #[inline(always)]
    pub fn fast_path(&self) -> Option<&FastPath> {
        self.fast_path.as_ref()
    }

    /// The identity of the counter.
    #[inline]
    pub fn id(&self) -> CounterId {
        self.id
    }

    /// The limit.
    #[inline]
    pub fn limit(&self) -> &Limit {
        &self.limit
    }

    /// How the limit counts.
    #[inline]
    pub fn algorithm(&self) -> &Algorithm {
        self.limit.algorithm()
    }
}

impl CounterId {
    /// The number itself.
    #[inline]
    pub const fn get(self) -> u64 {
        self.0
    }
}
