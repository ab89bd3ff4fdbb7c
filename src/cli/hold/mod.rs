//! `fencepost hold`: run a command while holding a resource.
//!
//! Three processes take part. This one acquires, renews and waits. The command has a process group of its own,
//! is killed by the kernel when this process ends in any way ([`leash`]), and the whole group is ended before
//! the lease can have gone to somebody else. The [`guardian`] does that, too, when this process is stopped or
//! killed: it knows the deadline, and hears at once when nobody is left to tell it of a later one.

mod command;
mod guardian;
mod leash;
mod signals;
mod terminal;
mod watchman;

use std::{cell::Cell, ffi::OsString, io::Write as _, time::Duration};

use fencepost::{
    client::{AcquireOutcome, Held, HeldBy},
    grant::{LeftHow, Ttl},
    resource::{Holder, ResourceName},
};

use super::{
    acquire::{HeldJson, LeftJson},
    caller::{self, Caller, Next},
    connection, duration,
    exit::{self, Failure, HOLD_FAILED, HOLD_UNAVAILABLE, NOT_HELD},
    holder::{self, quoted},
    in_line::Waiter,
};
use signals::Signals;

/// The name of the hidden command that plays the parts of the other processes.
pub(super) const PART: &str = "hold-part";

const AFTER_HELP: &str = "\
The lease is renewed for as long as the command runs, and given back when it ends. The command finds in its \
environment FENCEPOST_RESOURCE, FENCEPOST_TOKEN, FENCEPOST_ISSUER, and all three as JSON in \
FENCEPOST_SEQUENCER. Let it send the token along with every write: only a guard at the resource stops a late \
one.

When the lease cannot be kept, the command's whole process group gets SIGTERM (--grace before the lease ends) \
and then SIGKILL, all before the lease ends and anybody else can be granted the resource. A lease that was \
revoked, or taken over by the same holder elsewhere, is missed at the next renewal, up to a third of the TTL \
later; SIGKILL comes then. Signals that fencepost gets are passed on to the group. What the command leaves running in \
its group is ended when it ends.

Exit codes: that of the command, or 128 + the signal that ended it. fencepost's own: 122 the cluster could \
not be asked, 123 not granted (the command did not run), 124 the command was ended because the lease was \
lost, 125 anything else, 126 the command cannot be run, 127 it was not found.

Examples:
  fencepost hold nightly-report -- ./run-report
  fencepost hold nightly-report --wait 10m -- ./run-report --fast
  fencepost hold db-migration --ttl 10s -- sh -c 'migrate --token \"$FENCEPOST_TOKEN\"'";

/// Arguments of `fencepost hold`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// What to hold, 1 to 160 characters
    resource: ResourceName,

    /// In whose name; unless set it is user@host:pid with the process id of this very command
    #[arg(long, short = 'H', env = "FENCEPOST_HOLDER", value_name = "NAME")]
    holder: Option<Holder>,

    /// How long the lease lives without a renewal, 100ms to 24h; it is renewed at a third of this
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_ttl, default_value = "30s")]
    #[arg(allow_hyphen_values = true)]
    ttl: Ttl,

    /// Stand in line for at most this long when somebody else has it, up to 24h
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_wait)]
    #[arg(allow_hyphen_values = true)]
    wait: Option<Duration>,

    /// How long before the lease ends to ask the command to end by itself, less than half of the TTL; unless
    /// set a sixth of it, at most 5s
    #[arg(long, value_name = "DURATION", value_parser = duration::parse)]
    grace: Option<Duration>,

    /// What to run, and its arguments
    #[arg(last = true, required = true, value_name = "COMMAND")]
    command: Vec<OsString>,
}

/// Arguments of the hidden command.
#[derive(Debug, clap::Args)]
pub(crate) struct PartArgs {
    #[command(subcommand)]
    part: Part,
}

#[derive(Debug, clap::Subcommand)]
enum Part {
    #[command(name = leash::NAME)]
    Leash(leash::Args),
    #[command(name = guardian::NAME)]
    Guardian(guardian::Args),
}

/// The code for bad arguments: `hold` has its own, since the others belong to the command.
pub(super) fn usage_code() -> u8 {
    let lenient = super::command().ignore_errors(true).try_get_matches();
    let held = lenient.is_ok_and(|matches| matches.subcommand_name() == Some("hold"));
    if held { HOLD_FAILED } else { exit::USAGE }
}

/// Plays the part of one of the other processes.
pub(super) fn part(args: PartArgs) -> exit::Outcome {
    match args.part {
        Part::Leash(args) => leash::run(&args),
        Part::Guardian(args) => guardian::run(&args),
    }
}

/// Holds, runs the command, and ends as it did.
pub(super) fn run(args: Args, connection: &connection::Options) -> exit::Outcome {
    let ended = Cell::new(Ok(()));
    let before = caller::run(connection, |caller| async {
        ended.set(hold(args, caller).await?);
        Ok(())
    });
    // The usual codes belong to the command; what failed before it has others.
    before.map_err(|failure| {
        failure.recoded(|code| match code {
            exit::REFUSED => NOT_HELD,
            exit::UNAVAILABLE | exit::UNKNOWN_OUTCOME => HOLD_UNAVAILABLE,
            exit::UNEXPECTED | exit::USAGE => HOLD_FAILED,
            other => other,
        })
    })?;
    ended.replace(Ok(()))
}

/// How the command ended, or why it did not run.
async fn hold(args: Args, caller: Caller) -> Result<exit::Outcome, Failure> {
    let grace = grace(&args)?;
    let mut signals = Signals::listen()?;
    let told_to_stop = tokio::select! {
        biased;
        // Whoever interrupts the wait does not want the command any more.
        signal = signals.ending() => Err(signal),
        acquired = acquire(&args, &caller) => Ok(acquired),
    };
    let held = match told_to_stop {
        Ok(acquired) => acquired?,
        Err(signal) => {
            // Until the cluster knows that nobody waits any more; who cannot wait for that says so again.
            tokio::select! {
                () = caller.client.settled() => {}
                _ = signals.ending() => {}
            }
            let code = signals::code(signal);
            return Ok(Err(Failure::new(
                code,
                "told to stop before the command began",
            )));
        }
    };
    let ended = watchman::run(&args.command, &held, grace, signals).await;
    give_back(held).await;
    Ok(ended)
}

/// How long the command has between SIGTERM and the end of the lease.
fn grace(args: &Args) -> Result<Duration, Failure> {
    let ttl = args.ttl.as_duration();
    match args.grace {
        None => Ok((ttl / 6).min(Duration::from_secs(5))),
        Some(grace) if grace < ttl / 2 => Ok(grace),
        Some(_) => {
            let half = duration::human(ttl / 2);
            let message = format!("--grace must be less than half of the TTL, which is {half}");
            Err(Failure::new(HOLD_FAILED, message))
        }
    }
}

/// Acquires, and waits until it is known how long the lease lasts: the command must not begin before.
async fn acquire(args: &Args, caller: &Caller) -> Result<Held, Failure> {
    let holder = args.holder.clone();
    let holder = holder.unwrap_or_else(holder::of_this_process);
    let client = &caller.client;
    let wait = args.wait.unwrap_or_default();
    let mut ask = client
        .ask(args.resource.clone(), holder.clone(), args.ttl)
        .wait(wait);
    let waiter = Waiter {
        caller,
        resource: &args.resource,
        holder: &holder,
        ttl: args.ttl,
        wait,
        quiet: false,
    };
    let outcome = match args.wait {
        None => client.acquire_with(&mut ask).await,
        Some(_) => waiter.acquire(&mut ask).await?,
    };
    let next = Next::repeat(
        "The command did not run. Should it have been granted all the same, that ends with its TTL. Try again:",
    );
    let held = match outcome.map_err(|error| caller.failed(&error, &next))? {
        AcquireOutcome::Granted(acquired) => client.keep(acquired),
        AcquireOutcome::Held(by) => return Err(refused(args, caller, &by)),
        AcquireOutcome::Ended(ended) => {
            let message = format!("the grant is {} before it could be used", ended.how);
            return Err(Failure::new(NOT_HELD, message));
        }
        AcquireOutcome::Left(how) => return Err(left(args, caller, how)),
    };
    match held.claimed().await {
        Ok(_) => Ok(held),
        Err(lost) => Err(Failure::new(NOT_HELD, lost)),
    }
}

fn refused(args: &Args, caller: &Caller, by: &HeldBy) -> Failure {
    let resource = quoted(args.resource.as_str());
    let holder = by.holder.as_ref().map(Holder::as_str);
    let name = holder.unwrap_or("somebody who has given it back by now");
    let failure = Failure::new(NOT_HELD, format_args!("{resource} is held by {name}"))
        .hint("The command did not run. Give --wait to wait in line.");
    let json = HeldJson::new(args.resource.as_str(), by);
    match caller.refuse(failure, &json) {
        Err(failure) => failure,
        Ok(()) => Failure::silent(NOT_HELD),
    }
}

fn left(args: &Args, caller: &Caller, how: LeftHow) -> Failure {
    let resource = quoted(args.resource.as_str());
    let message = match how {
        LeftHow::WaitedOut => format!("{resource} did not become free in time"),
        how => format!("its place in line for {resource} was {how}"),
    };
    let failure = Failure::new(NOT_HELD, message).hint("The command did not run.");
    match caller.refuse(failure, &LeftJson::new(args.resource.as_str(), how)) {
        Err(failure) => failure,
        Ok(()) => Failure::silent(NOT_HELD),
    }
}

/// Gives the resource back. The command has ended, so its code is what counts.
async fn give_back(held: Held) {
    let (resource, remaining) = (held.resource().clone(), held.remaining());
    if held.check().is_err() {
        return;
    }
    // Once the lease has ended by itself there is nothing to give back.
    if let Ok(Err(error)) = tokio::time::timeout(remaining, held.release()).await {
        say(&format!(
            "{resource} could not be given back, and is free within {}: {error}",
            duration::human(remaining)
        ));
    }
}

/// A word to people; standard output belongs to the command.
fn say(text: &str) {
    // A closed standard error must not end what the command does.
    let _ = writeln!(std::io::stderr().lock(), "fencepost: {text}");
}
