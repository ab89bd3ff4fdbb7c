//! Finding the leader, following it, and surviving hints that lead nowhere.

use crate::fake::{Act, Fake, client, nowhere};
use crate::{PLENTY, granted};
use fencepost::wire::failure::{Failure, Reason};

fn no_leader() -> Act {
    Act::Fail(Failure::new(Reason::NoLeader, "no leader is known"))
}

#[tokio::test]
async fn the_leader_that_an_answer_names_is_asked_directly() {
    let leader = Fake::start(|_, _| Act::Answer).await;
    let follower = Fake::start(|_, _| Act::Answer).await;
    follower.become_(|node| node.leader.clone_from(&leader.address));
    // The leader is not in the list: only the follower's answer leads there.
    let client = client(&[&follower.address], PLENTY);
    for _ in 0..3 {
        granted(&client).await;
    }
    assert_eq!((leader.count("acquire"), follower.count("acquire")), (3, 0));
}

#[tokio::test]
async fn a_failure_that_names_the_leader_is_followed_too() {
    let leader = Fake::start(|_, _| Act::Answer).await;
    let address = leader.address.clone();
    let old = Fake::start(move |call, _| {
        let failure =
            Failure::new(Reason::NotLeader, "not the leader").leader(Some(address.clone()));
        if call == "acquire" {
            Act::Fail(failure)
        } else {
            Act::Answer
        }
    })
    .await;
    let client = client(&[&old.address], PLENTY);
    granted(&client).await;
    assert_eq!((leader.count("acquire"), old.count("acquire")), (1, 1));
}

#[tokio::test]
async fn a_hint_to_an_unreachable_node_costs_one_try_and_not_one_a_call() {
    let node = Fake::start(|_, _| Act::Answer).await;
    let unreachable = nowhere().await;
    node.become_(|node| node.leader = unreachable);
    let client = client(&[&node.address], PLENTY);
    for _ in 0..5 {
        granted(&client).await;
    }
    assert_eq!(node.count("acquire"), 5);
    assert_eq!(client.resends(), 1, "only the first call followed the hint");
}

#[tokio::test]
async fn an_election_is_sat_out() {
    let node = Fake::start(|call, before| match (call, before) {
        ("acquire", 0..6) => no_leader(),
        _ => Act::Answer,
    })
    .await;
    granted(&client(&[&node.address], PLENTY)).await;
    assert_eq!(node.count("acquire"), 7);
}

#[tokio::test]
async fn a_member_that_never_answers_is_left_for_another() {
    // The kind of etcd#8673: cut off from the leader, but still connected to the client.
    let stuck = Fake::start(|call, _| {
        if call == "status" {
            Act::Answer
        } else {
            Act::Silence
        }
    })
    .await;
    let sound = Fake::start(|_, _| Act::Answer).await;
    sound.become_(|node| node.leader.clear());
    stuck.become_(|node| node.leader.clear());
    for _ in 0..4 {
        // Wherever the turn begins, the call gets through.
        let client = client(&[&stuck.address, &sound.address], PLENTY);
        granted(&client).await;
        granted(&client).await;
        assert!(client.resends() <= 1);
    }
    assert_eq!(sound.count("acquire"), 8);
}

#[tokio::test]
async fn unreachable_endpoints_do_not_stand_in_the_way() {
    let node = Fake::start(|_, _| Act::Answer).await;
    let (first, last) = (nowhere().await, nowhere().await);
    let client = client(&[&first, &node.address, &last], PLENTY);
    granted(&client).await;
    assert_eq!(client.resends(), 0, "the status told who leads");
}
