//! `Pipeline`: all operations of a client on one stream, many in flight, answered as they are ready.
//!
//! An operation takes the way of a call of its own ([`Api::carry_out`]); only how it comes in and how
//! its answer leaves are different. One task for a stream reads requests and drives every operation, so
//! that an operation costs neither a task nor an HTTP/2 stream, and those that are ready together leave
//! together.
//!
//! What a stream can make the node keep is bounded by its [`Room`]: an operation takes its share when it
//! is read, and gives it back when its answer has left. Without room the stream is not read, and HTTP/2
//! holds its caller back; so a caller that does not take its answers stalls itself alone. Waits in line
//! last long, and must not hold back a renewal behind them (hyper#3559): they have a number of their
//! own, and one too many is refused.
//!
//! The operations run in a task of their own and not where the answers are taken, so that those of a
//! caller who takes none do not stop half-way, holding a place in some queue that others wait in.

mod answers;
mod operation;
mod room;
mod work;

use std::{sync::Arc, time::Duration};

use tokio::sync::mpsc;
use tonic::{Status, Streaming};

use super::{Api, propose::stopping};
use crate::wire::v1::{PipelineRequest, PipelineResponse};
use room::{Room, Share};
use work::Work;

pub(super) use answers::Answers;
pub use room::PipelineLimits;

/// How long operations in flight may still take once the node stops: a few commits.
const LAST_ANSWERS_MAX: Duration = Duration::from_secs(1);

/// An answer on its way out, and what it gives back once it has left.
#[derive(Debug)]
struct Leaving {
    response: PipelineResponse,
    share: Share,
}

/// Answers that were ready together.
type Batch = Vec<Leaving>;

impl Api {
    /// Serves one stream. Dropping the answers ends it, and whatever is under way on it.
    pub(super) fn serve_pipeline(&self, requests: Streaming<PipelineRequest>) -> Answers {
        let (out, batches) = mpsc::unbounded_channel();
        let room = Arc::new(Room::new(Arc::clone(&self.calls), self.pipeline_limits));
        let task = tokio::spawn(run(self.clone(), requests, Arc::clone(&room), out));
        Answers::new(batches, room, task)
    }
}

/// Works until the caller has closed its half and everything is answered, or until the node stops. What
/// it returns is how the stream ends.
async fn run(
    api: Api,
    requests: Streaming<PipelineRequest>,
    room: Arc<Room>,
    out: mpsc::UnboundedSender<Batch>,
) -> Result<(), Status> {
    let start = |request, share| operation::carry_out(&api, request, share);
    // The runtime gives a task a budget of 128 steps; whatever this one polls beyond them is put off until
    // after everything that is new by then, so that under load an operation could wait for seconds while
    // thousands pass it. `Work` has bounds of its own.
    let work = tokio::task::unconstrained(Work::new(&api, requests, &room, out, start));
    let overdue = async {
        api.draining.cancelled().await;
        tokio::time::sleep(LAST_ANSWERS_MAX).await;
    };
    tokio::select! {
        ended = work => ended,
        // What is not answered by now is unknown to the caller, as after any lost connection.
        () = overdue => Err(stopping().into_status()),
    }
}
