//! The URL of a table: `dynamodb://TABLE?region=REGION&endpoint=URL&create=true`.

use crate::http_client::HttpAddress;

/// The scheme of the URL.
pub const SCHEME: &str = "dynamodb";
/// The form of the URL, for hints.
const FORM: &str =
    "dynamodb://TABLE?region=eu-central-1, and for another endpoint &endpoint=https://host:port";
/// The bounds of DynamoDB for the name of a table.
const TABLE_NAME_LEN: std::ops::RangeInclusive<usize> = 3..=255;
const REGION_LEN_MAX: usize = 40;

/// Where a table is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DynamoSettings {
    /// The name of the table.
    pub table: String,
    /// The region, which is part of each signature.
    pub region: String,
    /// The server, with its port.
    pub address: HttpAddress,
    /// What the header `Host` says: the server, without the default port of its protocol.
    pub host: String,
    /// What to do if the table does not exist.
    pub missing_table: MissingTable,
}

/// What to do if the table does not exist.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum MissingTable {
    /// Calls fail, with the command that creates it.
    #[default]
    Report,
    /// The first call creates it.
    Create,
}

impl DynamoSettings {
    /// Parses a URL. `variable` reads the environment. Returns the reason and a hint if it is not valid.
    pub fn parse(url: &str, variable: impl Fn(&str) -> Option<String>) -> Result<Self, String> {
        let rest = url.strip_prefix(SCHEME).and_then(|rest| rest.strip_prefix("://"));
        let rest = rest.ok_or_else(|| format!("it is not a URL of DynamoDB (hint: {FORM})"))?;
        let (table, query) = rest.split_once('?').unwrap_or((rest, ""));
        let table = table.strip_suffix('/').unwrap_or(table);
        let is_name_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '_' | '-' | '.');
        if !TABLE_NAME_LEN.contains(&table.len()) || !table.chars().all(is_name_char) {
            return Err(format!(
                "the name of a DynamoDB table has 3 to 255 letters, digits, `_`, `-` and `.` (hint: {FORM})"
            ));
        }
        let (mut region, mut endpoint, mut missing_table) = (None, None, MissingTable::default());
        for option in query.split('&').filter(|option| !option.is_empty()) {
            let (name, value) = option.split_once('=').unwrap_or((option, ""));
            match (name, value) {
                ("region", _) => region = Some(value.to_owned()),
                ("endpoint", _) => endpoint = Some(value),
                ("create", "true") => missing_table = MissingTable::Create,
                ("create", "false") => missing_table = MissingTable::Report,
                ("create", _) => return Err("`create` is `true` or `false`".to_owned()),
                _ => return Err(format!("an option is none of region, endpoint and create (hint: {FORM})")),
            }
        }
        let region = region
            .or_else(|| variable("AWS_REGION"))
            .or_else(|| variable("AWS_DEFAULT_REGION"))
            .ok_or("the region is missing (hint: add ?region=eu-central-1 to the URL, or set AWS_REGION)")?;
        let is_region_char = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
        if region.is_empty() || region.len() > REGION_LEN_MAX || !region.chars().all(is_region_char) {
            return Err("the region is not a name such as eu-central-1".to_owned());
        }
        let endpoint = endpoint.map_or_else(|| default_endpoint(&region), str::to_owned);
        let (address, host) = parse_endpoint(&endpoint)?;
        Ok(Self { table: table.to_owned(), region, address, host, missing_table })
    }
}

fn default_endpoint(region: &str) -> String {
    let domain = if region.starts_with("cn-") { "amazonaws.com.cn" } else { "amazonaws.com" };
    format!("https://dynamodb.{region}.{domain}")
}

/// The address of an endpoint, and what the header `Host` says. The port may be missing.
pub(super) fn parse_endpoint(endpoint: &str) -> Result<(HttpAddress, String), String> {
    let invalid = || "the endpoint is not a URL such as http://127.0.0.1:8000".to_owned();
    let (scheme, host) = endpoint.split_once("://").ok_or_else(invalid)?;
    let default_port = match scheme {
        "http" => ":80",
        "https" => ":443",
        _ => return Err(invalid()),
    };
    let host = host.strip_suffix('/').unwrap_or(host);
    let is_host_char = |c: char| c.is_ascii_alphanumeric() || matches!(c, '.' | '-' | '_' | ':' | '[' | ']');
    if !host.chars().all(is_host_char) {
        return Err(invalid());
    }
    let has_port = host.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
    let with_port = if has_port { host.to_owned() } else { format!("{host}{default_port}") };
    let address = format!("{scheme}://{with_port}").parse().map_err(|_| invalid())?;
    let shown = with_port.strip_suffix(default_port).unwrap_or(&with_port);
    Ok((address, shown.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::{DynamoSettings, MissingTable};

    fn parse(url: &str) -> Result<DynamoSettings, String> {
        DynamoSettings::parse(url, |_| None)
    }

    #[test]
    fn urls_name_a_table_and_its_endpoint() {
        let settings = parse("dynamodb://tidegate-config?region=eu-central-1").unwrap();
        assert_eq!((&*settings.table, &*settings.region), ("tidegate-config", "eu-central-1"));
        assert_eq!(settings.address.to_string(), "https://dynamodb.eu-central-1.amazonaws.com:443");
        assert_eq!(settings.host, "dynamodb.eu-central-1.amazonaws.com");
        assert_eq!(settings.missing_table, MissingTable::Report);
        let china = parse("dynamodb://table?region=cn-north-1").unwrap();
        assert_eq!(china.host, "dynamodb.cn-north-1.amazonaws.com.cn");
        let local =
            parse("dynamodb://table?region=us-east-1&endpoint=http://127.0.0.1:8000&create=true").unwrap();
        assert_eq!(
            (local.address.to_string(), &*local.host),
            ("http://127.0.0.1:8000".to_owned(), "127.0.0.1:8000")
        );
        assert_eq!(local.missing_table, MissingTable::Create);
        let from_environment = DynamoSettings::parse("dynamodb://table", |name| {
            (name == "AWS_REGION").then(|| "us-west-2".to_owned())
        });
        assert_eq!(from_environment.unwrap().region, "us-west-2");
    }

    #[test]
    fn bad_urls_are_errors() {
        for url in [
            "dynamodb:table",
            "dynamodb://?region=us-east-1",
            "dynamodb://ab?region=us-east-1",
            "dynamodb://user:hunter2@table?region=us-east-1",
            "dynamodb://table",
            "dynamodb://table?region=",
            "dynamodb://table?region=EU central",
            "dynamodb://table?region=us-east-1&endpoint=127.0.0.1:8000",
            "dynamodb://table?region=us-east-1&endpoint=http://host:8000/hunter2",
            "dynamodb://table?region=us-east-1&create=yes",
            "dynamodb://table?region=us-east-1&password=hunter2",
        ] {
            let error = parse(url).unwrap_err();
            assert!(!error.contains("hunter2"), "{url}: {error}");
        }
    }
}
