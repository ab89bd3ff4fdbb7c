//! `fencepost man`: the manual pages, made from the same tree as `--help`.

use super::exit::{self, Failure, UNEXPECTED};
use std::fs;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const AFTER_HELP: &str = "\
Examples:
  fencepost man | man -l -
  fencepost man --directory ~/.local/share/man/man1";

/// Arguments of `fencepost man`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// Write one page a command here (fencepost.1, fencepost-acquire.1, ...); made if it does not exist
    #[arg(long, short, value_name = "DIRECTORY")]
    directory: Option<PathBuf>,
}

/// Prints the root page, or writes all of them.
pub(crate) fn run(args: &Args) -> exit::Outcome {
    let command = super::command();
    let Some(directory) = &args.directory else {
        let mut page = Vec::new();
        clap_mangen::Man::new(command).render(&mut page)?;
        io::stdout().lock().write_all(&page)?;
        return Ok(());
    };
    write_pages(command, directory).map_err(|error| {
        let directory = directory.display();
        Failure::new(
            UNEXPECTED,
            format_args!("cannot write manual pages to {directory}: {error}"),
        )
    })
}

fn write_pages(command: clap::Command, directory: &Path) -> io::Result<()> {
    fs::create_dir_all(directory)?;
    clap_mangen::generate_to(command, directory)
}
