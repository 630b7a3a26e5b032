//! A value that is wrong may come from the environment, which is easily overlooked.

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue};

use super::ServeArgs;

/// The variable that a value which was refused is from, if it is from one.
pub fn variable_of(error: &clap::Error) -> Option<String> {
    let of = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let (argument, value) = (of(ContextKind::InvalidArg)?, of(ContextKind::InvalidValue)?);
    let command = ServeArgs::command();
    let refused = command.get_arguments().find(|known| known.to_string() == argument)?;
    let variable = refused.get_env()?.to_str()?;
    // Among several, it is one of them.
    let is_its =
        std::env::var(variable).is_ok_and(|set| set.split(',').any(|one| one == value) || set == value);
    let is_flag = std::env::args()
        .any(|given| given.starts_with(&format!("--{}", refused.get_long().unwrap_or_default())));
    (is_its && !is_flag).then(|| variable.to_owned())
}
