//! What the environment says is easily overlooked, and what it fails to say even more so.

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue};
use tidegate_core::text::did_you_mean;

use super::ServeArgs;

/// The variable that a value which was refused is from, if it is from one.
pub fn variable_of_error(error: &clap::Error) -> Option<String> {
    let of = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let (argument, value) = (of(ContextKind::InvalidArg)?, of(ContextKind::InvalidValue)?);
    let mut command = ServeArgs::command();
    command.build();
    let refused = command.get_arguments().find(|known| known.to_string() == argument)?;
    let variable = refused.get_env()?.to_str()?;
    // Among several, it is one of them.
    let is_its =
        std::env::var(variable).is_ok_and(|set| set.split(',').any(|one| one == value) || set == value);
    let is_flag = std::env::args()
        .any(|given| given.starts_with(&format!("--{}", refused.get_long().unwrap_or_default())));
    (is_its && !is_flag).then(|| variable.to_owned())
}

/// Variables that look as if they were meant for a setting and are not, each with what was meant.
pub fn misspelled_variables() -> Vec<String> {
    let command = ServeArgs::command();
    let known: Vec<&str> = command.get_arguments().filter_map(|known| known.get_env()?.to_str()).collect();
    let set = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let ours = set.filter(|name| name.starts_with("TIDEGATE_") && !known.contains(&name.as_str()));
    ours.filter_map(|name| {
        // Kubernetes sets many more, for a service that is called tidegate.
        let hint = did_you_mean(&name, &known)?;
        Some(format!("the environment has {name}, which is no setting (hint: {hint})"))
    })
    .collect()
}
