//! Hints about environment variables, which are easy to overlook: which variable a bad value comes from, and variables
//! that are misspelled.

use clap::CommandFactory as _;
use clap::error::{ContextKind, ContextValue};
use tidegate_core::text::did_you_mean;

use super::ServeArgs;

/// The environment variable that a rejected value comes from, if any.
pub fn variable_of_error(error: &clap::Error) -> Option<String> {
    let context_text = |kind| match error.get(kind) {
        Some(ContextValue::String(text)) => Some(text.as_str()),
        _ => None,
    };
    let (argument, value) =
        (context_text(ContextKind::InvalidArg)?, context_text(ContextKind::InvalidValue)?);
    let mut command = ServeArgs::command();
    command.build();
    let setting = command.get_arguments().find(|arg| arg.to_string() == argument)?;
    let variable = setting.get_env()?.to_str()?;
    // A list is rejected because of one of its elements.
    let has_value =
        std::env::var(variable).is_ok_and(|set| set.split(',').any(|item| item == value) || set == value);
    let flag = format!("--{}", setting.get_long().unwrap_or_default());
    let is_flag = std::env::args().any(|argument| argument.starts_with(&flag));
    (has_value && !is_flag).then(|| variable.to_owned())
}

/// A message for each `TIDEGATE_` variable that is similar to a setting but is not one.
pub fn misspelled_variables() -> Vec<String> {
    let command = ServeArgs::command();
    let names: Vec<&str> = command.get_arguments().filter_map(|arg| arg.get_env()?.to_str()).collect();
    let set = std::env::vars_os().filter_map(|(name, _)| name.into_string().ok());
    let unknown = set.filter(|name| name.starts_with("TIDEGATE_") && !names.contains(&name.as_str()));
    unknown
        .filter_map(|name| {
            // Skip unlike names: Kubernetes sets many for a service that is called tidegate.
            let hint = did_you_mean(&name, &names)?;
            Some(format!("the environment variable {name} is not a setting (hint: {hint})"))
        })
        .collect()
}
