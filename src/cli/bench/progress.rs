//! Words on standard error while a load goes on, so that nobody has to guess whether it does.

use super::super::exit;
use std::fmt;
use std::io::{self, Write};
use std::time::Duration;

/// Says something about the progress.
pub(super) fn say(words: fmt::Arguments<'_>) {
    // Nobody may be there to read progress, which is no reason to stop measuring.
    let _ = writeln!(io::stderr().lock(), "{words}");
}

/// Waits for `work` and calls `tell` every `period` meanwhile. `None` if Ctrl-C came first: `work` is
/// dropped then, and what was measured so far may still be told.
///
/// # Errors
///
/// When the process cannot listen for Ctrl-C.
pub(super) async fn meanwhile<T>(
    period: Duration,
    work: impl Future<Output = T>,
    mut tell: impl FnMut(),
) -> Result<Option<T>, exit::Failure> {
    let mut work = std::pin::pin!(work);
    let mut tick = tokio::time::interval(period);
    tick.tick().await;
    loop {
        tokio::select! {
            done = &mut work => return Ok(Some(done)),
            interrupted = tokio::signal::ctrl_c() => {
                interrupted?;
                return Ok(None);
            }
            _ = tick.tick() => tell(),
        }
    }
}
