//! `fencepost watch`: what happens, as it happens, one line an event.

use super::acquire::millis;
use super::caller::{Caller, Next, to_json};
use super::connection::Output;
use super::duration;
use super::exit;
use super::holder::quoted;
use super::stop::Stop;
use fencepost::client::{Change, Cursor, Error, Moment, WatchEvent, Watching};
use fencepost::resource::ResourceName;
use serde::Serialize;
use std::io::{self, Write};
use std::time::{Duration, SystemTime};

/// Arguments of `fencepost watch`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Every event is told once, in order. When a node goes away the watch goes on at another by itself. A node keeps \
what happened for a while (--history-size of `fencepost serve`); a watch that cannot go on without a gap says \
so and ends with exit code 6: watch anew, and look with `fencepost list` once that has begun.

Ctrl-C ends it (exit code 0), and prints the cursor to go on from with --after.

Examples:
  fencepost watch
  fencepost watch jobs/
  fencepost watch --exact nightly-report --renewals
  fencepost watch jobs/ --output json | jq -r 'select(.event == \"expired\") | .resource'")]
pub(crate) struct Args {
    /// Only resources whose name begins like this
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,

    /// Take PREFIX for the whole name of one resource
    #[arg(long)]
    exact: bool,

    /// Tell renewals, too: there are many
    #[arg(long)]
    renewals: bool,

    /// Begin behind an earlier moment instead of now, as an earlier watch printed it
    #[arg(long, value_name = "CURSOR")]
    after: Option<Cursor>,
}

pub(crate) async fn run(args: Args, caller: Caller) -> exit::Outcome {
    let mut stop = Stop::listen()?;
    let mut watch = caller.client.watch(watching(&args)?);
    let (mut begun, mut interrupted) = (false, false);
    loop {
        let told = tokio::select! {
            told = watch.next() => told,
            _ = stop.requested() => break,
        };
        match told {
            Some(Ok(moment)) => {
                (begun, interrupted) = (true, false);
                tell(&caller, &moment)?;
            }
            // Nobody has answered yet: the endpoints may be wrong, and trying on would hide it.
            Some(Err(error)) if error.may_retry() && begun => {
                if !interrupted {
                    warn(&error);
                }
                interrupted = true;
            }
            Some(Err(error)) => return Err(caller.failed(&error, &Next::none())),
            None => break,
        }
    }
    if let (Output::Human, Some(cursor)) = (caller.output, watch.cursor()) {
        let mut stderr = io::stderr().lock();
        writeln!(stderr, "To go on from here: --after {cursor}")?;
    }
    Ok(())
}

fn watching(args: &Args) -> Result<Watching, exit::Failure> {
    let watching = if args.exact {
        let name = ResourceName::new(args.prefix.as_str());
        Watching::resource(&name.map_err(|error| exit::Failure::new(exit::USAGE, error))?)
    } else {
        Watching::prefix(args.prefix.as_str())
    };
    let watching = watching.renewals(args.renewals);
    Ok(match args.after {
        Some(cursor) => watching.after(cursor),
        None => watching,
    })
}

/// Says that nothing is told for now, and why; the watch goes on.
pub(super) fn warn(error: &Error) {
    let mut stderr = io::stderr().lock();
    // A warning that cannot be given is not missed.
    let _ = writeln!(stderr, "fencepost: {error}; trying on");
}

/// One moment, written out at once: whoever reads must not wait for the next one.
fn tell(caller: &Caller, moment: &Moment) -> exit::Outcome {
    let mut stdout = io::stdout().lock();
    match caller.output {
        Output::Human => {
            for event in &moment.events {
                writeln!(stdout, "{}", line(event))?;
            }
        }
        Output::Json if moment.events.is_empty() => {
            let mark = EventJson {
                event: "progress",
                cursor: moment.cursor.to_string(),
                ..EventJson::default()
            };
            writeln!(stdout, "{}", to_json(&mark)?)?;
        }
        Output::Json => {
            for event in &moment.events {
                writeln!(
                    stdout,
                    "{}",
                    to_json(&EventJson::new(event, moment.cursor))?
                )?;
            }
        }
    }
    stdout.flush()?;
    Ok(())
}

fn line(event: &WatchEvent) -> String {
    let at = SystemTime::UNIX_EPOCH + Duration::from_millis(event.at_unix_ms);
    let detail = match &event.change {
        Change::Granted {
            token,
            lease,
            after_wait,
        } => {
            let waited = if *after_wait { ", after waiting" } else { "" };
            format!("token {token}, lease {}{waited}", duration::human(*lease))
        }
        Change::Renewed { token, lease } => {
            format!(
                "token {token}, lease {}",
                duration::human(lease.as_duration())
            )
        }
        Change::Ended { token, reason, .. } => {
            let reason = reason.as_ref().map(|text| format!(", because: {text}"));
            format!("token {token}{}", reason.unwrap_or_default())
        }
        Change::Queued { position } => format!("place {position} in line"),
        Change::Left { .. } => "left the line".to_owned(),
        _ => String::new(),
    };
    format!(
        "{}  {:<16}  {}  {}  {detail}",
        humantime::format_rfc3339_millis(at),
        event.change.as_str().replace('_', " "),
        quoted(event.resource.as_str()),
        event.holder
    )
}

/// One event for scripts, or a mark of progress. What an event does not have is left out.
#[derive(Default, Serialize)]
struct EventJson<'a> {
    event: &'static str,
    cursor: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    resource: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    lease_ms: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    after_wait: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    position: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    at_unix_ms: Option<u64>,
}

impl<'a> EventJson<'a> {
    fn new(event: &'a WatchEvent, cursor: Cursor) -> Self {
        let mut json = Self {
            event: event.change.as_str(),
            cursor: cursor.to_string(),
            resource: Some(event.resource.as_str()),
            holder: Some(event.holder.as_str()),
            token: event.change.token().map(|token| token.to_string()),
            at_unix_ms: Some(event.at_unix_ms),
            ..Self::default()
        };
        match &event.change {
            Change::Granted {
                lease, after_wait, ..
            } => {
                json.lease_ms = Some(millis(*lease));
                json.after_wait = Some(*after_wait);
            }
            Change::Renewed { lease, .. } => json.lease_ms = Some(lease.as_ms()),
            Change::Ended { reason, .. } => json.reason = reason.as_deref(),
            Change::Queued { position } => json.position = Some(*position),
            _ => {}
        }
        json
    }
}
