//! Carries out a schedule: hurts the cluster, waits for what the fault is meant to bring about, heals
//! it, and waits until it is whole again.

use std::{
    sync::atomic::Ordering,
    time::{Duration, Instant},
};

use super::{
    client::Shared,
    schedule::{Fault, What},
};
use crate::{
    history::{Moment, recorder::Recorder},
    nodes::Cluster,
    waiting::{PATIENCE, eventually},
};

/// Grants that must come between one fault and the next, so that each hits a cluster at work.
const CALM_GRANTS: u64 = 25;

/// A fault that was carried out.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Done {
    pub(crate) fault: Fault,
    /// When it began and when it was healed.
    pub(crate) began: Moment,
    pub(crate) healed: Moment,
}

pub(crate) struct Nemesis<'a> {
    pub(crate) cluster: &'a mut Cluster,
    pub(crate) recorder: &'a Recorder,
    pub(crate) shared: &'a Shared,
}

impl Nemesis<'_> {
    /// One fault, from a whole cluster to a whole cluster.
    pub(crate) async fn carry_out(&mut self, fault: Fault) -> Done {
        let leader = self.cluster.ready().await;
        let followers: Vec<u64> = self
            .cluster
            .founders()
            .filter(|node| *node != leader)
            .collect();
        let began = self.recorder.now();
        match fault.what {
            What::KillLeader => self.cluster.kill(leader),
            What::KillAll => self.cluster.kill_all(),
            What::PauseLeader => self.cluster.process(leader).pause(),
            What::KillMajority => followers.iter().for_each(|node| self.cluster.kill(*node)),
            What::StarveFollower => self.starve(followers[0], leader).await,
        }
        // What the schedule asks for: the fault itself lasts, nothing is waited for here.
        tokio::time::sleep(fault.lasts).await;
        let others_can_grant = matches!(fault.what, What::KillLeader | What::PauseLeader);
        if others_can_grant && fault.until_grants {
            self.grants(1).await;
        }
        match fault.what {
            What::PauseLeader => self.cluster.process(leader).resume(),
            _ => self.cluster.start_all(),
        }
        let healed = self.recorder.now();
        self.cluster.ready().await;
        self.grants(CALM_GRANTS).await;
        Done {
            fault,
            began,
            healed,
        }
    }

    /// Keeps a follower down until the leader has dropped entries that it has not seen.
    async fn starve(&mut self, follower: u64, leader: u64) {
        let has = self
            .cluster
            .status(follower)
            .await
            .map_or(0, |status| status.last_log_index);
        self.cluster.kill(follower);
        eventually(
            "the leader drops what the follower lacks",
            2 * PATIENCE,
            async || {
                let status = self.cluster.status(leader).await?;
                (status.purged_index > has).then_some(())
            },
        )
        .await;
    }

    /// Waits for so many more grants.
    async fn grants(&self, more: u64) {
        let enough = self.shared.grants.load(Ordering::Relaxed) + more;
        eventually("grants go on", PATIENCE, async || {
            (self.shared.grants.load(Ordering::Relaxed) >= enough).then_some(())
        })
        .await;
    }

    /// Lets the clients work undisturbed, and gives the operations a second meanwhile.
    pub(crate) async fn undisturbed(&self, lasts: Duration) -> u64 {
        let (before, began) = (self.recorder.len(), Instant::now());
        tokio::time::sleep(lasts).await;
        let done = u64::try_from(self.recorder.len() - before).unwrap();
        done * 1_000 / u64::try_from(began.elapsed().as_millis()).unwrap().max(1)
    }
}
