//! `fencepost completions`: a script that teaches a shell our commands and flags.

use super::exit;
use std::io::{self, Write};

const AFTER_HELP: &str = "\
Examples:
  fencepost completions bash > ~/.local/share/bash-completion/completions/fencepost
  fencepost completions zsh  > ~/.zfunc/_fencepost      # with ~/.zfunc in $fpath
  fencepost completions fish > ~/.config/fish/completions/fencepost.fish";

/// Arguments of `fencepost completions`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// The shell to write for
    shell: clap_complete::Shell,
}

/// Prints the script on standard output.
pub(crate) fn run(args: &Args) -> exit::Outcome {
    let mut script = Vec::new();
    let mut command = super::command();
    clap_complete::generate(args.shell, &mut command, "fencepost", &mut script);
    io::stdout().lock().write_all(&script)?;
    Ok(())
}
