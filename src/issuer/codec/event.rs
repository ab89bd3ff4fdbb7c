//! Events, as the chained hash covers them. Nobody reads them back.

use super::bytes::Put;
use super::fields;
use crate::issuer::Event;

const GRANTED: u8 = 1;
const RENEWED: u8 = 2;
const ENDED: u8 = 3;
const FLOOR_RAISED: u8 = 4;
/// A grant that came after waiting, which has a lease beside its TTL.
const GRANTED_AFTER_WAIT: u8 = 5;
const QUEUED: u8 = 6;
const LEFT: u8 = 7;
const ADMITTED: u8 = 8;

pub(super) fn put(bytes: &mut Vec<u8>, event: &Event) {
    match event {
        Event::Granted { .. } => put_granted(bytes, event),
        Event::Renewed {
            resource,
            // The token names the grant, and its `Granted` named the holder.
            holder: _,
            token,
            ttl,
            renewals,
        } => {
            bytes.put_u8(RENEWED);
            bytes.put_text(resource.as_str());
            fields::put_token(bytes, token);
            fields::put_ttl(bytes, *ttl);
            bytes.put_varint(*renewals);
        }
        Event::Ended {
            resource,
            holder,
            token,
            how,
            renewals,
            reason,
        } => {
            bytes.put_u8(ENDED);
            bytes.put_text(resource.as_str());
            bytes.put_text(holder.as_str());
            fields::put_token(bytes, token);
            fields::put_how(bytes, *how);
            bytes.put_varint(*renewals);
            fields::put_reason(bytes, reason.as_ref());
        }
        Event::Queued { .. } => put_queued(bytes, event),
        Event::Left {
            resource,
            holder,
            request,
            how,
        } => {
            bytes.put_u8(LEFT);
            bytes.put_text(resource.as_str());
            bytes.put_text(holder.as_str());
            bytes.put(request.as_bytes());
            fields::put_left(bytes, *how);
        }
        Event::FloorRaised { floor } => {
            bytes.put_u8(FLOOR_RAISED);
            bytes.put_u64(*floor);
        }
        Event::Admitted { resource, token } => {
            bytes.put_u8(ADMITTED);
            bytes.put_text(resource.as_str());
            bytes.put_u64(token.get());
        }
    }
}

fn put_granted(bytes: &mut Vec<u8>, event: &Event) {
    let Event::Granted {
        resource,
        holder,
        token,
        ttl,
        lease,
        request,
        after_wait,
    } = event
    else {
        return;
    };
    bytes.put_u8(match after_wait {
        true => GRANTED_AFTER_WAIT,
        false => GRANTED,
    });
    bytes.put_text(resource.as_str());
    bytes.put_text(holder.as_str());
    fields::put_token(bytes, token);
    fields::put_ttl(bytes, *ttl);
    bytes.put(request.as_bytes());
    // A grant at once begins with its TTL.
    if *after_wait {
        fields::put_ttl(bytes, *lease);
    }
}

fn put_queued(bytes: &mut Vec<u8>, event: &Event) {
    let Event::Queued {
        resource,
        holder,
        request,
        attempt,
        position,
        ttl,
        wait_ms,
    } = event
    else {
        return;
    };
    bytes.put_u8(QUEUED);
    bytes.put_text(resource.as_str());
    bytes.put_text(holder.as_str());
    bytes.put(request.as_bytes());
    bytes.put_varint(u64::from(*attempt));
    bytes.put_varint(u64::from(*position));
    fields::put_ttl(bytes, *ttl);
    bytes.put_varint(u64::from(*wait_ms));
}
