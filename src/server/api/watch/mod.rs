//! Watch: what happens, told from this node's own history.
//!
//! Any node tells what it has applied itself; the leader is asked only where "now" is. A watch is a
//! cursor and a filter, and reads when its reader does: HTTP/2 flow control is the only buffer that
//! grows, and it is bounded by the reader's own window.

mod asked;
mod event;
mod position;
mod watcher;

use std::{
    pin::Pin,
    time::{Duration, Instant},
};

use futures_util::{Stream, stream};
use tonic::{Request, Response, Status};

use super::{Api, deadline, propose::stopping};
use crate::{
    server::{
        clock,
        history::{Ending, Full, Lost},
    },
    wire::{
        failure::{Failure, Reason},
        v1,
    },
};
use asked::{Cursor, WatchAsked};
use watcher::Watcher;

pub(super) use position::Position;

/// What a watcher reads.
pub(super) type Watched = Pin<Box<dyn Stream<Item = Result<v1::WatchResponse, Status>> + Send>>;

impl Api {
    /// Opens a watch. Whatever can be told at once, a lost history above all, is the call's own answer.
    pub(super) async fn open_watch(
        &self,
        request: Request<v1::WatchRequest>,
    ) -> Result<Response<Watched>, Status> {
        let began = clock::now();
        let deadline = deadline::of(deadline::named(request.metadata()), Duration::ZERO, began);
        let request = request.into_inner();
        let opened = self.begin(request, began, deadline).await;
        self.observe("Watch", clock::now().saturating_duration_since(began));
        let events = stream::unfold(opened?, async |mut watcher| {
            let told = watcher.next().await;
            told.map(|told| (told, watcher))
        });
        Ok(Response::new(Box::pin(events)))
    }

    async fn begin(
        &self,
        request: v1::WatchRequest,
        began: Instant,
        deadline: Instant,
    ) -> Result<Watcher, Status> {
        let asked = asked::watch(&request).map_err(|failure| self.failed(failure))?;
        let seat = self.history.seat();
        let seat = seat.map_err(|full| self.failed(too_many(full)))?;
        // The pulse looks a few times a second; a node that has just found its leader need not wait.
        self.history.touch(self.raft.touch_closely(began));
        if let Some(ending) = self.history.pulse().borrow().ending {
            return Err(self.failed(ended(ending)));
        }
        let after = match &asked.after {
            Some(cursor) => {
                let known = self.check_cursor(cursor, asked.filter.renewals);
                known.map_err(|failure| self.failed(failure))?
            }
            None => None,
        };
        // A cursor that is ahead of this node was seen on another one; or it is made up, or of a
        // history that the disks have lost. The leader knows.
        let after = match after {
            Some(index) => index,
            None => {
                let now = self.position(request, began, deadline).await?;
                match &asked.after {
                    None => now,
                    Some(cursor) if cursor.index <= now => cursor.index,
                    Some(cursor) => return Err(self.failed(self.ahead(cursor.index, now))),
                }
            }
        };
        Ok(Watcher::new(self, asked, after, seat))
    }

    /// Whether this node can go on from a cursor. `None`: it has not got there yet.
    fn check_cursor(&self, cursor: &Cursor, renewals: bool) -> Result<Option<u64>, Failure> {
        let own = self.cluster_id();
        if own.is_empty() {
            let message = "this node belongs to no cluster yet: try another one";
            return Err(Failure::new(Reason::NoLeader, message));
        }
        if cursor.cluster.to_string() != own {
            let oldest = self.history.facts().oldest;
            let message = format!(
                "the cursor is of the cluster {}, and this is {own}: nothing here follows what happened \
                 there",
                cursor.cluster
            );
            self.metrics.watches_lost.inc();
            return Err(Failure::new(Reason::HistoryLost, message).oldest(own, oldest));
        }
        match self.history.read(cursor.index, renewals, 0) {
            Ok(read) => Ok((cursor.index <= read.applied).then_some(cursor.index)),
            Err(gone) => {
                self.metrics.watches_lost.inc();
                Err(lost(
                    own,
                    gone,
                    "the cursor is older than the history kept here",
                ))
            }
        }
    }

    /// Where the cluster is now.
    async fn position(
        &self,
        mut request: v1::WatchRequest,
        began: Instant,
        deadline: Instant,
    ) -> Result<u64, Status> {
        let mark = self
            .answer::<Position>(&mut request, began, deadline)
            .await?;
        Ok(mark.cursor.map_or(0, |cursor| cursor.index))
    }

    fn ahead(&self, index: u64, now: u64) -> Failure {
        self.metrics.watches_lost.inc();
        let message = format!(
            "the cursor {index} is ahead of the cluster, which has come to {now}: it is not of this \
             cluster's history"
        );
        Failure::new(Reason::HistoryLost, message).oldest(self.cluster_id(), now)
    }
}

fn lost(cluster_id: String, lost: Lost, what: &str) -> Failure {
    let message = format!(
        "{what}: it reaches back to index {}. Look with List, and watch from the applied_index of its \
         header",
        lost.oldest
    );
    Failure::new(Reason::HistoryLost, message).oldest(cluster_id, lost.oldest)
}

fn ended(ending: Ending) -> Failure {
    match ending {
        Ending::OutOfTouch => Failure::new(
            Reason::NoLeader,
            "this node has lost touch with its cluster and learns of nothing: watch another node, from \
             the last cursor",
        ),
        Ending::Stopping => stopping(),
    }
}

fn too_many(full: Full) -> Failure {
    let message = format!(
        "{} watches are open on this node, the most that --max-watchers allows: close some, or watch \
         another node",
        full.max
    );
    Failure::new(Reason::Limit, message).retry_after(Duration::from_secs(1))
}
