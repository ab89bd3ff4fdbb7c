//! Being told to stop: Ctrl-C, a polite `kill`, or the terminal that goes away.

use std::io;

use tokio::signal::unix::{Signal, SignalKind, signal};

/// Listens from its creation on, so that no signal is missed between two waits.
pub(crate) struct Stop {
    interrupt: Signal,
    terminate: Signal,
    hangup: Signal,
}

impl Stop {
    /// Takes these signals over: from here on they no longer end the process by themselves.
    pub(crate) fn listen() -> io::Result<Self> {
        Ok(Self {
            interrupt: signal(SignalKind::interrupt())?,
            terminate: signal(SignalKind::terminate())?,
            hangup: signal(SignalKind::hangup())?,
        })
    }

    /// Waits for the next of them. Gives the exit code that a shell gives for it, 128 + its number.
    pub(crate) async fn requested(&mut self) -> u8 {
        tokio::select! {
            _ = self.interrupt.recv() => 128 + 2,
            _ = self.terminate.recv() => 128 + 15,
            _ = self.hangup.recv() => 128 + 1,
        }
    }
}
