//! What watchers go by: how far the history has come, and whether this node still hears what happens.
//!
//! A node that has lost its leader learns of nothing and would leave its watchers waiting for ever
//! (etcd#8980). It ends them instead, within two election timeouts, so that they go on elsewhere.

use std::{sync::Arc, time::Duration};

use tokio::time::MissedTickBehavior;

use super::History;
use crate::server::{
    clock,
    raft::{RaftNode, Touch},
};

/// How often the node looks whether it is still in touch: well within the shortest sensible election
/// timeout, and nothing beside the heartbeats.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Why the watches of a node end, all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// It has heard from no leader, or as the leader from no majority, for two election timeouts.
    OutOfTouch,
    /// It stops.
    Stopping,
}

/// How the history of a node is. Changes with every batch of applied entries.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Pulse {
    /// The last index that was applied here.
    pub applied: u64,
    /// Watches end, for as long as this is so.
    pub ending: Option<Ending>,
}

impl History {
    /// From here on there are no watches on this node.
    pub fn stop(&self) {
        self.beat(|pulse| pulse.ending = Some(Ending::Stopping));
    }

    fn beat(&self, change: impl FnOnce(&mut Pulse)) {
        self.pulse.send_if_modified(|pulse| {
            let before = *pulse;
            change(pulse);
            *pulse != before
        });
    }

    /// Takes over how far the history has come.
    fn advance(&self) {
        let applied = self.kept().applied;
        self.beat(|pulse| pulse.applied = applied);
    }

    /// Takes over whether this node is in touch with its cluster.
    pub fn touch(&self, touch: Touch) {
        self.beat(|pulse| {
            pulse.ending = match (pulse.ending, touch) {
                (Some(Ending::Stopping), _) => Some(Ending::Stopping),
                (_, Touch::InTouch) => None,
                (_, Touch::NoLeader | Touch::NoQuorum) => Some(Ending::OutOfTouch),
            }
        });
    }
}

/// Keeps the pulse of a node, for as long as the node runs.
pub async fn run(history: Arc<History>, raft: RaftNode) {
    let mut look = tokio::time::interval(LOOK_EVERY);
    look.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        tokio::select! {
            () = history.told.notified() => history.advance(),
            _ = look.tick() => history.touch(raft.touch_closely(clock::now())),
        }
    }
}
