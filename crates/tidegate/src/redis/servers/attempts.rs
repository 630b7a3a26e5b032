//! Attempts to connect that failed: why the last one did, and what was told of it.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::connect_error::ConnectError;

/// Attempts to connect to one server.
#[derive(Default)]
pub(super) struct Attempts(Mutex<State>);

#[derive(Default)]
struct State {
    last_error: Option<ConnectError>,
    /// The last error that was told, of those that do not pass by themselves.
    told: Option<ConnectError>,
}

/// Whether an error is worth an event of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum News {
    Yes,
    No,
}

impl Attempts {
    pub fn failed(&self, error: &ConnectError) {
        self.state().last_error = Some(error.clone());
    }

    pub fn succeeded(&self) {
        *self.state() = State::default();
    }

    /// Why the last attempt failed; none if it did not.
    pub fn last_error(&self) -> Option<ConnectError> {
        self.state().last_error.clone()
    }

    /// Notes that an error is told. It is news if it does not pass by itself and has another cause than the last such
    /// error.
    pub fn told(&self, error: &ConnectError) -> News {
        if error.is_passing() {
            return News::No;
        }
        let before = self.state().told.replace(error.clone());
        if before.is_some_and(|before| before.has_cause_of(error)) { News::No } else { News::Yes }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{Attempts, ConnectError, News};
    use crate::redis::ConnectErrorKind as Kind;

    fn error(kind: Kind, what: &str, hint: &str) -> ConnectError {
        ConnectError::new(kind, "10.0.0.7:6379", what, hint)
    }

    #[test]
    fn an_error_that_does_not_pass_is_told_once_for_each_cause() {
        let attempts = Attempts::default();
        let refused = error(Kind::Unreachable, "connection refused", "check host and port");
        let wrong_password = error(Kind::Denied, "WRONGPASS", "the password is wrong");
        let expired = |at: u32| error(Kind::Tls, &format!("expired at {at}"), "renew the certificate");
        let told: Vec<_> =
            [&refused, &wrong_password, &refused, &wrong_password, &expired(1), &expired(2), &wrong_password]
                .map(|error| attempts.told(error))
                .into();
        assert_eq!(told, [News::No, News::Yes, News::No, News::No, News::Yes, News::No, News::Yes]);
        attempts.succeeded();
        assert_eq!(attempts.told(&wrong_password), News::Yes);
    }

    #[test]
    fn the_last_error_is_kept_until_an_attempt_succeeds() {
        let attempts = Attempts::default();
        assert_eq!(attempts.last_error(), None);
        let errors = ["one", "two"].map(|what| error(Kind::Unreachable, what, "wait"));
        errors.iter().for_each(|error| attempts.failed(error));
        assert_eq!(attempts.last_error().as_ref(), errors.last());
        attempts.succeeded();
        assert_eq!(attempts.last_error(), None);
    }
}
