//! The chaos test: real processes that are killed, paused and starved under load, and a recorded
//! history that is judged afterwards.
//!
//! `FENCEPOST_CHAOS_SEED` repeats a schedule, `FENCEPOST_SOAK_SECS` goes on with round after round for
//! that long. What it does not cover: network partitions, clocks that run at different rates, disks
//! that lose what was synced. A pass means that nothing was observed under the listed faults.

pub(crate) mod client;
mod nemesis;
mod report;
mod schedule;

use std::{
    env,
    sync::atomic::Ordering,
    time::{Duration, Instant, SystemTime, UNIX_EPOCH},
};

use self::{
    client::{RESOURCES, Shared, resource},
    nemesis::{Done, Nemesis},
    report::Counts,
    schedule::What,
};
use crate::{
    asking::Asker,
    checks::{Evidence, Facts, Sometime},
    dice::Dice,
    history::{Outcome, audit::NodeAudit, recorder::Recorder},
    nodes::{Cluster, calls::Calls},
    waiting::PATIENCE,
};

const CLIENTS: u32 = 16;

/// The deadline of one send. It bounds from below what a stopped node costs those who asked it.
const SEND_DEADLINE: Duration = Duration::from_millis(400);

/// How long a resource may take to be granted again, beside what is left of a live lease.
const RECOVERY_BOUND: Duration = Duration::from_secs(10);

fn number_from(variable: &str) -> Option<u64> {
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
    let clients: Vec<_> = (1..=CLIENTS)
        .map(|client| {
            tokio::spawn(client::work(
                asker(&cluster, &recorder, &dice, client),
                shared.clone(),
            ))
        })
        .collect();

    let (calm_rate, faults) = hurt(&mut cluster, &recorder, &shared, &dice).await;

    let healed = recorder.now();
    shared.stop.store(true, Ordering::Relaxed);
    for client in clients {
        client.await.expect("a client of the run panicked");
    }
    probe(asker(&cluster, &recorder, &dice, CLIENTS + 1)).await;
    cluster.caught_up().await;
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
    let counts = Counts::of(&evidence);
    evidence.facts.sometimes = must_have_happened(&counts, &faults, &shared, calm_rate);
    report::print(&evidence, &counts, &faults);
    let green = evidence.judge();
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

fn asker(cluster: &Cluster, recorder: &Recorder, dice: &Dice, client: u32) -> Asker {
    let nodes = cluster
        .founders()
        .map(|node| Calls::to(cluster.place.client(node), SEND_DEADLINE));
    Asker::new(
        client,
        nodes.collect(),
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
    let wanted: [(&'static str, u64, u64); 12] = [
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
