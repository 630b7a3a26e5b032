//! The name of a descriptor's rule: the path to it.

use tidegate_core::rules::Pattern;

/// The name of the rule at the end of a path of keys and values: `database_users/table`.
///
/// Each level is written as in envoyproxy/ratelimit, the key alone or `key_value`, with slashes between
/// levels. No two paths of a file may have the same name. So a slash in a key or a value is doubled, and a
/// key that starts with a slash, a dot or a tilde gets a tilde in front. The reader checks that two
/// descriptors of one level do not have the same text.
pub(super) fn of_path<'a>(path: impl IntoIterator<Item = (&'a str, &'a Pattern)>) -> String {
    let mut name = String::new();
    for (key, pattern) in path {
        push_level(&mut name, &level_name(key, pattern));
    }
    name
}

/// The name that stands for everything below a path.
pub(super) fn of_subtree(path: &str) -> String {
    // No level has this name: a tilde would precede its dots.
    format!("{path}/...")
}

/// A level as envoyproxy/ratelimit writes it.
pub(crate) fn level_name(key: &str, pattern: &Pattern) -> String {
    match pattern {
        Pattern::Exact(value) => format!("{key}_{value}"),
        Pattern::Wildcard(wildcard) => format!("{key}_{wildcard}"),
        _ => key.to_owned(),
    }
}

fn push_level(name: &mut String, level: &str) {
    if !name.is_empty() {
        name.push('/');
    }
    if level.starts_with(['/', '.', '~']) {
        name.push('~');
    }
    name.push_str(&level.replace('/', "//"));
}

#[cfg(test)]
mod tests {
    use super::*;

    fn name(path: &[(&str, &str)]) -> String {
        let path: Vec<(&str, Pattern)> = path
            .iter()
            .map(|(key, value)| match *value {
                "" => (*key, Pattern::Any),
                value => (*key, Pattern::Exact(value.into())),
            })
            .collect();
        of_path(path.iter().map(|(key, pattern)| (*key, pattern)))
    }

    #[test]
    fn paths_read_as_they_are_written() {
        assert_eq!(name(&[("database", "users"), ("table", "")]), "database_users/table");
        assert_eq!(name(&[("path", "/api/users")]), "path_//api//users");
    }

    #[test]
    fn different_paths_have_different_names() {
        let paths: [&[(&str, &str)]; 10] = [
            &[("path", "/api/users")],
            &[("path", "/api"), ("users", "")],
            &[("path", "/api/"), ("users", "")],
            &[("path", "/api"), ("/users", "")],
            &[("path", "/api"), ("./users", "")],
            &[("path", "/api"), ("..", "")],
            &[("path", "/api"), ("...", "")],
            &[("path", "/api"), ("~..", "")],
            &[("path", "/api"), ("~...", "")],
            &[("path", "/api/..")],
        ];
        let mut names: Vec<String> = paths.iter().map(|path| name(path)).collect();
        names.push(of_subtree(&name(&[("path", "/api")])));
        names.sort();
        names.dedup();
        assert_eq!(names.len(), paths.len() + 1, "{names:#?}");
    }
}
