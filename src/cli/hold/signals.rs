//! The signals that `hold` passes on to the command.

use std::{future::poll_fn, io, task::Poll};

use rustix::process::Signal;
use tokio::signal::unix::{self, SignalKind};

/// Those that end a wait, when there is no command yet.
const ENDING: [Signal; 4] = [Signal::INT, Signal::TERM, Signal::HUP, Signal::QUIT];
/// Those that are passed on.
const PASSED_ON: [Signal; 6] = [
    Signal::INT,
    Signal::TERM,
    Signal::HUP,
    Signal::QUIT,
    Signal::USR1,
    Signal::USR2,
];

/// Listens from its creation on, so that no signal is missed between two waits.
pub(super) struct Signals(Vec<(Signal, unix::Signal)>);

impl Signals {
    /// Takes these signals over: from here on they no longer end the process by themselves.
    pub(super) fn listen() -> io::Result<Self> {
        let listen = |signal: Signal| {
            unix::signal(SignalKind::from_raw(signal.as_raw())).map(|stream| (signal, stream))
        };
        PASSED_ON
            .map(listen)
            .into_iter()
            .collect::<io::Result<_>>()
            .map(Self)
    }

    /// The next of them.
    pub(super) async fn next(&mut self) -> Signal {
        poll_fn(|context| {
            for (signal, stream) in &mut self.0 {
                if stream.poll_recv(context).is_ready() {
                    return Poll::Ready(*signal);
                }
            }
            Poll::Pending
        })
        .await
    }

    /// The next that ends a process that does nothing about it.
    pub(super) async fn ending(&mut self) -> Signal {
        loop {
            let signal = self.next().await;
            if ENDING.contains(&signal) {
                return signal;
            }
        }
    }
}

/// The exit code that a shell gives for it, 128 + its number.
pub(super) fn code(signal: Signal) -> u8 {
    u8::try_from(128 + signal.as_raw()).unwrap_or(u8::MAX)
}
