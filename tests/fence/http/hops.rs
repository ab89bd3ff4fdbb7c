//! A token goes from service to service, by HTTP and gRPC and HTTP again, and no code in between
//! knows of it.

use std::sync::{Arc, Mutex};

use axum::{Router, extract::Extension, http::StatusCode, routing::post};
use fencepost::fence::{
    Guard as _, context,
    http::{FencingError, FencingService, GuardLayer, StaleAnswer},
    memory::MemoryGuard,
};
use fencepost::sequencer::Sequencer;
use tokio::task::JoinSet;
use tonic::{Code, Request, Response, Status};
use tower::Service as _;

use super::door::layer;
use super::scene::{Plain, Served, fencing, request, whole, write_by_grpc};
use crate::scene::{issuer, rules, sequencer, sequencer_for, token};

/// Three services in a row, the last of which writes.
struct Chain {
    first: Served,
    _relay: Served,
    _store: Served,
    /// The guard of the last one alone.
    guard: Arc<MemoryGuard>,
    written: Arc<Mutex<Vec<Sequencer>>>,
}

impl Chain {
    async fn new() -> Self {
        let guard = Arc::new(MemoryGuard::new(rules()));
        let written = Arc::default();
        let store = store(&guard, &written).await;
        let relay = relay(store.url("/")).await;
        Self {
            first: first(&relay).await,
            _relay: relay,
            _store: store,
            guard,
            written,
        }
    }

    async fn post(
        &self,
        client: &FencingService<Plain>,
        sequencer: &Sequencer,
    ) -> Result<(u16, String), FencingError> {
        let request = request("POST", &self.first.url("/"), &[]);
        let mut client = client.clone();
        let sent = async move { client.call(request).await };
        let answer = context::scope(sequencer.clone(), sent).await?;
        let (status, _, said) = whole(answer).await;
        Ok((status, said))
    }
}

/// The last service: it writes under the guard that it shares with its door.
async fn store(guard: &Arc<MemoryGuard>, written: &Arc<Mutex<Vec<Sequencer>>>) -> Served {
    let (guard, written) = (Arc::clone(guard), Arc::clone(written));
    let layer = GuardLayer::new(Arc::clone(&guard), issuer("bank"));
    let write = async move |Extension(sequencer): Extension<Sequencer>| {
        let mut written = written.lock().unwrap();
        let verdict = guard.admit_now(&sequencer).unwrap();
        verdict.admitted().unwrap();
        written.push(sequencer);
    };
    Served::axum(Router::new().route("/", post(write)).layer(layer)).await
}

/// The middle one is called by gRPC, and calls by HTTP. No word of tokens in it.
async fn relay(next: String) -> Served {
    let client = fencing();
    let handler = move |_: Request<String>| {
        let (mut client, next) = (client.clone(), next.clone());
        async move {
            let sent = client.call(request("POST", &next, &[])).await;
            let answer = sent.map_err(|error| Status::aborted(error.to_string()))?;
            Ok(Response::new(format!("stored: {}", answer.status())))
        }
    };
    Served::grpc(layer(), handler).await
}

/// The first one is called by HTTP, and calls by gRPC. No word of tokens in it either.
async fn first(relay: &Served) -> Served {
    let client = relay.grpc_client();
    let handler = async move || {
        let sent = write_by_grpc(&mut client.clone(), "5 to account 1").await;
        sent.map_err(|status| (StatusCode::BAD_GATEWAY, status.message().to_owned()))
    };
    Served::axum(Router::new().route("/", post(handler)).layer(layer())).await
}

#[tokio::test]
async fn a_token_travels_by_http_and_grpc_and_http_to_the_write() {
    let chain = Chain::new().await;
    let sent = sequencer_for("bank", "kühl, 5 %", 7);
    let answer = chain.post(&fencing(), &sent).await.unwrap();
    assert_eq!(answer, (200, "stored: 200 OK".to_owned()));
    assert_eq!(*chain.written.lock().unwrap(), [sent]);
}

#[tokio::test]
async fn a_holder_that_lost_its_lease_is_refused_at_the_end_of_the_chain() {
    let chain = Chain::new().await;
    let newer = chain.guard.admit(&sequencer(9)).await.unwrap();
    newer.admitted().unwrap();
    // The doors on the way have not heard of the newer holder; the last one has.
    let (status, said) = chain.post(&fencing(), &sequencer(7)).await.unwrap();
    let wanted = "stale fencing token: presented 7, required at least 9";
    assert_eq!((status, &*said), (502, wanted));
    assert!(chain.written.lock().unwrap().is_empty());
    // Once the newer holder has come all the way, the old one is stopped at the first door.
    chain.post(&fencing(), &sequencer(9)).await.unwrap();
    let stopped = chain.post(&fencing(), &sequencer(7)).await.unwrap_err();
    assert!(matches!(stopped, FencingError::Stale(_)), "{stopped}");
}

#[tokio::test]
async fn many_holders_at_once_do_not_mix() {
    let chain = Arc::new(Chain::new().await);
    let client = fencing();
    let mut calls = JoinSet::new();
    for n in 0..200 {
        let (chain, client) = (Arc::clone(&chain), client.clone());
        calls.spawn(async move {
            let sent = sequencer_for("bank", &format!("account/{n}"), 1_000 - n);
            chain.post(&client, &sent).await.unwrap().0
        });
    }
    let statuses = calls.join_all().await;
    assert!(statuses.iter().all(|status| *status == 200), "{statuses:?}");
    let mut written = chain.written.lock().unwrap().clone();
    written.sort_by_key(|sequencer| std::cmp::Reverse(sequencer.token));
    let wanted = (0..200).map(|n| sequencer_for("bank", &format!("account/{n}"), 1_000 - n));
    assert_eq!(written, wanted.collect::<Vec<_>>());
}

/// What each mistake is by gRPC.
#[tokio::test]
async fn grpc_calls_get_statuses() {
    let handler = async |request: Request<String>| {
        let admitted = request.extensions().get::<Sequencer>().cloned();
        assert_eq!(admitted, context::current());
        Ok(Response::new(admitted.unwrap().to_string()))
    };
    let served = Served::grpc(layer(), handler).await;
    let client = served.grpc_client();
    let call = async |sequencer: Option<Sequencer>| {
        let mut client = client.clone();
        let sent = async move { write_by_grpc(&mut client, "text").await };
        match sequencer {
            Some(sequencer) => context::scope(sequencer, sent).await,
            None => sent.await,
        }
    };
    assert_eq!(call(Some(sequencer(9))).await.unwrap(), "bank:account/1:9");
    let missing = call(None).await.unwrap_err();
    assert_eq!(missing.code(), Code::InvalidArgument);
    assert!(missing.message().starts_with("x-fencing-token is missing"));
    let foreign = call(Some(sequencer_for("münze", "account/1", 99)))
        .await
        .unwrap_err();
    assert_eq!(foreign.code(), Code::PermissionDenied);
    assert!(
        foreign.message().contains("issued by \"münze\""),
        "{foreign}"
    );
    let stale = call(Some(sequencer(7))).await.unwrap_err();
    assert_eq!(stale.code(), Code::FailedPrecondition);
    let (presented, required) = (token(7), token(9));
    let read = StaleAnswer::in_metadata(stale.metadata().as_ref());
    assert_eq!(
        read,
        Some(StaleAnswer {
            presented,
            required
        })
    );
    assert_eq!(StaleAnswer::in_metadata(missing.metadata().as_ref()), None);
}

#[tokio::test]
async fn what_a_grpc_handler_says_of_its_write_is_read_back_too() {
    let handler = async |_: Request<String>| {
        let (presented, required) = (token(7), token(9));
        let stale = StaleAnswer {
            presented,
            required,
        };
        let metadata = tonic::metadata::MetadataMap::from_headers(stale.to_metadata());
        let code = Code::FailedPrecondition;
        Err(Status::with_metadata(code, stale.to_string(), metadata))
    };
    let served = Served::grpc(layer(), handler).await;
    let mut client = served.grpc_client();
    let sent = async { write_by_grpc(&mut client, "text").await };
    let status = context::scope(sequencer(7), sent).await.unwrap_err();
    let read = StaleAnswer::in_metadata(status.metadata().as_ref()).unwrap();
    assert_eq!((read.presented, read.required), (token(7), token(9)));
}
