//! The URL of the store.

use std::fmt;

use mongodb::error::ErrorKind;
use mongodb::options::ConnectionString;

/// The database, if the URL names none.
const DATABASE_DEFAULT: &str = "tidegate";
/// The most bytes of a message of the driver that are repeated.
const MESSAGE_BYTES_MAX: usize = 200;

/// A URL such as `mongodb://user:password@host:27017/database?replicaSet=rs0`. `Debug` hides it.
#[derive(Clone)]
pub struct MongoUrl {
    pub(super) connection: ConnectionString,
    pub(super) database: String,
}

/// Why a URL cannot be used. Does not contain the user or the password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MongoUrlError(String);

impl MongoUrl {
    /// Reads a URL, without a connection.
    pub fn parse(url: &str) -> Result<Self, MongoUrlError> {
        if url.starts_with("mongodb+srv://") {
            return Err(MongoUrlError(
                "mongodb+srv:// is not supported (hint: name the hosts: mongodb://host1,host2/database?replicaSet=NAME&tls=true)"
                    .to_owned(),
            ));
        }
        let connection = ConnectionString::parse(url).map_err(|_| MongoUrlError(problem(url)))?;
        let database = connection.default_database.clone().unwrap_or_else(|| DATABASE_DEFAULT.to_owned());
        Ok(Self { connection, database })
    }
}

/// What is wrong with a URL. The driver's message may repeat parts of the URL, so it is given one without user and password.
fn problem(url: &str) -> String {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let without_login = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    match ConnectionString::parse(format!("mongodb://{without_login}")) {
        Err(error) => {
            let message = match &*error.kind {
                ErrorKind::InvalidArgument { message, .. } => shortened(message, MESSAGE_BYTES_MAX),
                other => shortened(&other.to_string(), MESSAGE_BYTES_MAX),
            };
            format!("{message} (hint: mongodb://user:password@host:27017/database)")
        }
        Ok(_) => "the user or the password is not valid (hint: percent-encode characters such as `@`, `:`, `/`, `?` and `%`)"
            .to_owned(),
    }
}

/// The beginning of a text.
pub(super) fn shortened(text: &str, bytes_max: usize) -> String {
    let end = (0..=bytes_max.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    text[..end].to_owned()
}

impl fmt::Debug for MongoUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("MongoUrl(..)")
    }
}

impl fmt::Display for MongoUrlError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for MongoUrlError {}

#[cfg(test)]
mod tests {
    use super::MongoUrl;

    #[test]
    fn the_path_names_the_database() {
        let database = |url| MongoUrl::parse(url).map(|url| url.database);
        assert_eq!(database("mongodb://zoe:hunter2@127.0.0.1:27017/limits?w=1"), Ok("limits".to_owned()));
        assert_eq!(database("mongodb://a,b:27018/?replicaSet=rs0"), Ok("tidegate".to_owned()));
    }

    #[test]
    fn errors_have_hints_and_hide_the_password() {
        for url in [
            "mongodb://zoe:hunter2@127.0.0.1:port/db",
            "mongodb://zoe:hunter2@/db",
            "mongodb://zoe:hunter2@host/d b",
            "mongodb://zoe:hunter2@host/db?connectTimeoutMS=soon",
            "mongodb://zoe:hunter2/%2@host/db",
            "mongodb://zoe:hunter2?@host/db",
            "mongodb://zoe:hunter2#@@host/db",
            "mongodb+srv://zoe:hunter2@host/db",
            "mongodb://zoe:hunter2@host/db?authMechanism=hunter3",
        ] {
            let error = MongoUrl::parse(url).expect_err(url).to_string();
            assert!(error.contains("(hint: "), "{url}: {error}");
            assert!(!error.contains("hunter2") && !error.contains("zoe"), "{url}: {error}");
        }
        let url = MongoUrl::parse("mongodb://zoe:hunter2@host").expect("it is valid");
        assert_eq!(format!("{url:?}"), "MongoUrl(..)");
    }
}
