//! `grpc.reflection`, versions `v1` and `v1alpha`: describes the services and their messages to clients.
//!
//! The descriptors are tables written by hand, because generating them would need a protobuf compiler in the build.
//!
//! ```text
//! schema.rs      types of the tables, and their encoding as descriptors
//! *_files.rs     the tables: one for each .proto file, with the messages that the server reads and writes
//! stream.rs      answers the requests of a client
//! ```

mod envoy_files;
mod grpc_files;
mod schema;
mod stream;
mod well_known_files;

#[cfg(test)]
mod tests;

use schema::FileSchema;

pub use stream::ReflectionStream;

/// The tables of all files.
const FILES: &[&FileSchema] = &[
    &envoy_files::RLS,
    &envoy_files::RATELIMIT,
    &envoy_files::BASE,
    &envoy_files::RATELIMIT_UNIT,
    &well_known_files::DURATION,
    &well_known_files::TIMESTAMP,
    &well_known_files::WRAPPERS,
    &well_known_files::STRUCT,
    &grpc_files::HEALTH,
    &grpc_files::REFLECTION_V1,
    &grpc_files::REFLECTION_V1ALPHA,
];

/// Full names of all services.
pub fn services() -> impl Iterator<Item = &'static str> {
    FILES.iter().flat_map(|file| file.services).map(|service| service.full_name)
}

/// Finds a file by its name.
fn file_by_name(name: &str) -> Option<&'static FileSchema> {
    FILES.iter().find(|file| file.name == name).copied()
}

/// Finds the file that defines this full name.
fn file_by_symbol(symbol: &str) -> Option<&'static FileSchema> {
    FILES.iter().find(|file| file.contains(symbol)).copied()
}

/// A file and all files that it depends on, each once.
fn with_dependencies(file: &'static FileSchema) -> Vec<&'static FileSchema> {
    let mut files = vec![file];
    let mut next = 0;
    while let Some(file) = files.get(next) {
        for dependency in file.dependencies.iter().filter_map(|name| file_by_name(name)) {
            if !files.iter().any(|file| file.name == dependency.name) {
                files.push(dependency);
            }
        }
        next += 1;
    }
    files
}
