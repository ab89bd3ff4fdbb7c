//! The story of one call: how long it may still take, whom it has asked, what came of it so far.

use super::address::Address;
use super::backoff::Wait;
use super::clock::BootInstant;
use super::error::{Cause, Error, ErrorKind};
use super::method::Repeat;
use std::time::Duration;

/// What a send needs to be answered on a busy machine.
const SEND_MIN: Duration = Duration::from_millis(100);

/// How one send failed, and what that means for the call.
#[derive(Debug)]
pub(crate) struct Fault {
    pub(crate) cause: Cause,
    /// The send may have taken effect, or may still.
    pub(crate) open: bool,
    pub(crate) next: Next,
}

/// What to do after a failed send.
#[derive(Debug)]
pub(crate) enum Next {
    /// It ends the call.
    Stop(ErrorKind),
    /// Ask the next node of this round.
    Elsewhere,
    /// Wait, then begin a new round.
    Later(Option<Duration>),
}

/// One call, over all of its sends.
#[derive(Debug)]
pub(crate) struct Trial {
    pub(crate) operation: &'static str,
    repeat: Repeat,
    started: BootInstant,
    deadline: BootInstant,
    pub(crate) attempts: u32,
    /// How many sends stayed without an answer: each lets the next one take twice as long.
    silent: u32,
    pub(crate) rounds: u32,
    pub(crate) tried: Vec<Address>,
    /// Once a send may have taken effect, no later failure can make that undone.
    pub(crate) open: bool,
    cause: Option<Cause>,
    wait: Option<Wait>,
    /// What the first send may take at most, where the options would give it longer.
    haste: Duration,
    /// Until when it stands in line, if it does.
    waits_until: Option<BootInstant>,
}

impl Trial {
    pub(crate) fn new(
        operation: &'static str,
        repeat: Repeat,
        now: BootInstant,
        timeout: Duration,
    ) -> Self {
        Self {
            operation,
            repeat,
            started: now,
            deadline: now.plus(timeout),
            attempts: 0,
            silent: 0,
            rounds: 0,
            tried: Vec::new(),
            open: false,
            cause: None,
            wait: None,
            haste: Duration::MAX,
            waits_until: None,
        }
    }

    /// Lets the first send take no longer than this, each later one twice as long as the one before.
    pub(crate) fn hasten(mut self, first_send: Duration) -> Self {
        self.haste = first_send.max(Duration::from_millis(1));
        self
    }

    /// Lets the call stand in line for `wait`, beside the time that it may take otherwise.
    pub(crate) fn waiting(mut self, wait: Duration) -> Self {
        // The cluster counts a wait by clocks that may be slow, and gives it 0.2 % more.
        let in_line = wait.saturating_add(wait / 256);
        self.deadline = self.deadline.plus(in_line);
        self.waits_until = (!wait.is_zero()).then(|| self.started.plus(in_line));
        self
    }

    /// What is left of the time that it stands in line.
    pub(crate) fn rest_of_wait(&self, now: BootInstant) -> Duration {
        self.waits_until
            .map_or(Duration::ZERO, |until| until.since(now))
    }

    /// What is left of the call's time.
    pub(crate) fn remaining(&self, now: BootInstant) -> Duration {
        self.deadline.since(now)
    }

    /// Whether another send is worth it. One that cannot be answered in time would only make unknown what is
    /// known: that nothing has happened.
    pub(crate) fn is_worth_a_send(&self, now: BootInstant) -> bool {
        let least = SEND_MIN.min(self.deadline.since(self.started) / 4);
        self.attempts == 0 || self.open || self.remaining(now) >= least
    }

    /// How long the next send may take.
    pub(crate) fn limit(&self, attempt_timeout: Duration, now: BootInstant) -> Duration {
        let remaining = self.remaining(now);
        if self.repeat == Repeat::Never {
            // It cannot be sent again after a silence, so cutting it short would gain nothing.
            return remaining;
        }
        let first = attempt_timeout.min(self.haste);
        let doubled = first.saturating_mul(1 << self.silent.min(10));
        // Whoever waits in line hears nothing until that is over.
        let patience = doubled.saturating_add(self.rest_of_wait(now));
        patience.min(remaining)
    }

    /// Takes note of a failed send. Returns the end of the call, if that is what it means.
    pub(crate) fn take(&mut self, address: Address, fault: Fault) -> Option<ErrorKind> {
        if matches!(fault.cause, Cause::NoAnswer { .. }) {
            self.silent += 1;
        }
        self.open |= fault.open && self.repeat != Repeat::Read;
        self.cause = Some(fault.cause);
        self.tried.push(address);
        match fault.next {
            Next::Stop(kind) => Some(kind),
            _ if fault.open && self.repeat == Repeat::Never => Some(ErrorKind::UnknownOutcome),
            Next::Elsewhere => None,
            Next::Later(after) => {
                self.wait = Some(Wait::Load(after));
                None
            }
        }
    }

    /// Takes note of a failed question that came before the call itself, and changes nothing.
    pub(crate) fn take_read(&mut self, cause: Cause) {
        // A silence, which the end of the call may have cut short, says less than what was said before.
        if self.cause.is_none() || !matches!(cause, Cause::NoAnswer { .. }) {
            self.cause = Some(cause);
        }
    }

    /// Whether the call is more than a read.
    pub(crate) fn changes_things(&self) -> bool {
        self.repeat != Repeat::Read
    }

    /// Whether the cluster asked for a pause.
    pub(crate) fn must_wait(&self) -> bool {
        self.wait.is_some()
    }

    /// Begins a new round; returns what the one before has to wait for, and its number.
    pub(crate) fn new_round(&mut self) -> (Wait, u32) {
        let round = self.rounds;
        self.rounds += 1;
        self.tried.clear();
        (self.wait.take().unwrap_or(Wait::Leader), round)
    }

    /// Puts back what the last round had to wait for, because it will not be waited for.
    pub(crate) fn restore(&mut self, wait: Wait) {
        self.wait = Some(wait);
    }

    /// The error of a call that ends with `kind`.
    pub(crate) fn end(&self, kind: ErrorKind, leader: Option<Address>, now: BootInstant) -> Error {
        let open = self.open || kind == ErrorKind::UnknownOutcome;
        Error::new(self.operation, kind)
            .with_effect(open)
            .after(self.attempts.max(self.rounds), now.since(self.started))
            .because(self.cause.clone(), leader)
    }

    /// The error of a call whose time is up: it keeps the last cause (tsoracle#417).
    pub(crate) fn out_of_time(&self, leader: Option<Address>, now: BootInstant) -> Error {
        let kind = match self.wait {
            _ if self.open => ErrorKind::UnknownOutcome,
            Some(Wait::Load(_)) => ErrorKind::Exhausted,
            _ => ErrorKind::Unavailable,
        };
        self.end(kind, leader, now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: BootInstant = BootInstant::from_boot(Duration::from_secs(50));

    fn address() -> Address {
        "a:1".parse().unwrap()
    }

    fn fault(open: bool, next: Next) -> Fault {
        let cause = Cause::Forming { address: address() };
        Fault { cause, open, next }
    }

    fn trial(repeat: Repeat) -> Trial {
        Trial::new("acquire", repeat, START, Duration::from_secs(10))
    }

    #[test]
    fn an_open_send_stays_open_whatever_comes_later() {
        let mut trial = trial(Repeat::Once);
        assert_eq!(trial.take(address(), fault(true, Next::Elsewhere)), None);
        assert_eq!(trial.take(address(), fault(false, Next::Elsewhere)), None);
        let error = trial.out_of_time(None, START);
        assert_eq!(error.kind(), &ErrorKind::UnknownOutcome);
        assert!(error.can_have_had_effect() && error.may_retry());
    }

    #[test]
    fn a_last_send_that_is_cut_short_never_hides_what_is_known() {
        let mut trial = trial(Repeat::Once);
        let nearly_over = START.plus(Duration::from_millis(9_950));
        assert!(trial.is_worth_a_send(nearly_over), "the first one always");
        trial.attempts = 1;
        assert!(trial.is_worth_a_send(START.plus(Duration::from_millis(9_900))));
        assert!(!trial.is_worth_a_send(nearly_over));
        // Once it may have taken effect, any answer can only help.
        trial.take(address(), fault(true, Next::Elsewhere));
        assert!(trial.is_worth_a_send(nearly_over));
    }

    #[test]
    fn a_call_that_certainly_did_nothing_says_so() {
        let mut trial = trial(Repeat::Once);
        trial.take(address(), fault(false, Next::Elsewhere));
        let error = trial.out_of_time(None, START);
        assert_eq!(error.kind(), &ErrorKind::Unavailable);
        assert!(!error.can_have_had_effect());
        assert!(error.last_cause().is_some());
    }

    #[test]
    fn a_read_never_has_an_effect() {
        let mut trial = trial(Repeat::Read);
        trial.take(address(), fault(true, Next::Elsewhere));
        assert!(!trial.out_of_time(None, START).can_have_had_effect());
    }

    #[test]
    fn what_must_not_be_repeated_ends_when_it_is_open() {
        let mut never = trial(Repeat::Never);
        assert_eq!(never.take(address(), fault(false, Next::Elsewhere)), None);
        let end = never.take(address(), fault(true, Next::Elsewhere));
        assert_eq!(end, Some(ErrorKind::UnknownOutcome));
        assert_eq!(
            never.limit(Duration::from_secs(1), START),
            Duration::from_secs(10)
        );
    }

    #[test]
    fn each_silence_doubles_the_patience_up_to_the_deadline() {
        let mut trial = trial(Repeat::Once);
        let second = Duration::from_secs(1);
        for expected in [1, 2, 4, 8, 10] {
            assert_eq!(trial.limit(second, START), second * expected);
            let silence = Cause::NoAnswer {
                address: address(),
                waited: second,
            };
            let silent = Fault {
                cause: silence,
                open: true,
                next: Next::Elsewhere,
            };
            trial.take(address(), silent);
        }
    }
}
