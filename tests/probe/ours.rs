//! The library's own layer for HTTP servers keeps the contract that the probe holds others to.

use std::net::Ipv4Addr;

use axum::{Router, routing::put};
use fencepost::fence::{EqualTokens, Rules, http::GuardLayer, memory::MemoryGuard};
use fencepost::resource::{IssuerName, ResourceName};

use crate::asking::{Report, probe_url};

/// A service that does nothing behind its door, so that its door is all there is to judge.
async fn probed(equal: EqualTokens, options: &'static [&'static str]) -> Report {
    let issuer = IssuerName::new("prod").unwrap();
    let rules = Rules::issued_by(issuer.clone()).equal_tokens(equal);
    let layer = GuardLayer::new(MemoryGuard::new(rules), issuer).bound_to(|request| {
        let name = request.uri.path().strip_prefix("/notes/")?;
        ResourceName::from_percent_encoded(name).ok()
    });
    let router = Router::new()
        .route("/{*path}", put(|| async { "written" }))
        .layer(layer);
    let listener = tokio::net::TcpListener::bind((Ipv4Addr::LOCALHOST, 0))
        .await
        .unwrap();
    let url = format!(
        "http://{}/notes/{{resource}}",
        listener.local_addr().unwrap()
    );
    let serving = tokio::spawn(async move { axum::serve(listener, router).await.unwrap() });
    let all = [
        &["--issuer", "prod", "--output", "json", "--rounds", "50"][..],
        &["--idle", "10ms"],
        options,
    ]
    .concat();
    let report = tokio::task::spawn_blocking(move || probe_url(&url, &all));
    let report = report.await.unwrap();
    serving.abort();
    report
}

/// What needs a service that stores something.
const UNTRIED: [&str; 5] = [
    "written-value",
    "stale-writes-nothing",
    "malformed-writes-nothing",
    "concurrent-values",
    "restart",
];

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn our_own_layer_passes() {
    for (equal, options) in [
        (EqualTokens::MayWriteAgain, &[][..]),
        (EqualTokens::Once, &["--equal-tokens", "once"][..]),
    ] {
        let report = probed(equal, options).await;
        assert_eq!(report.named("broken"), [""; 0], "{:#?}", report.findings());
        assert_eq!(report.named("not tried"), UNTRIED);
        assert_eq!(report.code, Some(0), "{}", report.printed);
    }
}
