//! The course of a run: whether anybody is there, then one check after the other, to the end or until
//! nobody answers any more.
//!
//! A request without an answer is a finding where the service answers others: it hangs up on what it does
//! not expect, or stands still. Where it answers none, it is down, and a verdict on its marks would be made
//! up. So a plain write is asked before the first check, and after each in which an answer was missing.

use std::io;

use super::super::super::connection::Output;
use super::check::{Check, Finding, Stop};
use super::options::Args;
use super::report::{self, Judged, Outcome};
use super::service::Unreachable;
use super::session::Session;

/// The check after which `X-Required-Token` is trusted, or not.
const REQUIRED_TOKEN: &str = "required-token";
/// How often a fixed resource is asked for its mark before its marks count as out of hand.
const MARKS_ASKED_MAX: u32 = 3;

/// A run that has come to its end.
pub(super) struct Course {
    pub(super) judged: Vec<Judged>,
    /// Why it ended before all checks were through, if it did.
    pub(super) stopped: Option<Stop>,
    /// How many requests were sent.
    pub(super) asked: u64,
}

impl Course {
    /// Runs the checks, and tells people each as it comes out.
    pub(super) fn run(
        args: &Args,
        mut session: Session<'_>,
        checks: Vec<Check>,
    ) -> io::Result<Self> {
        let mut judged: Vec<Judged> = Vec::new();
        let mut stopped = introduce(&session).map_err(Stop::from).err();
        for check in checks {
            let is_over = stopped.is_some();
            let outcome = match reason_against(args, &check, &judged) {
                Some(reason) => reason,
                None if is_over => Outcome::NotTried("the run had ended before".to_owned()),
                None => try_out(&session, &check, &mut stopped),
            };
            if check.name == REQUIRED_TOKEN || check.needs.contains(&"required-header") {
                session.required_is_trusted = matches!(outcome, Outcome::Held(_));
            }
            let one = Judged { check, outcome };
            if args.output == Output::Human && !is_over {
                report::tell(&mut io::stdout().lock(), &one)?;
            }
            judged.push(one);
        }
        Ok(Self {
            judged,
            stopped,
            asked: session.asked(),
        })
    }
}

/// Runs one check; what keeps it from its end also ends the run.
fn try_out(session: &Session<'_>, check: &Check, stopped: &mut Option<Stop>) -> Outcome {
    let findings = match (check.run)(session) {
        Ok(findings) => findings,
        Err(stop) => {
            let after = session
                .last_unanswered()
                .map(|sent| format!("; the last write without an answer was {sent}"));
            let why = format!(
                "it did not come to its end: {stop}{}",
                after.unwrap_or_default()
            );
            *stopped = Some(stop);
            return Outcome::NotTried(why);
        }
    };
    if !findings.lack_answers() {
        return Outcome::of(findings);
    }
    let Err(unreachable) = introduce(session) else {
        return Outcome::of(findings);
    };
    *stopped = Some(unreachable.into());
    let answered = |finding: &Finding| finding.exchange.answer.is_ok();
    let found: Vec<Finding> = findings.into_inner().into_iter().filter(answered).collect();
    if found.is_empty() {
        let why = "no answer came, and none to a plain write after it";
        return Outcome::NotTried(why.to_owned());
    }
    Outcome::Broken(found)
}

/// Why a check is not run: the arguments, or one that it needs and that found something.
fn reason_against(args: &Args, check: &Check, judged: &[Judged]) -> Option<Outcome> {
    if let Some(why) = args.wished_away(check) {
        return Some(Outcome::LeftOut(why));
    }
    if let Some(why) = args.leaves_out(check) {
        return Some(Outcome::NotTried(why.to_owned()));
    }
    // One that was left out on purpose is taken for granted; one that could not be judged is not.
    let fails = |one: &&Judged| {
        let stands = match &one.outcome {
            Outcome::Held(_) => true,
            Outcome::Broken(_) => false,
            Outcome::LeftOut(_) | Outcome::NotTried(_) => args.leaves_out(&one.check).is_some(),
        };
        check.needs.contains(&one.check.name) && !stands
    };
    let broken = judged.iter().find(fails)?;
    Some(Outcome::NotTried(format!(
        "it says nothing of its own while {} is not held",
        broken.check.name
    )))
}

/// Finds out whether anybody answers a plain write, whatever the answer. Resources that the user named may
/// have been used before: tokens begin above their marks.
fn introduce(session: &Session<'_>) -> Result<(), Unreachable> {
    if session.supply.fixed().is_empty() {
        let resource = session.supply.resource("there");
        return session.answer_to(&resource).map(drop);
    }
    for resource in session.supply.fixed() {
        for _ in 0..MARKS_ASKED_MAX {
            let exchange = session.answer_to(resource)?;
            match exchange.required() {
                Some(required) if exchange.status() == Some(409) => {
                    session.supply.raise(required.saturating_add(1));
                }
                _ => break,
            }
        }
    }
    Ok(())
}
