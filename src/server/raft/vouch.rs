//! Telling the leader which waiters are still there: the places in queues that have an open call here.
//!
//! It never goes through the log, because nothing is decided by it: it only keeps the leader from
//! proposing that somebody who is there has left. So a message that is lost is made up for by the next.

use std::time::Instant;

use bytes::{Bytes, BytesMut};
use thiserror::Error;
use tokio::time::timeout_at;

use super::{RaftNode, network::Traffic};
use crate::{
    issuer::RequestKey,
    limits::{ATTACHED_BYTES, WAITING_CALLS_MAX},
    wire::peer_v1 as wire,
};

const _: () = {
    assert!(
        WAITING_CALLS_MAX * ATTACHED_BYTES + 1_024 < super::network::MESSAGE_BYTES_MAX,
        "all that may wait at a node fit into one message"
    );
};

/// A place in a queue that has an open call at some node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Attached {
    /// Whose place.
    pub request: RequestKey,
    /// The highest attempt that has an open call there.
    pub attempt: u32,
}

/// Takes note of who is attached. Implemented by what leads the queues.
pub trait VouchHandler: Send + Sync + 'static {
    /// Notes that these places have an open call at some node. `false`: this node does not lead, or not
    /// in touch with a quorum, and nothing was noted.
    fn vouched(&self, places: &[Attached]) -> bool;
}

/// The leader has not noted it, as far as is known here.
#[derive(Debug, Clone, PartialEq, Eq, Error)]
pub enum VouchError {
    /// Nobody leads, as far as this node knows.
    #[error("no leader is known")]
    NoLeader,
    /// The receiver does not lead, or not in touch with a quorum.
    #[error("the receiver does not lead, or has no quorum")]
    NotNoted,
    /// No answer came.
    #[error("no answer came from the leader: {0}")]
    Unreachable(String),
}

impl RaftNode {
    /// Tells the leader who is attached to this node, and waits until it has noted it, or until
    /// `deadline`.
    ///
    /// # Errors
    ///
    /// When it did not, as far as is known here. It may have all the same, which does no harm.
    pub async fn vouch(&self, places: &[Attached], deadline: Instant) -> Result<(), VouchError> {
        let inner = &self.inner;
        let leader = inner.leadership.borrow().leader.clone();
        let leader = leader.ok_or(VouchError::NoLeader)?;
        if leader.node_id == inner.local.node_id {
            return noted(inner.service.handlers.vouch.vouched(places));
        }
        let instance = self.record(leader.node_id, |record| record.instance);
        let instance = instance.ok_or(VouchError::NoLeader)?;
        let envelope = inner.local.envelope(leader.node_id, instance);
        let client = inner
            .switchboard
            .client(&leader.peer_address, Traffic::Vouch);
        let mut client = client.map_err(|bad| VouchError::Unreachable(bad.to_string()))?;
        let call = client.vouch(wire::VouchRequest {
            envelope: Some(envelope.ok_or(VouchError::NoLeader)?),
            places: encode(places),
        });
        match timeout_at(deadline.into(), call).await {
            Ok(Ok(reply)) => noted(reply.into_inner().noted),
            Ok(Err(status)) => Err(VouchError::Unreachable(status.message().to_owned())),
            Err(_) => Err(VouchError::Unreachable("the deadline passed".to_owned())),
        }
    }
}

fn noted(noted: bool) -> Result<(), VouchError> {
    noted.then_some(()).ok_or(VouchError::NotNoted)
}

fn encode(places: &[Attached]) -> Bytes {
    let mut bytes = BytesMut::with_capacity(places.len() * ATTACHED_BYTES);
    for place in places {
        bytes.extend_from_slice(place.request.as_bytes());
        bytes.extend_from_slice(&place.attempt.to_be_bytes());
    }
    bytes.freeze()
}

/// What a node sent; `None` if it is not whole.
pub(super) fn decode(bytes: &[u8]) -> Option<Vec<Attached>> {
    let (places, rest) = bytes.as_chunks::<ATTACHED_BYTES>();
    let read = |place: &[u8; ATTACHED_BYTES]| {
        let (key, attempt) = place.split_first_chunk::<16>()?;
        Some(Attached {
            request: RequestKey::from_bytes(*key),
            attempt: u32::from_be_bytes(attempt.try_into().ok()?),
        })
    };
    rest.is_empty().then(|| places.iter().map(read).collect())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_comes_back_whole_and_nothing_else_does() {
        let places: Vec<Attached> = (0..=255_u8)
            .map(|n| Attached {
                request: RequestKey::from_bytes([n; 16]),
                attempt: u32::MAX - u32::from(n),
            })
            .collect();
        let bytes = encode(&places);
        assert_eq!(decode(&bytes), Some(places));
        assert_eq!(decode(&bytes[1..]), None);
        assert_eq!(decode(&[]), Some(Vec::new()));
    }

    #[test]
    fn the_bytes_are_those_of_the_contract() {
        let place = Attached {
            request: RequestKey::from_bytes(*b"0123456789abcdef"),
            attempt: 0x0102_0304,
        };
        assert_eq!(&encode(&[place])[..], b"0123456789abcdef\x01\x02\x03\x04");
    }
}
