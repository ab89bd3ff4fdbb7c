//! One event, as a watcher is told.

use crate::{
    grant::{EndedHow, LeftHow},
    issuer::Event,
    wire::v1::{WatchEvent, WatchEventKind},
};

/// `None` for what is about no resource.
pub(super) fn told(event: &Event, at_unix_ms: u64) -> Option<WatchEvent> {
    let told = match event {
        Event::Granted {
            resource,
            holder,
            token,
            lease,
            after_wait,
            ..
        } => WatchEvent {
            kind: WatchEventKind::Granted.into(),
            resource: resource.to_string(),
            holder: holder.to_string(),
            token: Some((*token).into()),
            lease_ms: lease.as_ms(),
            after_wait: *after_wait,
            ..WatchEvent::default()
        },
        Event::Renewed {
            resource,
            holder,
            token,
            ttl,
            ..
        } => WatchEvent {
            kind: WatchEventKind::Renewed.into(),
            resource: resource.to_string(),
            holder: holder.to_string(),
            token: Some((*token).into()),
            lease_ms: ttl.as_ms(),
            ..WatchEvent::default()
        },
        Event::Ended {
            resource,
            holder,
            token,
            how,
            reason,
            ..
        } => WatchEvent {
            kind: end(*how).into(),
            resource: resource.to_string(),
            holder: holder.to_string(),
            token: Some((*token).into()),
            reason: reason.as_ref().map(ToString::to_string).unwrap_or_default(),
            ..WatchEvent::default()
        },
        Event::Queued {
            resource,
            holder,
            position,
            ..
        } => WatchEvent {
            kind: WatchEventKind::Queued.into(),
            resource: resource.to_string(),
            holder: holder.to_string(),
            position: *position,
            ..WatchEvent::default()
        },
        Event::Left {
            resource,
            holder,
            how,
            ..
        } => WatchEvent {
            kind: left(*how).into(),
            resource: resource.to_string(),
            holder: holder.to_string(),
            ..WatchEvent::default()
        },
        Event::FloorRaised { .. } => return None,
    };
    Some(WatchEvent { at_unix_ms, ..told })
}

fn end(how: EndedHow) -> WatchEventKind {
    match how {
        EndedHow::Released => WatchEventKind::Released,
        EndedHow::Expired => WatchEventKind::Expired,
        EndedHow::Revoked => WatchEventKind::Revoked,
        EndedHow::Superseded => WatchEventKind::Superseded,
    }
}

fn left(how: LeftHow) -> WatchEventKind {
    match how {
        LeftHow::Withdrawn => WatchEventKind::Withdrawn,
        LeftHow::WaitedOut => WatchEventKind::WaitedOut,
        LeftHow::Superseded => WatchEventKind::PlaceSuperseded,
        LeftHow::Detached => WatchEventKind::Detached,
    }
}
