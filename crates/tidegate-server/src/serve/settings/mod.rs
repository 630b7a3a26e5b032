//! What can be set, by flags, by the environment and in a file.
//!
//! ```text
//! args.rs       every setting, once: its flag, environment name, default and help
//! values.rs     what their values may be; secret.rs those that are not shown
//! store.rs      where counters are, with a password that is not shown either
//! file.rs       the settings file, by what args.rs says
//! together.rs   what does not go together
//! bounds.rs     what listeners are told of it
//! ```

mod args;
mod bounds;
mod environment;
mod file;
mod secret;
mod store;
mod together;
mod values;

pub use args::{CONNECTIONS_MAX_DEFAULT, ServeArgs};
pub use bounds::Bounds;
pub use environment::{misspelled_variables, variable_of_error};
pub use secret::{EmptySecret, Secret};
pub use store::StoreLocation;
pub use values::{LogFormat, LogKeys, LogLevel, PrintAddresses, RlsDetails};

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use clap::{CommandFactory as _, FromArgMatches as _};
use tidegate::redis::RedisSettings;
use tidegate::rules::Report;

use file::FileError;

/// The largest file with a secret, in bytes.
const SECRET_FILE_BYTES_MAX: u64 = 4 << 10;

/// What was set, all of it in order.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Flags over the environment over the file over defaults.
    pub args: ServeArgs,
    /// The token of operators, wherever it was from.
    pub admin_token: Option<Secret>,
    /// The password of clients of the protocol of Redis, wherever it was from.
    pub resp_password: Option<Secret>,
    /// The store that a fleet shares, if counters are not in memory.
    pub store: Option<RedisSettings>,
}

/// Why settings are of no use.
#[derive(Debug)]
pub enum SettingsError {
    /// The call, which says how it would be right; or a call for help.
    Usage(Box<clap::Error>),
    /// The file.
    File(Report),
    /// All else, each with a hint.
    Problems(Vec<String>),
}

impl Settings {
    /// From what was written after `tidegate serve`, the environment, and the file that either may name.
    pub fn load(arguments: impl IntoIterator<Item = OsString>) -> Result<Self, SettingsError> {
        let call = |error: clap::Error| SettingsError::Usage(Box::new(error));
        let command = ServeArgs::command();
        let mut arguments: Vec<OsString> =
            std::iter::once("tidegate serve".into()).chain(arguments).collect();
        let given = command.clone().try_get_matches_from(&arguments).map_err(call)?;
        if let Some(path) = given.get_one::<PathBuf>("config") {
            arguments.extend(file::read_arguments(path, &command, &given)?);
        }
        let matches = command.try_get_matches_from(&arguments).map_err(call)?;
        Self::from_args(ServeArgs::from_arg_matches(&matches).map_err(call)?)
    }

    /// These, if they go together.
    pub fn from_args(args: ServeArgs) -> Result<Self, SettingsError> {
        let mut problems = together::find_conflicts(&args);
        let mut from_file = |name: &str, path: &Option<PathBuf>| {
            let read = path.as_deref().map(|path| read_secret(name, path)).transpose();
            read.unwrap_or_else(|problem| {
                problems.push(problem);
                None
            })
        };
        let admin_token = from_file("admin_token_file", &args.admin_token_file);
        let resp_password = from_file("resp_password_file", &args.resp_password_file);
        let store = store::redis_settings(&args).unwrap_or_else(|problem| {
            problems.push(problem);
            None
        });
        if !problems.is_empty() {
            return Err(SettingsError::Problems(problems));
        }
        Ok(Self {
            admin_token: args.admin_token.clone().or(admin_token),
            resp_password: args.resp_password.clone().or(resp_password),
            store,
            args,
        })
    }

    /// What a connection may take.
    pub fn bounds(&self) -> Bounds {
        Bounds {
            header_timeout: self.args.header_timeout,
            idle_timeout: self.args.idle_timeout,
            ..Bounds::default()
        }
    }
}

impl From<FileError> for SettingsError {
    fn from(error: FileError) -> Self {
        match error {
            FileError::Invalid(report) => Self::File(report),
            FileError::Unreadable { path, error } => Self::Problems(vec![format!(
                "the settings file `{}` cannot be read: {error} (hint: check the path given by --config or \
                 TIDEGATE_CONFIG)",
                path.display()
            )]),
        }
    }
}

/// A secret from a file, without the end of its line.
fn read_secret(name: &str, path: &Path) -> Result<Secret, String> {
    use std::io::Read as _;
    let mut text = String::new();
    let read = std::fs::File::open(path)
        .and_then(|file| file.take(SECRET_FILE_BYTES_MAX + 1).read_to_string(&mut text));
    let shown = path.display();
    match read {
        Err(error) => Err(format!("{name} `{shown}` cannot be read: {error} (hint: check the path)")),
        Ok(bytes) if bytes as u64 > SECRET_FILE_BYTES_MAX => Err(format!(
            "{name} `{shown}` has more than {SECRET_FILE_BYTES_MAX} bytes (hint: put the secret alone into it)"
        )),
        Ok(_) => {
            text.trim_end_matches(['\r', '\n']).parse().map_err(|error| format!("{name} `{shown}`: {error}"))
        }
    }
}
