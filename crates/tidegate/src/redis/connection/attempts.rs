//! Failed connection attempts to one server: the last error, and which errors were already reported.

use std::sync::{Mutex, MutexGuard, PoisonError};

use super::connect_error::ConnectError;

/// Connection attempts to one server.
#[derive(Default)]
pub(crate) struct ConnectAttempts(Mutex<AttemptsState>);

#[derive(Default)]
struct AttemptsState {
    last_error: Option<ConnectError>,
    /// The last lasting error that was reported. A lasting error does not go away by itself.
    last_reported: Option<ConnectError>,
}

/// Whether an error needs its own event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Novelty {
    New,
    Repeated,
}

impl ConnectAttempts {
    pub fn record_failure(&self, error: &ConnectError) {
        self.state().last_error = Some(error.clone());
    }

    pub fn record_success(&self) {
        *self.state() = AttemptsState::default();
    }

    /// Why the last attempt failed; none if it succeeded.
    pub fn last_error(&self) -> Option<ConnectError> {
        self.state().last_error.clone()
    }

    /// Records that an error is reported. It is new if it is a lasting error with another cause than the last
    /// one.
    pub fn record_reported(&self, error: &ConnectError) -> Novelty {
        if error.is_transient() {
            return Novelty::Repeated;
        }
        let before = self.state().last_reported.replace(error.clone());
        if before.is_some_and(|before| before.has_same_cause(error)) {
            Novelty::Repeated
        } else {
            Novelty::New
        }
    }

    fn state(&self) -> MutexGuard<'_, AttemptsState> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::{ConnectAttempts, ConnectError, Novelty};
    use crate::redis::ConnectErrorKind as Kind;

    fn error(kind: Kind, message: &str, hint: &str) -> ConnectError {
        ConnectError::new(kind, "10.0.0.7:6379", message, hint)
    }

    #[test]
    fn a_lasting_error_is_new_once_per_cause() {
        let attempts = ConnectAttempts::default();
        let refused = error(Kind::Unreachable, "connection refused", "check host and port");
        let wrong_password = error(Kind::AccessDenied, "WRONGPASS", "the password is wrong");
        let expired = |at: u32| error(Kind::Tls, &format!("expired at {at}"), "renew the certificate");
        let novelties: Vec<_> =
            [&refused, &wrong_password, &refused, &wrong_password, &expired(1), &expired(2), &wrong_password]
                .map(|error| attempts.record_reported(error))
                .into();
        assert_eq!(
            novelties,
            [
                Novelty::Repeated,
                Novelty::New,
                Novelty::Repeated,
                Novelty::Repeated,
                Novelty::New,
                Novelty::Repeated,
                Novelty::New
            ]
        );
        attempts.record_success();
        assert_eq!(attempts.record_reported(&wrong_password), Novelty::New);
    }

    #[test]
    fn the_last_error_is_kept_until_an_attempt_succeeds() {
        let attempts = ConnectAttempts::default();
        assert_eq!(attempts.last_error(), None);
        let errors = ["one", "two"].map(|message| error(Kind::Unreachable, message, "wait"));
        errors.iter().for_each(|error| attempts.record_failure(error));
        assert_eq!(attempts.last_error().as_ref(), errors.last());
        attempts.record_success();
        assert_eq!(attempts.last_error(), None);
    }
}
