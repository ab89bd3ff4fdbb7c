//! The requests of one stream, as the connection takes them.

use super::pipe::Pipe;
use crate::wire::v1::PipelineRequest;
use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use tokio_stream::Stream;

/// Whatever waits to be sent is taken in one go when the connection has room, so that it leaves in few
/// frames and writes; what does not fit stays with the callers, who then wait for room in turn.
pub(super) struct Outgoing {
    pipe: Arc<Pipe>,
    taken: VecDeque<PipelineRequest>,
}

impl Outgoing {
    pub(super) fn new(pipe: Arc<Pipe>) -> Self {
        Self {
            pipe,
            taken: VecDeque::new(),
        }
    }
}

impl Stream for Outgoing {
    type Item = PipelineRequest;

    fn poll_next(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Option<Self::Item>> {
        let this = self.get_mut();
        if this.taken.is_empty() && !this.pipe.take_requests(&mut this.taken, context) {
            return Poll::Ready(None);
        }
        match this.taken.pop_front() {
            Some(request) => Poll::Ready(Some(request)),
            None => Poll::Pending,
        }
    }
}
