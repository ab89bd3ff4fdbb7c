//! From protobuf to the words. Whatever does not fit the contract is a bad answer, not a guess.

use super::operate::{Leader, Member, NodeStatus, Role};
use super::outcome::{Ended, HeldBy, Inspection, LiveGrant};
use crate::grant::{LeftHow, Ttl};
use crate::resource::{Holder, ResourceName};
use crate::token::{Token, TokenValue};
use crate::wire::{v1, words};
use std::time::Duration;

/// A part of an answer that breaks the contract; the text says which.
#[derive(Debug)]
pub(super) struct Unreadable(pub(super) String);

impl<E: std::error::Error> From<E> for Unreadable {
    fn from(error: E) -> Self {
        Self(error.to_string())
    }
}

/// A part that the contract requires.
pub(super) fn required<T>(part: Option<T>, name: &'static str) -> Result<T, Unreadable> {
    part.ok_or_else(|| Unreadable(format!("{name} is missing")))
}

pub(super) fn ended(wire: v1::Ended) -> Result<Ended, Unreadable> {
    Ok(Ended {
        token: words::token(wire.token)?,
        how: words::ended_how(wire.how)?,
    })
}

pub(super) fn left(wire: v1::Left) -> Result<LeftHow, Unreadable> {
    Ok(words::left_how(wire.how)?)
}

pub(super) fn inspection(wire: v1::InspectResponse) -> Result<Inspection, Unreadable> {
    Ok(Inspection {
        grant: wire.grant.map(grant).transpose()?,
        queue: wire.queue,
        position: Some(wire.position).filter(|position| *position > 0),
    })
}

pub(super) fn held(wire: v1::Held) -> Result<HeldBy, Unreadable> {
    Ok(HeldBy {
        holder: match wire.holder.as_str() {
            "" if wire.replayed => None,
            name => Some(Holder::new(name)?),
        },
        token: wire.token.map(Token::try_from).transpose()?,
        replayed: wire.replayed,
        remaining: Duration::from_millis(wire.remaining_ms),
        queue: wire.queue,
    })
}

pub(super) fn grant(wire: v1::Grant) -> Result<LiveGrant, Unreadable> {
    Ok(LiveGrant {
        resource: ResourceName::new(wire.resource)?,
        holder: Holder::new(wire.holder)?,
        token: words::token(wire.token)?,
        ttl: Ttl::from_ms(wire.ttl_ms)?,
        remaining: Duration::from_millis(wire.remaining_ms),
        renewals: wire.renewals,
        granted_at_unix_ms: wire.granted_at_unix_ms,
        expires_at_unix_ms: wire.expires_at_unix_ms,
    })
}

pub(super) fn member(wire: v1::Member) -> Member {
    Member {
        node_id: wire.node_id,
        instance_id: wire.instance_id,
        peer_address: wire.peer_address,
        client_address: wire.client_address,
        voter: wire.voter,
        matched_index: wire.matched_index,
        last_contact: wire.last_contact_ms.map(Duration::from_millis),
    }
}

pub(super) fn leader(wire: v1::Leader) -> Leader {
    Leader {
        node_id: wire.node_id,
        address: wire.address,
        term: wire.term,
    }
}

pub(super) fn node_status(wire: v1::StatusResponse) -> Result<NodeStatus, Unreadable> {
    let role = match wire.role() {
        v1::Role::Leader => Role::Leader,
        v1::Role::Follower => Role::Follower,
        v1::Role::Candidate => Role::Candidate,
        v1::Role::Learner => Role::Learner,
        v1::Role::Forming => Role::Forming,
        v1::Role::Unspecified => return Err(Unreadable("role is missing".to_owned())),
    };
    let header = required(wire.header, "header")?;
    Ok(NodeStatus {
        node_id: header.node_id,
        cluster_id: header.cluster_id,
        issuer: header.issuer,
        leader: header.leader.map(leader),
        role,
        in_touch: wire.in_touch,
        term: wire.term,
        last_log_index: wire.last_log_index,
        committed_index: wire.committed_index,
        applied_index: wire.applied_index,
        snapshot_index: wire.snapshot_index,
        purged_index: wire.purged_index,
        live_leases: wire.live_leases,
        live_leases_max: wire.live_leases_max,
        waiters: wire.waiters,
        waiters_max: wire.waiters_max,
        waiting_calls: wire.waiting_calls,
        watchers: wire.watchers,
        watchers_max: wire.watchers_max,
        history_oldest_index: wire.history_oldest_index,
        history_bytes: wire.history_bytes,
        connections: wire.connections,
        connections_max: wire.connections_max,
        calls: wire.calls,
        calls_max: wire.calls_max,
        floor: wire.floor,
        last_token: TokenValue::new(wire.last_token).ok(),
        state_hash: wire.state_hash,
        members: wire.members.into_iter().map(member).collect(),
        version: wire.version,
        uptime: Duration::from_millis(wire.uptime_ms),
    })
}
