//! The body of an answer: the service's own, or the guard's.

use std::pin::Pin;
use std::task::{Context, Poll};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use pin_project_lite::pin_project;

use crate::fence::context;
use crate::sequencer::Sequencer;

pin_project! {
    /// The body of an answer that came through a [`GuardLayer`](super::GuardLayer).
    ///
    /// A service may answer by a stream that goes on working after the handler returned. It is polled
    /// in the context of the request, so that the calls it makes are fenced like the handler's.
    #[derive(Debug)]
    pub struct GuardBody<B> {
        #[pin]
        source: Source<B>,
    }
}

pin_project! {
    #[derive(Debug)]
    #[project = SourceProjection]
    enum Source<B> {
        Service { #[pin] body: B, admitted: Option<Sequencer> },
        Guard { bytes: Option<Bytes> },
    }
}

impl<B> GuardBody<B> {
    /// The service's answer, made under the sequencer that was admitted, if one was.
    pub(super) fn of_service(body: B, admitted: Option<Sequencer>) -> Self {
        let source = Source::Service { body, admitted };
        Self { source }
    }

    /// The guard's answer.
    pub(super) fn of_guard(bytes: Bytes) -> Self {
        let bytes = Some(bytes).filter(|bytes| !bytes.is_empty());
        let source = Source::Guard { bytes };
        Self { source }
    }
}

impl<B: Body<Data = Bytes>> Body for GuardBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        match self.project().source.project() {
            SourceProjection::Service {
                body,
                admitted: None,
            } => body.poll_frame(cx),
            SourceProjection::Service { body, admitted } => {
                context::sync_scope(admitted.clone(), || body.poll_frame(cx))
            }
            SourceProjection::Guard { bytes } => {
                Poll::Ready(bytes.take().map(|bytes| Ok(Frame::data(bytes))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match &self.source {
            Source::Service { body, .. } => body.is_end_stream(),
            Source::Guard { bytes } => bytes.is_none(),
        }
    }

    fn size_hint(&self) -> SizeHint {
        match &self.source {
            Source::Service { body, .. } => body.size_hint(),
            Source::Guard { bytes } => {
                let length = bytes.as_ref().map_or(0, Bytes::len);
                SizeHint::with_exact(u64::try_from(length).unwrap_or(u64::MAX))
            }
        }
    }
}
