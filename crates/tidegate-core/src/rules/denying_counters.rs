//! Counters that admit nothing. They deny a request that lacks a part of a key with `missing: deny`: its plan gets a
//! charge that never fits, so that all other limits treat the request as denied.

use std::sync::LazyLock;

use crate::{Counter, KeyForm, LimitId, LimitSpec, WINDOW_NS_MIN};

/// A counter that admits nothing, for each key form.
pub(super) struct DenyingCounters {
    plain: Counter,
    values: Counter,
    secret: Counter,
}

/// The counters for all plans.
pub(super) static DENYING_COUNTERS: LazyLock<DenyingCounters> = LazyLock::new(|| {
    let zero = LimitSpec::new(0, WINDOW_NS_MIN).build().expect("zero is a limit");
    let plain = Counter::with_id("", &LimitId::Position(0), zero);
    DenyingCounters {
        values: plain.clone().with_key_form(KeyForm::Values),
        secret: plain.clone().with_key_form(KeyForm::Secret),
        plain,
    }
});

impl DenyingCounters {
    /// The counter for keys in this form.
    pub fn for_key_form(&self, form: KeyForm) -> &Counter {
        match form {
            KeyForm::Plain => &self.plain,
            KeyForm::Values => &self.values,
            KeyForm::Secret => &self.secret,
        }
    }

    /// Whether a counter is one of these.
    pub fn contains(&self, counter: &Counter) -> bool {
        counter.id() == self.plain.id()
    }
}
