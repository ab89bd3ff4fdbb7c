//! `fencepost cluster`: adding a node shows how it catches up, and waits for it.

use crate::fake::{Act, Fake};
use crate::{fencepost, finish};
use fencepost::wire::v1::Member;
use std::time::Duration;

fn member(node_id: u64, matched_index: u64) -> Member {
    Member {
        node_id,
        peer_address: format!("127.0.0.1:{}", 7199 + node_id),
        matched_index: Some(matched_index),
        ..Member::default()
    }
}

/// A cluster of one, with a log of 1,000 entries and node 4 on its way.
async fn catching_up() -> Fake {
    let node = Fake::start(|_, _| Act::Answer).await;
    node.become_(|node| {
        node.members = vec![member(1, 1_000), member(4, 250)];
        node.last_log_index = 1_000;
    });
    node
}

#[tokio::test]
async fn a_new_node_gets_its_vote_when_it_has_caught_up() {
    let node = catching_up().await;
    let args = [
        "cluster",
        "add-node",
        "4",
        "127.0.0.1:7203",
        "--promote",
        "--endpoints",
        &node.address,
    ];
    let (run, ()) = tokio::join!(fencepost(&args), async {
        // One status is the client's first question, two more have shown the node behind.
        while node.count("status") < 4 {
            tokio::task::yield_now().await;
        }
        assert_eq!(node.count("promote"), 0, "it was behind until now");
        node.become_(|node| node.members[1].matched_index = Some(1_000));
    });
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    assert!(
        run.stderr
            .contains("node 4 has 250 of 1000 log entries (25 %)"),
        "{}",
        run.stderr
    );
    assert!(run.stderr.contains("caught up"), "{}", run.stderr);
    assert_eq!(run.stdout, "Node 4 has a vote now.\n");
    assert_eq!((node.count("add_node"), node.count("promote")), (1, 1));
}

#[tokio::test]
async fn waiting_ends_with_what_to_do_then() {
    let node = catching_up().await;
    let args = [
        "cluster",
        "add-node",
        "4",
        "127.0.0.1:7203",
        "--wait",
        "300ms",
        "--endpoints",
        &node.address,
    ];
    let run = fencepost(&args).await;
    assert_eq!(run.code, Some(4), "{}", run.stderr);
    assert!(
        run.stderr.contains("fencepost cluster promote 4"),
        "{}",
        run.stderr
    );
    assert_eq!(node.count("promote"), 0);
}

#[tokio::test]
async fn a_table_shows_every_member_and_who_does_not_answer() {
    let node = catching_up().await;
    let address = node.address.clone();
    node.become_(|node| node.members[0].client_address = address);
    let run = fencepost(&["cluster", "status", "--endpoints", &node.address]).await;
    assert_eq!(run.code, Some(0), "{}", run.stderr);
    let line = |id: &str| {
        run.stdout
            .lines()
            .find(|line| line.trim_start().starts_with(id))
            .unwrap()
    };
    assert!(line("1 ").contains("leader"), "{}", run.stdout);
    assert!(
        line("4 ").contains("unreachable") && !line("4 ").contains("750"),
        "what nobody can ask is not known: {}",
        run.stdout
    );
}

#[tokio::test]
async fn leadership_is_handed_over_to_somebody_who_is_named() {
    let node = catching_up().await;
    let run = fencepost(&["cluster", "transfer-leader", "--endpoints", &node.address]).await;
    let said = format!("Node 1 ({}) leads now, in term 1.\n", node.address);
    assert_eq!((run.code, run.stdout), (Some(0), said), "{}", run.stderr);
}

#[tokio::test]
async fn a_change_of_unknown_outcome_says_where_to_look() {
    use fencepost::wire::failure::{Failure, Reason};
    let node = Fake::start(|call, _| match call {
        "remove_node" => Act::Fail(Failure::new(Reason::UnknownOutcome, "the leader went away")),
        _ => Act::Answer,
    })
    .await;
    let mut command = crate::binary();
    command.args(["cluster", "remove-node", "2", "--endpoints", &node.address]);
    let run = tokio::time::timeout(Duration::from_secs(30), finish(&mut command))
        .await
        .unwrap();
    assert_eq!(run.code, Some(5), "{}", run.stderr);
    assert!(
        run.stderr.contains("fencepost cluster status"),
        "{}",
        run.stderr
    );
    assert_eq!(node.count("remove_node"), 1);
}
