//! A copy of an acquire that is delayed on the wire and arrives when all is over: it has no effect of
//! its own. It is told how its request came out, and nobody else notices it.
//!
//! The copy is written by its caller at the beginning and sits in a [`Link`] meanwhile. Each history is
//! held to the checks in the end: no request took effect twice (NO-LOST-GRANT), none that was refused
//! took effect at all (HONEST).

use std::{
    net::SocketAddr,
    time::{Duration, Instant},
};

use fencepost::wire::v1::{
    AcquireRequest, PipelineRequest, issuer_client::IssuerClient, pipeline_request::Operation,
    pipeline_response::Answer,
};
use tokio::task::JoinHandle;
use tokio_stream::wrappers::ReceiverStream;

use crate::{
    asking::{Asked, Asker, Sent},
    dice::Dice,
    history::{Granted, Outcome, recorder::Recorder},
    judging::{ALWAYS, must_hold},
    link::Link,
    nodes::{Cluster, calls::Calls},
    waiting::{PATIENCE, eventually},
};

const RESOURCE: &str = "ledger";
const TTL: Duration = Duration::from_secs(60);

/// A cluster, its caller, and a wire on which the caller's copies are held.
struct Scene {
    cluster: Cluster,
    recorder: Recorder,
    asker: Asker,
    link: Link,
    /// The node at the end of the wire.
    node: u64,
}

impl Scene {
    async fn new(cluster: Cluster) -> Self {
        let recorder = Recorder::new();
        let call = |node| Calls::to(cluster.place.client(node), Duration::from_secs(5));
        let nodes = cluster.founders().map(call).collect();
        let asker = Asker::new(1, nodes, recorder.clone(), Dice::new(1));
        // A follower: the copy takes every hop that there is.
        let leader = cluster.ready().await;
        let follower = cluster.founders().find(|node| *node != leader);
        let node = follower.unwrap_or(leader);
        let link = Link::to(cluster.place.client(node), true).await;
        let mut scene = Self {
            cluster,
            recorder,
            asker,
            link,
            node,
        };
        // Something is seen of the cluster before the first request, so that all name a moment.
        scene.asker.inspect(RESOURCE).await;
        scene
    }

    async fn of_three() -> Self {
        Self::new(Cluster::of_three().await).await
    }

    /// A caller beside the first one.
    fn second_asker(&self) -> Asker {
        let call = |node| Calls::to(self.cluster.place.client(node), Duration::from_secs(5));
        let nodes = self.cluster.founders().map(call).collect();
        Asker::new(2, nodes, self.recorder.clone(), Dice::new(2))
    }

    /// Sends a copy that is held on the wire; gives what it is told in the end.
    async fn send_late(&mut self, asked: &mut Asked) -> JoinHandle<Sent> {
        let calls = Calls::to(self.link.address(), 4 * PATIENCE);
        let late = self.asker.send_aside(asked, calls);
        self.link.carries(RESOURCE.as_bytes()).await;
        late
    }

    async fn granted(&mut self, asked: &mut Asked) -> u64 {
        match self.asker.acquire(asked, PATIENCE).await {
            Outcome::Granted(granted) => granted.token,
            other => panic!("not granted: {other:?}"),
        }
    }

    async fn released(&mut self, asked: &Asked, token: u64) {
        let outcome = self.asker.release(asked, token, PATIENCE).await;
        assert_eq!(outcome, Outcome::Released);
    }

    /// Lets the copy arrive, and gives its answer.
    async fn arrives(&self, late: JoinHandle<Sent>) -> Sent {
        self.link.let_go();
        late.await.unwrap()
    }

    /// What the cluster says of the resource. The node that is asked first may have been killed; its
    /// caller goes elsewhere then.
    async fn inspected(&mut self) -> Outcome {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let seen = self.asker.inspect(RESOURCE).await;
            if !matches!(seen, Outcome::Unknown(_)) || Instant::now() >= deadline {
                return seen;
            }
        }
    }

    async fn end(mut self, holds: Option<u64>) {
        let seen = self.inspected().await;
        assert_eq!(seen, Outcome::Inspected(holds));
        let names: &[&str] = match self.cluster.founders().count() {
            // There is nobody to compare a single node with.
            1 => &ALWAYS[..ALWAYS.len() - 1],
            _ => &ALWAYS,
        };
        must_hold(&mut self.cluster, &self.recorder, names).await;
    }
}

/// Told of a grant that has ended, or of one that lives.
fn told_of(token: u64, sent: Sent) {
    match sent {
        Ok(Outcome::Granted(Granted {
            token: told,
            start_unknown: true,
            ..
        })) => assert_eq!(told, token),
        other => panic!("it was not told of token {token}, but {other:?}"),
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_copy_after_the_release_grants_nothing() {
    let mut scene = Scene::of_three().await;
    let mut asked = scene.asker.request(RESOURCE, "A", TTL);
    let late = scene.send_late(&mut asked).await;
    let token = scene.granted(&mut asked).await;
    scene.released(&asked, token).await;
    told_of(token, scene.arrives(late).await);
    scene.end(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_copy_after_the_release_disturbs_no_successor() {
    let mut scene = Scene::of_three().await;
    let mut asked = scene.asker.request(RESOURCE, "A", TTL);
    let late = scene.send_late(&mut asked).await;
    let token = scene.granted(&mut asked).await;
    scene.released(&asked, token).await;
    let mut next = scene.asker.request(RESOURCE, "B", TTL);
    let successor = scene.granted(&mut next).await;
    told_of(token, scene.arrives(late).await);
    scene.end(Some(successor)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_copy_after_a_refusal_is_refused_although_the_resource_is_free() {
    let mut scene = Scene::of_three().await;
    let mut first = scene.asker.request(RESOURCE, "B", TTL);
    let token = scene.granted(&mut first).await;
    let mut asked = scene.asker.request(RESOURCE, "A", TTL);
    let late = scene.send_late(&mut asked).await;
    let refused = scene.asker.acquire(&mut asked, PATIENCE).await;
    assert_eq!(refused, Outcome::Held(token));
    scene.released(&first, token).await;
    let told = scene.arrives(late).await;
    assert!(matches!(told, Ok(Outcome::Refused(_))), "{told:?}");
    scene.end(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_copy_after_a_newer_grant_of_the_same_holder_supersedes_nothing() {
    let mut scene = Scene::of_three().await;
    let mut asked = scene.asker.request(RESOURCE, "A", TTL);
    let late = scene.send_late(&mut asked).await;
    let token = scene.granted(&mut asked).await;
    let mut newer = scene.asker.request(RESOURCE, "A", TTL);
    let second = scene.granted(&mut newer).await;
    assert!(second > token);
    told_of(token, scene.arrives(late).await);
    scene.end(Some(second)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_copy_that_would_wait_takes_no_place_after_its_withdrawal() {
    let mut scene = Scene::of_three().await;
    let mut first = scene.asker.request(RESOURCE, "B", TTL);
    let token = scene.granted(&mut first).await;
    let mut asked = scene.asker.request_in_line(RESOURCE, "A", TTL, TTL);
    let late = scene.send_late(&mut asked).await;
    // No copy has arrived, so there is no place to leave: the withdrawal is for what comes later.
    let left = scene.asker.withdraw(&asked, PATIENCE).await;
    assert!(matches!(left, Outcome::Left(_)), "{left:?}");
    let told = scene.arrives(late).await;
    assert!(matches!(told, Ok(Outcome::Left(_))), "{told:?}");
    scene.released(&first, token).await;
    scene.end(None).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_copy_of_a_waiter_that_was_served_takes_no_place() {
    let mut scene = Scene::of_three().await;
    let mut first = scene.asker.request(RESOURCE, "B", TTL);
    let before = scene.granted(&mut first).await;
    let mut asked = scene.asker.request_in_line(RESOURCE, "A", TTL, TTL);
    let late = scene.send_late(&mut asked).await;
    // It waits under the later copy, until B gives it back.
    let mut giver = scene.second_asker();
    let leader = scene.cluster.calls(scene.cluster.ready().await);
    let served = async {
        eventually("A stands in line", PATIENCE, async || {
            let place = leader.place(RESOURCE, "A").await.ok()?;
            (place == (1, 1)).then_some(())
        })
        .await;
        giver.release(&first, before, PATIENCE).await
    };
    let (outcome, released) = tokio::join!(scene.asker.acquire(&mut asked, PATIENCE), served);
    assert_eq!(released, Outcome::Released);
    let Outcome::Granted(granted) = outcome else {
        panic!("A was not served: {outcome:?}");
    };
    assert!(granted.after_wait && granted.token > before);
    scene.released(&asked, granted.token).await;
    let mut next = scene.asker.request(RESOURCE, "C", TTL);
    let successor = scene.granted(&mut next).await;
    told_of(granted.token, scene.arrives(late).await);
    scene.end(Some(successor)).await;
}

/// CurvineIO/curvine#676 and its kind: what is known of request ids outlives snapshots, restarts from
/// them, and changes of the leader.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_copy_after_snapshots_restarts_and_a_failover_grants_nothing() {
    let mut cluster = Cluster::planned(3).await;
    cluster.set("snapshot-entries", "100");
    cluster.start_all();
    let mut scene = Scene::new(cluster).await;
    let mut asked = scene.asker.request(RESOURCE, "A", TTL);
    let late = scene.send_late(&mut asked).await;
    let token = scene.granted(&mut asked).await;
    scene.released(&asked, token).await;

    // Past snapshots of which the log no longer has the entries.
    for number in 0..130 {
        let mut other = scene.asker.request(&format!("other-{number}"), "A", TTL);
        let token = scene.granted(&mut other).await;
        scene.released(&other, token).await;
    }
    scene.cluster.kill_all();
    scene.cluster.start_all();
    let leader = scene.cluster.ready().await;
    if leader != scene.node {
        // The leader is gone for good: another one must know, from its own snapshot.
        scene.cluster.kill(leader);
        assert_ne!(scene.cluster.leader().await, leader);
    }
    told_of(token, scene.arrives(late).await);
    scene.end(None).await;
}

/// The memory of settled request ids has a window: 131,072 later ones push an id out. A copy that
/// arrives after that is not known, and must not pass for a new request: it says when it was asked.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_late_copy_after_the_window_of_known_ids_fails_and_grants_nothing() {
    // One node, since what is to be seen is one state machine that is driven as fast as it goes.
    let mut cluster = Cluster::planned(1).await;
    cluster.start_all();
    let mut scene = Scene::new(cluster).await;
    let mut asked = scene.asker.request(RESOURCE, "A", TTL);
    let late = scene.send_late(&mut asked).await;
    let token = scene.granted(&mut asked).await;
    scene.released(&asked, token).await;

    // Refusals settle at once.
    let mut other = scene.asker.request("other", "A", 10 * TTL);
    scene.granted(&mut other).await;
    let began = Instant::now();
    let refused = settle(scene.cluster.place.client(1), WINDOW + 1_000).await;
    println!("{refused} ids settled in {:?}", began.elapsed());
    let told = scene.arrives(late).await.unwrap_err();
    assert_eq!(told.code(), tonic::Code::Aborted, "{told:?}");
    scene.end(None).await;
}

/// How many later ids a settled one outlives.
const WINDOW: u64 = 1 << 17;

/// Has so many acquires of `other` refused, all on one stream; gives how many were.
async fn settle(node: SocketAddr, ids: u64) -> u64 {
    const IN_FLIGHT: usize = 200;
    let mut issuer = IssuerClient::connect(format!("http://{node}"))
        .await
        .unwrap();
    let (asks, asked) = tokio::sync::mpsc::channel(IN_FLIGHT);
    let stream = issuer.pipeline(ReceiverStream::new(asked)).await.unwrap();
    let mut answers = stream.into_inner();
    let mut next = (0..ids).map(|id| PipelineRequest {
        id,
        timeout_ms: 60_000,
        operation: Some(Operation::Acquire(AcquireRequest {
            resource: "other".into(),
            holder: "B".into(),
            ttl_ms: 60_000,
            request_id: id.to_be_bytes().to_vec().into(),
            ..AcquireRequest::default()
        })),
    });
    for ask in next.by_ref().take(IN_FLIGHT) {
        asks.send(ask).await.unwrap();
    }
    let mut refused = 0;
    while refused < ids {
        let answer = answers
            .message()
            .await
            .unwrap()
            .expect("the stream goes on");
        match answer.answer {
            Some(Answer::Acquire(_)) => refused += 1,
            other => panic!("{} after {refused} refusals: {other:?}", answer.id),
        }
        if let Some(ask) = next.next() {
            asks.send(ask).await.unwrap();
        }
    }
    refused
}
