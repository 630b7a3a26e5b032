//! The settings file: `data_dir: /var/lib/tidegate` is `--data-dir /var/lib/tidegate`.
//!
//! What may stand in it, and what its values may be, is what the command line knows: names are its arguments, and every
//! value is parsed by it. What the file says becomes arguments, unless a flag or the environment says it.

use std::ffi::OsString;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::parser::ValueSource;
use clap::{Arg, ArgMatches, Command, ValueHint};
use tidegate::rules::{FlatField, FlatFile, FlatValue, Report};
use tidegate_core::text::did_you_mean;

use super::args::SECRETS;

/// Arguments that are not settings, or are of no use in a file.
const NOT_IN_A_FILE: [&str; 3] = ["config", "help", "version"];

/// The largest settings file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why a settings file is of no use.
#[derive(Debug)]
pub enum FileError {
    /// It cannot be read.
    Unread { path: PathBuf, error: io::Error },
    /// Something in it is wrong.
    Wrong(Report),
}

/// What a settings file says that `given` does not, as arguments.
pub fn arguments(path: &Path, command: &Command, given: &ArgMatches) -> Result<Vec<OsString>, FileError> {
    let bytes = read(path).map_err(|error| FileError::Unread { path: path.to_owned(), error })?;
    let mut file = FlatFile::read(&path.to_string_lossy(), &bytes, &SECRETS).map_err(FileError::Wrong)?;
    let directory = path.parent().unwrap_or(Path::new(""));
    let mut arguments = Vec::new();
    for field in file.fields().to_vec() {
        let Some(setting) = known(&mut file, command, &field) else { continue };
        let mut said = Vec::new();
        for value in &field.values {
            let argument = argument(setting, value, directory);
            if let Err(refused) = refusal(command, setting, &argument) {
                file.refuse("wrong-value", value.at, refused.problem, refused.hint.as_deref());
            }
            said.push(argument);
        }
        if said.len() > 1 && !takes_several(setting) {
            let message = format!("`{}` takes one value, and here are {}", field.name, said.len());
            file.refuse("several-values", field.values[1].at, message, Some("leave one"));
        }
        if !is_given(given, setting) {
            arguments.extend(said);
        }
    }
    file.finish().map(|()| arguments).map_err(FileError::Wrong)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match File::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)? as u64 {
        0..=FILE_BYTES_MAX => Ok(bytes),
        _ => Err(io::Error::other(format!("it has more than {FILE_BYTES_MAX} bytes"))),
    }
}

/// The argument that a field sets.
fn known<'c>(file: &mut FlatFile, command: &'c Command, field: &FlatField) -> Option<&'c Arg> {
    let settings = || command.get_arguments().filter(|arg| !NOT_IN_A_FILE.contains(&arg.get_id().as_str()));
    let found = settings().find(|arg| arg.get_id() == field.name.as_str());
    if found.is_none() {
        let names: Vec<&str> = settings().map(|arg| arg.get_id().as_str()).collect();
        // Those who copy a flag write dashes.
        let name = field.name.trim_start_matches('-').replace('-', "_");
        let hint = did_you_mean(&name, &names).unwrap_or_else(|| format!("there are: {}", names.join(", ")));
        let message = format!("there is no setting `{}`", shown(&field.name));
        file.refuse("unknown-setting", field.at, message, Some(&hint));
    }
    found
}

/// `--name=value`. Paths are seen from where the file is.
fn argument(setting: &Arg, value: &FlatValue, directory: &Path) -> OsString {
    let mut argument = OsString::from(format!("--{}=", setting.get_long().unwrap_or_default()));
    match (setting.get_value_hint(), value.text.strip_prefix("unix:")) {
        (ValueHint::FilePath | ValueHint::DirPath | ValueHint::AnyPath, _) if !value.text.is_empty() => {
            argument.push(directory.join(&value.text));
        }
        (ValueHint::Hostname, Some(path)) if !path.is_empty() => {
            argument.push("unix:");
            argument.push(directory.join(path));
        }
        _ => argument.push(&value.text),
    }
    argument
}

fn takes_several(setting: &Arg) -> bool {
    matches!(setting.get_action(), clap::ArgAction::Append)
}

/// Whether a flag or the environment says it.
fn is_given(given: &ArgMatches, setting: &Arg) -> bool {
    let source = given.value_source(setting.get_id().as_str());
    matches!(source, Some(ValueSource::CommandLine | ValueSource::EnvVariable))
}

/// What is wrong with a value, and what would be right.
struct Refused {
    problem: String,
    hint: Option<String>,
}

/// What the command line thinks of a value.
fn refusal(command: &Command, setting: &Arg, argument: &OsString) -> Result<(), Refused> {
    let arguments = [OsString::from("tidegate"), argument.clone()];
    let Err(error) = command.clone().try_get_matches_from(arguments) else { return Ok(()) };
    let name = setting.get_id().as_str();
    if let Some(source) = std::error::Error::source(&error) {
        return Err(split_hint(&format!("`{name}`: {source}")));
    }
    let written = match error.get(ContextKind::InvalidValue) {
        Some(ContextValue::String(written)) => shown(written),
        _ => String::new(),
    };
    let words = setting.get_possible_values();
    let words: Vec<&str> = words.iter().map(clap::builder::PossibleValue::get_name).collect();
    match error.kind() {
        ErrorKind::InvalidValue if written.is_empty() => {
            Err(Refused { problem: format!("`{name}` is empty"), hint: Some("leave it out".to_owned()) })
        }
        ErrorKind::InvalidValue => {
            let hint = did_you_mean(&written, &words)
                .unwrap_or_else(|| format!("it is one of: {}", words.join(", ")));
            Err(Refused { problem: format!("`{name}` cannot be `{written}`"), hint: Some(hint) })
        }
        _ => Err(Refused { problem: format!("`{name}` cannot be this: {}", error.kind()), hint: None }),
    }
}

/// A message in the manner of this project, `problem (hint: what to do)`, as its two parts.
fn split_hint(message: &str) -> Refused {
    match message.strip_suffix(')').and_then(|message| message.split_once(" (hint: ")) {
        Some((problem, hint)) => Refused { problem: problem.to_owned(), hint: Some(hint.to_owned()) },
        None => Refused { problem: message.to_owned(), hint: None },
    }
}

/// Text of the file as a message quotes it.
fn shown(text: &str) -> String {
    const SHOWN_CHARS_MAX: usize = 80;
    let clean = |c: char| if c.is_control() { '\u{fffd}' } else { c };
    text.chars().take(SHOWN_CHARS_MAX).map(clean).collect()
}
