//! Acquire, renew, release, inspect, list, revoke, raise-floor: one node, through its API.

use fencepost::wire::v1::{
    self, acquire_response::Outcome as Acquired, release_response::Outcome as Released,
    renew_outcome::Outcome as Renewed, revoke_response::Outcome as Revoked,
};
use tonic::Code;

use crate::nodes::{
    Nodes, acquire, error_info, eventually, granted, inspect, release, renew, value,
};

const TTL: u64 = 60_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_grant_is_held_renewed_and_given_back() {
    let nodes = Nodes::start(1).await;
    let mut issuer = nodes.issuer(0);
    let first = granted(&mut issuer, acquire("r", "a", TTL)).await;
    assert_eq!(first.lease_ms, TTL);
    assert!(!first.replayed && first.granted_at_unix_ms > 0);
    let token = value(first.token.as_ref());

    let other = issuer
        .acquire(acquire("r", "b", TTL))
        .await
        .unwrap()
        .into_inner();
    let Some(Acquired::Held(held)) = other.outcome else {
        panic!("{other:?}")
    };
    assert_eq!(
        (held.holder.as_str(), value(held.token.as_ref())),
        ("a", token)
    );
    assert!(held.remaining_ms > TTL / 2 && held.remaining_ms <= TTL + TTL / 100);

    let items = vec![
        renew("r", "a", token),
        renew("r", "b", token),
        renew("r", "a", token + 1),
    ];
    let renewed = issuer
        .renew(v1::RenewRequest { items })
        .await
        .unwrap()
        .into_inner();
    let outcomes: Vec<_> = renewed
        .outcomes
        .into_iter()
        .map(|o| o.outcome.unwrap())
        .collect();
    assert_eq!(outcomes[0], Renewed::Renewed(v1::Renewed { lease_ms: TTL }));
    assert_eq!(outcomes[1], Renewed::Unknown(v1::Unknown {}));
    assert_eq!(outcomes[2], Renewed::Unknown(v1::Unknown {}));

    // Twice: a retried release is not mistaken for a lost lease.
    for _ in 0..2 {
        let released = issuer
            .release(release("r", "a", token))
            .await
            .unwrap()
            .into_inner();
        assert_eq!(released.outcome, Some(Released::Released(v1::Released {})));
    }
    let next = granted(&mut issuer, acquire("r", "b", TTL)).await;
    assert!(value(next.token.as_ref()) > token);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_release_by_somebody_else_or_too_late_ends_nothing() {
    let nodes = Nodes::start(1).await;
    let mut issuer = nodes.issuer(0);
    let a = value(
        granted(&mut issuer, acquire("r", "a", TTL))
            .await
            .token
            .as_ref(),
    );
    for (resource, holder, token) in [("r", "b", a), ("other", "a", a), ("r", "a", a + 7)] {
        let released = issuer
            .release(release(resource, holder, token))
            .await
            .unwrap();
        let outcome = released.into_inner().outcome;
        assert_eq!(
            outcome,
            Some(Released::Unknown(v1::Unknown {})),
            "{resource} {holder} {token}"
        );
    }
    // The same holder again: its first grant is superseded, and its late release hits nothing.
    let b = value(
        granted(&mut issuer, acquire("r", "a", TTL))
            .await
            .token
            .as_ref(),
    );
    let late = issuer
        .release(release("r", "a", a))
        .await
        .unwrap()
        .into_inner();
    let Some(Released::Ended(ended)) = late.outcome else {
        panic!("{late:?}")
    };
    assert_eq!(ended.how(), v1::EndedHow::Superseded);
    let seen = issuer
        .inspect(inspect("r"))
        .await
        .unwrap()
        .into_inner()
        .grant
        .unwrap();
    assert_eq!(value(seen.token.as_ref()), b);
}

#[tokio::test(flavor = "multi_thread")]
async fn a_request_id_acts_once() {
    let nodes = Nodes::start(1).await;
    let mut issuer = nodes.issuer(0);
    let request = v1::AcquireRequest {
        request_id: b"the same".to_vec().into(),
        ..acquire("r", "a", TTL)
    };
    let first = granted(&mut issuer, request.clone()).await;
    let again = granted(&mut issuer, request.clone()).await;
    assert_eq!(first.token, again.token);
    assert!(again.replayed);
    assert_eq!(first.granted_at_unix_ms, again.granted_at_unix_ms);

    let other = v1::AcquireRequest {
        ttl_ms: TTL + 1,
        ..request.clone()
    };
    let (code, reason, metadata) = error_info(&issuer.acquire(other).await.unwrap_err());
    assert_eq!(
        (code, reason.as_str()),
        (Code::InvalidArgument, "REQUEST_ID_REUSED")
    );
    assert_eq!(metadata["effect"], "none");

    issuer
        .release(release("r", "a", value(first.token.as_ref())))
        .await
        .unwrap();
    let late = issuer.acquire(request).await.unwrap().into_inner();
    let Some(Acquired::Ended(ended)) = late.outcome else {
        panic!("{late:?}")
    };
    assert_eq!(
        (ended.token, ended.how()),
        (first.token, v1::EndedHow::Released)
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_moment_of_another_cluster_is_too_old() {
    let nodes = Nodes::start(1).await;
    let mut issuer = nodes.issuer(0);
    let asked_at = Some(v1::AskedAt {
        cluster_id: "ab".repeat(16),
        applied_index: 1,
    });
    let request = v1::AcquireRequest {
        asked_at,
        ..acquire("r", "a", TTL)
    };
    let (code, reason, metadata) = error_info(&issuer.acquire(request).await.unwrap_err());
    assert_eq!((code, reason.as_str()), (Code::Aborted, "TOO_OLD"));
    assert_eq!(metadata["effect"], "unknown");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_listing_comes_in_pages_by_prefix() {
    let nodes = Nodes::start(1).await;
    let mut issuer = nodes.issuer(0);
    for n in 0..7 {
        granted(&mut issuer, acquire(&format!("jobs/{n}"), "a", TTL)).await;
    }
    granted(&mut issuer, acquire("other", "a", TTL)).await;
    let mut names = Vec::new();
    let mut page_token = String::new();
    loop {
        let request = v1::ListRequest {
            prefix: "jobs/".to_owned(),
            page_size: 3,
            page_token,
        };
        let page = issuer.list(request).await.unwrap().into_inner();
        assert!(page.grants.len() <= 3);
        names.extend(page.grants.into_iter().map(|grant| grant.resource));
        page_token = page.next_page_token;
        if page_token.is_empty() {
            break;
        }
    }
    let wanted: Vec<_> = (0..7).map(|n| format!("jobs/{n}")).collect();
    assert_eq!(names, wanted);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_operator_revokes_by_token_and_raises_the_floor() {
    let nodes = Nodes::start(1).await;
    let (mut issuer, mut cluster) = (nodes.issuer(0), nodes.cluster(0));
    let token = value(
        granted(&mut issuer, acquire("r", "a", TTL))
            .await
            .token
            .as_ref(),
    );
    let revoke = |resource: &str, token| v1::RevokeRequest {
        resource: resource.to_owned(),
        token,
        reason: "because".to_owned(),
    };
    let refused = cluster.revoke(revoke("other", token)).await.unwrap_err();
    let (code, reason, _) = error_info(&refused);
    assert_eq!(
        (code, reason.as_str()),
        (Code::FailedPrecondition, "REFUSED")
    );
    for _ in 0..2 {
        let revoked = cluster
            .revoke(revoke("r", token))
            .await
            .unwrap()
            .into_inner();
        assert_eq!(revoked.outcome, Some(Revoked::Revoked(v1::Revoked {})));
    }
    let items = vec![renew("r", "a", token)];
    let renewed = issuer
        .renew(v1::RenewRequest { items })
        .await
        .unwrap()
        .into_inner();
    let Some(Renewed::Ended(ended)) = renewed.outcomes[0].outcome else {
        panic!("{renewed:?}")
    };
    assert_eq!(ended.how(), v1::EndedHow::Revoked);

    let above = 1 << 40;
    let raised = cluster
        .raise_floor(v1::RaiseFloorRequest { above })
        .await
        .unwrap();
    assert!(raised.into_inner().floor > 0);
    let next = granted(&mut issuer, acquire("r", "a", TTL)).await;
    assert!(value(next.token.as_ref()) > above);
    let beyond = cluster
        .raise_floor(v1::RaiseFloorRequest { above: u64::MAX })
        .await
        .unwrap_err();
    let (code, reason, metadata) = error_info(&beyond);
    assert_eq!(
        (code, reason.as_str()),
        (Code::InvalidArgument, "INVALID_FIELD")
    );
    assert_eq!(metadata["field"], "above");
}

#[tokio::test(flavor = "multi_thread")]
async fn four_hundred_renewals_with_their_own_ttls_fit_one_call() {
    let nodes = Nodes::start(1).await;
    let mut issuer = nodes.issuer(0);
    let mut items = Vec::new();
    for n in 0..400 {
        let name = format!("r{n}");
        let token = value(
            granted(&mut issuer, acquire(&name, "a", TTL))
                .await
                .token
                .as_ref(),
        );
        items.push(v1::RenewItem {
            ttl_ms: TTL + n,
            ..renew(&name, "a", token)
        });
    }
    let renewed = issuer
        .renew(v1::RenewRequest { items })
        .await
        .unwrap()
        .into_inner();
    for (n, outcome) in renewed.outcomes.iter().enumerate() {
        let lease_ms = TTL + u64::try_from(n).unwrap();
        assert_eq!(
            outcome.outcome,
            Some(Renewed::Renewed(v1::Renewed { lease_ms }))
        );
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn status_tells_what_the_node_sees() {
    let nodes = Nodes::start(1).await;
    let (mut issuer, mut cluster) = (nodes.issuer(0), nodes.cluster(0));
    let token = value(
        granted(&mut issuer, acquire("r", "a", TTL))
            .await
            .token
            .as_ref(),
    );
    let status = cluster
        .status(v1::StatusRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_eq!(status.role(), v1::Role::Leader);
    assert!(status.in_touch);
    assert_eq!((status.live_leases, status.last_token), (1, token));
    assert_eq!(status.state_hash.len(), 64);
    assert_eq!(status.members.len(), 1);
    assert!(status.members[0].voter && status.members[0].node_id == 1);
    let header = status.header.unwrap();
    assert_eq!(header.cluster_id.len(), 32);
    assert_eq!(header.leader.unwrap().address, nodes.flag(0, "listen"));
    // Every call is counted.
    eventually("the call is counted", || async {
        let text = crate::probes::get(&nodes, 0, "/metrics").await.1;
        text.contains("fencepost_calls_total{method=\"Status\"} 1")
            .then_some(())
    })
    .await;
}
