//! `fencepost guard probe`: holds an HTTP service, in whatever language, to the header contract.
//!
//! It knows the service only by what it answers. [`checks`] has the sentences of the contract, one a
//! check; a [`session`](Session) puts the questions, a [`Supply`] gives each check resources and tokens
//! that no other has touched, and [`report`] tells what was sent, what came back, what was expected,
//! and why it matters.

mod authorities;
mod backlog;
mod check;
mod checks;
mod course;
mod exchange;
mod options;
mod report;
mod service;
mod session;
mod silence;
mod spelling;
mod supply;
mod template;

pub(crate) use options::Args;

use std::io::{self, Write};

use fencepost::resource::ResourceName;

use super::super::connection::Output;
use super::super::exit::{self, Failure, REFUSED, UNAVAILABLE, UNEXPECTED, USAGE};
use check::{Check, Stop};
use course::Course;
use report::{CheckJson, ReportJson, Summary};
use service::Service;
use session::{Session, Shape};
use supply::Supply;
use template::Template;

/// No run has so many resources beside those that `--others` counts.
const RESOURCES_BESIDE: u32 = 100;

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
    let roots = authorities::read(&args.authorities)
        .map_err(|why| Failure::new(USAGE, format_args!("--ca {why}")))?;
    let service = Service::new(args.timeout, writers, args.headers.clone(), roots);
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
        others: args.others,
        idle: args.idle,
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
        [] => {
            let most = args.others + RESOURCES_BESIDE;
            let prefix = session.supply.prefix();
            format!("at most {most} resources of its own, {prefix}-...")
        }
        names => {
            let names = names.iter().map(ResourceName::as_str);
            format!("the resources {}", names.collect::<Vec<_>>().join(", "))
        }
    };
    let idle = args.idle.map(humantime::format_duration);
    let idle = idle.map(|idle| format!("For {idle} it waits and sends nothing. "));
    let idle = idle.unwrap_or_default();
    let words = format!(
        "Probing {method} {url}\n\
         It writes to {resources}, with tokens from {first} up, some malformed and some stale,\n\
         and lets {writers} writers loose at once {rounds} times.\n\
         {idle}Whatever is stored there is overwritten,\n\
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

fn probe(args: &Args, session: Session<'_>, checks: Vec<Check>, url: &str) -> exit::Outcome {
    let course = Course::run(args, session, checks)?;
    let mut out = io::stdout().lock();
    match args.output {
        Output::Human => report::sum_up(&mut out, &course, args.strict)?,
        Output::Json => {
            let report = ReportJson::new(url, &course, args.strict);
            let text = serde_json::to_string(&report).map_err(io::Error::from)?;
            writeln!(out, "{text}")?;
        }
    }
    let summary = Summary::of(&course.judged);
    match &course.stopped {
        Some(stop) => Err(stopped(stop, summary)),
        None if summary.fails(args.strict) => Err(Failure::silent(REFUSED)),
        None => Ok(()),
    }
}

/// The end of a run whose checks did not all come to theirs. What was found before stays found.
fn stopped(stop: &Stop, summary: Summary) -> Failure {
    let (code, hint) = match stop {
        Stop::Unreachable(_) => (
            UNAVAILABLE,
            "Whether it keeps the contract is not known. Is it running, and is the URL right?",
        ),
        Stop::Restart(_) => (UNEXPECTED, "What comes after it was not tried."),
    };
    if summary.is_broken() {
        return Failure::new(REFUSED, stop).hint("What comes after it was not tried.");
    }
    Failure::new(code, stop).hint(hint)
}
