//! One connection, and how long it may keep this node waiting.

use std::{
    io,
    pin::Pin,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    task::{Context, Poll},
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    time::Sleep,
};
use tonic::transport::server::Connected;

use super::entrance::Place;
use crate::server::clock;

/// What a connection must do in time.
#[derive(Clone, Copy, Debug)]
pub enum Patience {
    /// It must begin to speak: so many bytes within this time. Then its protocol has means of its own.
    Begin {
        /// How many bytes.
        bytes: usize,
        /// From when it was let in.
        within: Duration,
    },
    /// From when it was let in, and from each part of an answer on, a request must be there, or its
    /// answer be taken, within this time.
    Ask {
        /// How long that may take.
        within: Duration,
    },
}

/// A TCP connection that was let in. Its place is free again when it is dropped.
#[derive(Debug)]
pub struct Connection {
    stream: TcpStream,
    patience: Patience,
    read: usize,
    /// When patience ends. Gone once there is nothing to wait for.
    overdue: Option<Pin<Box<Sleep>>>,
    _place: Place,
}

impl Connection {
    pub(super) fn new(stream: TcpStream, place: Place, patience: Patience) -> Self {
        let (Patience::Begin { within, .. } | Patience::Ask { within }) = patience;
        Connection {
            stream,
            patience,
            read: 0,
            overdue: Some(Box::pin(tokio::time::sleep(within))),
            _place: place,
        }
    }

    /// Some bytes came.
    fn heard(&mut self, bytes: usize) {
        if let Patience::Begin { bytes: enough, .. } = self.patience
            && self.overdue.is_some()
        {
            self.read += bytes;
            if self.read >= enough {
                self.overdue = None;
            }
        }
    }

    /// Some bytes left.
    fn told(&mut self) {
        if let (Patience::Ask { within }, Some(overdue)) = (self.patience, &mut self.overdue) {
            overdue.as_mut().reset((clock::now() + within).into());
        }
    }

    /// Nothing moves: `Err` when that has lasted too long.
    fn idle(&mut self, context: &mut Context<'_>) -> io::Result<()> {
        let overdue = self.overdue.as_mut();
        if overdue.is_some_and(|overdue| overdue.as_mut().poll(context).is_ready()) {
            return Err(io::ErrorKind::TimedOut.into());
        }
        Ok(())
    }
}

impl AsyncRead for Connection {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let before = buffer.filled().len();
        match Pin::new(&mut self.stream).poll_read(context, buffer) {
            Poll::Ready(Ok(())) => {
                self.heard(buffer.filled().len() - before);
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => match self.idle(context) {
                Ok(()) => Poll::Pending,
                Err(error) => Poll::Ready(Err(error)),
            },
        }
    }
}

impl Connection {
    fn written<T>(
        &mut self,
        context: &mut Context<'_>,
        written: Poll<io::Result<T>>,
    ) -> Poll<io::Result<T>> {
        match written {
            Poll::Ready(Ok(done)) => {
                self.told();
                Poll::Ready(Ok(done))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => match self.idle(context) {
                Ok(()) => Poll::Pending,
                Err(error) => Poll::Ready(Err(error)),
            },
        }
    }
}

impl AsyncWrite for Connection {
    fn poll_write(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(context, bytes);
        self.written(context, written)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        slices: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write_vectored(context, slices);
        self.written(context, written)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

/// Calls on one connection that last: they take up its HTTP/2 streams, of which the others need some.
/// Clones count together.
#[derive(Clone, Debug, Default)]
pub struct LongCalls(Arc<AtomicUsize>);

/// One of them, until it is dropped.
#[derive(Debug)]
pub struct LongCall(LongCalls);

impl LongCalls {
    /// Counts one in, if there are fewer than `max`.
    #[must_use]
    pub fn enter(&self, max: usize) -> Option<LongCall> {
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        let call = LongCall(self.clone());
        (before < max).then_some(call)
    }
}

impl Drop for LongCall {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

impl Connected for Connection {
    type ConnectInfo = LongCalls;

    fn connect_info(&self) -> LongCalls {
        LongCalls::default()
    }
}
