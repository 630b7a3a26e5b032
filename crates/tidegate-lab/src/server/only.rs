//! The values of `--only`.

use super::LoadKind;
use super::program::Program;

/// A kind of load, or a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Only {
    /// This load with all servers.
    Load(LoadKind),
    /// This server under all loads.
    Program(Program),
}

impl Only {
    /// Finds a load or a server by name.
    pub fn parse(name: &str) -> Result<Self, String> {
        let loads = LoadKind::ALL.into_iter().map(|load| (load.name(), Self::Load(load)));
        let programs = Program::ALL.into_iter().map(|program| (program.name(), Self::Program(program)));
        let known: Vec<(&str, Self)> = loads.chain(programs).collect();
        known.iter().find(|(known, _)| *known == name).map(|(_, only)| *only).ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            format!("there is no load or server `{name}` (hint: one of {})", names.join(", "))
        })
    }

    /// Whether `only` includes a server under a load. If it names no load, it includes all loads; the same for servers.
    pub(super) fn includes(only: &[Self], load: LoadKind, program: Program) -> bool {
        let mut loads = only.iter().filter(|one| matches!(one, Self::Load(_))).peekable();
        let mut programs = only.iter().filter(|one| matches!(one, Self::Program(_))).peekable();
        (loads.peek().is_none() || loads.any(|one| *one == Self::Load(load)))
            && (programs.peek().is_none() || programs.any(|one| *one == Self::Program(program)))
    }
}

#[cfg(test)]
mod tests {
    use super::{LoadKind, Only, Program};

    #[test]
    fn loads_and_servers_restrict_each_other() {
        let only = ["http", "empty", "tidegate"].map(|name| Only::parse(name).unwrap());
        assert!(Only::includes(&only, LoadKind::Http, Program::Tidegate));
        assert!(!Only::includes(&only, LoadKind::Http, Program::Throttlecrab));
        assert!(!Only::includes(&only, LoadKind::Resp, Program::Tidegate));
        assert!(Only::includes(&[], LoadKind::Resp, Program::Redis));
        assert!(Only::includes(&only[..1], LoadKind::Http, Program::Throttlecrab));
    }

    #[test]
    fn an_unknown_name_is_an_error_with_the_known_names() {
        let error = Only::parse("htttp").unwrap_err();
        assert!(
            error.contains("`htttp`") && error.contains("http, ") && error.contains("redis-cell"),
            "{error}"
        );
    }
}
