//! The half of a stream that leads out.

use std::{
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
    vec,
};

use tokio::{
    sync::mpsc::UnboundedReceiver,
    task::{JoinError, JoinHandle},
};
use tokio_stream::Stream;
use tonic::Status;

use super::{Batch, Leaving, Room};
use crate::wire::v1::PipelineResponse;

/// The answers of one stream, as the transport takes them. Dropped when the caller is gone; the task
/// behind them ends with it.
#[derive(Debug)]
pub struct Answers {
    batches: UnboundedReceiver<Batch>,
    leaving: vec::IntoIter<Leaving>,
    room: Arc<Room>,
    task: JoinHandle<Result<(), Status>>,
    over: bool,
}

impl Answers {
    /// Unbounded as the channel is, it holds no more than the room lets in.
    pub(super) fn new(
        batches: UnboundedReceiver<Batch>,
        room: Arc<Room>,
        task: JoinHandle<Result<(), Status>>,
    ) -> Self {
        Answers {
            batches,
            leaving: Vec::new().into_iter(),
            room,
            task,
            over: false,
        }
    }
}

impl Drop for Answers {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Stream for Answers {
    type Item = Result<PipelineResponse, Status>;

    fn poll_next(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        loop {
            if let Some(Leaving { response, share }) = self.leaving.next() {
                self.room.give_back(share);
                return Poll::Ready(Some(Ok(response)));
            }
            if self.over {
                return Poll::Ready(None);
            }
            match ready!(self.batches.poll_recv(context)) {
                Some(batch) => self.leaving = batch.into_iter(),
                None => {
                    let ended = ready!(Pin::new(&mut self.task).poll(context));
                    self.over = true;
                    return Poll::Ready(last_word(ended).map(Err));
                }
            }
        }
    }
}

/// How the stream ends: well, unless there is a status.
fn last_word(ended: Result<Result<(), Status>, JoinError>) -> Option<Status> {
    match ended {
        Ok(ended) => ended.err(),
        Err(gone) => {
            tracing::error!(error = %gone, "the task of a pipeline ended before its time");
            Some(Status::internal(
                "this node could not go on with the stream",
            ))
        }
    }
}
