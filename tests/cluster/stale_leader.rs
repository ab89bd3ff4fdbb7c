//! A leader that was stopped and replaced wakes up and still takes itself for the leader: it must not
//! serve what it remembers, nor end or grant anything.

use std::time::Duration;

use fencepost::wire::v1::{AdmitRequest, InspectResponse, admit_response::Outcome as Admitted};

use crate::{
    asking::Asker,
    dice::Dice,
    history::{Outcome, recorder::Recorder},
    nodes::{Cluster, calls::Calls},
    waiting::{PATIENCE, eventually},
};

const RESOURCE: &str = "ledger";

fn token(answer: &InspectResponse) -> Option<u64> {
    Some(answer.grant.as_ref()?.token.as_ref()?.value)
}

/// deventlab/d-engine#381, hashicorp/consul#54: a leader without a quorum answered a read from memory.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_was_stopped_never_serves_a_stale_inspect() {
    for round in 0..3_u32 {
        let mut cluster = Cluster::of_three().await;
        let leader = cluster.ready().await;
        let call = |node| Calls::to(cluster.place.client(node), Duration::from_secs(2));
        let nodes = cluster.founders().map(call).collect();
        let mut asker = Asker::new(round, nodes, Recorder::new(), Dice::new(u64::from(round)));
        let mut first = asker.request(RESOURCE, "A", Duration::from_secs(60));
        let Outcome::Granted(first_grant) = asker.acquire(&mut first, PATIENCE).await else {
            panic!("A was not granted a free resource");
        };
        // A connection that is open while the leader sleeps: its calls are read the moment it wakes.
        let at_leader = cluster.calls(leader);
        assert_eq!(
            token(&at_leader.inspect(RESOURCE).await.unwrap()),
            Some(first_grant.token)
        );

        cluster.process(leader).pause();
        // A gives it back to the others' new leader, and B is granted.
        assert_eq!(
            asker.release(&first, first_grant.token, PATIENCE).await,
            Outcome::Released
        );
        let mut second = asker.request(RESOURCE, "B", Duration::from_secs(60));
        let Outcome::Granted(second_grant) = asker.acquire(&mut second, PATIENCE).await else {
            panic!("B was not granted what A gave back");
        };
        assert!(second_grant.token > first_grant.token);

        // Calls that lie in the stopped leader's sockets, and calls from its first moment on.
        let early: Vec<_> = (0..32)
            .map(|_| {
                let calls = at_leader.clone();
                tokio::spawn(async move { calls.inspect(RESOURCE).await })
            })
            .collect();
        cluster.process(leader).resume();
        let mut fresh = 0;
        for answer in early {
            if let Ok(answer) = answer.await.unwrap() {
                assert_eq!(
                    token(&answer),
                    Some(second_grant.token),
                    "a stale inspect was served as fresh"
                );
                fresh += 1;
            }
        }
        println!("round {round}: {fresh} of 32 early calls were answered, all of them fresh");
        cluster.ready().await;
        assert_eq!(
            token(&at_leader.inspect(RESOURCE).await.unwrap()),
            Some(second_grant.token)
        );
    }
}

fn presented(token: u64) -> AdmitRequest {
    AdmitRequest {
        issuer: "fencepost".into(),
        resource: RESOURCE.into(),
        token,
        once: false,
    }
}

/// An equal token needs no log entry, but it does need to be known that no newer leader has admitted a
/// higher one meanwhile.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_leader_that_was_stopped_never_admits_what_has_become_stale_since() {
    for round in 0..3_u32 {
        let mut cluster = Cluster::of_three().await;
        let leader = cluster.ready().await;
        let mut tokens = Vec::new();
        for holder in ["A", "A"] {
            let words = ["acquire", RESOURCE, "--holder", holder, "--ttl", "1h"];
            let output = cluster
                .command(&[&words[..], &["--output", "json"]].concat())
                .await;
            let answer: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
            tokens.push(answer["token"].as_str().unwrap().parse::<u64>().unwrap());
        }
        let at_leader = cluster.calls(leader);
        let first = at_leader.admit(presented(tokens[0])).await.unwrap();
        assert!(matches!(first.outcome, Some(Admitted::Admitted(_))));

        cluster.process(leader).pause();
        let other = cluster.founders().find(|node| *node != leader).unwrap();
        let at_other = Calls::to(cluster.place.client(other), Duration::from_secs(2));
        eventually(
            "a new leader admits the newer token",
            PATIENCE,
            async || {
                let said = at_other.admit(presented(tokens[1])).await.ok()?;
                matches!(said.outcome, Some(Admitted::Admitted(_))).then_some(())
            },
        )
        .await;

        let early: Vec<_> = (0..32)
            .map(|_| {
                let (calls, request) = (at_leader.clone(), presented(tokens[0]));
                tokio::spawn(async move { calls.admit(request).await })
            })
            .collect();
        cluster.process(leader).resume();
        let mut stale = 0;
        for answer in early {
            if let Ok(answer) = answer.await.unwrap() {
                let said = answer.outcome.unwrap();
                assert!(
                    matches!(&said, Admitted::Stale(_)),
                    "round {round}: {said:?}"
                );
                stale += 1;
            }
        }
        println!("round {round}: {stale} of 32 early calls were answered, all of them stale");
    }
}
