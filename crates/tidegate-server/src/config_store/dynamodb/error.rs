//! What an error of DynamoDB means for the caller.

use serde::Deserialize;
use serde_json::{Map, Value};
use tidegate::config::ConfigStoreError;

use super::table::{PARTITION, SORT, create_commands};
use super::url::DynamoSettings;

/// The characters of a message to repeat at most.
const MESSAGE_CHARS_MAX: usize = 300;
/// The actions of IAM that the store needs. Transactions need those of their parts.
pub(super) const ACTIONS: &str =
    "dynamodb:GetItem, dynamodb:Query, dynamodb:PutItem, dynamodb:UpdateItem, dynamodb:DeleteItem";

/// Why there is no reply.
#[derive(Clone, Debug)]
pub(super) enum CallError {
    /// The server cannot be reached or did not answer in time. It may have got the request.
    NoReply(String),
    /// There are no credentials to sign the request with.
    NoCredentials(ConfigStoreError),
    /// The server answered with an error.
    Refused(ApiError),
}

/// An error that DynamoDB answered with.
#[derive(Clone, Debug, Default)]
pub(super) struct ApiError {
    pub status: u16,
    /// The name of the error, without its namespace.
    pub code: String,
    pub message: String,
    /// For a transaction that was cancelled: one reason for each of its actions.
    pub reasons: Vec<CancellationReason>,
}

/// Why a transaction was cancelled, for one of its actions.
#[derive(Clone, Debug, Default, Deserialize)]
pub(super) struct CancellationReason {
    #[serde(rename = "Code", default)]
    pub code: String,
    #[serde(rename = "Message", default)]
    pub message: Option<String>,
    /// The item, if its condition did not hold and it exists.
    #[serde(rename = "Item")]
    pub item: Option<Map<String, Value>>,
}

#[derive(Default, Deserialize)]
struct ErrorBody {
    #[serde(rename = "__type", default)]
    kind: String,
    message: Option<String>,
    #[serde(rename = "Message")]
    capital_message: Option<String>,
    #[serde(rename = "CancellationReasons", default)]
    reasons: Vec<CancellationReason>,
}

impl CancellationReason {
    pub fn is_condition(&self) -> bool {
        self.code == "ConditionalCheckFailed"
    }

    /// Whether the same transaction may succeed later.
    fn is_transient(&self) -> bool {
        matches!(&*self.code, "TransactionConflict" | "ThrottlingError" | "ProvisionedThroughputExceeded")
    }
}

impl ApiError {
    /// Reads the body of a reply with an error status.
    pub fn parse(status: u16, body: &[u8]) -> Self {
        let parsed: ErrorBody = serde_json::from_slice(body).unwrap_or_default();
        let code = parsed.kind.rsplit('#').next().unwrap_or_default().to_owned();
        let message = parsed.message.or(parsed.capital_message).unwrap_or_default();
        let message: String = message.chars().take(MESSAGE_CHARS_MAX).collect();
        Self { status, code, message, reasons: parsed.reasons }
    }

    /// Whether the same request may succeed later, and has not been done.
    pub fn is_transient(&self) -> bool {
        match &*self.code {
            "TransactionCanceledException" => {
                self.reasons.iter().any(CancellationReason::is_transient)
                    && !self.reasons.iter().any(CancellationReason::is_condition)
            }
            "ProvisionedThroughputExceededException"
            | "ThrottlingException"
            | "RequestLimitExceeded"
            | "TransactionConflictException"
            // The first attempt of the same transaction still runs.
            | "TransactionInProgressException"
            | "LimitExceededException" => true,
            _ => self.status >= 500,
        }
    }

    pub fn is_missing_table(&self) -> bool {
        self.code == "ResourceNotFoundException"
    }

    /// Whether other credentials may be accepted.
    pub fn is_credentials(&self) -> bool {
        matches!(
            &*self.code,
            "ExpiredTokenException" | "ExpiredToken" | "UnrecognizedClientException" | "InvalidClientTokenId"
        )
    }
}

impl CallError {
    /// The error for the caller.
    pub fn into_config_error(self, settings: &DynamoSettings) -> ConfigStoreError {
        let server = format!("DynamoDB at {}", settings.address);
        let unavailable = |reason: String| ConfigStoreError::Unavailable(reason.into());
        match self {
            Self::NoCredentials(error) => error,
            Self::NoReply(reason) => unavailable(format!(
                "{server} did not answer: {reason} (hint: check the endpoint and the region; a write may have been done, so read \
                 the key before you repeat it)"
            )),
            Self::Refused(error) if error.is_transient() => unavailable(format!(
                "{server} cannot answer now: {} (hint: if this persists, raise the capacity of the table `{}`, or write less)",
                error.describe(),
                settings.table
            )),
            Self::Refused(error) => ConfigStoreError::Broken(
                format!("{server}: {}{}", error.describe(), error.hint(settings)).into(),
            ),
        }
    }
}

impl ApiError {
    fn describe(&self) -> String {
        let Self { status, code, message, .. } = self;
        let reason = self.reasons.iter().find(|reason| !matches!(&*reason.code, "" | "None"));
        let reason = reason.map_or_else(String::new, |reason| {
            let message = reason.message.as_deref().unwrap_or_default();
            let message: String = message.chars().take(MESSAGE_CHARS_MAX).collect();
            format!(" ({}: {message})", reason.code)
        });
        match code.is_empty() {
            true => format!("status {status}"),
            false => format!("{code}: {message}{reason}"),
        }
    }

    fn hint(&self, settings: &DynamoSettings) -> String {
        let DynamoSettings { table, region, .. } = settings;
        match &*self.code {
            "ResourceNotFoundException" => format!(
                " (hint: there is no table `{table}` in {region}; create it: {}; or add create=true to the URL)",
                create_commands(settings)
            ),
            "UnrecognizedClientException"
            | "InvalidClientTokenId"
            | "MissingAuthenticationTokenException"
            | "MissingAuthenticationToken"
            | "IncompleteSignatureException" => {
                " (hint: check AWS_ACCESS_KEY_ID and AWS_SESSION_TOKEN)".to_owned()
            }
            "InvalidSignatureException" | "SignatureDoesNotMatch" => {
                " (hint: check AWS_SECRET_ACCESS_KEY and the clock of this machine)".to_owned()
            }
            "ExpiredTokenException" | "ExpiredToken" => {
                " (hint: AWS_SESSION_TOKEN has expired; set new credentials and restart, or use a role)"
                    .to_owned()
            }
            "AccessDeniedException" | "AccessDenied" => {
                format!(" (hint: allow these actions on the table `{table}`: {ACTIONS})")
            }
            "ValidationException" | "TransactionCanceledException" => format!(
                " (hint: the keys of the table `{table}` must be the strings `{PARTITION}` and `{SORT}`; to create such a table: \
                 {})",
                create_commands(settings)
            ),
            _ if self.code.is_empty() => " (hint: is the endpoint DynamoDB?)".to_owned(),
            _ => String::new(),
        }
    }
}

/// A reply or an item that this store does not write.
pub(super) fn unexpected(what: &str, settings: &DynamoSettings) -> ConfigStoreError {
    let reason = format!(
        "{what} in the table `{}` is not what Tidegate wrote (hint: give Tidegate a table of its own)",
        settings.table
    );
    ConfigStoreError::Broken(reason.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(body: &str) -> ApiError {
        ApiError::parse(400, body.as_bytes())
    }

    fn text(error: ApiError) -> String {
        let settings = DynamoSettings::parse("dynamodb://limits?region=us-east-1", |_| None).unwrap();
        CallError::Refused(error).into_config_error(&settings).to_string()
    }

    #[test]
    fn transient_errors_are_tried_again() {
        for body in [
            r#"{"__type":"com.amazonaws.dynamodb.v20120810#ThrottlingException","message":"slow"}"#,
            r#"{"__type":"x#TransactionInProgressException"}"#,
            r#"{"__type":"x#TransactionCanceledException","CancellationReasons":[{"Code":"None"},{"Code":"TransactionConflict"}]}"#,
        ] {
            assert!(error(body).is_transient(), "{body}");
        }
        let condition = r#"{"__type":"x#TransactionCanceledException","CancellationReasons":
            [{"Code":"TransactionConflict"},{"Code":"ConditionalCheckFailed","Item":{"ver":{"N":"7"}}}]}"#;
        assert!(!error(condition).is_transient() && error(condition).reasons[1].item.is_some());
        assert!(ApiError::parse(503, b"<html>").is_transient());
        assert!(!ApiError::parse(403, b"<html>").is_transient());
    }

    #[test]
    fn errors_have_hints() {
        let cases = [
            ("ResourceNotFoundException", "aws dynamodb create-table --region us-east-1 --table-name limits"),
            ("UnrecognizedClientException", "AWS_ACCESS_KEY_ID"),
            ("InvalidSignatureException", "the clock of this machine"),
            ("AccessDeniedException", "dynamodb:UpdateItem"),
            ("ValidationException", "must be the strings `pk` and `sk`"),
        ];
        for (code, hint) in cases {
            let text = text(error(&format!(r#"{{"__type":"a#{code}","message":"no"}}"#)));
            assert!(text.contains("(hint: ") && text.contains(hint) && text.contains(code), "{text}");
        }
        assert!(text(error("not JSON")).contains("is the endpoint DynamoDB?"));
    }
}
