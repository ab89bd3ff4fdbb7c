//! Waiting in line, as callers at any node see it.

mod coming_back;
mod failover;
mod leaving;
mod limits;
mod order;
mod pipelined;

use std::time::{Duration, Instant};

use fencepost::wire::v1::{self, acquire_response::Outcome, issuer_client::IssuerClient};
use tokio::task::JoinHandle;
use tonic::{Code, Status, transport::Channel};

use crate::nodes::{Nodes, eventually, granted, inspect, release, renew, value};

/// Long enough to play no part.
const LONG: u64 = 120_000;

/// One request that waits, by its holder; the resource is `r` unless another is named.
fn wait(holder: &str) -> v1::AcquireRequest {
    wait_for("r", holder)
}

fn wait_for(resource: &str, holder: &str) -> v1::AcquireRequest {
    v1::AcquireRequest {
        resource: resource.to_owned(),
        holder: holder.to_owned(),
        ttl_ms: LONG,
        request_id: format!("request of {holder}").into_bytes().into(),
        attempt: 1,
        asked_at: None,
        wait_ms: LONG,
    }
}

fn again(request: &v1::AcquireRequest) -> v1::AcquireRequest {
    v1::AcquireRequest {
        attempt: request.attempt + 1,
        ..request.clone()
    }
}

/// However often it came back.
fn for_good(request: &v1::AcquireRequest) -> v1::AcquireRequest {
    v1::AcquireRequest {
        attempt: 1_000,
        ..request.clone()
    }
}

fn withdraw(request: &v1::AcquireRequest) -> v1::WithdrawRequest {
    v1::WithdrawRequest {
        resource: request.resource.clone(),
        holder: request.holder.clone(),
        request_id: request.request_id.clone(),
        attempt: request.attempt,
        asked_at: None,
    }
}

/// A call that is under way. Dropping it hangs up.
struct Call(JoinHandle<Result<v1::AcquireResponse, Status>>);

impl Call {
    /// Makes a call over a connection of its own. A node that was held up may end it with `UNAVAILABLE`;
    /// then it comes back, as every client does.
    fn make(nodes: &Nodes, n: usize, request: v1::AcquireRequest) -> Self {
        let issuer = nodes.issuer(n);
        Call(tokio::spawn(persist(vec![issuer], request)))
    }

    /// Makes a call once, whatever comes of it.
    fn once(nodes: &Nodes, n: usize, request: v1::AcquireRequest) -> Self {
        let mut issuer = nodes.issuer(n);
        Call(tokio::spawn(async move {
            Ok(issuer.acquire(request).await?.into_inner())
        }))
    }

    async fn result(mut self) -> Result<Outcome, Status> {
        let ended = tokio::time::timeout(Duration::from_secs(30), &mut self.0).await;
        let response = ended.expect("the call ends").unwrap()?;
        Ok(response.outcome.expect("every answer has an outcome"))
    }

    async fn outcome(self) -> Outcome {
        self.result().await.unwrap()
    }

    async fn granted(self) -> v1::Granted {
        match self.outcome().await {
            Outcome::Granted(granted) => granted,
            other => panic!("not granted: {other:?}"),
        }
    }

    async fn left(self) -> v1::LeftHow {
        match self.outcome().await {
            Outcome::Left(left) => left.how(),
            other => panic!("it did not leave: {other:?}"),
        }
    }

    fn is_over(&self) -> bool {
        self.0.is_finished()
    }
}

impl Drop for Call {
    fn drop(&mut self) {
        self.0.abort();
    }
}

/// What a client does that waits: it comes back with the same request id, to one node after the other,
/// until it has an answer.
async fn persist(
    mut issuers: Vec<IssuerClient<Channel>>,
    mut request: v1::AcquireRequest,
) -> Result<v1::AcquireResponse, Status> {
    loop {
        for issuer in &mut issuers {
            match issuer.acquire(request.clone()).await {
                Err(status) if status.code() == Code::Unavailable => request = again(&request),
                answer => return Ok(answer?.into_inner()),
            }
        }
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
}

/// Where a holder stands in the queue of `r`, and how many wait.
async fn place(nodes: &Nodes, n: usize, holder: &str) -> (u32, u32) {
    let request = v1::InspectRequest {
        holder: holder.to_owned(),
        ..inspect("r")
    };
    let issuer = nodes.issuer(n);
    let seen = eventually("somebody tells", || {
        let (mut issuer, request) = (issuer.clone(), request.clone());
        async move { issuer.inspect(request).await.ok() }
    })
    .await;
    let seen = seen.into_inner();
    (seen.position, seen.queue)
}

/// Waits until a holder stands there in the queue of `r`.
async fn stands_at(nodes: &Nodes, n: usize, holder: &str, position: u32) {
    let what = format!("{holder} stands at {position}");
    eventually(&what, || async {
        (place(nodes, n, holder).await.0 == position).then_some(())
    })
    .await;
}

/// Watches for three seconds that a place stays what it is.
async fn stays(nodes: &Nodes, holder: &str, as_it_is: (u32, u32)) {
    let end = Instant::now() + Duration::from_secs(3);
    while Instant::now() < end {
        assert_eq!(place(nodes, 0, holder).await, as_it_is);
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
}

/// Calls at one node, and waits until it stands at this place.
async fn queued(nodes: &Nodes, n: usize, request: v1::AcquireRequest, position: u32) -> Call {
    let holder = request.holder.clone();
    let call = Call::make(nodes, n, request);
    stands_at(nodes, n, &holder, position).await;
    call
}

/// The same for a call that will not come back.
async fn queued_once(nodes: &Nodes, n: usize, request: v1::AcquireRequest, position: u32) -> Call {
    let holder = request.holder.clone();
    let call = Call::once(nodes, n, request);
    stands_at(nodes, n, &holder, position).await;
    call
}

/// Grants `r` to somebody who does not let go of it; its token.
async fn held_by(nodes: &Nodes, n: usize, holder: &str) -> u64 {
    let request = v1::AcquireRequest {
        wait_ms: 0,
        ..wait(holder)
    };
    value(granted(&mut nodes.issuer(n), request).await.token.as_ref())
}

async fn give_back(nodes: &Nodes, n: usize, holder: &str, token: u64) {
    let issuer = nodes.issuer(n);
    let released = eventually("the release is answered", || {
        let mut issuer = issuer.clone();
        async move { issuer.release(release("r", holder, token)).await.ok() }
    })
    .await;
    let outcome = released.into_inner().outcome.unwrap();
    assert_eq!(
        outcome,
        v1::release_response::Outcome::Released(v1::Released {})
    );
}

/// Claims a grant that came after waiting, so that it lasts; what its lease is from there on.
async fn claim(
    issuer: &mut IssuerClient<Channel>,
    resource: &str,
    holder: &str,
    token: u64,
) -> u64 {
    let items = vec![renew(resource, holder, token)];
    let request = v1::RenewRequest { items };
    let renewed = eventually("the renewal is answered", || {
        let (mut issuer, request) = (issuer.clone(), request.clone());
        async move { issuer.renew(request).await.ok() }
    })
    .await;
    match renewed.into_inner().outcomes[0].outcome.unwrap() {
        v1::renew_outcome::Outcome::Renewed(renewed) => renewed.lease_ms,
        other => panic!("not renewed: {other:?}"),
    }
}
