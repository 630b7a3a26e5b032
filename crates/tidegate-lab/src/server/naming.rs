//! What `--only` may name.

use super::Shape;
use super::program::Program;

/// A kind of load or a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Only {
    /// This load, all servers.
    Shape(Shape),
    /// This server, all loads.
    Program(Program),
}

impl Only {
    /// What has that name.
    pub fn parse(name: &str) -> Result<Self, String> {
        let shapes = Shape::ALL.into_iter().map(|shape| (shape.name(), Self::Shape(shape)));
        let programs = Program::ALL.into_iter().map(|program| (program.name(), Self::Program(program)));
        let known: Vec<(&str, Self)> = shapes.chain(programs).collect();
        known.iter().find(|(known, _)| *known == name).map(|(_, only)| *only).ok_or_else(|| {
            let names: Vec<&str> = known.iter().map(|(name, _)| *name).collect();
            format!("there is no load and no server `{name}` (hint: one of {})", names.join(", "))
        })
    }

    /// Whether these ask for a server under a load: it is among the servers, and the load among the loads, of those that
    /// are named at all.
    pub(super) fn want(only: &[Self], shape: Shape, program: Program) -> bool {
        let mut shapes = only.iter().filter(|one| matches!(one, Self::Shape(_))).peekable();
        let mut programs = only.iter().filter(|one| matches!(one, Self::Program(_))).peekable();
        (shapes.peek().is_none() || shapes.any(|one| *one == Self::Shape(shape)))
            && (programs.peek().is_none() || programs.any(|one| *one == Self::Program(program)))
    }
}

#[cfg(test)]
mod tests {
    use super::{Only, Program, Shape};

    #[test]
    fn loads_and_servers_narrow_each_other() {
        let only = ["http", "empty", "tidegate"].map(|name| Only::parse(name).unwrap());
        assert!(Only::want(&only, Shape::Http, Program::Tidegate));
        assert!(!Only::want(&only, Shape::Http, Program::Throttlecrab));
        assert!(!Only::want(&only, Shape::Resp, Program::Tidegate));
        assert!(Only::want(&[], Shape::Resp, Program::Redis));
        assert!(Only::want(&only[..1], Shape::Http, Program::Throttlecrab));
    }

    #[test]
    fn an_unknown_name_is_answered_with_the_known_ones() {
        let error = Only::parse("htttp").unwrap_err();
        assert!(
            error.contains("`htttp`") && error.contains("http, ") && error.contains("redis-cell"),
            "{error}"
        );
    }
}
