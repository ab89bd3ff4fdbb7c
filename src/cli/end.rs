//! `fencepost renew`, `release` and `revoke`: what is done to one grant, named by its token.

use super::acquire::{EndedJson, millis};
use super::caller::{Caller, Next};
use super::duration;
use super::exit::{self, Failure, REFUSED};
use super::holder::{self, quoted};
use fencepost::client::{Ended, ReleaseOutcome, RenewOutcome, Renewal, RevokeOutcome};
use fencepost::grant::Ttl;
use fencepost::resource::{Reason, ResourceName};
use fencepost::token::TokenValue;
use serde::Serialize;

const REPEAT: &str =
    "It is safe to repeat this command: it names the token, and acts on no other grant.";

/// Arguments of `fencepost renew`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
A renewal counts from now for the whole TTL, and never changes the token. Renew at a third of the TTL.

Examples:
  fencepost renew nightly-report 65547
  fencepost renew nightly-report 65547 --holder worker-7 --ttl 10m")]
pub(crate) struct RenewArgs {
    /// What is held
    resource: ResourceName,
    /// The token of the grant, as `acquire` printed it
    token: TokenValue,
    #[command(flatten)]
    holder: holder::Options,
    /// Another TTL from now on, 100ms to 24h; unless set, the grant keeps its own
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_ttl, allow_hyphen_values = true)]
    ttl: Option<Ttl>,
}

/// Arguments of `fencepost release`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fencepost release nightly-report 65547
  fencepost release nightly-report 65547 --holder worker-7")]
pub(crate) struct ReleaseArgs {
    /// What is held
    resource: ResourceName,
    /// The token of the grant, as `acquire` printed it
    token: TokenValue,
    #[command(flatten)]
    holder: holder::Options,
}

/// Arguments of `fencepost revoke`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
For operators: takes a grant away from whoever holds it. The holder learns of it with its next renewal; until \
the resource has seen a higher token, it still accepts this one.

Examples:
  fencepost inspect nightly-report            # who holds it, with which token
  fencepost revoke nightly-report 65547 --reason \"worker-7 hangs\"")]
pub(crate) struct RevokeArgs {
    /// What is held
    resource: ResourceName,
    /// The token of the grant, as `inspect` prints it; a successor's grant is never touched
    token: TokenValue,
    /// Why, for the record: up to 200 characters
    #[arg(long)]
    reason: Option<Reason>,
}

pub(crate) async fn renew(args: RenewArgs, caller: Caller) -> exit::Outcome {
    let holder = args.holder.holder();
    let renewal = Renewal {
        resource: args.resource.clone(),
        holder: holder.clone(),
        token: args.token,
        ttl: args.ttl,
    };
    let outcomes = caller.client.renew(&[renewal]).await;
    let outcomes = outcomes.map_err(|error| caller.failed(&error, &Next::repeat(REPEAT)))?;
    let one = Grant {
        resource: &args.resource,
        token: args.token,
    };
    match outcomes.into_iter().next().unwrap_or(RenewOutcome::Unknown) {
        RenewOutcome::Renewed { lease, .. } => {
            let until = duration::human(lease);
            let human = format!(
                "Renewed {}: token {} lives for {until} from now.",
                one.name(),
                args.token
            );
            let json = DoneJson {
                lease_ms: Some(millis(lease)),
                ..one.done("renewed")
            };
            caller.answer(&human, &json)
        }
        RenewOutcome::Ended(ended) => {
            one.ended(&caller, &ended, "Stop using it, and acquire anew.")
        }
        RenewOutcome::Unknown => one.unknown(&caller, Some(holder.as_str())).await,
    }
}

pub(crate) async fn release(args: ReleaseArgs, caller: Caller) -> exit::Outcome {
    let holder = args.holder.holder();
    let outcome = caller
        .client
        .release(&args.resource, &holder, args.token)
        .await;
    let one = Grant {
        resource: &args.resource,
        token: args.token,
    };
    match outcome.map_err(|error| caller.failed(&error, &Next::repeat(REPEAT)))? {
        ReleaseOutcome::Released => {
            caller.answer(&format!("Released {}.", one.name()), &one.done("released"))
        }
        ReleaseOutcome::Ended(ended) => {
            one.ended(&caller, &ended, "There was nothing left to release.")
        }
        ReleaseOutcome::Unknown => one.unknown(&caller, Some(holder.as_str())).await,
    }
}

pub(crate) async fn revoke(args: RevokeArgs, caller: Caller) -> exit::Outcome {
    let outcome = caller
        .client
        .revoke(&args.resource, args.token, args.reason.as_ref())
        .await;
    let one = Grant {
        resource: &args.resource,
        token: args.token,
    };
    match outcome.map_err(|error| caller.failed(&error, &Next::repeat(REPEAT)))? {
        RevokeOutcome::Revoked => {
            let human = format!("Revoked {}: token {} is no more.", one.name(), args.token);
            caller.answer(&human, &one.done("revoked"))
        }
        RevokeOutcome::Ended(ended) => {
            one.ended(&caller, &ended, "There was nothing left to revoke.")
        }
        RevokeOutcome::Unknown => one.unknown(&caller, None).await,
    }
}

/// The grant that a command names.
struct Grant<'a> {
    resource: &'a ResourceName,
    token: TokenValue,
}

impl<'a> Grant<'a> {
    fn name(&self) -> String {
        quoted(self.resource.as_str())
    }

    fn done(&self, outcome: &'static str) -> DoneJson<'a> {
        DoneJson {
            outcome,
            resource: self.resource.as_str(),
            token: self.token.to_string(),
            lease_ms: None,
        }
    }

    fn ended(&self, caller: &Caller, ended: &Ended, next: &str) -> exit::Outcome {
        let message = format!(
            "the grant of {} with token {} had {}",
            self.name(),
            ended.token,
            had(ended)
        );
        let failure = Failure::new(REFUSED, message).hint(next);
        caller.refuse(failure, &EndedJson::new(self.resource.as_str(), ended))
    }

    async fn unknown(&self, caller: &Caller, holder: Option<&str>) -> exit::Outcome {
        let whose = holder
            .map(|holder| format!(" of {holder}"))
            .unwrap_or_default();
        let message = format!(
            "no grant of {} with token {}{whose} is known",
            self.name(),
            self.token
        );
        let failure = Failure::new(REFUSED, message);
        let failure = match self.whose(caller).await {
            Some(other) if holder.is_some() => failure.hint(format_args!(
                "The grant with this token belongs to {other}: add --holder {}",
                quoted(&other)
            )),
            _ => failure.hint(format_args!(
                "It ended long ago, or the names do not belong together: see `fencepost inspect {}`.",
                self.name()
            )),
        };
        caller.refuse(failure, &self.done("unknown"))
    }

    /// Who holds the live grant with this token. It is only asked for advice, so a failure is no answer.
    async fn whose(&self, caller: &Caller) -> Option<String> {
        let live = caller.client.inspect(self.resource).await.ok()?.grant?;
        (live.token.value() == self.token).then(|| live.holder.to_string())
    }
}

fn had(ended: &Ended) -> &'static str {
    use fencepost::grant::EndedHow;
    match ended.how {
        EndedHow::Released => "been released",
        EndedHow::Expired => "expired",
        EndedHow::Revoked => "been revoked",
        EndedHow::Superseded => "been superseded by a new grant to the same holder",
    }
}

#[derive(Serialize)]
struct DoneJson<'a> {
    outcome: &'static str,
    resource: &'a str,
    token: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_ms: Option<u64>,
}
