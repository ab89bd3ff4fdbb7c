//! What a run prints: how much happened, and how long nobody was granted anything after each fault.

use std::{fs, path::Path, time::Duration};

use super::{client::Shared, nemesis::Done, schedule::What};
use crate::{
    checks::Evidence,
    history::{
        Call, Moment, Outcome,
        audit::{Event, Kind},
        watched::Watched,
    },
};

/// Counts of a run, printed and held against what must happen.
#[derive(Debug)]
pub(crate) struct Counts {
    pub(crate) grants: u64,
    pub(crate) refused: u64,
    pub(crate) renewals: u64,
    pub(crate) unknown: u64,
    pub(crate) expiries: u64,
    pub(crate) superseded: u64,
    /// Terms in which something was applied.
    pub(crate) terms: u64,
    pub(crate) snapshots_installed: u64,
    /// Restarts that began from a snapshot.
    pub(crate) snapshots_loaded: u64,
    /// Grants that came from the queue.
    pub(crate) hand_overs: u64,
    pub(crate) withdrawn: u64,
    pub(crate) waited_out: u64,
    pub(crate) detached: u64,
    /// Leases of the client library that it renewed.
    pub(crate) kept: u64,
    /// Streams of watchers after their first.
    pub(crate) resumes: u64,
    /// Events that watchers were told.
    pub(crate) watched: u64,
    /// What the guard register said to tokens, and how often a mark rose.
    pub(crate) admitted: u64,
    pub(crate) stale: u64,
    pub(crate) marks: u64,
}

impl Counts {
    pub(crate) fn of(evidence: &Evidence) -> Self {
        let operations = |wanted: fn(&Outcome) -> bool| {
            evidence
                .operations
                .iter()
                .filter(|op| wanted(&op.outcome))
                .count() as u64
        };
        let lines = || evidence.audits.iter().flat_map(|audit| &audit.lines);
        let terms: std::collections::BTreeSet<u64> = lines()
            .filter(|line| line.kind != Kind::Start)
            .map(|line| line.term)
            .collect();
        let log = &evidence.applied;
        let left = |how: &str| {
            let so = |(_, event): &&(u64, Event)| event.event == "left" && event.how == how;
            log.events.iter().filter(so).count() as u64
        };
        let kept = log.grants.iter().filter(|grant| {
            grant.holder.starts_with("library-") && log.renewals.contains_key(&grant.token)
        });
        let told = evidence.watched.iter().flat_map(|watched| &watched.told);
        Self {
            grants: operations(|outcome| matches!(outcome, Outcome::Granted(_))),
            refused: operations(|outcome| {
                matches!(outcome, Outcome::Refused(_) | Outcome::Held(_))
            }),
            renewals: operations(|outcome| matches!(outcome, Outcome::Renewed)),
            unknown: operations(|outcome| matches!(outcome, Outcome::Unknown(_))),
            expiries: evidence.applied.expiries.len() as u64,
            superseded: evidence.applied.superseded,
            terms: terms.len() as u64,
            snapshots_installed: lines().filter(|line| line.kind == Kind::Snapshot).count() as u64,
            snapshots_loaded: lines()
                .filter(|l| l.kind == Kind::Start && l.index > 0)
                .count() as u64,
            hand_overs: log.grants.iter().filter(|grant| grant.after_wait).count() as u64,
            withdrawn: left("withdrawn"),
            waited_out: left("waited_out"),
            detached: left("detached"),
            kept: kept.count() as u64,
            resumes: evidence.watched.iter().map(Watched::resumes).sum(),
            admitted: operations(|outcome| *outcome == Outcome::Admitted),
            stale: operations(|outcome| matches!(outcome, Outcome::Stale(_))),
            marks: log
                .events
                .iter()
                .filter(|(_, event)| event.event == "admitted")
                .count() as u64,
            watched: told.map(|told| told.facts.len() as u64).sum(),
        }
    }
}

/// For each fault, the longest time between two grants that touches it, counted from the fault on. A
/// time that the next fault lies in is the next one's.
pub(crate) fn without_grants(evidence: &Evidence, faults: &[Done]) -> Vec<(Done, Duration)> {
    let mut returns: Vec<Moment> = evidence
        .operations
        .iter()
        .filter(|op| matches!(op.call, Call::Acquire { .. }) && op.granted().is_some())
        .filter_map(|op| op.returned)
        .collect();
    returns.sort_unstable();
    let ends = faults
        .iter()
        .skip(1)
        .map(|next| next.began)
        .chain([Moment::MAX]);
    let longest = |fault: &Done, end: Moment| {
        let touched = returns
            .windows(2)
            .filter(|pair| pair[1] > fault.began && pair[1] <= end);
        touched
            .map(|pair| pair[1] - pair[0].max(fault.began))
            .max()
            .unwrap_or_default()
    };
    faults
        .iter()
        .zip(ends)
        .map(|(fault, end)| (*fault, longest(fault, end)))
        .collect()
}

/// Prints a run.
pub(crate) fn print(evidence: &Evidence, counts: &Counts, faults: &[Done], shared: &Shared) {
    println!("operations     {}", evidence.operations.len());
    println!("faults         {}", faults.len());
    println!("grants         {}", counts.grants);
    println!("entries        {}", evidence.applied.entries);
    println!("open calls     {}", counts.unknown);
    println!("{counts:?}");
    let lost = shared.lost.load(std::sync::atomic::Ordering::Relaxed);
    println!("handles lost   {lost}");
    let came_back = shared.came_back.load(std::sync::atomic::Ordering::Relaxed);
    println!("came back      {came_back}");
    for watched in &evidence.watched {
        println!(
            "watcher {} of {:?}: up to {} on {} streams{}",
            watched.watcher,
            watched.prefix,
            watched.reached(),
            watched.resumes() + 1,
            if watched.lost {
                ", then history lost"
            } else {
                ""
            },
        );
    }
    let gaps = without_grants(evidence, faults);
    println!("time without grants after each fault:");
    for (done, gap) in &gaps {
        let (began, healed) = (done.began.as_secs_f64(), done.healed.as_secs_f64());
        println!(
            "  {began:7.2} s to {healed:7.2} s  {:6} ms  {}",
            gap.as_millis(),
            done.fault
        );
    }
    let mut leader_kills: Vec<Duration> = gaps
        .iter()
        .filter(|(done, _)| done.fault.what == What::KillLeader)
        .map(|(_, gap)| *gap)
        .collect();
    leader_kills.sort_unstable();
    if let Some(median) = leader_kills.get(leader_kills.len() / 2) {
        println!(
            "median after kill -9 of the leader: {} ms",
            median.as_millis()
        );
    }
}

/// Writes down what the callers saw, beside what the nodes wrote: a run that failed is looked into with
/// both.
pub(crate) fn keep_operations(evidence: &Evidence, path: &Path) {
    let lines = evidence.operations.iter().map(|op| format!("{op:?}\n"));
    fs::write(path, lines.collect::<String>()).unwrap();
}
