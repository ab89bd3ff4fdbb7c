//! `fencepost acquire`: ask for a resource.

use super::caller::{Caller, Next};
use super::exit::{self, Failure, REFUSED};
use super::holder::{self, quoted};
use super::in_line::Waiter;
use super::{connection::Output, duration};
use fencepost::client::{AcquireOutcome, Acquired, Ask, Ended, HeldBy, RenewOutcome, RequestKey};
use fencepost::grant::{LeftHow, Ttl};
use fencepost::resource::ResourceName;
use serde::Serialize;
use std::time::Duration;

const AFTER_HELP: &str = "\
The same holder asking again supersedes its own grant, and gets a higher token. Anybody else is refused \
(exit code 3) until the grant is released, revoked, or not renewed for its TTL. With --wait the command stands \
in line instead, first come first served; Ctrl-C leaves it.

Examples:
  fencepost acquire nightly-report
  fencepost acquire nightly-report --holder worker-7 --ttl 5m
  fencepost acquire nightly-report --wait 10m
  TOKEN=$(fencepost acquire nightly-report --quiet) && run-report --fencing-token \"$TOKEN\"";

/// Arguments of `fencepost acquire`.
#[derive(Debug, clap::Args)]
#[command(after_help = AFTER_HELP)]
pub(crate) struct Args {
    /// What to ask for, 1 to 160 characters
    resource: ResourceName,

    #[command(flatten)]
    holder: holder::Options,

    /// How long the grant lives without a renewal, 100ms to 24h
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_ttl, default_value = "30s")]
    #[arg(allow_hyphen_values = true)]
    ttl: Ttl,

    /// Stand in line for at most this long when somebody else has it, up to 24h
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_wait)]
    #[arg(allow_hyphen_values = true)]
    wait: Option<Duration>,

    /// Print the token alone, for scripts
    #[arg(long, short)]
    quiet: bool,

    /// Ask again under an earlier request id, as a failure printed it: both take effect at most once
    #[arg(long, value_name = "ID")]
    request_id: Option<RequestKey>,
}

/// Asks, and renews at once what an earlier copy of the same request was granted.
pub(crate) async fn run(args: Args, caller: Caller) -> exit::Outcome {
    let (resource, holder) = (args.resource.clone(), args.holder.holder());
    let ask = match args.request_id.clone() {
        Some(key) => Ask::resume(resource, holder.clone(), args.ttl, key),
        None => caller.client.ask(resource, holder.clone(), args.ttl),
    };
    let mut ask = ask.wait(args.wait.unwrap_or_default());
    let outcome = match args.wait {
        None => caller.client.acquire_with(&mut ask).await,
        Some(wait) => {
            let waiter = Waiter {
                caller: &caller,
                resource: &args.resource,
                holder: &holder,
                ttl: args.ttl,
                wait,
                quiet: args.quiet,
            };
            waiter.acquire(&mut ask).await?
        }
    };
    match outcome.map_err(|error| caller.failed(&error, &ask_again(&args, &ask)))? {
        AcquireOutcome::Granted(acquired) => granted(&args, &caller, acquired).await,
        AcquireOutcome::Held(held) => refuse_held(&args, &caller, &held),
        AcquireOutcome::Ended(ended) => refuse_ended(&args, &caller, &ended),
        AcquireOutcome::Left(how) => refuse_left(&args, &caller, how),
    }
}

/// What to type when nobody knows whether the asking took effect.
fn ask_again(args: &Args, ask: &Ask) -> Next {
    let resource = quoted(args.resource.as_str());
    let (holder, ttl, key) = (
        quoted(args.holder.holder().as_str()),
        duration::exact(args.ttl.as_duration()),
        ask.key(),
    );
    let wait = match ask.sent_wait() {
        Duration::ZERO => String::new(),
        wait => format!(" --wait {}", duration::exact(wait)),
    };
    Next::new(
        "It may have been granted. Ask again under the same id, which takes effect at most once:",
        format!(
            "fencepost acquire {resource} --holder {holder} --ttl {ttl}{wait} --request-id {key}"
        ),
    )
}

async fn granted(args: &Args, caller: &Caller, acquired: Acquired) -> exit::Outcome {
    let mut lease = acquired.lease;
    if acquired.safe_until().is_none() {
        // When a grant that was replayed or came out of the line began is not known: only a renewal says
        // how long it lasts, and makes the 2 s of the latter the whole TTL.
        let renewals = [acquired.renewal()];
        let token = acquired.token;
        let next = Next::new(
            "It was granted; a renewal tells how long it lasts:",
            format!(
                "fencepost renew {} {token} --holder {}",
                quoted(acquired.resource.as_str()),
                quoted(acquired.holder.as_str())
            ),
        );
        let outcomes = caller.client.renew(&renewals).await;
        match outcomes
            .map_err(|error| caller.failed(&error, &next))?
            .first()
        {
            Some(RenewOutcome::Renewed { lease: renewed, .. }) => lease = *renewed,
            Some(RenewOutcome::Ended(ended)) => return refuse_ended(args, caller, ended),
            Some(RenewOutcome::Unknown) | None => {
                let gone = Failure::new(REFUSED, format_args!("token {token} is no longer known"));
                return caller.refuse(gone, &GrantedJson::new(caller, &acquired, lease));
            }
        }
    }
    let token = acquired.token;
    if args.quiet && caller.output == Output::Human {
        return caller.answer(&token.to_string(), &());
    }
    let resource = quoted(args.resource.as_str());
    let flag = args.holder.flag();
    let human = format!(
        "Granted {resource} to {holder}.\n\
         \n  token   {token}\n  issuer  {issuer}\n  lease   {lease}, unless renewed\n\n\
         Send the token along with every write; the resource refuses lower ones.\n\
         Next: fencepost renew {resource} {token}{flag}\n      \
               fencepost release {resource} {token}{flag}",
        holder = acquired.holder,
        issuer = acquired.sequencer.issuer,
        lease = duration::human(lease),
    );
    caller.answer(&human, &GrantedJson::new(caller, &acquired, lease))
}

fn refuse_held(args: &Args, caller: &Caller, held: &HeldBy) -> exit::Outcome {
    let resource = quoted(args.resource.as_str());
    let failure = match &held.holder {
        Some(holder) => Failure::new(REFUSED, format_args!("{resource} is held by {holder}")).hint(
            format_args!(
                "Its lease runs out in about {} unless it is renewed. Nothing has changed.",
                duration::human(held.remaining)
            ),
        ),
        None => Failure::new(
            REFUSED,
            format_args!("{resource} was held when this request was first sent"),
        )
        .hint("It is free by now: ask again, without --request-id."),
    };
    caller.refuse(failure, &HeldJson::new(args.resource.as_str(), held))
}

fn refuse_ended(args: &Args, caller: &Caller, ended: &Ended) -> exit::Outcome {
    let resource = quoted(args.resource.as_str());
    let message = format!(
        "{resource} was granted with token {}, and that grant is {}",
        ended.token, ended.how
    );
    let failure =
        Failure::new(REFUSED, message).hint("Ask again, without --request-id, for a new grant.");
    caller.refuse(failure, &EndedJson::new(args.resource.as_str(), ended))
}

fn refuse_left(args: &Args, caller: &Caller, how: LeftHow) -> exit::Outcome {
    let resource = quoted(args.resource.as_str());
    let waited = duration::human(args.wait.unwrap_or_default());
    let (message, hint) = match how {
        LeftHow::WaitedOut => (
            format!("{resource} was not granted within {waited}"),
            format!("`fencepost inspect {resource}` tells who has it, and how many are in line."),
        ),
        LeftHow::Withdrawn => (
            format!("the place in line for {resource} was withdrawn"),
            "Somebody who knew its request id took it back.".to_owned(),
        ),
        LeftHow::Superseded => (
            format!("{} asked for {resource} anew", args.holder.holder()),
            "The newer command has taken over the place in line. Give each its own --holder."
                .to_owned(),
        ),
        LeftHow::Detached => (
            format!("the place in line for {resource} is lost"),
            "The cluster could not reach the node that this command waited at for 2 s. Ask again."
                .to_owned(),
        ),
    };
    let json = LeftJson::new(args.resource.as_str(), how);
    caller.refuse(Failure::new(REFUSED, message).hint(hint), &json)
}

/// Milliseconds as JSON carries them.
pub(super) fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[derive(Serialize)]
struct GrantedJson<'a> {
    outcome: &'static str,
    resource: &'a str,
    holder: &'a str,
    token: String,
    term: u64,
    index: u64,
    lease_ms: u64,
    after_wait: bool,
    replayed: bool,
    issuer: &'a str,
    cluster_id: Option<String>,
}

impl<'a> GrantedJson<'a> {
    fn new(caller: &Caller, acquired: &'a Acquired, lease: Duration) -> Self {
        Self {
            outcome: "granted",
            resource: acquired.resource.as_str(),
            holder: acquired.holder.as_str(),
            token: acquired.token.to_string(),
            term: acquired.token.term(),
            index: acquired.token.index(),
            lease_ms: millis(lease),
            after_wait: acquired.after_wait,
            replayed: acquired.replayed,
            issuer: acquired.sequencer.issuer.as_str(),
            cluster_id: caller.client.cluster_id().map(|id| id.to_string()),
        }
    }
}

/// Somebody else's grant, for scripts.
#[derive(Serialize)]
pub(super) struct HeldJson<'a> {
    outcome: &'static str,
    resource: &'a str,
    held_by: Option<String>,
    token: Option<String>,
    remaining_ms: u64,
    queue: u32,
    replayed: bool,
}

/// A place in line that is no more, for scripts.
#[derive(Serialize)]
pub(super) struct LeftJson<'a> {
    outcome: &'static str,
    resource: &'a str,
    how: &'static str,
}

impl<'a> LeftJson<'a> {
    pub(super) fn new(resource: &'a str, how: LeftHow) -> Self {
        Self {
            outcome: "left",
            resource,
            how: how.as_str(),
        }
    }
}

impl<'a> HeldJson<'a> {
    pub(super) fn new(resource: &'a str, held: &HeldBy) -> Self {
        Self {
            outcome: "held",
            resource,
            held_by: held.holder.as_ref().map(ToString::to_string),
            token: held.token.map(|token| token.to_string()),
            remaining_ms: millis(held.remaining),
            queue: held.queue,
            replayed: held.replayed,
        }
    }
}

/// A grant that is no more, for scripts.
#[derive(Serialize)]
pub(super) struct EndedJson<'a> {
    outcome: &'static str,
    resource: &'a str,
    token: String,
    how: &'static str,
}

impl<'a> EndedJson<'a> {
    pub(super) fn new(resource: &'a str, ended: &Ended) -> Self {
        Self {
            outcome: "ended",
            resource,
            token: ended.token.to_string(),
            how: ended.how.as_str(),
        }
    }
}
