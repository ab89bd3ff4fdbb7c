//! The streams over one connection: opened when there is need, forgotten when they have ended.

use super::pipe::{Entered, Pipe};
use super::{Class, Missed};
use crate::client::clock::Clock;
use crate::wire::v1::pipeline_request::Operation;
use crate::wire::v1::pipeline_response::Answer;
use std::pin::pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use tokio::time::sleep;
use tonic::transport::Channel;

/// One connection to a node, and the streams over it.
pub(crate) struct Lane {
    channel: Channel,
    clock: Arc<dyn Clock>,
    /// Those that are open; all but the first exist for the waits that it has no room for.
    pipes: Mutex<Vec<Arc<Pipe>>>,
}

impl Lane {
    pub(crate) fn new(channel: Channel, clock: Arc<dyn Clock>) -> Self {
        Self {
            channel,
            clock,
            pipes: Mutex::default(),
        }
    }

    /// The connection, for calls that no stream carries.
    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// Carries `operation` out and gives its answer, which takes at most `limit`. Dropping the future
    /// takes the operation back if it has not left yet; a wait that has left goes on taking room until
    /// the node answers it, because the node has it in flight.
    pub(crate) async fn call(
        &self,
        class: Class,
        operation: Operation,
        limit: Duration,
    ) -> Result<Answer, Missed> {
        let mut time_is_up = pin!(sleep(limit));
        let mut entered = tokio::select! {
            biased;
            entered = self.enter(class, operation, limit) => entered,
            () = &mut time_is_up => return Err(Missed::Silent { sent: false }),
        };
        tokio::select! {
            biased;
            answer = entered.answer() => answer,
            () = &mut time_is_up => Err(Missed::Silent { sent: entered.give_up(self.clock.now()) }),
        }
    }

    /// Waits for room, and leaves `operation` to be sent.
    async fn enter(&self, class: Class, mut operation: Operation, limit: Duration) -> Entered {
        loop {
            let pipe = self.pipe(class);
            match pipe.enter(class, operation, limit, &*self.clock).await {
                Ok(entered) => return entered,
                // It ended in the meantime: the next one is new.
                Err(back) => operation = back,
            }
        }
    }

    /// An open stream for an operation of `class`; for a wait, a place on it is taken.
    fn pipe(&self, class: Class) -> Arc<Pipe> {
        // The list is whole after each of its changes, so a panic elsewhere leaves it so.
        let mut pipes = self.pipes.lock().unwrap_or_else(PoisonError::into_inner);
        pipes.retain(|pipe| pipe.is_open());
        let fits = |pipe: &&Arc<Pipe>| class != Class::Wait || pipe.take_waiting_room();
        if let Some(pipe) = pipes.iter().find(fits) {
            return Arc::clone(pipe);
        }
        let pipe = Pipe::open(self.channel.clone());
        pipes.push(Arc::clone(&pipe));
        fits(&&pipe);
        pipe
    }
}

impl Drop for Lane {
    /// Nobody can be waiting for an answer any more: a call borrows the lane.
    fn drop(&mut self) {
        let pipes = self.pipes.get_mut().unwrap_or_else(PoisonError::into_inner);
        for pipe in pipes {
            pipe.abandon("the client is gone");
        }
    }
}
