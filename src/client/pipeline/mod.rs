//! One `Pipeline` stream to a node carries all operations of a client.
//!
//! An operation is a message of a few dozen bytes, and its answer another, matched by a number. So a
//! thousand operations in flight cost one HTTP/2 stream, and those that are ready together leave and
//! arrive in one write each.
//!
//! # Who has to wait
//!
//! A [`Pipe`](pipe::Pipe) takes a bounded number of operations at once, each [`Class`] for itself, so
//! that no kind takes the room of another: a thousand calls that wait in line must not hold up the
//! renewal that keeps a lease alive (hyper#3559). Beyond that callers take turns, first come first
//! served; calls that wait in line open further streams instead, because they can take hours.
//!
//! # When a stream breaks
//!
//! Each operation in flight then ends at once: certainly without an effect if it had not been handed to
//! the connection yet, else with an unknown outcome. The caller's trial sends it again, by a new stream,
//! here or at another node. Whoever gives up waiting takes its operation back if it has not left.
//!
//! A half-open connection is noticed by HTTP/2 pings. A connection that still answers pings, though
//! nothing comes of what it is asked (something in between answers for a dead node), is abandoned after
//! [`DEAD_AFTER`](pipe::DEAD_AFTER).

mod lane;
mod outgoing;
mod pipe;

pub(crate) use lane::Lane;

use crate::wire::v1::PipelineFailure;
use tonic::{Code, Status};

/// What an operation competes for room with.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Class {
    /// Asks for something new, or looks.
    Ask,
    /// Keeps or ends what there is: never held back by those who ask.
    Keep,
    /// Waits in line, perhaps for hours.
    Wait,
}

/// Why an operation has no answer.
#[derive(Debug)]
pub(crate) enum Missed {
    /// It failed, or its connection did.
    Failed {
        status: Status,
        /// Whether it can have left this machine.
        sent: bool,
    },
    /// Its time is up.
    Silent {
        /// As above.
        sent: bool,
    },
}

impl Missed {
    pub(crate) fn failed(status: Status) -> Self {
        Self::Failed { status, sent: true }
    }
}

impl From<PipelineFailure> for Missed {
    fn from(failure: PipelineFailure) -> Self {
        let code = Code::from_i32(failure.code);
        let status = Status::with_details(code, failure.message, failure.details);
        Self::failed(status)
    }
}
