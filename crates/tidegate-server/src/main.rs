//! The binary `tidegate`.

use std::process::ExitCode;

/// Gives memory back to the system some seconds after it was freed, on a thread of its own. glibc keeps most of it.
#[cfg(all(feature = "jemalloc", target_os = "linux", target_env = "gnu", target_arch = "x86_64"))]
#[global_allocator]
static ALLOCATOR: tikv_jemallocator::Jemalloc = tikv_jemallocator::Jemalloc;

fn main() -> ExitCode {
    tidegate_server::main()
}
