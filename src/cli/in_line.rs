//! Standing in line for a resource: tells a person where, and leaves when told to stop.

use super::caller::Caller;
use super::connection::Output;
use super::duration;
use super::exit::Failure;
use super::holder::quoted;
use super::stop::Stop;
use fencepost::client::{AcquireOutcome, Ask, Error};
use fencepost::grant::{LeftHow, Ttl};
use fencepost::resource::{Holder, ResourceName};
use std::convert::Infallible;
use std::io::{self, IsTerminal, Write};
use std::time::Duration;

/// How often the place in line is looked up.
const LOOK_EVERY: Duration = Duration::from_secs(1);

/// Who stands in line, for what.
pub(super) struct Waiter<'a> {
    pub(super) caller: &'a Caller,
    pub(super) resource: &'a ResourceName,
    pub(super) holder: &'a Holder,
    pub(super) ttl: Ttl,
    /// How long in all.
    pub(super) wait: Duration,
    /// Nothing is to be said on the way.
    pub(super) quiet: bool,
}

impl Waiter<'_> {
    /// Sends `ask` and waits for what comes of it. A place that the cluster took for deserted, because its
    /// node was cut off, is asked for anew for the rest of the time: at the end of the line, and a person is
    /// told.
    pub(super) async fn acquire(
        &self,
        ask: &mut Ask,
    ) -> Result<Result<AcquireOutcome, Error>, Failure> {
        let client = &self.caller.client;
        let mut stop = Stop::listen()?;
        let begin = client.now();
        loop {
            let told_to_stop = tokio::select! {
                outcome = client.acquire_with(ask) => {
                    let rest = self.wait.saturating_sub(client.now().since(begin));
                    match outcome {
                        Ok(AcquireOutcome::Left(LeftHow::Detached)) if rest >= LOOK_EVERY => {
                            self.lost_its_place(ask, rest);
                            continue;
                        }
                        outcome => return Ok(outcome),
                    }
                }
                code = stop.requested() => code,
                never = self.tell_where() => match never {},
            };
            // The future is gone, and with it the place, once the cluster has heard of it. Who cannot wait
            // for that says so again.
            tokio::select! {
                () = client.settled() => {}
                _ = stop.requested() => {}
            }
            let name = quoted(self.resource.as_str());
            let message = format!("told to stop, and left the line for {name}");
            return Err(Failure::new(told_to_stop, message));
        }
    }

    fn lost_its_place(&self, ask: &mut Ask, rest: Duration) {
        let rest = Duration::from_millis(rest.as_millis().try_into().unwrap_or(u64::MAX));
        *ask = self
            .caller
            .client
            .ask(self.resource.clone(), self.holder.clone(), self.ttl)
            .wait(rest);
        self.say(format_args!(
            "The cluster could not reach the node that this command waits at for 2 s, so its place is \
             lost. Asking again, at the end of the line, for {}.",
            duration::human(rest)
        ));
    }

    /// Says the place in line, and every change of it.
    async fn tell_where(&self) -> Infallible {
        let mut told = None;
        loop {
            tokio::time::sleep(LOOK_EVERY).await;
            if !self.listens() {
                continue;
            }
            // Nobody needs it to go on, so a failure is not worth a word.
            let Ok(found) = self
                .caller
                .client
                .position(self.resource, self.holder)
                .await
            else {
                continue;
            };
            if let Some(position) = found.position
                && told.replace(position) != Some(position)
            {
                let (name, queue) = (quoted(self.resource.as_str()), found.queue);
                let holder = found
                    .grant
                    .map(|grant| format!(", held by {}", grant.holder));
                let held = holder.unwrap_or_default();
                self.say(format_args!(
                    "In line for {name}: {position} of {queue}{held}."
                ));
            }
        }
    }

    /// Whether a person sees what is said.
    fn listens(&self) -> bool {
        !self.quiet && self.caller.output == Output::Human && io::stderr().is_terminal()
    }

    fn say(&self, line: std::fmt::Arguments<'_>) {
        if self.listens() {
            // Whoever cannot be told does not need it to go on.
            let _ = writeln!(io::stderr().lock(), "{line}");
        }
    }
}
