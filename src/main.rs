//! The `fencepost` binary: the command line, and through it the node.

mod cli;

use std::process::ExitCode;

fn main() -> ExitCode {
    cli::main()
}
