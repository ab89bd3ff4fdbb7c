//! Which requests need a token, for what, and of whom.

use std::sync::Arc;

use fencepost::fence::{
    http::{GuardLayer, TokenDemand},
    memory::MemoryGuard,
    watched::{Mode, Watch, Watched},
};
use fencepost::resource::ResourceName;
use fencepost::sequencer::{MissingIssuer, Sequencer};

use super::door::{fenced, layer, serve};
use super::scene::{Served, plain, request, whole};
use crate::scene::{issuer, rules, sequencer, sequencer_for};

async fn ask(served: &Served, method: &str, path: &str, sent: &Sequencer) -> (u16, String) {
    let headers = fenced(sent);
    let headers: Vec<(&str, &[u8])> = headers.iter().map(|(n, v)| (*n, v.as_slice())).collect();
    let request = request(method, &served.url(path), &headers);
    let (status, _, said) = whole(plain().request(request).await.unwrap()).await;
    (status, said)
}

async fn bare(served: &Served, method: &str, path: &str) -> (u16, String) {
    let request = request(method, &served.url(path), &[]);
    let (status, _, said) = whole(plain().request(request).await.unwrap()).await;
    (status, said)
}

#[tokio::test]
async fn what_changes_nothing_needs_no_token_and_what_it_carries_is_judged() {
    let served = serve(layer()).await;
    for method in ["GET", "OPTIONS"] {
        let said = bare(&served, method, "/a").await;
        assert_eq!(said, (200, "nobody".to_owned()), "{method}");
    }
    for method in ["POST", "PUT", "PATCH", "DELETE", "PURGE"] {
        assert_eq!(bare(&served, method, "/a").await.0, 400, "{method}");
    }
    assert_eq!(ask(&served, "GET", "/a", &sequencer(9)).await.0, 200);
    assert_eq!(ask(&served, "GET", "/a", &sequencer(7)).await.0, 409);
}

#[tokio::test]
async fn a_service_says_which_requests_need_a_token() {
    let layer = layer().demand(|request| match request.uri.path() {
        "/login" => TokenDemand::Never,
        "/search" => TokenDemand::IfPresented,
        _ => TokenDemand::Required,
    });
    let served = serve(layer).await;
    assert_eq!(bare(&served, "POST", "/login").await.0, 200);
    assert_eq!(bare(&served, "POST", "/search").await.0, 200);
    assert_eq!(bare(&served, "GET", "/else").await.0, 400);
    assert_eq!(ask(&served, "POST", "/else", &sequencer(9)).await.0, 200);
    assert_eq!(ask(&served, "POST", "/search", &sequencer(7)).await.0, 409);
    let unseen = ask(&served, "POST", "/login", &sequencer(7)).await;
    assert_eq!(unseen, (200, "nobody".to_owned()));
}

#[tokio::test]
async fn a_token_for_one_resource_opens_no_other() {
    let served = serve(layer().bound_to(|request| {
        let path = request.uri.path().strip_prefix('/')?;
        ResourceName::from_percent_encoded(path).ok()
    }))
    .await;
    let sent = sequencer_for("bank", "accounts/ä", 7);
    let own = ask(&served, "POST", "/accounts/%C3%A4", &sent).await;
    assert_eq!(own, (200, sent.to_string()));
    let (status, said) = ask(&served, "POST", "/accounts/2", &sent).await;
    assert_eq!(status, 403);
    assert!(
        said.contains("but \\\"accounts/2\\\" is what is protected here"),
        "{said}"
    );
    // What the function does not recognize stays shut, and reading without a token stays open.
    let (status, said) = ask(&served, "POST", "/accounts/%zz", &sent).await;
    assert_eq!(status, 403, "{said}");
    assert_eq!(bare(&served, "GET", "/accounts/2").await.0, 200);
    // The refused ones left no mark.
    let first = sequencer_for("bank", "accounts/2", 1);
    assert_eq!(ask(&served, "POST", "/accounts/2", &first).await.0, 200);
}

#[tokio::test]
async fn a_missing_issuer_is_taken_for_the_expected_one_where_that_was_agreed_on() {
    let served = serve(layer().missing_issuer(MissingIssuer::Accept)).await;
    let headers = [
        ("x-fencing-token", &b"7"[..]),
        ("x-resource-id", b"account/1"),
    ];
    let request = request("POST", &served.url("/a"), &headers);
    let (status, _, said) = whole(plain().request(request).await.unwrap()).await;
    assert_eq!((status, said), (200, sequencer(7).to_string()));
}

#[tokio::test]
async fn a_guard_that_observes_counts_everything_and_refuses_nothing_until_it_enforces() {
    let watch = Arc::new(Watch::new("accounts", Mode::Observe));
    let guard = Watched::new(MemoryGuard::new(rules()), Arc::clone(&watch));
    let layer = GuardLayer::new(guard, issuer("bank"));
    let served = serve(layer.bound_to(|_| "account/1".parse().ok())).await;
    let other = sequencer_for("bank", "account/2", 7);
    let round = async || {
        [
            bare(&served, "GET", "/a").await.0,
            bare(&served, "POST", "/a").await.0,
            ask(&served, "POST", "/a", &other).await.0,
            ask(&served, "POST", "/a", &sequencer(9)).await.0,
            ask(&served, "POST", "/a", &sequencer(7)).await.0,
        ]
    };
    assert_eq!(round().await, [200; 5]);
    let counts = watch.counts();
    assert_eq!((counts.missing, counts.foreign), (1, 1));
    assert_eq!((counts.admitted, counts.stale), (1, 1));
    assert_eq!(counts.overlooked, 3);

    watch.set_mode(Mode::Enforce);
    assert_eq!(round().await, [200, 400, 403, 200, 409]);
    let counts = watch.counts();
    assert_eq!((counts.missing, counts.foreign, counts.stale), (2, 2, 2));
    assert_eq!(counts.overlooked, 3);
}

#[tokio::test]
async fn what_was_overlooked_is_handed_to_nobody() {
    let watch = Arc::new(Watch::new("accounts", Mode::Observe));
    let guard = Watched::new(MemoryGuard::new(rules()), watch);
    let layer = GuardLayer::new(guard, issuer("bank"));
    let served = serve(layer.bound_to(|_| "account/1".parse().ok())).await;
    let other = sequencer_for("bank", "account/2", 7);
    let passed = ask(&served, "POST", "/a", &other).await;
    assert_eq!(passed, (200, "nobody".to_owned()));
}
