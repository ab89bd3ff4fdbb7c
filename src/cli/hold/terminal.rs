//! The terminal, which only one process group may read from at a time.
//!
//! The command has a group of its own, so that it can be ended with all that it starts. A shell that runs
//! `fencepost hold` in the foreground has given the terminal to our group; we lend it to the command's, as a
//! shell would, and take it back. So Ctrl-C reaches the command alone, and Ctrl-Z stops the command first and
//! us with it. Who is stopped cannot renew: if that lasts longer than the lease, the guardian ends the command.

use std::io::{IsTerminal as _, stdin};

use nix::sys::signal::{SigSet, SigmaskHow, Signal as NixSignal};
use rustix::{
    process::{Pid, Signal, getpgrp, kill_current_process_group},
    termios::{tcgetpgrp, tcsetpgrp},
};

/// A terminal that was given to our process group.
pub(super) struct Terminal {
    own: Pid,
}

impl Terminal {
    /// The terminal on standard input, if it is ours to lend.
    pub(super) fn ours() -> Option<Self> {
        let own = getpgrp();
        let ours = stdin().is_terminal() && tcgetpgrp(stdin()).is_ok_and(|group| group == own);
        ours.then_some(Self { own })
    }

    /// Lends it to `group`, unless somebody else has it by now: the user has put us in the background.
    pub(super) fn lend(&self, group: Pid) {
        self.pass(self.own, group);
    }

    /// Takes it back from `group`, if that has it.
    pub(super) fn take_back(&self, group: Pid) {
        self.pass(group, self.own);
    }

    /// Whether we or `group` have it.
    pub(super) fn is_in_front(&self, group: Pid) -> bool {
        tcgetpgrp(stdin()).is_ok_and(|front| front == group || front == self.own)
    }

    fn pass(&self, from: Pid, to: Pid) {
        if tcgetpgrp(stdin()) != Ok(from) {
            return;
        }
        // Whoever passes it on from the background is stopped for it, unless the signal is blocked.
        let mut background = SigSet::empty();
        background.add(NixSignal::SIGTTOU);
        let before = background.thread_swap_mask(SigmaskHow::SIG_BLOCK);
        // A terminal that went away needs no owner.
        let _ = tcsetpgrp(stdin(), to);
        if let Ok(before) = before {
            let _ = before.thread_set_mask();
        }
    }

    /// Stops us as the command was stopped, so that the shell goes on; returns when we are continued.
    pub(super) fn stop_too(&self, group: Pid) {
        self.take_back(group);
        // With all that the shell started together with us, as Ctrl-Z would.
        let _ = kill_current_process_group(Signal::TSTP);
        self.lend(group);
    }
}
