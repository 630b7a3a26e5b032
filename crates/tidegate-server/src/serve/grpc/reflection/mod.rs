//! `grpc.reflection`, `v1` and `v1alpha`: what can be called, and what its messages are made of.
//!
//! ```text
//! schema.rs     what a file of protobuf is made of, and how it is encoded
//! files/        the files of all that is spoken here, as tables: what the messages have that are sent and understood
//! stream.rs     a client that asks
//! ```

mod files;
mod schema;
mod stream;

#[cfg(test)]
mod tests;

pub use stream::ReflectionStream;

use schema::FileSchema;

/// The names of all services.
pub fn services() -> impl Iterator<Item = &'static str> {
    files::ALL.iter().flat_map(|file| file.services).map(|service| service.full_name)
}

/// The file of this name.
fn file_by_name(name: &str) -> Option<&'static FileSchema> {
    files::ALL.iter().find(|file| file.name == name).copied()
}

/// The file that has something of this full name in it.
fn file_by_symbol(symbol: &str) -> Option<&'static FileSchema> {
    files::ALL.iter().find(|file| file.contains(symbol)).copied()
}

/// A file, and all it needs, each once.
fn with_dependencies(file: &'static FileSchema) -> Vec<&'static FileSchema> {
    let mut all = vec![file];
    let mut next = 0;
    while let Some(file) = all.get(next) {
        for needed in file.dependencies.iter().filter_map(|name| file_by_name(name)) {
            if !all.iter().any(|known| known.name == needed.name) {
                all.push(needed);
            }
        }
        next += 1;
    }
    all
}
