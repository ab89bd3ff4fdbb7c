//! From the wire to the words of a watch. What this version does not know is refused, not skipped: an
//! event that is left out would be a gap.

use super::{Change, Cursor, Moment, WatchEvent};
use crate::client::words::{Unreadable, required};
use crate::grant::{EndedHow, LeftHow, Ttl};
use crate::resource::{Holder, ResourceName};
use crate::wire::v1::{self, WatchEventKind as Kind};
use crate::wire::words;
use std::time::Duration;

pub(super) fn cursor(wire: v1::Cursor) -> Result<Cursor, Unreadable> {
    Ok(Cursor {
        cluster: wire.cluster_id.parse()?,
        index: wire.index,
    })
}

pub(super) fn moment(wire: v1::WatchResponse) -> Result<Moment, Unreadable> {
    let events: Result<Vec<_>, _> = wire.events.into_iter().map(event).collect();
    Ok(Moment {
        cursor: cursor(required(wire.cursor, "cursor")?)?,
        events: events?,
    })
}

fn event(wire: v1::WatchEvent) -> Result<WatchEvent, Unreadable> {
    let kind = Kind::try_from(wire.kind);
    let kind = kind.map_err(|_| Unreadable(format!("event kind {} is not known", wire.kind)))?;
    let token = wire.token;
    let ended = |how, reason: String| -> Result<Change, Unreadable> {
        Ok(Change::Ended {
            token: words::token(token)?,
            how,
            reason: Some(reason).filter(|text| !text.is_empty()),
        })
    };
    let change = match kind {
        Kind::Unspecified => return Err(Unreadable("event kind is missing".to_owned())),
        Kind::Granted => Change::Granted {
            token: words::token(token)?,
            lease: Duration::from_millis(wire.lease_ms),
            after_wait: wire.after_wait,
        },
        Kind::Renewed => Change::Renewed {
            token: words::token(token)?,
            lease: Ttl::from_ms(wire.lease_ms)?,
        },
        Kind::Released => ended(EndedHow::Released, wire.reason)?,
        Kind::Expired => ended(EndedHow::Expired, wire.reason)?,
        Kind::Revoked => ended(EndedHow::Revoked, wire.reason)?,
        Kind::Superseded => ended(EndedHow::Superseded, wire.reason)?,
        Kind::Queued => Change::Queued {
            position: wire.position,
        },
        Kind::Withdrawn => left(LeftHow::Withdrawn),
        Kind::WaitedOut => left(LeftHow::WaitedOut),
        Kind::PlaceSuperseded => left(LeftHow::Superseded),
        Kind::Detached => left(LeftHow::Detached),
    };
    Ok(WatchEvent {
        resource: ResourceName::new(wire.resource)?,
        holder: Holder::new(wire.holder)?,
        change,
        at_unix_ms: wire.at_unix_ms,
    })
}

const fn left(how: LeftHow) -> Change {
    Change::Left { how }
}
