//! The chaos test: real processes that are killed, paused and starved under load, and a recorded
//! history that is judged afterwards.
//!
//! `FENCEPOST_CHAOS_SEED` repeats a schedule, `FENCEPOST_SOAK_SECS` goes on with round after round for
//! that long. What it does not cover: network partitions, clocks that run at different rates, disks
//! that lose what was synced. A pass means that nothing was observed under the listed faults.

pub(crate) mod client;
mod guards;
mod in_line;
mod keeper;
mod nemesis;
mod report;
mod schedule;
mod watcher;

use std::{
    env,
    sync::atomic::Ordering,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use tokio::task::JoinHandle;

use self::{
    client::{RESOURCES, Shared, resource},
    guards::RegisterGuard,
    keeper::Holding,
    nemesis::{Done, Nemesis},
    report::Counts,
    schedule::What,
    watcher::Watcher,
};
use crate::{
    asking::Asker,
    checks::{Evidence, Facts, Sometime},
    dice::Dice,
    history::{Outcome, audit::NodeAudit, recorder::Recorder, watched::Watched},
    nodes::{Cluster, calls::Calls},
    waiting::PATIENCE,
};

/// Clients that speak to the nodes themselves.
const CLIENTS: u32 = 14;

/// Clients that hold through the client library.
const LIBRARY_CLIENTS: u32 = 4;

/// Guards that keep their marks in the cluster's own register.
const GUARDS: u32 = 3;

/// What is watched, each by one watcher: everything, and the resources that are asked for most.
const WATCHED: [&str; 3] = ["", "resource-1", "resource-"];

/// The deadline of one send. It bounds from below what a stopped node costs those who asked it.
const SEND_DEADLINE: Duration = Duration::from_millis(400);

/// The number of the client that holds one resource for long.
const HOG: u32 = 98;

/// The number of the client that asks for every resource in the end.
const PROBE: u32 = 99;

/// How long a resource may take to be granted again, beside what is left of a live lease.
const RECOVERY_BOUND: Duration = Duration::from_secs(10);

pub(crate) fn number_from(variable: &str) -> Option<u64> {
    let text = env::var(variable).ok()?;
    Some(
        text.parse()
            .unwrap_or_else(|_| panic!("{variable} must be a number, not {text:?}")),
    )
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn killing_the_leader_again_and_again_never_breaks_a_promise() {
    let now = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap()
        .as_secs();
    let seed = number_from("FENCEPOST_CHAOS_SEED").unwrap_or(now);
    println!("FENCEPOST_CHAOS_SEED={seed} repeats this schedule");
    let dice = Dice::new(seed);

    let mut cluster = Cluster::planned_alone(3).await;
    // Small, so that snapshots are made, loaded and sent within the run.
    cluster.set("snapshot-entries", "400");
    cluster.start_all();
    cluster.ready().await;

    let recorder = Recorder::new();
    let shared = Shared::default();
    let mut busy = clients(&cluster, &recorder, &shared, &dice);
    busy.extend(keepers(&cluster, &recorder, &shared, &dice));
    busy.extend(guards(&cluster, &recorder, &shared, &dice));
    let watchers = watchers(&cluster, &shared, &dice).await;

    let (calm_rate, faults) = hurt(&mut cluster, &recorder, &shared, &dice).await;

    let healed = recorder.now();
    shared.stop.store(true, Ordering::Relaxed);
    for client in busy {
        client.await.expect("a client of the run panicked");
    }
    probe(asker(&cluster, &recorder, &dice, PROBE)).await;
    let last = cluster.caught_up().await;
    let watched = ended(watchers, &shared, last).await;
    let needed_a_hand = stop_all(&mut cluster).await;

    let audits = cluster
        .founders()
        .map(|node| NodeAudit::read(node, &cluster.place.audit(node)).unwrap());
    let facts = Facts {
        healed: Some(healed),
        resources: (0..RESOURCES).map(resource).collect(),
        recovery_bound: RECOVERY_BOUND,
        needed_a_hand,
        sometimes: Vec::new(),
    };
    let mut evidence = Evidence::new(recorder.history(), audits.collect(), facts);
    evidence.watched = watched;
    let counts = Counts::of(&evidence);
    evidence.facts.sometimes = must_have_happened(&counts, &faults, &shared, calm_rate);
    report::print(&evidence, &counts, &faults, &shared);
    let green = evidence.judge();
    if !green {
        report::keep_operations(&evidence, &cluster.place.dir().join("operations.txt"));
    }
    let contradictions = shared.contradictions.lock().unwrap().clone();
    assert_eq!(
        contradictions,
        Vec::<String>::new(),
        "requests that were answered in two ways"
    );
    assert!(
        green,
        "seed {seed}: a check was broken or could not be judged; all of them are printed above"
    );
    println!(
        "none observed under the listed faults, {} operations, seed {seed}",
        evidence.operations.len()
    );
}

/// Clients that speak to the nodes themselves, and the one that holds a resource for long.
fn clients(
    cluster: &Cluster,
    recorder: &Recorder,
    shared: &Shared,
    dice: &Dice,
) -> Vec<JoinHandle<()>> {
    let asker = |number| asker(cluster, recorder, dice, number);
    let client = |number| tokio::spawn(client::work(asker(number), shared.clone()));
    let hog = tokio::spawn(in_line::hog(asker(HOG), shared.clone()));
    (1..=CLIENTS).map(client).chain([hog]).collect()
}

/// Clients of the client library, with background renewals.
fn keepers(
    cluster: &Cluster,
    recorder: &Recorder,
    shared: &Shared,
    dice: &Dice,
) -> Vec<JoinHandle<()>> {
    let keeper = |number: u32| {
        let holding = Holding {
            number: CLIENTS + number,
            recorder: recorder.clone(),
            dice: dice.fork(u64::from(CLIENTS + number)),
        };
        tokio::spawn(holding.work(cluster.endpoints(), shared.clone()))
    };
    (1..=LIBRARY_CLIENTS).map(keeper).collect()
}

/// Guards to which whatever was granted is shown, new or old.
fn guards(
    cluster: &Cluster,
    recorder: &Recorder,
    shared: &Shared,
    dice: &Dice,
) -> Vec<JoinHandle<()>> {
    let guard = |number: u32| {
        let guard = RegisterGuard {
            number: 200 + number,
            nodes: calls(cluster),
            recorder: recorder.clone(),
            dice: dice.fork(u64::from(200 + number)),
        };
        tokio::spawn(guard.work(shared.clone()))
    };
    (1..=GUARDS).map(guard).collect()
}

/// Watchers of what comes from now on.
async fn watchers(cluster: &Cluster, shared: &Shared, dice: &Dice) -> Vec<JoinHandle<Watched>> {
    let status = cluster.status(cluster.leader().await).await;
    let header = status
        .and_then(|status| status.header)
        .expect("the leader says who it is");
    let from = (header.cluster_id, header.applied_index);
    let mut watchers = Vec::new();
    for (number, prefix) in (1..).zip(WATCHED) {
        let dice = dice.fork(1_000 + u64::from(number));
        let watcher = Watcher::new(number, calls(cluster), dice, prefix, from.clone());
        watchers.push(tokio::spawn(watcher.follow(shared.clone())));
    }
    watchers
}

/// Waits until every watcher has been told of the run's last entry.
async fn ended(watchers: Vec<JoinHandle<Watched>>, shared: &Shared, last: u64) -> Vec<Watched> {
    shared.watch_until.store(last, Ordering::Relaxed);
    let mut watched = Vec::new();
    for watcher in watchers {
        let told = tokio::time::timeout(PATIENCE, watcher).await;
        watched.push(
            told.expect("a watcher is told of the last entry in time")
                .unwrap(),
        );
    }
    watched
}

fn calls(cluster: &Cluster) -> Vec<Calls> {
    cluster
        .founders()
        .map(|node| Calls::to(cluster.place.client(node), SEND_DEADLINE))
        .collect()
}

fn asker(cluster: &Cluster, recorder: &Recorder, dice: &Dice, client: u32) -> Asker {
    Asker::new(
        client,
        calls(cluster),
        recorder.clone(),
        dice.fork(u64::from(client)),
    )
}

/// Carries out one round of faults, and further ones while a soak lasts. Gives the operations a
/// second before the first fault, and what was done.
async fn hurt(
    cluster: &mut Cluster,
    recorder: &Recorder,
    shared: &Shared,
    dice: &Dice,
) -> (u64, Vec<Done>) {
    let soak = Duration::from_secs(number_from("FENCEPOST_SOAK_SECS").unwrap_or(0));
    let began = Instant::now();
    let mut nemesis = Nemesis {
        cluster,
        recorder,
        shared,
    };
    let calm_rate = nemesis.undisturbed(Duration::from_secs(3)).await;
    let mut schedule = dice.fork(0);
    let mut faults = Vec::new();
    loop {
        for fault in schedule::round(&mut schedule) {
            faults.push(nemesis.carry_out(fault).await);
        }
        if began.elapsed() >= soak {
            return (calm_rate, faults);
        }
    }
}

/// Asks for every resource until it is granted, as somebody who was not there before.
async fn probe(mut asker: Asker) {
    for number in 0..RESOURCES {
        let deadline = Instant::now() + RECOVERY_BOUND + PATIENCE;
        loop {
            let mut asked = asker.request(&resource(number), "probe", Duration::from_secs(60));
            if let Outcome::Granted(_) = asker.acquire(&mut asked, Duration::from_secs(2)).await {
                break;
            }
            // That it never comes is for RECOVERY to say.
            if Instant::now() >= deadline {
                break;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    }
}

/// Ends the nodes as an operator would, followers first; anything but a clean end needs a hand.
async fn stop_all(cluster: &mut Cluster) -> Vec<String> {
    let leader = cluster.leader().await;
    let mut nodes: Vec<u64> = cluster.founders().collect();
    nodes.sort_by_key(|node| *node == leader);
    let mut needed_a_hand = Vec::new();
    for node in nodes {
        let code = cluster.terminate(node).await;
        if code != 0 {
            needed_a_hand.push(format!("node {node} ended with {code} after SIGTERM"));
        }
    }
    needed_a_hand
}

fn must_have_happened(
    counts: &Counts,
    faults: &[Done],
    shared: &Shared,
    calm_rate: u64,
) -> Vec<Sometime> {
    let times = |what| faults.iter().filter(|done| done.fault.what == what).count() as u64;
    let replays = shared.replays.load(Ordering::Relaxed);
    let came_back = shared.came_back.load(Ordering::Relaxed);
    let wanted: [(&'static str, u64, u64); 23] = [
        ("kill -9 of the leader", times(What::KillLeader), 10),
        ("kill -9 of all nodes", times(What::KillAll), 3),
        ("SIGSTOP of the leader", times(What::PauseLeader), 2),
        ("leader changes", counts.terms.saturating_sub(1), 12),
        ("snapshots installed", counts.snapshots_installed, 1),
        ("restarts from a snapshot", counts.snapshots_loaded, 1),
        ("answers replayed for a known request id", replays, 10),
        ("refusals", counts.refused, 100),
        ("renewals", counts.renewals, 200),
        ("expiries", counts.expiries, 20),
        ("grants superseded", counts.superseded, 20),
        ("hand-overs to a waiter", counts.hand_overs, 100),
        ("waiters that came back and were granted", came_back, 5),
        ("waiters withdrawn", counts.withdrawn, 10),
        ("waiters that waited out", counts.waited_out, 5),
        ("waiters detached", counts.detached, 3),
        ("leases that the client library kept", counts.kept, 20),
        ("watches resumed", counts.resumes, 20),
        ("events watched", counts.watched, 2_000),
        ("tokens admitted by the register", counts.admitted, 300),
        ("marks of the register that rose", counts.marks, 100),
        ("tokens refused by the register", counts.stale, 100),
        ("operations a second before the first fault", calm_rate, 100),
    ];
    wanted
        .into_iter()
        .map(|(what, times, at_least)| Sometime {
            what,
            times,
            at_least,
        })
        .collect()
}
