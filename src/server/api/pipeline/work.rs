//! What one stream's task does: read, drive, hand out.

use std::{
    collections::HashSet,
    future::Future,
    pin::Pin,
    sync::Arc,
    task::{Context, Poll},
};

use futures_util::stream::{FuturesUnordered, StreamExt};
use tokio::sync::mpsc::UnboundedSender;
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::{Status, Streaming};

use super::{Batch, Leaving, Room, Share, operation};
use crate::{
    server::api::{Api, propose::stopping, unreadable::unreadable},
    wire::{
        failure::{Failure, Reason},
        v1::PipelineRequest,
    },
};

/// Requests that are read before other tasks have their turn.
const READ_AT_ONCE: usize = 64;

/// The task, as a future that is ready when the stream is to end.
pub(super) struct Work<'a, Start, Running> {
    api: &'a Api,
    requests: Streaming<PipelineRequest>,
    room: &'a Arc<Room>,
    out: UnboundedSender<Batch>,
    start: Start,
    under_way: FuturesUnordered<Running>,
    in_flight: HashSet<u64>,
    ready: Batch,
    /// The node stops: nothing is read any more.
    stopping: Pin<Box<WaitForCancellationFutureOwned>>,
    /// Nothing is read any more, and so the stream ends once everything is answered.
    end: Option<Result<(), Status>>,
}

impl<'a, Start, Running> Work<'a, Start, Running>
where
    Start: Fn(PipelineRequest, Share) -> Running,
    Running: Future<Output = Leaving>,
{
    pub(super) fn new(
        api: &'a Api,
        requests: Streaming<PipelineRequest>,
        room: &'a Arc<Room>,
        out: UnboundedSender<Batch>,
        start: Start,
    ) -> Self {
        Work {
            api,
            requests,
            room,
            out,
            start,
            under_way: FuturesUnordered::new(),
            in_flight: HashSet::new(),
            ready: Batch::new(),
            stopping: Box::pin(api.draining.clone().cancelled_owned()),
            end: None,
        }
    }

    /// Takes in what has finished.
    fn collect(&mut self, context: &mut Context<'_>) {
        while let Poll::Ready(Some(done)) = self.under_way.poll_next_unpin(context) {
            self.in_flight.remove(&done.response.id);
            self.ready.push(done);
        }
    }

    /// Reads requests and starts them; says how many. None are left to read when it is fewer than it
    /// might be.
    fn read(&mut self, context: &mut Context<'_>) -> usize {
        if self.end.is_none() && self.stopping.as_mut().poll(context).is_ready() {
            self.end = Some(Err(stopping().into_status()));
        }
        let mut count = 0;
        while count < READ_AT_ONCE && self.end.is_none() && self.room.is_open(context) {
            match self.requests.poll_next_unpin(context) {
                Poll::Ready(Some(Ok(request))) => self.take(request),
                Poll::Ready(Some(Err(status))) => self.end = Some(Err(self.unreadable(status))),
                Poll::Ready(None) => self.end = Some(Ok(())),
                Poll::Pending => break,
            }
            count += 1;
        }
        count
    }

    /// Starts a request, or refuses it.
    fn take(&mut self, request: PipelineRequest) {
        let id = request.id;
        let share = operation::share(request.operation.as_ref());
        let refusal = if self.in_flight.contains(&id) {
            let limit = "a number that no other request in flight on this stream has";
            Failure::invalid("id", limit)
        } else if let Err(full) = self.room_at_node(&request, share) {
            full
        } else if let Err(max) = self.room.take(share) {
            let message = format!(
                "{max} acquires wait on this stream, as many as may: wait on another stream, or \
                 withdraw some"
            );
            Failure::new(Reason::Limit, message)
        } else {
            self.in_flight.insert(id);
            self.under_way.push((self.start)(request, share));
            return;
        };
        let refusal = operation::refused(id, &self.api.failed(refusal));
        // There is always room for what was read.
        let _ = self.room.take(refusal.share);
        self.ready.push(refusal);
    }

    /// Whether the callers of this node have left room for another answer. Waits have numbers of their own.
    fn room_at_node(&self, request: &PipelineRequest, share: Share) -> Result<(), Failure> {
        match share {
            Share::Wait => Ok(()),
            Share::Operation(_) => {
                let kind = operation::kind(request.operation.as_ref());
                self.api.calls.has_room(kind)
            }
        }
    }

    /// The bytes are no request: what is in flight is answered, but where the next request begins nobody
    /// knows. A caller that is gone is told nothing.
    fn unreadable(&self, status: Status) -> Status {
        match unreadable(&status) {
            Some(failure) => self.api.failed(failure),
            None => status,
        }
    }
}

impl<Start, Running> Future for Work<'_, Start, Running>
where
    Start: Fn(PipelineRequest, Share) -> Running + Unpin,
    Running: Future<Output = Leaving>,
{
    type Output = Result<(), Status>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let work = self.get_mut();
        work.collect(context);
        let read = work.read(context);
        if read > 0 {
            // They begin at once: most of them get as far as their proposal.
            work.collect(context);
        }
        if !work.ready.is_empty() && work.out.send(std::mem::take(&mut work.ready)).is_err() {
            return Poll::Ready(Ok(()));
        }
        if work.under_way.is_empty()
            && let Some(end) = work.end.take()
        {
            return Poll::Ready(end);
        }
        if read == READ_AT_ONCE {
            context.waker().wake_by_ref();
        }
        Poll::Pending
    }
}
