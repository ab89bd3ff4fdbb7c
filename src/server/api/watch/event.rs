//! One event, as a watcher is told.

use crate::{
    grant::{EndedHow, LeftHow},
    issuer::Event,
    resource::{Holder, ResourceName},
    wire::v1::{WatchEvent, WatchEventKind},
};

/// `None` for what is about no resource.
pub(super) fn told(event: &Event, at_unix_ms: u64) -> Option<WatchEvent> {
    let about = |kind: WatchEventKind, resource: &ResourceName, holder: &Holder| WatchEvent {
        kind: kind.into(),
        resource: resource.to_string(),
        holder: holder.to_string(),
        at_unix_ms,
        ..WatchEvent::default()
    };
    Some(match event {
        Event::Granted {
            resource,
            holder,
            token,
            lease,
            after_wait,
            ..
        } => WatchEvent {
            token: Some((*token).into()),
            lease_ms: lease.as_ms(),
            after_wait: *after_wait,
            ..about(WatchEventKind::Granted, resource, holder)
        },
        Event::Renewed {
            resource,
            holder,
            token,
            ttl,
            ..
        } => WatchEvent {
            token: Some((*token).into()),
            lease_ms: ttl.as_ms(),
            ..about(WatchEventKind::Renewed, resource, holder)
        },
        Event::Ended {
            resource,
            holder,
            token,
            how,
            reason,
            ..
        } => WatchEvent {
            token: Some((*token).into()),
            reason: reason.as_ref().map(ToString::to_string).unwrap_or_default(),
            ..about(end(*how), resource, holder)
        },
        Event::Queued {
            resource,
            holder,
            position,
            ..
        } => WatchEvent {
            position: *position,
            ..about(WatchEventKind::Queued, resource, holder)
        },
        Event::Left {
            resource,
            holder,
            how,
            ..
        } => about(left(*how), resource, holder),
        // A mark is the guard's business, not that of those who wait for a grant.
        Event::FloorRaised { .. } | Event::Admitted { .. } => return None,
    })
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
