//! Every node takes every call: one that does not lead passes it on.

use fencepost::wire::v1::{self, renew_outcome::Outcome as Renewed};

use crate::nodes::{Nodes, acquire, error_info, granted, inspect, renew, value};

const TTL: u64 = 60_000;

#[tokio::test(flavor = "multi_thread")]
async fn a_follower_answers_every_call_and_names_the_leader() {
    let nodes = Nodes::start(3).await;
    let (leader, follower) = (nodes.leader().await, nodes.follower().await);
    let (mut issuer, mut cluster) = (nodes.issuer(follower), nodes.cluster(follower));

    // Without a request id the follower makes one, so that passing the call on twice is harmless.
    let response = issuer
        .acquire(acquire("r", "a", TTL))
        .await
        .unwrap()
        .into_inner();
    let header = response.header.unwrap();
    assert_eq!(header.node_id, u64::try_from(follower).unwrap() + 1);
    assert_eq!(header.leader.unwrap().address, nodes.flag(leader, "listen"));
    assert!(header.applied_index > 0);
    let Some(v1::acquire_response::Outcome::Granted(grant)) = response.outcome else {
        panic!("not granted");
    };
    let token = value(grant.token.as_ref());

    let items = vec![renew("r", "a", token)];
    let renewed = issuer
        .renew(v1::RenewRequest { items })
        .await
        .unwrap()
        .into_inner();
    assert!(matches!(
        renewed.outcomes[0].outcome,
        Some(Renewed::Renewed(_))
    ));
    let seen = issuer
        .inspect(inspect("r"))
        .await
        .unwrap()
        .into_inner()
        .grant
        .unwrap();
    assert_eq!((value(seen.token.as_ref()), seen.renewals), (token, 1));
    let listed = issuer
        .list(v1::ListRequest::default())
        .await
        .unwrap()
        .into_inner();
    assert_eq!(listed.grants.len(), 1);
    cluster
        .raise_floor(v1::RaiseFloorRequest { above: 1 << 30 })
        .await
        .unwrap();
    let revoke = v1::RevokeRequest {
        resource: "r".to_owned(),
        token,
        reason: String::new(),
    };
    cluster.revoke(revoke).await.unwrap();
    let text = crate::probes::get(&nodes, leader, "/metrics").await.1;
    assert!(text.contains("fencepost_forwarded_in_total 6"), "{text}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_failure_on_the_leader_reaches_the_caller_of_a_follower_whole() {
    let nodes = Nodes::start(3).await;
    let mut cluster = nodes.cluster(nodes.follower().await);
    let status = cluster
        .promote(v1::PromoteRequest { node_id: 77 })
        .await
        .unwrap_err();
    let (code, reason, metadata) = error_info(&status);
    assert_eq!(
        (code, reason.as_str()),
        (tonic::Code::NotFound, "NO_SUCH_NODE")
    );
    assert_eq!(metadata["effect"], "none");
}

#[tokio::test(flavor = "multi_thread")]
async fn tokens_rise_over_a_change_of_leader_and_leases_survive_it() {
    let mut nodes = Nodes::start(3).await;
    let leader = nodes.leader().await;
    let follower = nodes.follower().await;
    let mut issuer = nodes.issuer(follower);
    let first = granted(&mut issuer, acquire("r", "a", TTL)).await;
    nodes.crash(leader).await;
    // Asked while nobody leads: the node waits for the new leader within the caller's time.
    let other = crate::nodes::eventually("somebody answers again", || {
        let mut issuer = issuer.clone();
        async move { issuer.acquire(acquire("r", "b", TTL)).await.ok() }
    })
    .await
    .into_inner();
    let Some(v1::acquire_response::Outcome::Held(held)) = other.outcome else {
        panic!("{other:?}")
    };
    assert_eq!(held.token, first.token);
    let next = granted(&mut issuer, acquire("s", "b", TTL)).await;
    assert!(value(next.token.as_ref()) > value(first.token.as_ref()));
}

#[tokio::test(flavor = "multi_thread")]
async fn without_a_quorum_a_call_is_refused_without_effect_or_is_unknown() {
    let mut nodes = Nodes::start(3).await;
    let leader = nodes.leader().await;
    let alone = nodes.follower().await;
    for n in (0..3).filter(|n| *n != alone && *n != leader) {
        nodes.crash(n).await;
    }
    nodes.crash(leader).await;
    let mut issuer = nodes.issuer(alone);
    let mut request = tonic::Request::new(acquire("r", "a", TTL));
    request.set_timeout(std::time::Duration::from_secs(8));
    let (_, reason, metadata) = error_info(&issuer.acquire(request).await.unwrap_err());
    let known = [("NO_LEADER", "none"), ("UNKNOWN_OUTCOME", "unknown")];
    assert!(
        known.contains(&(reason.as_str(), metadata["effect"].as_str())),
        "{reason}"
    );
    let status = nodes
        .cluster(alone)
        .status(v1::StatusRequest {})
        .await
        .unwrap()
        .into_inner();
    assert_ne!(status.role(), v1::Role::Leader);
}
