//! The log on standard error.

use std::io::{self, IsTerminal};

use tracing_subscriber::{
    EnvFilter, filter::LevelFilter, fmt, layer::SubscriberExt, util::SubscriberInitExt,
};

/// How the log is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// One line for people, coloured on a terminal.
    Text,
    /// One JSON object a line.
    Json,
}

/// Checks filters such as `info,fencepost::server::raft=debug`.
///
/// # Errors
///
/// What is wrong with them.
pub fn check_level(level: &str) -> Result<(), String> {
    for filter in level.split(',').map(str::trim) {
        // The library would take a word that is no level for the name of a part, and be silent.
        let bare = !filter.contains(['=', '[', ':']);
        if bare && filter.parse::<LevelFilter>().is_err() {
            return Err(format!(
                "`{filter}` is no level; for a part, write {filter}=LEVEL"
            ));
        }
    }
    filter(level).map(drop)
}

fn filter(level: &str) -> Result<EnvFilter, String> {
    // Raft's library tells every message; what matters of it is told by server::raft.
    let quiet = if level.contains("openraft") {
        ""
    } else {
        ",openraft=off"
    };
    EnvFilter::builder()
        .parse(format!("{level}{quiet}"))
        .map_err(|error| error.to_string())
}

/// Makes the process log to standard error from here on. A process that logs already stays as it is.
///
/// # Errors
///
/// When `level` is not what [`check_level`] accepts.
pub fn start(format: LogFormat, level: &str) -> Result<(), String> {
    let registry = tracing_subscriber::registry().with(filter(level)?);
    let lines = fmt::layer().with_writer(io::stderr);
    // Set already: by whoever embeds a node, who then decides.
    let _ = match format {
        LogFormat::Text => registry
            .with(lines.with_ansi(io::stderr().is_terminal()))
            .try_init(),
        LogFormat::Json => registry
            .with(lines.json().flatten_event(true).with_current_span(false))
            .try_init(),
    };
    Ok(())
}
