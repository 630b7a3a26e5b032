//! The settings file: `data_dir: /var/lib/tidegate` means `--data-dir /var/lib/tidegate`.
//!
//! The fields of the file become command line arguments, unless a flag or the environment sets them. So clap knows the
//! names and parses the values, and there is no second definition of the settings.

use std::ffi::OsString;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};

use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{Arg, ArgMatches, Command, ValueHint};
use tidegate::rules::{FlatField, FlatFile, FlatValue, Report};
use tidegate_core::text::did_you_mean;

use super::args::SECRETS;
use super::{STORED_RULES, is_set};
use crate::{regular_file, text};

/// Arguments that the file cannot set.
const NOT_FILE_SETTINGS: [&str; 3] = ["config", "help", "version"];
/// Longer names and values are cut in messages.
const SHOWN_CHARS_MAX: usize = 80;

/// The largest settings file, in bytes.
const FILE_BYTES_MAX: u64 = 1 << 20;

/// Why a settings file is invalid.
#[derive(Debug)]
pub enum FileError {
    /// It cannot be read.
    Unreadable { path: PathBuf, error: io::Error },
    /// It has errors.
    Invalid(Report),
}

/// Reads a settings file. Returns its settings as arguments, without those that `command_line` or the environment sets.
pub fn read_arguments(
    path: &Path,
    command: &Command,
    command_line: &ArgMatches,
) -> Result<Vec<OsString>, FileError> {
    let bytes = read(path).map_err(|error| FileError::Unreadable { path: path.to_owned(), error })?;
    let mut file = FlatFile::read(&path.to_string_lossy(), &bytes, &SECRETS).map_err(FileError::Invalid)?;
    let directory = path.parent().unwrap_or(Path::new(""));
    let mut arguments = Vec::new();
    for field in file.fields().to_vec() {
        let Some(setting) = find_setting(&mut file, command, &field) else { continue };
        let mut values = Vec::new();
        for value in &field.values {
            let argument = to_argument(setting, value, directory);
            if let Err(RejectedValue { problem, hint }) = check_value(command, setting, &argument) {
                file.add_error("wrong-value", value.span, problem, hint.as_deref());
            }
            values.push(argument);
        }
        if values.len() > 1 && !takes_several(setting) {
            let message = format!("`{}` takes one value, but the file gives {}", field.name, values.len());
            file.add_error("several-values", field.values[1].span, message, Some("keep one of them"));
        }
        if !is_set(command_line, setting.get_id().as_str()) {
            arguments.extend(values);
        }
    }
    file.finish().map(|()| arguments).map_err(FileError::Invalid)
}

fn read(path: &Path) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    match regular_file::open(path)?.take(FILE_BYTES_MAX + 1).read_to_end(&mut bytes)? as u64 {
        0..=FILE_BYTES_MAX => Ok(bytes),
        _ => Err(io::Error::other(format!("the file has more than {FILE_BYTES_MAX} bytes"))),
    }
}

/// The argument for a field, or an error in the report.
fn find_setting<'c>(file: &mut FlatFile, command: &'c Command, field: &FlatField) -> Option<&'c Arg> {
    let settings =
        || command.get_arguments().filter(|arg| !NOT_FILE_SETTINGS.contains(&arg.get_id().as_str()));
    let setting = settings().find(|arg| arg.get_id() == field.name.as_str());
    if setting.is_none() {
        let names: Vec<&str> = settings().map(|arg| arg.get_id().as_str()).collect();
        // People who copy a flag write dashes.
        let name = field.name.trim_start_matches('-').replace('-', "_");
        let hint =
            did_you_mean(&name, &names).unwrap_or_else(|| format!("the settings are: {}", names.join(", ")));
        let message =
            format!("unknown setting `{}`", text::printable(field.name.as_bytes(), SHOWN_CHARS_MAX));
        file.add_error("unknown-setting", field.span, message, Some(&hint));
    }
    setting
}

/// `--name=value`. Relative paths resolve against the directory of the file.
fn to_argument(setting: &Arg, value: &FlatValue, directory: &Path) -> OsString {
    let mut argument = OsString::from(format!("--{}=", setting.get_long().unwrap_or_default()));
    match (setting.get_value_hint(), value.text.strip_prefix("unix:")) {
        (ValueHint::FilePath | ValueHint::DirPath | ValueHint::AnyPath, _)
            if !value.text.is_empty() && (setting.get_id() != "rules" || value.text != STORED_RULES) =>
        {
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

/// Why a value is rejected.
struct RejectedValue {
    problem: String,
    hint: Option<String>,
}

/// Lets clap check a value.
fn check_value(command: &Command, setting: &Arg, argument: &OsString) -> Result<(), RejectedValue> {
    let arguments = [OsString::from("tidegate"), argument.clone()];
    let Err(error) = command.clone().try_get_matches_from(arguments) else { return Ok(()) };
    let name = setting.get_id().as_str();
    if let Some(source) = std::error::Error::source(&error) {
        let message = format!("`{name}`: {source}");
        let (problem, hint) = text::split_hint(&message);
        return Err(RejectedValue { problem: problem.to_owned(), hint: hint.map(str::to_owned) });
    }
    let written = match error.get(ContextKind::InvalidValue) {
        Some(ContextValue::String(written)) => text::printable(written.as_bytes(), SHOWN_CHARS_MAX),
        _ => String::new(),
    };
    let words = setting.get_possible_values();
    let words: Vec<&str> = words.iter().map(clap::builder::PossibleValue::get_name).collect();
    match error.kind() {
        ErrorKind::InvalidValue if written.is_empty() => {
            Err(RejectedValue { problem: format!("`{name}` is empty"), hint: Some("remove it".to_owned()) })
        }
        ErrorKind::InvalidValue => {
            let hint =
                did_you_mean(&written, &words).unwrap_or_else(|| format!("use one of: {}", words.join(", ")));
            Err(RejectedValue { problem: format!("`{name}` cannot be `{written}`"), hint: Some(hint) })
        }
        _ => Err(RejectedValue {
            problem: format!("`{name}` has an invalid value: {}", error.kind()),
            hint: None,
        }),
    }
}
