//! The client against nodes that follow a script.
#![allow(
    clippy::unwrap_used,
    clippy::disallowed_methods,
    reason = "a test reads clocks to bound its waiting, and a panic is its failure"
)]

mod cable;
mod deadlines;
mod dropped;
mod effects;
mod fake;
mod held;
mod leader;
mod one_cluster;
mod one_effect;
mod pipeline;
mod register;
mod waiting;
mod watching;

use fencepost::client::{AcquireOutcome, Acquired, Ask, Client, Error};
use fencepost::grant::Ttl;
use std::time::Duration;

/// Long enough for any test on a busy machine; a call that ends with an answer does not use it up.
pub(crate) const PLENTY: Duration = Duration::from_secs(20);

/// For a call that is to fail when its time is up: enough for several tries on a busy machine.
pub(crate) const SHORT: Duration = Duration::from_secs(3);

/// Acquires "jobs" for "me".
pub(crate) async fn acquire(client: &Client) -> Result<AcquireOutcome, Error> {
    let (resource, holder) = ("jobs".parse().unwrap(), "me".parse().unwrap());
    client.acquire(&resource, &holder, Ttl::default()).await
}

/// Acquires, and expects the grant.
pub(crate) async fn granted(client: &Client) -> Acquired {
    match acquire(client).await.unwrap() {
        AcquireOutcome::Granted(acquired) => acquired,
        other => panic!("expected a grant, got {other:?}"),
    }
}

/// An asking for "jobs" by "me" that stands in line for at most `wait`.
pub(crate) fn in_line(client: &Client, wait: Duration) -> Ask {
    let (resource, holder) = ("jobs".parse().unwrap(), "me".parse().unwrap());
    client.ask(resource, holder, Ttl::default()).wait(wait)
}

/// Waits until `reached` is true, and fails when that takes too long.
pub(crate) async fn until(what: &str, reached: impl Fn() -> bool) {
    let polling = async {
        while !reached() {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
    };
    let waited = tokio::time::timeout(PLENTY, polling).await;
    waited.unwrap_or_else(|_| panic!("never: {what}"));
}
