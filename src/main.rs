//! The `fencepost` binary: the command line, and through it the node.

mod cli;

use std::process::ExitCode;

/// A node allocates on many threads for each call. Measured beside the system's allocator, in
/// `docs/benchmarks.md`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;

fn main() -> ExitCode {
    cli::main()
}
