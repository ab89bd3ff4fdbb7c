//! `fencepost wait`: until a resource is free, without asking for it.

use super::caller::{Caller, Next};
use super::duration;
use super::exit::{self, Failure, REFUSED};
use super::holder::quoted;
use fencepost::resource::ResourceName;
use serde::Serialize;
use std::time::Duration;

/// Arguments of `fencepost wait`.
#[derive(Debug, clap::Args)]
#[command(after_help = "\
Free means that nobody holds it and nobody waits in line for it. It takes nothing: by the time this returns, \
somebody may have it again. To have it yourself, ask for it instead, with a wait.

Once the cluster has answered, this waits through elections and outages. Exit code 3: it was not free within \
the time given.

Examples:
  fencepost wait nightly-report
  fencepost wait nightly-report --within 10m && start-the-next-step")]
pub(crate) struct Args {
    /// What is to be free
    resource: ResourceName,

    /// Give up after this long; unless set, it waits for ever
    #[arg(long, value_name = "DURATION", value_parser = duration::parse_positive)]
    within: Option<Duration>,
}

pub(crate) async fn run(args: Args, caller: Caller) -> exit::Outcome {
    let free = caller.client.until_free(&args.resource);
    let within = args.within.unwrap_or(Duration::MAX);
    let name = quoted(args.resource.as_str());
    let resource = args.resource.as_str();
    match tokio::time::timeout(within, free).await {
        Ok(Ok(())) => {
            let free = WaitJson {
                outcome: "free",
                resource,
            };
            caller.answer(&format!("{name} is free."), &free)
        }
        Ok(Err(error)) => Err(caller.failed(&error, &Next::none())),
        Err(_) => {
            let message = format!("{name} was not free within {}", duration::human(within));
            let failure = Failure::new(REFUSED, message).hint(format_args!(
                "`fencepost inspect {name}` shows who holds it."
            ));
            let busy = WaitJson {
                outcome: "not_free",
                resource,
            };
            caller.refuse(failure, &busy)
        }
    }
}

#[derive(Serialize)]
struct WaitJson<'a> {
    outcome: &'static str,
    resource: &'a str,
}
