//! What denies a request that lacks a part of its key: a charge in its plan that nothing fits.

use std::sync::LazyLock;

use super::LimitId;
use crate::{Counter, KeyForm, LimitSpec, WINDOW_NS_MIN};

/// A counter that admits nothing, for keys of each form.
pub(super) struct DenyingCounters {
    plain: Counter,
    values: Counter,
    secret: Counter,
}

/// That of all plans.
pub(super) static DENYING_COUNTERS: LazyLock<DenyingCounters> = LazyLock::new(|| {
    let nothing = LimitSpec::new(0, WINDOW_NS_MIN).build().expect("zero is a limit");
    let plain = Counter::with_id("", &LimitId::Position(0), nothing);
    DenyingCounters {
        values: plain.clone().with_key_form(KeyForm::Values),
        secret: plain.clone().with_key_form(KeyForm::Secret),
        plain,
    }
});

impl DenyingCounters {
    /// That for keys of this form.
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
