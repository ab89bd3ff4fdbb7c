//! The first promises, each as a test of its name: tokens rise, whatever is killed; a live lease
//! outlives it; and the resource refuses what is older than what it has admitted.

use std::{
    ops::Range,
    time::{Duration, Instant},
};

use fencepost::{
    fence::{Rules, Verdict, memory::MemoryGuard},
    resource::{IssuerName, ResourceName},
    sequencer::Sequencer,
    token::TokenValue,
};

use crate::{
    asking::{Asked, Asker},
    dice::Dice,
    history::{Outcome, recorder::Recorder},
    nodes::{Cluster, calls::Calls},
    waiting::{PATIENCE, eventually},
};

const RESOURCE: &str = "ledger";
const SHORT: Duration = Duration::from_millis(200);

/// A caller with a deadline that outlasts an election.
fn asker(cluster: &Cluster, client: u32) -> Asker {
    let call = |node| Calls::to(cluster.place.client(node), Duration::from_secs(2));
    let nodes = cluster.founders().map(call).collect();
    Asker::new(client, nodes, Recorder::new(), Dice::new(u64::from(client)))
}

/// Acquires what is free.
async fn granted(asker: &mut Asker, holder: &str, ttl: Duration) -> (Asked, u64) {
    let mut asked = asker.request(RESOURCE, holder, ttl);
    match asker.acquire(&mut asked, PATIENCE).await {
        Outcome::Granted(granted) => (asked, granted.token),
        other => panic!("{holder} was not granted a free resource: {other:?}"),
    }
}

/// Asks under new ids until the present holder's lease has run out; says how often it was refused.
async fn granted_at_last(asker: &mut Asker, holder: &str, ttl: Duration) -> (u64, usize) {
    let deadline = Instant::now() + PATIENCE;
    let mut refused = 0;
    while Instant::now() < deadline {
        let mut asked = asker.request(RESOURCE, holder, ttl);
        match asker.acquire(&mut asked, PATIENCE).await {
            Outcome::Granted(granted) => return (granted.token, refused),
            Outcome::Held(_) => refused += 1,
            other => panic!("{holder} got no answer: {other:?}"),
        }
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    panic!("{holder} was never granted");
}

/// So many tokens of one resource; each holder but the last forgets it, and its lease runs out.
async fn tokens_with_expiries_between(cluster: &Cluster, holders: Range<u32>) -> Vec<u64> {
    let mut tokens = Vec::new();
    for number in holders {
        let mut asker = asker(cluster, number);
        tokens.push(
            granted_at_last(&mut asker, &format!("holder-{number}"), SHORT)
                .await
                .0,
        );
    }
    tokens
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn twenty_grants_with_a_forced_expiry_between_each_are_strictly_increasing() {
    let cluster = Cluster::of_three().await;
    let tokens = tokens_with_expiries_between(&cluster, 0..20).await;
    assert_eq!(tokens.len(), 20);
    assert!(
        tokens.is_sorted_by(|before, after| before < after),
        "{tokens:?}"
    );
}

/// Presents a token to a guard that knows the cluster's issuer.
fn admit(guard: &MemoryGuard, token: u64) -> Verdict {
    let sequencer = Sequencer {
        issuer: IssuerName::new("fencepost").unwrap(),
        resource: ResourceName::new(RESOURCE).unwrap(),
        token: TokenValue::new(token).unwrap(),
    };
    guard.admit_now(&sequencer).unwrap()
}

fn guard() -> MemoryGuard {
    MemoryGuard::new(Rules::issued_by(IssuerName::new("fencepost").unwrap()))
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn rejects_a_lower_token_after_a_higher_one_is_accepted() {
    let cluster = Cluster::of_three().await;
    let tokens = tokens_with_expiries_between(&cluster, 0..2).await;
    let guard = guard();
    assert_eq!(admit(&guard, tokens[1]), Verdict::Admitted);
    let (presented, required) = (
        TokenValue::new(tokens[0]).unwrap(),
        TokenValue::new(tokens[1]).unwrap(),
    );
    assert_eq!(
        admit(&guard, tokens[0]),
        Verdict::Stale {
            presented,
            required
        }
    );
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn accepts_repeated_writes_with_the_same_token() {
    let cluster = Cluster::of_three().await;
    let tokens = tokens_with_expiries_between(&cluster, 0..1).await;
    let guard = guard();
    for _ in 0..3 {
        assert_eq!(admit(&guard, tokens[0]), Verdict::Admitted);
    }
}

/// A holds the resource while `disturb` is done to the cluster. B is refused as long as A's lease
/// lives, and is granted with a higher token once it has run out.
async fn a_lease_outlives(disturb: impl AsyncFnOnce(&mut Cluster)) {
    let mut cluster = Cluster::of_three().await;
    let mut a = asker(&cluster, 1);
    let (asked, first) = granted(&mut a, "A", 2 * PATIENCE).await;

    disturb(&mut cluster).await;

    let mut b = asker(&cluster, 2);
    let mut wanted = b.request(RESOURCE, "B", SHORT);
    let refused = b.acquire(&mut wanted, PATIENCE).await;
    assert_eq!(refused, Outcome::Held(first), "A's lease lives");

    // A proves that it still has its lease, and then lets it run out soon.
    let (rest, renewed) = (Duration::from_millis(1_500), Instant::now());
    eventually("A renews", PATIENCE, async || {
        match a.renew_for(&asked, first, rest).await {
            Outcome::Renewed => Some(()),
            Outcome::Refused(why) => panic!("A lost its lease: {why}"),
            // It had the leader that is dead in mind, and tries the next node.
            _ => None,
        }
    })
    .await;
    let (second, times_refused) = granted_at_last(&mut b, "B", SHORT).await;
    assert!(
        renewed.elapsed() >= rest,
        "B was granted before A's deadline"
    );
    assert!(times_refused > 0, "B was granted while A's lease lived");
    assert!(second > first, "{second} after {first}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn monotonic_across_an_issuer_restart() {
    a_lease_outlives(async |cluster| {
        cluster.kill_all();
        cluster.start_all();
        cluster.ready().await;
    })
    .await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn monotonic_across_a_failover() {
    a_lease_outlives(async |cluster| {
        let leader = cluster.ready().await;
        cluster.kill(leader);
        assert_ne!(cluster.leader().await, leader);
    })
    .await;
}
