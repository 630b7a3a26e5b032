//! The help and the documentation match the settings.

use std::fs;
use std::path::Path;

use crate::serve::run_to_exit;
use crate::support::tidegate;

fn read_document(name: &str) -> String {
    fs::read_to_string(Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(name)).unwrap()
}

/// The names of all settings, from the short help: `data-dir` and so on.
fn flags() -> Vec<String> {
    let help = run_to_exit(&["-h"], &[]).out;
    let words = help.split_whitespace().filter_map(|word| word.strip_prefix("--"));
    // A switch may have a value: `--global[=<BOOL>]`.
    let words = words.map(|word| word.split_once("[=").map_or(word, |(name, _)| name));
    let mut flags: Vec<String> = words
        .filter(|word| word.chars().all(|c| c.is_ascii_lowercase() || c == '-'))
        .map(str::to_owned)
        .collect();
    flags.sort();
    flags.dedup();
    flags.retain(|flag| flag != "help");
    assert!(flags.len() > 20 && flags.contains(&"data-dir".to_owned()), "{flags:?}");
    flags
}

#[test]
fn help_has_examples() {
    let run = tidegate(&["serve", "--help"], "");
    assert_eq!((run.code, &*run.err), (Some(0), ""));
    let texts =
        ["Examples:", "Exit codes:", "Signals:", "SIGHUP", "tidegate.yaml", "[default: 127.0.0.1:8080]"];
    for text in texts.into_iter().chain(["[env: TIDEGATE_DATA_DIR=]", "docs/server.md", "[default: 256MiB]"])
    {
        assert!(run.out.contains(text), "{text}");
    }
    let widest = run.out.lines().map(|line| line.chars().count()).max();
    assert!(widest <= Some(110), "{widest:?} columns");
}

#[test]
fn every_setting_has_a_name_in_the_environment() {
    let help = tidegate(&["serve", "--help"], "").out;
    for flag in flags() {
        let name = format!("[env: TIDEGATE_{}=", flag.replace('-', "_").to_uppercase());
        let hidden = name.replace('=', "]");
        assert!(help.contains(&name) || help.contains(&hidden), "{name}");
    }
}

#[test]
fn the_table_lists_every_setting_and_default() {
    let table = read_document("docs/server.md");
    let help = tidegate(&["serve", "--help"], "").out;
    for flag in flags() {
        let name = flag.replace('-', "_");
        let row = table.lines().find(|line| line.starts_with(&format!("| `{name}` |")));
        let row = row.unwrap_or_else(|| panic!("`{name}` is not in the table of docs/server.md"));
        // The help of a setting ends where the next one begins.
        let begins = [format!("--{flag} <"), format!("--{flag}[=<")];
        let (_, after) = begins.iter().find_map(|begin| help.split_once(begin)).unwrap();
        let own = after.split("\n      --").next().unwrap();
        if let Some((_, default)) = own.rsplit_once("\n          [default: ") {
            let default = default.split_once(']').unwrap().0;
            assert!(row.contains(&format!("| `{default}` |")), "the default of {name} is {default}: {row}");
        }
    }
}

#[test]
fn the_table_has_no_unknown_setting() {
    let flags = flags();
    let document = read_document("docs/server.md");
    let rows = document.lines().skip_while(|line| !line.starts_with("| setting |")).skip(2);
    for row in rows.take_while(|line| line.starts_with('|')) {
        let name = row.split('`').nth(1).unwrap().replace('_', "-");
        assert!(flags.contains(&name), "{name}");
    }
}

#[test]
fn the_example_settings_file_is_valid() {
    let example = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../examples/server/tidegate.yaml");
    // Only this data directory is invalid, and it is checked last.
    let run = run_to_exit(&["--config", example.to_str().unwrap(), "--data-dir", "/dev/null/nowhere"], &[]);
    assert!(run.err.contains("data_dir") && run.err.matches("error:").count() == 1, "{}", run.err);
}

/// What the documentation says about each variable of envoyproxy/ratelimit is what the server does.
#[test]
fn the_migration_guide_has_every_variable_of_envoyproxy_ratelimit() {
    use tidegate_server::serve::settings::{ENVOY_RATELIMIT_VARIABLES, EnvoyRatelimitUse};
    let guide = read_document("docs/migrating-from-envoy-ratelimit.md");
    let rows = guide.lines().skip_while(|line| !line.starts_with("| variable |")).skip(2);
    let documented: Vec<&str> = rows.take_while(|line| line.starts_with('|')).collect();
    let expected: Vec<String> = ENVOY_RATELIMIT_VARIABLES
        .iter()
        .map(|variable| {
            let what = match variable.used {
                EnvoyRatelimitUse::Setting(setting) => format!("sets `{setting}`"),
                EnvoyRatelimitUse::NotNeeded(why) => format!("not needed: {why}"),
                EnvoyRatelimitUse::Warned { unless: "", instead } => format!("warning: {instead}"),
                EnvoyRatelimitUse::Warned { unless, instead } => {
                    format!("warning: {instead}. No warning for `{unless}`")
                }
            };
            format!("| `{}` | {what} |", variable.name)
        })
        .collect();
    assert_eq!(documented, expected, "\n{}", expected.join("\n"));
    for marker in tidegate_server::serve::settings::ENVOY_RATELIMIT_MARKERS {
        assert!(guide.contains(&format!("`{marker}`")), "{marker}");
    }
}
