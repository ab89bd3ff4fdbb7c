//! Inputs that went wrong elsewhere: each is refused with its field and limit, or kept exactly.
//! (etcd#9374, dart#5, dynamo#8076)

use fencepost::wire::v1;
use tonic::Code;

use crate::nodes::{Nodes, acquire, error_info, granted, inspect};

const TTL: u64 = 60_000;

#[tokio::test(flavor = "multi_thread")]
async fn odd_inputs_are_refused_by_field_and_limit_and_change_nothing() {
    let nodes = Nodes::start(1).await;
    let mut issuer = nodes.issuer(0);
    let mut cases: Vec<(v1::AcquireRequest, &str, &str)> = Vec::new();
    for ttl in [
        0,
        1,
        99,
        86_400_001,
        86_400_000_000_000,
        1 << 50,
        1 << 53,
        1 << 62,
        1 << 63,
        u64::MAX,
    ] {
        cases.push((acquire("r", "a", ttl), "ttl_ms", "100 to 86400000"));
    }
    for (name, limit) in [
        (String::new(), "at least 1 and at most 160 Unicode scalars"),
        ("a".repeat(161), "at most 160 Unicode scalars"),
        ("a".repeat(1 << 20), "at most 160 Unicode scalars"),
        ("a\0".to_owned(), "no control characters"),
        ("a ".to_owned(), "no blank at either end"),
    ] {
        cases.push((acquire(&name, "a", TTL), "resource", limit));
    }
    cases.push((
        acquire("r", &"h".repeat(81), TTL),
        "holder",
        "at most 80 Unicode scalars",
    ));
    let long_id = v1::AcquireRequest {
        request_id: vec![1; 65].into(),
        ..acquire("r", "a", TTL)
    };
    cases.push((long_id, "request_id", "1 to 64 bytes"));
    for wait_ms in [86_400_001, 1 << 32, 1 << 63, u64::MAX] {
        let waiting = v1::AcquireRequest {
            wait_ms,
            ..acquire("r", "a", TTL)
        };
        cases.push((waiting, "wait_ms", "0 to 86400000"));
    }
    for (request, field, limit) in cases {
        let (code, reason, metadata) = error_info(&issuer.acquire(request).await.unwrap_err());
        assert_eq!(
            (code, reason.as_str()),
            (Code::InvalidArgument, "INVALID_FIELD")
        );
        assert_eq!(metadata["field"], field);
        assert_eq!(metadata["limit"], limit);
        assert_eq!(metadata["effect"], "none");
    }
    let everything = issuer
        .list(v1::ListRequest::default())
        .await
        .unwrap()
        .into_inner();
    assert!(everything.grants.is_empty());
}

#[tokio::test(flavor = "multi_thread")]
async fn names_are_kept_exactly() {
    let nodes = Nodes::start(1).await;
    let mut issuer = nodes.issuer(0);
    let names = [
        "a".to_owned(),
        "é".repeat(160),
        "🦀".repeat(160),
        "caf\u{e9}".to_owned(),
        "cafe\u{301}".to_owned(),
        "שלום".to_owned(),
        "a b/c%20?d".to_owned(),
        "A".to_owned(),
    ];
    for name in &names {
        granted(&mut issuer, acquire(name, "holder", TTL)).await;
        let seen = issuer
            .inspect(inspect(name))
            .await
            .unwrap()
            .into_inner()
            .grant
            .unwrap();
        assert_eq!(&seen.resource, name);
    }
    let all = issuer
        .list(v1::ListRequest::default())
        .await
        .unwrap()
        .into_inner();
    let mut listed: Vec<_> = all.grants.into_iter().map(|grant| grant.resource).collect();
    listed.sort();
    let mut wanted = names.to_vec();
    wanted.sort();
    assert_eq!(listed, wanted);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_over_the_limit_is_refused_and_the_connection_lives_on() {
    let nodes = Nodes::start(1).await;
    let mut issuer = nodes.issuer(0);
    let huge = acquire(&"a".repeat(5 << 20), "a", TTL);
    let status = issuer.acquire(huge).await.unwrap_err();
    let (code, reason, metadata) = error_info(&status);
    assert_eq!(
        (code, reason.as_str()),
        (Code::InvalidArgument, "INVALID_FIELD")
    );
    assert_eq!(metadata["field"], "message");
    assert_eq!(metadata["effect"], "none");
    granted(&mut issuer, acquire("r", "a", TTL)).await;
}
