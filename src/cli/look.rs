//! `fencepost inspect` and `list`: who holds what.

use super::acquire::millis;
use super::caller::{Caller, Next, to_json};
use super::connection::Output;
use super::duration;
use super::exit;
use super::holder::quoted;
use fencepost::client::LiveGrant;
use fencepost::limits::LIST_PAGE_MAX;
use fencepost::resource::ResourceName;
use serde::Serialize;
use std::io::{self, Write};

/// Arguments of `fencepost inspect`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
The answer reflects every grant that was acknowledged before the question. A resource that nobody holds is \
free, which is an answer and no failure.

Example:
  fencepost inspect nightly-report")]
pub(crate) struct InspectArgs {
    /// What to look at
    resource: ResourceName,
}

/// Arguments of `fencepost list`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  fencepost list
  fencepost list jobs/ --output json | jq -r '.grants[].token'")]
pub(crate) struct ListArgs {
    /// Only resources whose name begins like this
    #[arg(default_value = "", hide_default_value = true)]
    prefix: String,
}

pub(crate) async fn inspect(args: InspectArgs, caller: Caller) -> exit::Outcome {
    let found = caller.client.inspect(&args.resource).await;
    let found = found.map_err(|error| caller.failed(&error, &Next::none()))?;
    let name = quoted(args.resource.as_str());
    let queue = found.queue;
    let human = match &found.grant {
        None if queue > 0 => {
            format!("{name} is about to be granted to the first of {queue} in line.")
        }
        None => format!("{name} is free."),
        Some(grant) => format!(
            "{name} is held by {}.\n\n  token     {}\n  lease     {} of {} left, unless renewed\n  renewals  {}\n  in line   {queue}",
            grant.holder,
            grant.token,
            duration::human(grant.remaining),
            duration::human(grant.ttl.as_duration()),
            grant.renewals
        ),
    };
    let json = InspectJson {
        resource: args.resource.as_str(),
        free: found.grant.is_none(),
        queue,
        grant: found.grant.as_ref().map(GrantJson::new),
    };
    caller.answer(&human, &json)
}

/// Prints page after page, so that a long list needs no memory and `| head` ends it early.
pub(crate) async fn list(args: ListArgs, caller: Caller) -> exit::Outcome {
    let page_size = u32::try_from(LIST_PAGE_MAX).unwrap_or(u32::MAX);
    let (mut next, mut count) = (None::<String>, 0_u64);
    let mut stdout = io::BufWriter::new(io::stdout().lock());
    loop {
        let page = caller
            .client
            .list(&args.prefix, page_size, next.as_deref())
            .await;
        let page = page.map_err(|error| caller.failed(&error, &Next::none()))?;
        for grant in &page.grants {
            match (caller.output, count) {
                (Output::Json, 0) => write!(stdout, "{{\"grants\":[")?,
                (Output::Json, _) => write!(stdout, ",")?,
                (Output::Human, 0) => {
                    writeln!(stdout, "{}", row("RESOURCE", "TOKEN", "LEFT", "HOLDER"))?
                }
                (Output::Human, _) => {}
            }
            write_grant(&mut stdout, caller.output, grant)?;
            count += 1;
        }
        next = page.next;
        if next.is_none() {
            break;
        }
    }
    match (caller.output, count) {
        (Output::Json, 0) => writeln!(stdout, "{{\"grants\":[]}}")?,
        (Output::Json, _) => writeln!(stdout, "]}}")?,
        (Output::Human, 0) if args.prefix.is_empty() => writeln!(stdout, "Nothing is held.")?,
        (Output::Human, 0) => writeln!(
            stdout,
            "Nothing that begins with {} is held.",
            quoted(&args.prefix)
        )?,
        (Output::Human, _) => {}
    }
    stdout.flush()?;
    Ok(())
}

fn write_grant(out: &mut impl Write, output: Output, grant: &LiveGrant) -> exit::Outcome {
    match output {
        Output::Json => write!(out, "{}", to_json(&GrantJson::new(grant))?)?,
        Output::Human => {
            let (token, left) = (grant.token.to_string(), duration::human(grant.remaining));
            let line = row(
                grant.resource.as_str(),
                &token,
                &left,
                grant.holder.as_str(),
            );
            writeln!(out, "{line}")?;
        }
    }
    Ok(())
}

/// One line of the table; a long name moves the rest of its line and is never cut.
fn row(resource: &str, token: &str, left: &str, holder: &str) -> String {
    format!("{resource:<32}  {token:>12}  {left:>8}  {holder}")
}

#[derive(Serialize)]
struct InspectJson<'a> {
    resource: &'a str,
    free: bool,
    queue: u32,
    grant: Option<GrantJson<'a>>,
}

#[derive(Serialize)]
struct GrantJson<'a> {
    resource: &'a str,
    holder: &'a str,
    token: String,
    term: u64,
    index: u64,
    ttl_ms: u64,
    remaining_ms: u64,
    renewals: u64,
    granted_at_unix_ms: u64,
    expires_at_unix_ms: u64,
}

impl<'a> GrantJson<'a> {
    fn new(grant: &'a LiveGrant) -> Self {
        Self {
            resource: grant.resource.as_str(),
            holder: grant.holder.as_str(),
            token: grant.token.to_string(),
            term: grant.token.term(),
            index: grant.token.index(),
            ttl_ms: grant.ttl.as_ms(),
            remaining_ms: millis(grant.remaining),
            renewals: grant.renewals,
            granted_at_unix_ms: grant.granted_at_unix_ms,
            expires_at_unix_ms: grant.expires_at_unix_ms,
        }
    }
}
