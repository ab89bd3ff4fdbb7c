//! `fencepost guard admit` and `high-water`: the cluster's own guard register.

use super::super::caller::{Caller, Next};
use super::super::exit::{self, Failure, REFUSED};
use super::super::holder::quoted;
use fencepost::client::{AdmitOutcome, Ahead};
use fencepost::fence::EqualTokens;
use fencepost::resource::{IssuerName, ResourceName};
use fencepost::sequencer::Sequencer;
use fencepost::token::TokenValue;
use serde::Serialize;

/// Arguments of `fencepost guard admit`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
For a resource that has no store of its own in which to keep the highest token it has seen: a device, somebody \
else's service, a job that is to start. Ask right before the act, and act only on exit code 0.

Between the answer and the act a newer holder can come and go. Where the data has a store, keep the mark there: \
then check and write are one step (`fencepost guard sql --help`).

A lower token than one that was admitted before is stale, for ever. The same one passes again, so it is safe to \
repeat this command; with --once each token passes once only. Marks are kept by the cluster, and never forgotten: \
do not make up a resource for each use.

Examples:
  TOKEN=$(fencepost acquire door-7 --quiet)
  fencepost guard admit door-7 \"$TOKEN\" && open-door
  fencepost hold nightly -- sh -c 'fencepost guard admit nightly $FENCEPOST_TOKEN --once && start-batch'")]
pub(crate) struct AdmitArgs {
    /// What the token is for
    resource: ResourceName,
    /// The token that is presented
    token: TokenValue,
    /// Who issued it; unless set, the cluster that is asked
    #[arg(long, value_name = "NAME")]
    issuer: Option<IssuerName>,
    /// Let each token pass once only. Say the same in all calls for a resource
    #[arg(long)]
    once: bool,
}

/// Arguments of `fencepost guard high-water`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
For a look, not for a decision: between this answer and what you do, the mark can rise. That no token was \
admitted yet is an answer and no failure.

Example:
  fencepost guard high-water door-7")]
pub(crate) struct HighWaterArgs {
    /// Whose mark to show
    resource: ResourceName,
}

pub(crate) async fn admit(args: &AdmitArgs, caller: Caller) -> exit::Outcome {
    let sequencer = Sequencer {
        issuer: issuer(args.issuer.as_ref(), &caller).await?,
        resource: args.resource.clone(),
        token: args.token,
    };
    let equal = match args.once {
        true => EqualTokens::Once,
        false => EqualTokens::MayWriteAgain,
    };
    let outcome = caller.client.admit(&sequencer, equal).await;
    let next = next(args);
    let one = Presented(&sequencer);
    match outcome.map_err(|error| caller.failed(&error, &next))? {
        AdmitOutcome::Admitted => {
            let human = format!(
                "Admitted token {} for {}: no lower one passes any more.",
                sequencer.token,
                one.name()
            );
            caller.answer(&human, &one.json("admitted"))
        }
        AdmitOutcome::Stale { required, .. } => {
            let message = format!(
                "token {} is stale for {}: {required} is required",
                sequencer.token,
                one.name()
            );
            let hint = match args.once && required.get() == sequencer.token.get() + 1 {
                true => "It has passed already, and with --once it passes once.",
                false => "A newer holder has been here: stop, and acquire anew.",
            };
            let json = PresentedJson {
                required: Some(required.to_string()),
                ..one.json("stale")
            };
            caller.refuse(Failure::new(REFUSED, message).hint(hint), &json)
        }
        AdmitOutcome::Foreign { expected } => one.foreign(&caller, &expected),
        AdmitOutcome::Ahead(ahead) => one.ahead(&caller, &ahead),
    }
}

/// What to do about an answer that was lost.
fn next(args: &AdmitArgs) -> Next {
    if !args.once {
        return Next::repeat("It is safe to repeat this command: a mark only rises.");
    }
    Next::new(
        "A mark at the token means that it was used up, perhaps by this very command:",
        format!(
            "fencepost guard high-water {}",
            quoted(args.resource.as_str())
        ),
    )
}

pub(crate) async fn high_water(args: &HighWaterArgs, caller: Caller) -> exit::Outcome {
    let mark = caller.client.high_water(&args.resource).await;
    let mark = mark.map_err(|error| caller.failed(&error, &Next::none()))?;
    let name = quoted(args.resource.as_str());
    let human = match &mark {
        None => format!("No token was admitted for {name} yet."),
        Some(mark) => format!(
            "The highest token admitted for {name} is {}, of issuer {}.",
            mark.token, mark.issuer
        ),
    };
    let json = MarkJson {
        resource: args.resource.as_str(),
        issuer: mark.as_ref().map(|mark| mark.issuer.to_string()),
        mark: mark.as_ref().map(|mark| mark.token.to_string()),
    };
    caller.answer(&human, &json)
}

/// Who is meant by a token whose issuer was not named.
pub(super) async fn issuer(
    named: Option<&IssuerName>,
    caller: &Caller,
) -> Result<IssuerName, Failure> {
    if let Some(named) = named {
        return Ok(named.clone());
    }
    let status = caller.client.status().await;
    let status = status.map_err(|error| caller.failed(&error, &Next::none()))?;
    IssuerName::new(status.issuer).map_err(|error| Failure::new(exit::UNEXPECTED, error))
}

/// A token that was presented or reported, and what is said of it.
pub(super) struct Presented<'a>(pub(super) &'a Sequencer);

impl<'a> Presented<'a> {
    fn name(&self) -> String {
        quoted(self.0.resource.as_str())
    }

    pub(super) fn json(&self, outcome: &'static str) -> PresentedJson<'a> {
        PresentedJson {
            outcome,
            issuer: self.0.issuer.as_str(),
            resource: self.0.resource.as_str(),
            presented: self.0.token.to_string(),
            ..PresentedJson::default()
        }
    }

    pub(super) fn ahead_json(&self, ahead: &Ahead) -> PresentedJson<'a> {
        PresentedJson {
            last_token: Some(ahead.last_token.map_or(0, TokenValue::get).to_string()),
            advice: Some(ahead.advice.clone()),
            ..self.json("ahead")
        }
    }

    pub(super) fn foreign_json(&self, expected: &IssuerName) -> PresentedJson<'a> {
        PresentedJson {
            expected_issuer: Some(expected.to_string()),
            ..self.json("foreign")
        }
    }

    pub(super) fn ahead(&self, caller: &Caller, ahead: &Ahead) -> exit::Outcome {
        let last = match ahead.last_token {
            Some(last) => format!("the last one was {last}"),
            None => "it has issued none yet".to_owned(),
        };
        let message = format!(
            "token {} for {} was never issued by {}: {last}",
            self.0.token,
            self.name(),
            self.0.issuer
        );
        let failure = Failure::new(REFUSED, message).hint(&ahead.advice);
        caller.refuse(failure, &self.ahead_json(ahead))
    }

    pub(super) fn foreign(&self, caller: &Caller, expected: &IssuerName) -> exit::Outcome {
        let message = format!(
            "token {} for {} is foreign: it is of issuer {}, and this cluster is {expected}",
            self.0.token,
            self.name(),
            self.0.issuer
        );
        let failure = Failure::new(REFUSED, message).hint(
            "Tokens of two issuers say nothing about each other: ask the one that issued it.",
        );
        caller.refuse(failure, &self.foreign_json(expected))
    }
}

/// An answer about a token for scripts; fields that do not apply are absent.
#[derive(Debug, Default, Serialize)]
pub(super) struct PresentedJson<'a> {
    outcome: &'static str,
    issuer: &'a str,
    resource: &'a str,
    presented: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    required: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    expected_issuer: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) last_token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    advice: Option<String>,
}

#[derive(Serialize)]
struct MarkJson<'a> {
    resource: &'a str,
    issuer: Option<String>,
    mark: Option<String>,
}
