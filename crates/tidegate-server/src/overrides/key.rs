//! Keys in arguments, and the author.

use std::fmt;
use std::str::FromStr;

use clap::Args;
use serde_json::{Map, Value};

/// An attribute of a key with its value: `user=241531`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct KeyAttribute {
    pub name: String,
    pub value: String,
}

/// The text has no `=`.
#[derive(Clone, Copy, Debug)]
pub struct KeyAttributeError;

/// Which override.
#[derive(Args, Debug)]
pub struct PlaceArgs {
    /// Domain of the rule
    #[arg(long)]
    pub domain: String,

    /// Name of the rule
    #[arg(long)]
    pub rule: String,

    /// Attribute of the key with its value; once for each attribute. One value may begin or end with *
    #[arg(long = "key", value_name = "NAME=VALUE", required = true)]
    pub key: Vec<KeyAttribute>,

    /// Name of the limit, if several limits of the rule have this key
    #[arg(long, value_name = "NAME")]
    pub limit_name: Option<String>,
}

impl PlaceArgs {
    /// The fields of a request.
    pub fn fields(&self) -> Map<String, Value> {
        let mut fields = Map::new();
        fields.insert("domain".into(), self.domain.clone().into());
        fields.insert("rule".into(), self.rule.clone().into());
        fields.insert("key".into(), key_json(&self.key));
        put(&mut fields, "limit_name", self.limit_name.clone());
        fields
    }
}

/// The key as JSON.
pub fn key_json(key: &[KeyAttribute]) -> Value {
    key.iter().map(|attribute| (attribute.name.clone(), Value::from(attribute.value.clone()))).collect()
}

/// Inserts a field that is set.
pub fn put(fields: &mut Map<String, Value>, name: &str, value: Option<impl Into<Value>>) {
    if let Some(value) = value {
        fields.insert(name.to_owned(), value.into());
    }
}

/// The author of a change: as given, or the login name.
pub fn author(given: Option<&str>) -> Option<String> {
    let login = || ["USER", "LOGNAME"].into_iter().find_map(|name| std::env::var(name).ok());
    given.map(str::to_owned).or_else(login).filter(|author| !author.is_empty())
}

impl FromStr for KeyAttribute {
    type Err = KeyAttributeError;

    fn from_str(text: &str) -> Result<Self, KeyAttributeError> {
        match text.split_once('=') {
            Some((name, value)) if !name.is_empty() => Ok(Self { name: name.into(), value: value.into() }),
            _ => Err(KeyAttributeError),
        }
    }
}

impl fmt::Display for KeyAttributeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("it is not an attribute with a value (hint: write user=241531)")
    }
}

impl std::error::Error for KeyAttributeError {}
