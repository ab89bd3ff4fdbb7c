//! `fencepost guard probe`: holds an HTTP service, in whatever language, to the header contract.
//!
//! It knows the service only by what it answers. [`checks`] has the sentences of the contract, one a
//! check; a [`session`](Session) puts the questions, a [`Supply`] gives each check resources and tokens
//! that no other has touched, and [`report`] tells what was sent, what came back, what was expected,
//! and why it matters.

mod backlog;
mod check;
mod checks;
mod exchange;
mod options;
mod report;
mod service;
mod session;
mod spelling;
mod supply;
mod template;

pub(crate) use options::Args;

use std::io::{self, Write};

use fencepost::resource::ResourceName;

use super::super::connection::Output;
use super::super::exit::{self, Failure, REFUSED, UNAVAILABLE, UNEXPECTED, USAGE};
use check::{Check, Stop};
use report::{CheckJson, Judged, Outcome, ReportJson, Summary};
use service::{Service, Unreachable};
use session::{Session, Shape};
use supply::Supply;
use template::Template;

/// The check after which `X-Required-Token` is trusted, or not.
const REQUIRED_TOKEN: &str = "required-token";
/// How often a fixed resource is asked for its mark before its marks count as out of hand.
const MARKS_ASKED_MAX: u32 = 3;

/// Probes the service, or lists the checks.
pub(crate) fn run(args: &Args) -> exit::Outcome {
    let checks = checks::all();
    if args.list_checks {
        return list(&checks, args.output);
    }
    if let Some(wrong) = args.contradiction(&checks) {
        return Err(Failure::new(USAGE, wrong));
    }
    let Some(url) = args.url.clone() else {
        return Err(Failure::new(USAGE, "a URL is needed"));
    };
    let shape = shape(args, &url);
    let writers = args.concurrency as usize;
    let service = Service::new(args.timeout, writers, args.headers.clone());
    let supply = Supply::new(suffix(), args.resources.clone(), args.first_token.get());
    let session = Session::new(&service, &shape, supply);
    announce(args, &session, &url)?;
    probe(args, session, checks, &url)
}

/// What tells the names of this run from those of any other.
fn suffix() -> String {
    let drawn: u32 = rand::RngExt::random(&mut rand::make_rng::<rand::rngs::StdRng>());
    format!("{drawn:08x}")
}

fn shape(args: &Args, url: &str) -> Shape {
    Shape {
        method: args.method.as_str(),
        url: Template::new(url),
        body: Template::new(&args.body),
        read_url: args.read_url.as_deref().map(Template::new),
        issuer: args.issuer.clone(),
        missing_issuer: args.missing_issuer.into(),
        equal: args.equal_tokens.into(),
        rounds: args.rounds,
        writers: args.concurrency,
        restart_command: args.restart_command.clone(),
        restart_timeout: args.restart_timeout,
    }
}

fn list(checks: &[Check], output: Output) -> exit::Outcome {
    let mut out = io::stdout().lock();
    match output {
        Output::Human => {
            for check in checks {
                writeln!(out, "{:<25} {}", check.name, check.promise)?;
            }
        }
        Output::Json => {
            let listed: Vec<CheckJson<'_>> = checks.iter().map(CheckJson::listed).collect();
            writeln!(out, "{}", serde_json::json!({ "checks": listed }))?;
        }
    }
    Ok(())
}

/// Says what it is about to do before it does it, because it writes.
fn announce(args: &Args, session: &Session<'_>, url: &str) -> io::Result<()> {
    let resources = match session.supply.fixed() {
        [] => format!("resources of its own, {}-...", session.supply.prefix()),
        names => {
            let names = names.iter().map(ResourceName::as_str);
            format!("the resources {}", names.collect::<Vec<_>>().join(", "))
        }
    };
    let words = format!(
        "Probing {method} {url}\n\
         It writes to {resources}, with tokens from {first} up, some malformed and some stale,\n\
         and lets {writers} writers loose at once {rounds} times. Whatever is stored there is overwritten,\n\
         and marks stay behind: never run it against production data.\n",
        method = args.method.as_str(),
        first = args.first_token,
        writers = args.concurrency,
        rounds = args.rounds,
    );
    match args.output {
        Output::Human => writeln!(io::stdout().lock(), "{words}"),
        Output::Json => writeln!(io::stderr().lock(), "{words}"),
    }
}

fn probe(args: &Args, mut session: Session<'_>, checks: Vec<Check>, url: &str) -> exit::Outcome {
    start_above_marks(&session).map_err(|error| stopped(&error.into()))?;
    let mut judged: Vec<Judged> = Vec::new();
    for check in checks {
        let outcome = match reason_against(args, &check, &judged) {
            Some(reason) => reason,
            None => Outcome::of((check.run)(&session).map_err(|stop| stopped(&stop))?),
        };
        if check.name == REQUIRED_TOKEN || check.needs.contains(&"required-header") {
            session.required_is_trusted = matches!(outcome, Outcome::Held(_));
        }
        let one = Judged { check, outcome };
        if args.output == Output::Human {
            report::tell(&mut io::stdout().lock(), &one)?;
        }
        judged.push(one);
    }
    let mut out = io::stdout().lock();
    match args.output {
        Output::Human => report::sum_up(&mut out, &judged, session.asked(), args.strict)?,
        Output::Json => {
            let report = ReportJson::new(url, &judged, session.asked(), args.strict);
            let text = serde_json::to_string(&report).map_err(io::Error::from)?;
            writeln!(out, "{text}")?;
        }
    }
    if Summary::of(&judged).fails(args.strict) {
        return Err(Failure::silent(REFUSED));
    }
    Ok(())
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

/// Resources that the user named may have been used before: tokens begin above their marks.
fn start_above_marks(session: &Session<'_>) -> Result<(), Unreachable> {
    for resource in session.supply.fixed() {
        for _ in 0..MARKS_ASKED_MAX {
            let write = session.write(resource, session.supply.tokens(1))?;
            match write.exchange.required() {
                Some(required) if write.exchange.status() == Some(409) => {
                    session.supply.raise(required.saturating_add(1));
                }
                _ => break,
            }
        }
    }
    Ok(())
}

fn stopped(stop: &Stop) -> Failure {
    match stop {
        Stop::Unreachable(_) => Failure::new(
            UNAVAILABLE,
            format_args!("the service cannot be reached: {stop}"),
        )
        .hint("Whether it keeps the contract is not known. Is it running, and is the URL right?"),
        Stop::Restart(_) => Failure::new(UNEXPECTED, stop),
    }
}
