//! What an error of MongoDB means for the caller of the config store.

use std::time::Duration;

use mongodb::error::{Error, ErrorKind, InsertManyError, WriteFailure};
use tidegate::config::ConfigStoreError;
use tokio::task::JoinError;

use super::url::shortened;

/// The most bytes of a message of the server or the driver that are repeated.
const MESSAGE_BYTES_MAX: usize = 400;

pub(super) const DUPLICATE_KEY: i32 = 11_000;
const UNAUTHORIZED: i32 = 13;
const AUTHENTICATION_FAILED: i32 = 18;
const OUT_OF_DISK_SPACE: i32 = 14_031;
/// Errors of a server that cannot be used now: host unreachable, not found or down, timeouts, elections, shutdowns.
const TEMPORARY_CODES: [i32; 15] =
    [6, 7, 50, 64, 89, 91, 189, 262, 317, 9_001, 10_107, 11_600, 11_602, 13_435, 13_436];

pub(super) fn call_error(error: &Error) -> ConfigStoreError {
    let text = |text: &str| shortened(text, MESSAGE_BYTES_MAX);
    match &*error.kind {
        ErrorKind::Authentication { message, .. } => login_error(&text(message)),
        ErrorKind::Command(error) => server_error(error.code, &text(&error.message)),
        ErrorKind::Write(WriteFailure::WriteError(error)) => server_error(error.code, &text(&error.message)),
        ErrorKind::Write(WriteFailure::WriteConcernError(error)) => concern_error(&text(&error.message)),
        ErrorKind::InsertMany(InsertManyError { write_concern_error: Some(error), .. }) => {
            concern_error(&text(&error.message))
        }
        ErrorKind::InsertMany(InsertManyError { write_errors: Some(errors), .. }) if !errors.is_empty() => {
            server_error(errors[0].code, &text(&errors[0].message))
        }
        ErrorKind::InvalidTlsConfig { message, .. } => unavailable(format!(
            "TLS to MongoDB cannot be set up: {} (hint: check the files that the URL names)",
            text(message)
        )),
        ErrorKind::Io(_)
        | ErrorKind::ServerSelection { .. }
        | ErrorKind::ConnectionPoolCleared { .. }
        | ErrorKind::DnsResolve { .. } => unavailable(format!(
            "MongoDB: {} (hint: is it running, and is the URL correct? The node reconnects by itself)",
            text(&error.kind.to_string())
        )),
        other => ConfigStoreError::Broken(
            format!("MongoDB: {} (hint: is it a MongoDB server?)", text(&other.to_string())).into(),
        ),
    }
}

fn unavailable(reason: String) -> ConfigStoreError {
    ConfigStoreError::Unavailable(reason.into())
}

fn login_error(message: &str) -> ConfigStoreError {
    unavailable(format!(
        "MongoDB refuses the login: {message} (hint: check user, password and `authSource` in the URL)"
    ))
}

fn server_error(code: i32, message: &str) -> ConfigStoreError {
    match code {
        AUTHENTICATION_FAILED => login_error(message),
        UNAUTHORIZED => ConfigStoreError::Broken(
            format!("MongoDB: {message} (hint: give the user the role `readWrite` on the database)").into(),
        ),
        OUT_OF_DISK_SPACE => ConfigStoreError::Full(
            format!("MongoDB has no space left: {message} (hint: free space on its disk)").into(),
        ),
        code if TEMPORARY_CODES.contains(&code) => unavailable(format!(
            "MongoDB cannot answer now: {message} (hint: a write may have been done, so read the key before you repeat it)"
        )),
        code => ConfigStoreError::Broken(
            format!("MongoDB: error {code}: {message} (hint: see the log of the server)").into(),
        ),
    }
}

/// The write was done, but too few servers have it.
fn concern_error(message: &str) -> ConfigStoreError {
    unavailable(format!(
        "MongoDB did not confirm the write: {message} (hint: it may have been done; check that a majority of the replica set runs)"
    ))
}

pub(super) fn timed_out(timeout: Duration) -> ConfigStoreError {
    unavailable(format!(
        "MongoDB did not reply within {timeout:?} (hint: is it running, and is the URL correct? A write may have been done, so \
         read the key before you repeat it)"
    ))
}

/// Other nodes were faster each time.
pub(super) fn contended(losses: u32) -> ConfigStoreError {
    unavailable(format!(
        "other nodes were faster {losses} times in a row (hint: too many nodes write at the same time; try again)"
    ))
}

pub(super) fn versions_used_up() -> ConfigStoreError {
    ConfigStoreError::Broken(
        "the collection has a document with the greatest possible version (hint: delete the document with the greatest `_id`)"
            .into(),
    )
}

/// The task of a call did not end: its runtime was shut down, or the driver panicked.
pub(super) fn task_error(error: &JoinError) -> ConfigStoreError {
    if error.is_panic() {
        return ConfigStoreError::Broken(
            "the MongoDB driver panicked (hint: report this with the log)".into(),
        );
    }
    unavailable("the runtime of the server has ended (hint: none; the server stops)".to_owned())
}
